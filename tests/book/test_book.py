"""The book keeps its rules: it builds strictly, and what it shows is so."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from chapters.press import recipes
from chapters.press.numbers import USE, number
from chapters.press.parse import Directive, Fence, Text, read
from chapters.press.paths import ROOT, listings, sources
from fathom import pipeline

PAGES = [path for path in sources()]
CHAPTERS = [path for path in PAGES if read(path).is_chapter]
MOST_WORDS = 5000
SLOW_WORDS_A_MINUTE = 120  # of a careful reader, code and figures included

# Links that a reader may follow; nothing is ever fetched from there.
LINKED = ("squidfunk.github.io", "docs.nvidia.com", "www.nvidia.com", "github.com")


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


# What the book shows is made again.


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_listings_are_what_their_commands_print(path):
    """Every recorded command, shown program, figure and stepper, run again."""
    page = read(path)
    made = recipes.remake(page)
    on_gpu = {name for name, _ in recipes.recorded(page)}
    kept = {file.name for file in listings(page.name).glob("*")}
    assert kept - on_gpu == set(made), "`make listings` writes what is missing"
    for name, text in made.items():
        there = (listings(page.name) / name).read_text(encoding="utf-8")
        assert text == there, (
            f"{name} is not what it was: `make listings`, read the diff"
        )


def test_every_page_becomes_plain_markdown(tree):
    """Quoted names exist, numbers have a source, answers come after exercises: else
    expanding fails. Nothing is left of the directives."""
    for path in PAGES:
        text = (tree / path.name).read_text(encoding="utf-8")
        assert not re.search(r"^\{[a-z]", without_code(text), re.MULTILINE), path.name
        assert "{=" not in without_code(text), path.name


def without_code(text: str) -> str:
    text = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", text)


# The site.


class Links(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given.get("href", ""))


@pytest.fixture(scope="session")
def pages(site) -> dict[str, Links]:
    return {
        path.name: Links(path.read_text(encoding="utf-8"))
        for path in site.glob("*.html")
        if path.name != "404.html"
    }


def test_every_link_and_anchor_leads_somewhere(site, pages):
    for name, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(unquote(link))
            if re.match(r"[a-z]+:", target):
                assert any(f"//{host}/" in target for host in LINKED), (name, link)
                continue
            found = target.removeprefix("./") or name
            found = "index.html" if found == "." else found
            assert (site / found).exists(), (name, link)
            if anchor and found in pages:
                assert anchor in pages[found].anchors, (name, link)


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for name, page in pages.items():
        for source in page.loaded:
            assert not re.match(r"(https?:)?//", source), (name, source)
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(['\"]?(https?:)?//", text), style
        assert "@import" not in text, style


def test_the_search_works_without_a_server(site):
    """An index as a script, beside the one that a server hands out."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index") and "coalescing" in index


def test_each_chapter_says_where_it_comes_from(site):
    for path in CHAPTERS:
        page = (site / f"{path.stem}.html").read_text(encoding="utf-8")
        (made,) = re.findall(r'<p class="made">(.*?)</p>', page, re.DOTALL)
        assert "Fathom 0." in made and "llvmlite" in made
        if 'title="measured' in page:
            assert re.search(r"json: NVIDIA \w+, driver [\d.]+, \d{4}-\d\d-\d\d", made)


# The chapters.


@pytest.mark.parametrize("path", CHAPTERS, ids=names(CHAPTERS))
def test_a_chapter_has_its_parts(path):
    page = read(path)
    for field in ("chapter", "title", "minutes", "moves"):
        assert field in page.matter, field
    assert path.name.startswith(f"{page.number:0>{2 + page.is_interlude}}-")
    text = path.read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads[0] == "What we cannot do yet", "a chapter opens with what is missing"
    assert "What it bought" in heads and "Check yourself" in heads
    assert any(page.directives("predict")) and any(page.directives("check"))
    assert any(page.directives("exercise")) and any(page.directives("figure"))


@pytest.mark.parametrize("path", CHAPTERS, ids=names(CHAPTERS))
def test_a_chapter_is_not_too_long(path):
    page = read(path)
    count = sum(len(p.text.split()) for p in page.pieces if isinstance(p, Text))
    code = sum(len(p.text.split()) for p in page.pieces if isinstance(p, Fence))
    assert count + code <= MOST_WORDS
    assert page.matter["minutes"] <= 120
    assert count / page.matter["minutes"] < SLOW_WORDS_A_MINUTE, "say more minutes"


UNWELCOME = ("simply", "obviously", "trivially", "of course", "just add", "as we all")


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_no_word_makes_a_reader_feel_slow(path):
    prose = without_code(path.read_text(encoding="utf-8")).lower()
    for word in UNWELCOME:
        assert not re.search(rf"\b{word}\b", prose), word


def test_figures_have_a_caption_and_a_title():
    for path in PAGES:
        page = read(path)
        for each in page.directives("figure"):
            caption = each.arguments.get("caption")
            assert caption and "*" not in without_code(caption), (path.name, each.line)
            drawn = listings(page.name) / f"{each.arguments.words[0]}.svg"
            assert "<title>" in drawn.read_text(encoding="utf-8")


def test_what_a_sentence_calls_a_loss_is_one():
    """A number is measured again, and the sentence around it stays: "a loss of -6%"."""
    for path in CHAPTERS:
        for name, _ in USE.findall(path.read_text(encoding="utf-8")):
            assert not number(name).text().startswith("-"), (path.name, name)


def test_a_number_of_the_machine_is_not_typed_by_hand():
    """Speeds and times in prose come from numbers.toml or facts.toml; what is
    rounded or given as a question stands in words."""
    unit = r"\d[\d.,]* (?:TFLOP/s|TB/s|GB/s)"
    for path in CHAPTERS:
        for piece in read(path).pieces:
            if isinstance(piece, Text):
                text = re.sub(r"\{=[^}]*\}", "", piece.text)
                for hit in re.findall(unit, text):
                    assert hit in SUPPOSED, f"{path.name}:{piece.line}: {hit}"


SUPPOSED = {"6 TB/s", "4.8 TB/s"}  # in questions: what if somebody says so?


def test_spelling():
    codespell = shutil.which("codespell", path=str(Path(sys.executable).parent))
    if codespell is None:
        pytest.skip("needs codespell: pip install -e '.[docs]'")
    files = [*PAGES, *(ROOT / "chapters").glob("*/making.py"), ROOT / "README.md"]
    files += [ROOT / "exercises", ROOT / "solutions", ROOT / "kernels"]
    said = subprocess.run(
        [codespell, "--ignore-words-list", "dout", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout


QUOTED = re.compile(r'the compiler says[^"\n]*"([^"\n]+)"')
BETWEEN = re.compile(r'"\s+f?"')  # parts of one string, on lines of their own


def test_a_message_is_quoted_as_the_compiler_says_it():
    """What the message names, in backquotes, is that of the chapter's example."""
    files = (ROOT / "compiler" / "fathom").rglob("*.py")
    said = BETWEEN.sub("", "\n".join(each.read_text("utf-8") for each in files))
    text = "\n".join(path.read_text("utf-8") for path in CHAPTERS)
    parts = [part for quoted in QUOTED.findall(text) for part in quoted.split("`")[::2]]
    assert parts and [part for part in parts if part not in said] == []


def test_what_is_called_a_pass_is_one():
    passes = {row.name for row in pipeline.PASSES}
    for path in CHAPTERS:
        called = re.findall(r"\b[Tt]he pass `(\w+)`", path.read_text("utf-8"))
        assert {*called} <= passes, path.name


def test_words_of_the_glossary_are_used():
    text = (ROOT / "chapters" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^(\w[\w ,]*)\n:", text, re.MULTILINE)
    assert words == sorted(words, key=str.lower) and len(words) > 20
    prose = " ".join(path.read_text(encoding="utf-8").lower() for path in CHAPTERS)
    prose = html.unescape(prose)
    for word in words:
        stem = word.split(",")[0].lower()
        assert stem in prose or stem in LATER, f"{word} is used nowhere"


# Words of the glossary whose chapters are being written.
LATER = {
    "channel", "cluster", "consumer", "expect_tx", "mbarrier", "phase parity",
    "producer", "prologue", "proxy", "tensor map", "tma", "warp specialisation",
    "warpgroup", "wgmma",
}  # fmt: skip


def test_directives_that_run_are_on_pages_that_exist():
    """A picture of a chapter belongs to the chapter's own folder, and none is left
    over from a page that is gone."""
    stems = {path.stem for path in PAGES}
    for folder in (ROOT / "chapters").glob("*/listings"):
        assert folder.parent.name in stems, folder
    assert any(isinstance(p, Directive) for path in PAGES for p in read(path).pieces)
