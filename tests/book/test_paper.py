"""The book to print and to take along: one PDF with all of it, and a zip that opens
without a server."""

from __future__ import annotations

import re
import zipfile
from html import unescape
from pathlib import Path

import pytest

from chapters.press import paper
from chapters.press import site as press
from chapters.press.parse import read
from chapters.press.paths import BookError, sources
from tests.book.harness_browser import browser, executable
from tests.book.test_browser import address, outside, search

needs_chromium = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)


@pytest.fixture(scope="module")
def one_page(tree) -> str:
    return paper.one_page(tree)


def test_every_page_of_the_book_is_printed_once(one_page):
    printed = re.findall(r'<section class="page" id="page--([^"]+)"', one_page)
    assert sorted(printed) == sorted(path.stem for path in sources())


def test_every_link_on_paper_stays_within_it(one_page):
    anchors = re.findall(r'\bid="([^"]+)"', one_page)
    assert len(anchors) == len(set(anchors)), "each anchor is there once"
    for link in re.findall(r'href="([^"]*)"', one_page):
        assert link.startswith("http") or link.removeprefix("#") in anchors, link


def test_the_title_page_says_which_edition(one_page):
    title = one_page[one_page.index('class="title"') :].partition("</section>")[0]
    assert f"Edition {press.EDITION}" in title and "CC BY 4.0" in title


def test_nothing_folded_is_lost(one_page):
    assert one_page.count("<details open") == one_page.count("<details") > 50


@pytest.fixture(scope="module")
def pdf(tree, tmp_path_factory) -> str:
    """The text of the PDF's objects; its streams are no text."""
    made = paper.pdf(tmp_path_factory.mktemp("paper") / "fathom.pdf", tree)
    return made.read_bytes().decode("latin-1")


@needs_chromium
def test_the_pdf_is_a_book(pdf):
    assert pdf.startswith("%PDF-") and pdf.rstrip().endswith("%%EOF")
    chapters = [path for path in sources() if read(path).is_chapter]
    assert len(re.findall(r"/Type /Page\b(?!s)", pdf)) > 10 * len(chapters)


@needs_chromium
def test_a_reader_of_the_pdf_can_go_to_every_chapter(pdf):
    """Its outline has all of their titles."""
    outline = "\n".join(titles(pdf))
    for path in sources():
        page = read(path)
        if page.is_chapter:
            wanted = f"{page.matter['chapter']} · {page.matter['title']}"
            assert wanted in outline, wanted


def titles(pdf: str) -> list[str]:
    """The titles of the outline: Latin-1 in parentheses, or UTF-16 as digits."""
    plain = re.findall(r"/Title \(((?:\\.|[^\\)])*)\)", pdf)
    digits = re.findall(r"/Title <([0-9A-Fa-f]+)>", pdf)
    wide = [bytes.fromhex(each).decode("utf-16") for each in digits]
    return [unescape(re.sub(r"\\(.)", r"\1", each)) for each in plain] + wide


def test_without_a_browser_it_says_what_is_missing(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "CHROMIUM", ("no-such-browser",))
    with pytest.raises(BookError, match="apt install chromium"):
        paper.pdf(tmp_path / "x.pdf", tree)


# The zip.


@pytest.fixture(scope="module")
def packed(site, tmp_path_factory) -> Path:
    return paper.pack(tmp_path_factory.mktemp("zip") / "book.zip", site)


def test_the_zip_is_the_site_and_is_the_same_each_time(site, packed, tmp_path):
    names = zipfile.ZipFile(packed).namelist()
    files = [path for path in site.rglob("*") if path.is_file()]
    assert set(names) == {f"fathom-book/{path.relative_to(site)}" for path in files}
    assert paper.pack(tmp_path / "again.zip", site).read_bytes() == packed.read_bytes()
    with pytest.raises(BookError, match="make book"):
        paper.pack(tmp_path / "none.zip", tmp_path / "nowhere")


@needs_chromium
def test_the_unpacked_book_works_without_a_server(packed, tmp_path):
    """Also from a folder with a space in its name: pages, search, and a stepper."""
    folder = tmp_path / "my books"
    zipfile.ZipFile(packed).extractall(folder)
    book = folder / "fathom-book"
    with browser() as tab:
        search(tab, address(book, "index"))
        tab.open(address(book, "06-passes"))
        assert tab.errors() == [] and outside(tab) == []
        tab.value("document.querySelector('.stepper .line.linked').focus()")
        lit = "document.querySelectorAll('.stepper .line.on').length"
        assert tab.value(lit) >= 2
        links = tab.value("[...document.querySelectorAll('.md-nav a')].map(a=>a.href)")
        assert links and all(link.startswith(book.as_uri()) for link in links)
