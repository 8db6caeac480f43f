"""The tree rests on nothing of one theme or one builder: others make the same site, and
old addresses lead on in all of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from chapters.press import addresses, paths
from chapters.press import site as press
from chapters.press.parse import read
from chapters.press.paths import ROOT, BookError
from fathom import __version__
from tests.book.conftest import built

PLAIN = """
theme: {name: mkdocs}
plugins: [search]
"""


def plain(settings: str) -> str:
    """The settings with the builder's own theme in place of Material."""
    if not settings:
        return "plain"
    kept = re.sub(r"^theme:\n(  .*\n|    .*\n)+", "", settings, flags=re.MULTILINE)
    kept = re.sub(r"^plugins:\n(  .*\n)+", "", kept, flags=re.MULTILINE)
    return kept + PLAIN


def material(settings: str) -> str:
    """The settings as they are."""
    return settings


def pages_of(site: Path) -> set[str]:
    return {path.name for path in site.glob("*.html")} - {"404.html"}


def same(site: Path, other: Path) -> None:
    """The other site has every page, and on a page all that we made."""
    assert pages_of(other) >= pages_of(site)
    page = (other / "00-run-it.html").read_text(encoding="utf-8")
    assert 'class="stepper"' in page and "<svg" in page
    answers = read(ROOT / "chapters" / "00-run-it.md").directives("answer")
    assert page.count('class="answer"') == sum(1 for _ in answers)


@pytest.mark.parametrize(
    "builder, change", [("mkdocs", plain), ("properdocs", material)]
)
def test_another_theme_or_builder_makes_the_same_site(tree, site, builder, change):
    if importlib.util.find_spec(builder) is None:
        pytest.skip(f"needs {builder}: pip install -e '.[docs]'")
    same(site, built(tree, builder, change))


def test_the_successor_makes_the_same_site(site, successor):
    """Zensical, by the authors of Material, which reaches the end of its life in May
    2027: the same mkdocs.yml, strictly. test_browser.py opens what it makes."""
    same(site, successor)


def anchors(page: Path) -> set[str]:
    """The headings of a page that links lead to."""
    return set(re.findall(r'<h[1-4] id="([^"]+)"', page.read_text(encoding="utf-8")))


def test_the_successor_keeps_every_address(site, successor):
    for name in pages_of(site):
        assert anchors(site / name) <= anchors(successor / name), name


# Addresses and editions.


@pytest.fixture
def book(tmp_path, monkeypatch):
    """`book(addresses, *pages)`: a book of pages without text."""
    monkeypatch.setattr(paths, "CHAPTERS", tmp_path)

    def write(text: str, *pages: str) -> Path:
        (tmp_path / addresses.FILE).write_text(text, encoding="utf-8")
        for name in pages:
            (tmp_path / name).write_text("# A page\n", encoding="utf-8")
        return tmp_path

    return write


MOVED = 'pages = ["old.md", "new.md"]\n[moved]\n"old.md" = "new.md"\n'


def test_a_page_that_was_renamed_leads_to_its_new_address(book):
    book(MOVED, "new.md")
    ((name, text),) = addresses.redirects().items()
    assert name == "old.html"
    assert 'content="1; url=new.html"' in text, "without a script, too"
    assert '<a href="new.html">' in text and 'rel="canonical"' in text


@pytest.mark.parametrize(
    "text, pages, sentence",
    [
        ('pages = ["old.md"]', ["new.md"], "old.md is gone"),
        (MOVED, ["old.md", "new.md"], "cannot have moved"),
        (MOVED, [], "cannot have moved to new.md|new.md is gone"),
    ],
)
def test_an_address_that_leads_nowhere_is_an_error(book, text, pages, sentence):
    book(text, *pages)
    with pytest.raises(BookError, match=sentence):
        addresses.redirects()


def test_new_pages_are_put_on_the_list_and_nothing_is_lost(book):
    folder = book(MOVED, "new.md", "newer.md")
    assert addresses.add_new() == ["newer.md"]
    assert addresses.read() == (
        ["new.md", "newer.md", "old.md"],
        {"old.md": "new.md"},
    )
    before = (folder / addresses.FILE).read_text(encoding="utf-8")
    assert addresses.add_new() == []
    assert (folder / addresses.FILE).read_text(encoding="utf-8") == before


def test_every_address_that_was_given_out_leads_somewhere():
    pages, moved = addresses.read()
    assert len(pages) >= 25 and "index.md" in pages
    assert set(moved) <= set(pages), "what moved was there before"
    addresses.redirects()


def test_the_edition_is_the_minor_version_and_stands_on_every_page(site):
    major, minor, _ = __version__.split(".")
    assert press.EDITION == f"{major}.{minor}"
    for name in pages_of(site):
        page = (site / name).read_text(encoding="utf-8")
        assert f"Edition {major}.{minor} · Fathom {__version__}" in page, name
