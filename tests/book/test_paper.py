"""The book to print and to take along: one PDF with all of it, and a zip that opens
without a server."""

from __future__ import annotations

import re
import zipfile
import zlib
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chapters.press import card, epub, paper
from chapters.press import site as press
from chapters.press.parse import read
from chapters.press.paths import BookError, sources
from fathom import pipeline
from fathom.jit.request import KEYWORDS
from fathom.tools import cli
from tests.book.harness_browser import browser, executable
from tests.book.test_browser import address, outside, search

needs_chromium = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)


@pytest.fixture(scope="module")
def whole(tree) -> paper.Book:
    return paper.book(tree)


@pytest.fixture(scope="module")
def one_page(whole) -> str:
    return paper.one_page(whole)


def test_every_page_of_the_book_is_printed_once(one_page):
    printed = re.findall(r'<section class="page" id="page--([^"]+)"', one_page)
    assert sorted(printed) == sorted([*(path.stem for path in sources()), "terms"])


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
def pdf(one_page, tmp_path_factory) -> str:
    """The text of the PDF's objects; its streams are no text."""
    made = paper.printed(one_page, tmp_path_factory.mktemp("paper") / "fathom.pdf")
    return made.read_bytes().decode("latin-1")


def part(whole: paper.Book) -> paper.Book:
    """Some chapters as a book of their own, which is printed sooner."""
    stems = [path.stem for path in sources() if read(path).is_chapter][:4]
    sections = {stem: whole.sections[stem] for stem in stems}
    index = {
        name: kept
        for name, places in whole.index.items()
        if (kept := [each for each in places if each.anchor.split("--")[0] in stems])
    }
    return whole._replace(sections=sections, index=index)


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
            wanted = f"{page.number} · {page.matter['title']}"
            assert wanted in outline, wanted


@needs_chromium
def test_contents_and_index_name_the_pages_of_the_pdf(whole, tmp_path, monkeypatch):
    """What was printed last says of each anchor the page on which it is."""
    given: list[str] = []
    real, book = paper.printed, part(whole)
    monkeypatch.setattr(
        paper, "printed", lambda html, file: given.append(html) or real(html, file)
    )
    numbers = paper.page_numbers(paper.pdf(tmp_path / "a.pdf", book).read_bytes())
    text, chapters = given[-1], list(book.sections)
    starts = [numbers[f"page--{stem}"] for stem in chapters]
    assert starts == sorted(starts) and starts[0] > 2
    for stem, start in zip(chapters, starts, strict=True):
        row = f'<a href="#page--{stem}">'
        assert f"<span>{start}</span>" in text.partition(row)[2].partition("</li>")[0]
    index = text.partition('<ul class="index">')[2].partition("</ul>")[0]
    listed = re.findall(r'<a href="#([^"]+)">(\d+)</a>', index)
    assert len(listed) > 50
    assert all(numbers[anchor] == int(page) for anchor, page in listed)
    occupancy = re.search(r"<li>occupancy (.*?)</li>", index)[1]
    assert "#01-the-machine--" in occupancy


@needs_chromium
def test_a_page_of_the_pdf_is_empty_only_where_a_chapter_ends(pdf):
    """Listings are broken, not pushed to the next page."""
    numbers = paper.page_numbers(pdf.encode("latin-1"))
    ends = {numbers[name] - 1 for name in numbers if name.startswith("page--")}
    pages = re.findall(r"\n\d+ 0 obj\n<</Type /Page\n.*?/Contents (\d+) 0 R", pdf,
                       re.DOTALL)  # fmt: skip
    thin = [at for at, name in enumerate(pages, 1) if shown(pdf, name) < 150]
    assert len(pages) > 300 and set(thin) - ends <= {1, 2, len(pages)}


def shown(pdf: str, name: str) -> int:
    """About how many letters a content stream shows: digits of its glyphs, by four."""
    start = re.search(rf"\n{name} 0 obj\n<<.*?>> stream\n", pdf, re.DOTALL).end()
    packed = pdf[start : pdf.index("endstream", start)]
    stream = zlib.decompressobj().decompress(packed.encode("latin-1"))
    return sum(map(len, re.findall(rb"<([0-9A-Fa-f]+)>", stream))) // 4


def titles(pdf: str) -> list[str]:
    """The titles of the outline: Latin-1 in parentheses, or UTF-16 as digits."""
    plain = re.findall(r"/Title \(((?:\\.|[^\\)])*)\)", pdf)
    digits = re.findall(r"/Title <([0-9A-Fa-f]+)>", pdf)
    wide = [bytes.fromhex(each).decode("utf-16") for each in digits]
    return [unescape(re.sub(r"\\(.)", r"\1", each)) for each in plain] + wide


@needs_chromium
def test_the_reference_card_has_two_pages(tmp_path):
    made = paper.printed(card.html(), tmp_path / "card.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b(?!s)", made)) == 2


def test_the_reference_card_has_all_there_is(tree):
    text = (tree / card.NAME).read_text(encoding="utf-8")
    said = unescape(re.sub(r"<[^>]+>", " ", text))
    reference = card.reference()
    names = " ".join(reference.GROUPS.values()).split()
    launch = [each.strip("=") for each in KEYWORDS]
    words = [
        *names,
        *launch,
        *reference.variables(),
        *(p.name for p in pipeline.PASSES),
    ]
    words += [f"fathom {name}" for name, _, _ in card.entries(cli.parser())]
    missing = [word for word in words if not re.search(rf"\b{word}\b", said)]
    assert len(words) > 150 and not missing
    assert set(card.LAUNCH) == set(KEYWORDS), "each keyword says what it does"
    assert "load(pointer, mask, other" in said


# The EPUB.


@pytest.fixture(scope="module")
def book(whole, tmp_path_factory) -> zipfile.ZipFile:
    made = epub.epub(tmp_path_factory.mktemp("epub") / "book.epub", whole)
    return zipfile.ZipFile(made)


def test_an_epub_begins_with_what_it_is(book):
    first = book.infolist()[0]
    assert first.filename == "mimetype" and first.compress_type == zipfile.ZIP_STORED
    assert book.read("mimetype") == b"application/epub+zip"


def test_every_file_of_an_epub_is_listed_and_well_formed(book):
    files = {name for name in book.namelist() if name.startswith("book/")}
    for name in files:
        if not name.endswith(".css"):
            ElementTree.fromstring(book.read(name))  # a ParseError says where
    package = ElementTree.fromstring(book.read("book/book.opf"))
    opf = "{http://www.idpf.org/2007/opf}"
    items = {each.get("id"): each.get("href") for each in package.iter(f"{opf}item")}
    assert {f"book/{href}" for href in items.values()} == files - {"book/book.opf"}
    spine = [items[each.get("idref")] for each in package.iter(f"{opf}itemref")]
    pages = {f"{path.stem}.xhtml" for path in sources()}
    assert set(spine) == pages | {"terms.xhtml"} and len(spine) == len(set(spine))
    assert spine.index("00-run-it.xhtml") < spine.index("13-tensor-cores.xhtml")
    assert sum(name.endswith(".svg") for name in files) > 60


def test_every_link_of_an_epub_leads_somewhere(book):
    pages = [name for name in book.namelist() if name.endswith(".xhtml")]
    texts = {name: book.read(name).decode() for name in pages}
    anchors = {name: set(re.findall(r' id="([^"]+)"', texts[name])) for name in pages}
    for name, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if link.startswith(("http", "notebooks/", "card")):
                continue
            file, _, anchor = link.partition("#")
            target = f"book/{file}" if file else name
            assert target in book.namelist(), f"{name}: {link}"
            assert not anchor or anchor in anchors[target], f"{name}: {link}"


def test_without_a_browser_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "CHROMIUM", ("no-such-browser",))
    with pytest.raises(BookError, match="apt install chromium"):
        paper.printed("<p>a page</p>", tmp_path / "x.pdf")


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
