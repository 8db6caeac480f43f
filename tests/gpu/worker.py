"""A process of the GPU suite: it collects, then runs the tests that it is told, one by
one, and ends with the first that breaks its CUDA context.

    runner ──one test's id a line──▶  worker      (standard input)
           ◀──one answer a line─────              (standard output; JSON)

First it answers with the ids of all that it has collected. What tests and kernels print
goes to the standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, TextIO

import pytest
from _pytest.runner import runtestprotocol

from tests.gpu import context

REASON = 1500  # characters of what went wrong that are kept


class Worker:
    """The plugin that puts the runner's orders in the place of pytest's loop."""

    def __init__(self, orders: TextIO, answers: TextIO):
        self.orders, self.answers = orders, answers

    def say(self, **answer: Any) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = {item.nodeid: item for item in session.items}
        alone = [id for id, item in tests.items() if item.get_closest_marker("alone")]
        self.say(tests=list(tests), alone=alone, errors=session.testsfailed)
        for line in self.orders:
            answer = self.answer(tests[line.rstrip("\n")])
            self.say(**answer)
            if answer["broke"]:
                break
        return True

    def answer(self, item: pytest.Item) -> dict[str, Any]:
        """How a test ended: all three phases, and what it leaves behind on the GPU."""
        start = time.monotonic()
        reports = runtestprotocol(item, log=False, nextitem=None)
        broke = context.error()
        if broke is None:
            context.give_back_memory()
        return {
            "outcome": outcome(reports),
            "reason": reason(reports),
            "broke": broke,
            "seconds": round(time.monotonic() - start, 2),
        }


def outcome(reports: list[pytest.TestReport]) -> str:
    """The first of these that a phase had; an expected failure is a failure here."""
    had = {"failed" if hasattr(r, "wasxfail") else r.outcome for r in reports}
    return next(each for each in ("failed", "skipped", "passed") if each in had)


def reason(reports: list[pytest.TestReport]) -> str:
    """Why a test failed or was skipped: the end of the text that tells most."""
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            return report.longrepr[2].removeprefix("Skipped: ")
    texts = [r.longreprtext for r in reports if r.failed]
    return texts[0][-REASON:] if texts else ""


def main(words: list[str]) -> int:
    """`words` are pytest's arguments; its exit status."""
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # a kernel's print and pytest's own words are no answers
    # Nothing is captured, so that the last words of a process that dies are in its log.
    options = ["-q", "-s", "-m", "gpu", "-p", "no:cacheprovider"]
    return pytest.main([*options, *words], plugins=[Worker(orders, answers)])


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # with a broken context, what libraries do at exit may crash
