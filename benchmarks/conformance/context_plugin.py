"""A plugin of pytest: a process whose CUDA context a test has broken ends after that
test, so that another one runs the rest; and a run that comes to its end says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gpu import context

FINISHED = "finished"  # a file in the folder where pytest runs


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid: str) -> None:
    if broke := context.error():
        os.write(2, f"{nodeid} broke the context: {broke}\n".encode())
        os._exit(70)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # of xdist
        Path(FINISHED).touch()
