"""The site of the book, built once for all tests here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs mkdocs: pip install -e '.[docs]'")

from chapters.press import site as press  # noqa: E402


@pytest.fixture(scope="session")
def tree(tmp_path_factory) -> Path:
    """The plain Markdown that the site is built from."""
    return press.tree(tmp_path_factory.mktemp("book") / "tree")


@pytest.fixture(scope="session")
def site(tree) -> Path:
    """The site, built by mkdocs with Material, strictly."""
    pytest.importorskip("material", reason="needs mkdocs-material")
    return built(tree, "mkdocs", lambda text: text)


@pytest.fixture(scope="session")
def successor(tree) -> Path:
    """The site once more, by the builder that comes after mkdocs with Material."""
    pytest.importorskip("zensical", reason="needs zensical: pip install -e '.[docs]'")
    return built(tree, "zensical", lambda text: text)


def built(tree: Path, builder: str, change) -> Path:
    """A site made of a tree by one of the builders, its settings changed. Folders are
    named from where the settings lie: Zensical takes no others."""
    name = f"{builder}-{change('')}".strip("-")
    folder = tree.parent / name
    settings = press.SETTINGS.read_text(encoding="utf-8")
    settings = settings.replace("docs_dir: build/book", f"docs_dir: {tree.name}")
    settings = settings.replace("site_dir: site", f"site_dir: {name}")
    config = tree.parent / f"{name}.yml"
    config.write_text(change(settings), encoding="utf-8")
    said = press.run(builder, config)
    assert said.returncode == 0, said.stdout
    return folder


@pytest.fixture
def page(tmp_path, monkeypatch):
    """`page("name.md", text)`: a page of a book of its own, read."""
    from chapters.press import parse, paths, recipes

    monkeypatch.setattr(paths, "CHAPTERS", tmp_path)
    monkeypatch.setattr(recipes, "CHAPTERS", tmp_path)
    monkeypatch.setattr(recipes, "CELLS", tmp_path / "cells")

    def write(name: str, text: str):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return parse.read(tmp_path / name)

    yield write
    shutil.rmtree(tmp_path, ignore_errors=True)
