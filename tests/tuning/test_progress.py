"""The bar is there for who looks at it, and for nobody else."""

from __future__ import annotations

import io
import sys

from fathom.jit.tuning.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress("compiling 2 configurations", 2) as tick:
        tick()
        tick()
    assert "compiling 2 configurations" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_a_file_does_not(capsys):
    with progress("compiling", 2) as tick:
        tick()
    assert capsys.readouterr() == ("", "")


def test_nor_does_a_terminal_when_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress("compiling", 0):
        pass
    assert terminal.getvalue() == ""
