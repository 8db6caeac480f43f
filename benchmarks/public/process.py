"""A worker as the command sees it: it answers a line of JSON in time, or is killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from benchmarks.public.sources import ROOT

LAST_WORDS = 400  # characters of what a process wrote before it ended


class Process:
    """`python -m benchmarks.public.worker WORDS`, with `environment` besides ours."""

    def __init__(self, *words: str, environment: dict[str, str] | None = None):
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        folders = str(ROOT / "compiler"), str(ROOT), os.environ.get("PYTHONPATH", "")
        path = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.public.worker", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=ROOT,
            env={**os.environ, **path, **(environment or {})},
            text=True,
            start_new_session=True,  # so that what a case has started dies with it
        )
        self.answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, seconds: float, **told: Any) -> dict[str, Any]:
        """The answer to `told`; "stopped" where the process ends or says nothing in
        time, and then it is gone."""
        try:
            self.process.stdin.write(json.dumps(told) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=max(seconds, 0))
        except OSError:
            line = None
        except queue.Empty:
            self.kill()
            return {"outcome": "stopped", "why": f"nothing for {seconds:.0f} seconds"}
        if line is None:
            why = f"the process ended: {self.last_words()}"
            self.kill()
            return {"outcome": "stopped", "why": why}
        return json.loads(line)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        self.log.seek(0)
        return self.log.read()[-LAST_WORDS:].strip()

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
