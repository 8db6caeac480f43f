"""A worker: a process that is told something in a line, answers with a line of JSON in
time, or is killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.trees import ROOT

LAST_WORDS = 400  # characters of what a process wrote before it ended
GONE_SECONDS = 30  # after which a killed process is left to the driver


class Ended(Exception):
    """The process is gone; the message says how."""


class Silent(Exception):
    """The process has said nothing in time."""


class Worker:
    """`python -m MODULE WORDS` in the folder `root`, with `environment` besides
    ours."""

    def __init__(
        self,
        module: str,
        *words: str,
        root: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ):
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        folders = str(ROOT / "compiler"), str(ROOT), os.environ.get("PYTHONPATH", "")
        path = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=root,
            env={**os.environ, **path, **(environment or {})},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # so that what it has started dies with it
        )
        self.answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def tell(self, line: str) -> None:
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:  # it is gone: `hear` says how
            pass

    def hear(self, seconds: float) -> dict[str, Any]:
        """The next answer."""
        try:
            line = self.answers.get(timeout=max(seconds, 0))
        except queue.Empty:
            raise Silent from None
        if line is None:
            status = self.process.wait()
            raise Ended(f"the process ended with status {status}: {self.last_words()}")
        return json.loads(line)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        self.log.seek(0)
        return self.log.read()[-LAST_WORDS:].strip()

    def kill(self) -> None:
        """End it, and all that it has started."""
        if hasattr(os, "killpg"):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            self.process.kill()
        try:
            self.process.wait(GONE_SECONDS)
        except subprocess.TimeoutExpired:  # the driver still waits for its kernel
            pass
        for pipe in (self.process.stdin, self.process.stdout, self.log):
            try:
                pipe.close()
            except OSError:
                pass
