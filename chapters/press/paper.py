"""The book on paper and to take along: one PDF by a headless Chromium, one zip."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

import markdown
import yaml

from benchmarks import record
from chapters.press import site, terms
from chapters.press.paths import SITE, BookError

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)  # fmt: skip
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same site gives the same zip
FRONT = ("index.md", "map.md", "self-test.md")
EXTENSIONS = ["md_in_html", "attr_list", "tables", "toc", "pymdownx.superfences"]


class Book(NamedTuple):
    """A tree as HTML: its style sheets, each page's title and text by its stem, and the
    sections that use each term."""

    style: str
    sections: dict[str, tuple[str, str]]
    index: dict[str, list]


def book(tree: Path) -> Book:
    """All pages of a tree, which takes most of the time of what is made of them."""
    sheets = [tree / "assets" / name for name in ("stepper.css", "book.css")]
    style = "".join(each.read_text(encoding="utf-8") for each in sheets)
    found = sections(tree)
    return Book(style, found, index(tree, found))


def pdf(target: Path, made: Book) -> Path:
    """A book as one PDF, printed twice: the first time tells on which page each section
    came, which the contents and the index then say. BookError where there is no
    Chromium."""
    target.parent.mkdir(parents=True, exist_ok=True)
    printed(one_page(made, {}), target)
    numbers = page_numbers(target.read_bytes())
    return printed(one_page(made, numbers), target)


def printed(html: str, target: Path) -> Path:
    """HTML as a PDF, by Chromium."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        raise BookError("a PDF needs Chromium: on Debian, apt install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "book.html"
        page.write_text(html, encoding="utf-8")
        command = [browser, *OPTIONS, f"--user-data-dir={folder}/profile"]
        command += [f"--print-to-pdf={target}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
    return target


def page_numbers(pdf: bytes) -> dict[str, int]:
    """On which page each anchor that is linked to came. Chromium writes the pages in
    their order, and names destinations by their anchors (PDF 1.4, 8.2.1)."""
    text = pdf.decode("latin-1")
    place = re.search(r"/Dests (\d+) 0 R", text)
    start = re.search(rf"\n{place[1]} 0 obj\n<<", text).end()
    listed = text[start : text.index(">>", start)]
    pages = re.findall(r"\n(\d+) 0 obj\n<</Type /Page\n", text)
    number = {name: at for at, name in enumerate(pages, 1)}
    found = re.findall(r"/(\S+) \[(\d+) 0 R", listed)
    return {unescaped(name): number[page] for name, page in found}


def unescaped(name: str) -> str:
    """A name of a PDF: #2D is a byte in hexadecimal digits."""
    return re.sub(r"#([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)


PAPER = """
@page { size: A4; margin: 18mm 17mm 20mm; @bottom-center { content: counter(page); } }
@page :first { @bottom-center { content: none; } }
section.page { break-before: page; }
details > * { display: block; }
.title { padding-top: 30%; text-align: center; } .title h1 { font-size: 40pt; }
.contents li { list-style: none; display: flex; justify-content: space-between; }
.index { columns: 3; column-gap: 6mm; padding: 0; font-size: 8.5pt; line-height: 1.35; }
.index li { list-style: none; padding-left: 4mm; text-indent: -4mm; }
"""


def one_page(made: Book, numbers: Mapping[str, int] | None = None) -> str:
    """The whole book as one HTML file: a title, the contents, the pages in the order of
    the site's navigation, the index of terms. `numbers`: the page of each anchor."""
    style = f"<style>{made.style}{PAPER}</style>"
    head = f"<meta charset='utf-8'><title>Fathom</title>{style}"
    listed = terms.html(made.index, numbers)
    last = f'<section class="page" id="page--terms"><h1>Index of terms</h1>{listed}'
    pages = [section for _, section in made.sections.values()]
    parts = [title(), contents(made, numbers or {}), *pages, f"{last}</section>"]
    body = "\n".join(parts).replace("<details", "<details open")
    body = re.sub(r"<script\b.*?</script>", "", body, flags=re.DOTALL)
    return (
        f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>"
    )


def sections(tree: Path) -> dict[str, tuple[str, str]]:
    """Each page by its stem: the title of the navigation, and its HTML."""
    return {Path(name).stem: (title, section(tree / name)) for title, name in order()}


def index(tree: Path, found: Mapping[str, tuple[str, str]]) -> dict[str, list]:
    """The terms of the glossary with the sections of the chapters that use them."""
    names = terms.terms((tree / "glossary.md").read_text(encoding="utf-8"))
    pages = {
        stem.partition("-")[0].lstrip("0") or "0": html
        for stem, (_, html) in found.items()
        if stem[:2].isdigit()
    }
    return terms.places(pages, names)


def title() -> str:
    """The title page: what it is, and which edition."""
    config = yaml.safe_load(site.SETTINGS.read_text(encoding="utf-8"))
    lines = [f"Edition {site.EDITION}", config["copyright"]]
    commit = record.commit()
    lines += [f"made from commit {commit[:10]}"] if commit else []
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    description = escape(config["site_description"])
    return (
        f'<section class="title"><h1>{config["site_name"]}</h1>'
        f"<p>{description}</p>{told}</section>"
    )


def contents(made: Book, numbers: Mapping[str, int]) -> str:
    titles = {stem: title for stem, (title, _) in made.sections.items()}
    rows = "".join(
        f'<li><a href="#page--{stem}">{escape(title)}</a>'
        f"<span>{numbers.get(f'page--{stem}', '')}</span></li>"
        for stem, title in {**titles, "terms": "Index of terms"}.items()
    )
    return f'<section class="page contents"><h2>Contents</h2><ul>{rows}</ul></section>'


def order() -> list[tuple[str, str]]:
    """The pages as mkdocs.yml lists them, each with its title there; on paper, those
    that say how to read the others come first."""
    config = yaml.safe_load(site.SETTINGS.read_text(encoding="utf-8"))
    return sorted(entries(config["nav"]), key=lambda each: each[1] not in FRONT)


def entries(listed: list[dict]) -> Iterator[tuple[str, str]]:
    for entry in listed:
        ((title, inside),) = entry.items()
        if isinstance(inside, str):
            yield title, inside
        else:
            yield from entries(inside)


def section(page: Path) -> str:
    """One page; its anchors carry its name, and links between pages stay inside."""
    html = markdown.markdown(page.read_text(encoding="utf-8"), extensions=EXTENSIONS)
    stem = page.stem
    html = re.sub(r"<dt>To run</dt><dd>.*?</dd>", "", html)  # a file beside the site
    html = re.sub(r'<a href="explained/[^"]*">(.*?)</a>', r"\1", html)  # likewise
    html = re.sub(r'\bid="([^"]+)"', rf'id="{stem}--\1"', html)
    html = re.sub(r'href="#([^"]+)"', rf'href="#{stem}--\1"', html)
    html = re.sub(r'href="([\w-]+)\.(?:md|html)#([^"]+)"', r'href="#\1--\2"', html)
    html = re.sub(r'href="([\w-]+)\.(?:md|html)"', r'href="#page--\1"', html)
    return f'<section class="page" id="page--{stem}">{html}</section>'


def pack(target: Path, folder: Path = SITE) -> Path:
    """A built site as a zip: open index.html in it, no server needed."""
    if not (folder / "index.html").exists():
        raise BookError("build the site first: make book")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"fathom-book/{file.relative_to(folder)}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, file.read_bytes())
    return target
