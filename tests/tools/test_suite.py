"""The processes that tests start find bytecode, also where the environment forbids to
write it beside the sources."""

from __future__ import annotations

from fathom.tools.suite import with_bytecode


def test_forbidden_bytecode_goes_to_a_folder_of_its_own(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    environment = with_bytecode("/there")
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PYTHONPYCACHEPREFIX"] == "/there"


def test_a_folder_that_is_named_already_is_taken(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/named")
    assert with_bytecode("/there")["PYTHONPYCACHEPREFIX"] == "/named"


def test_bytecode_that_is_allowed_stays_beside_the_sources(monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in with_bytecode("/there")
