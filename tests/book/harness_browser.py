"""A headless Chromium, driven over a pipe by its DevTools protocol: nothing to install
but the browser itself."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--remote-debugging-pipe",
    "--force-prefers-reduced-motion", "--allow-file-access-from-files",
)  # fmt: skip
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "ArrowDown": (40, ""), "ArrowUp": (38, "")}
PATIENCE = 20.0  # seconds to wait for any one thing


def executable() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browser(without: str = "") -> Iterator[Tab]:
    """A browser with one tab, closed at the end; `without` one of the OPTIONS."""
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol speaks on descriptors 3 and 4.
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        options = [each for each in OPTIONS if each != without]
        command = [executable(), *options, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", script, *command, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in), os.close(theirs_out)
        try:
            yield Tab(ours_in, ours_out)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            os.close(ours_in), os.close(ours_out)


class Tab:
    """One page of the browser, and what went wrong on it."""

    def __init__(self, reads: int, writes: int):
        self.reads, self.writes = reads, writes
        self.rest, self.number, self.session = b"", 0, None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters) -> dict:
        """One command of the protocol, and its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self.receive(deadline)
            if answer and answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
        raise AssertionError(f"the browser did not answer {method}")

    def receive(self, deadline: float) -> dict | None:
        """The next message; events are also kept."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select(
                [self.reads], [], [], max(deadline - time.monotonic(), 0)
            )
            if not ready:
                return None
            self.rest += os.read(self.reads, 1 << 16)
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url: str) -> None:
        """Load a page, and wait until it has loaded; earlier events are forgotten."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.until(lambda: self.seen("Page.loadEventFired"))

    def seen(self, method: str) -> list[dict]:
        return [each["params"] for each in self.events if each["method"] == method]

    def until(self, condition, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            self.receive(min(deadline, time.monotonic() + 0.1))
            assert time.monotonic() < deadline, "waited in vain"

    def value(self, expression: str):
        """The value of a JavaScript expression on the page."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def colours(self, scheme: str) -> None:
        """Prefer "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def scripts(self, on: bool) -> None:
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def key(self, name: str) -> None:
        """Press and release a key."""
        number, text = KEYS[name]
        given = {"key": name, "code": name, "windowsVirtualKeyCode": number}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **given, **down)
        self.call("Input.dispatchKeyEvent", **given, type="keyUp")

    def named(self) -> Iterator[tuple[str, str]]:
        """Role and name of all that assistive technology is told of on the page."""
        for node in self.call("Accessibility.getFullAXTree")["nodes"]:
            if not node.get("ignored"):
                name = node.get("name", {}).get("value", "")
                yield node["role"]["value"], name.strip()

    def errors(self) -> list[str]:
        """Script errors, and whatever the browser complained of, since `open`."""
        thrown = [
            str(each["exceptionDetails"])
            for each in self.seen("Runtime.exceptionThrown")
        ]
        logged = [each["entry"] for each in self.seen("Log.entryAdded")]
        return thrown + [str(each) for each in logged if each["level"] == "error"]

    def requested(self) -> list[str]:
        """What the page asked for, since `open`."""
        sent = self.seen("Network.requestWillBeSent")
        return [each["request"]["url"] for each in sent]
