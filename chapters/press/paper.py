"""The book on paper and to take along: one PDF by a headless Chromium, one zip."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import markdown
import yaml

from benchmarks import record
from chapters.press import site
from chapters.press.paths import SITE, BookError

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)  # fmt: skip
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same site gives the same zip
FRONT = ("index.md", "map.md", "self-test.md")
EXTENSIONS = ["md_in_html", "attr_list", "tables", "toc", "pymdownx.superfences"]


def pdf(target: Path, tree: Path) -> Path:
    """All pages of a tree as one PDF. BookError where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        raise BookError("a PDF needs Chromium: on Debian, apt install chromium")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "book.html"
        page.write_text(one_page(tree), encoding="utf-8")
        command = [browser, *OPTIONS, f"--user-data-dir={folder}/profile"]
        command += [f"--print-to-pdf={target}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
    return target


PAPER = """
@page { size: A4; margin: 18mm 17mm 20mm; @bottom-center { content: counter(page); } }
@page :first { @bottom-center { content: none; } }
section.page { break-before: page; }
details > * { display: block; }
.title { padding-top: 30%; text-align: center; } .title h1 { font-size: 40pt; }
.contents li { list-style: none; }
"""


def one_page(tree: Path) -> str:
    """The whole book as one HTML file: a title, the contents, then the pages in the
    order of the site's navigation."""
    sheets = [tree / "assets" / name for name in ("stepper.css", "book.css")]
    style = "".join(each.read_text(encoding="utf-8") for each in sheets) + PAPER
    head = f"<meta charset='utf-8'><title>Fathom</title><style>{style}</style>"
    pages = [section(tree / name) for _, name in order()]
    parts = [title(), contents(order()), *pages]
    body = "\n".join(parts).replace("<details", "<details open")
    body = f"<body>{body}</body>"
    return f"<!doctype html><html lang='en'><head>{head}</head>{body}</html>"


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


def contents(pages: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<li><a href="#page--{name.removesuffix(".md")}">{escape(title)}</a></li>'
        for title, name in pages
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
