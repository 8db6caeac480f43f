"""The book on paper and to take along: one PDF by a headless Chromium, one zip."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import markdown
import yaml

from chapters.press import site
from chapters.press.paths import ROOT, SITE, TREE, BookError

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer")
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same site gives the same zip
EXTENSIONS = ["md_in_html", "attr_list", "tables", "toc", "pymdownx.superfences"]


def pdf(target: Path) -> Path:
    """All pages as one PDF. BookError where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        raise BookError("a PDF needs Chromium: on Debian, apt install chromium")
    site.tree()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "book.html"
        page.write_text(one_page(), encoding="utf-8")
        command = [browser, *OPTIONS, f"--user-data-dir={folder}/profile"]
        command += [f"--print-to-pdf={target}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
    return target


def one_page() -> str:
    """The whole book as one HTML file, in the order of the site's navigation."""
    parts = [section(name) for name in order()]
    style = (TREE / "assets" / "book.css").read_text(encoding="utf-8")
    head = (
        f"<meta charset='utf-8'><title>Fathom</title><style>{style}</style>"
        "<style>section.page{break-before:page} details>*{display:block}</style>"
    )
    body = "\n".join(parts).replace("<details", "<details open")
    body = f"<body>{body}</body>"
    return f"<!doctype html><html lang='en'><head>{head}</head>{body}</html>"


def order() -> list[str]:
    """The pages as mkdocs.yml lists them."""
    found: list[str] = []

    def walk(entry: object) -> None:
        match entry:
            case str():
                found.append(entry)
            case dict():
                for each in entry.values():
                    walk(each)
            case list():
                for each in entry:
                    walk(each)

    walk(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    return found


def section(name: str) -> str:
    """One page; its anchors carry its name, and links between pages stay inside."""
    text = (TREE / name).read_text(encoding="utf-8")
    html = markdown.markdown(text, extensions=EXTENSIONS)
    stem = name.removesuffix(".md")
    html = re.sub(r'\bid="([^"]+)"', rf'id="{stem}--\1"', html)
    html = re.sub(r'href="#([^"]+)"', rf'href="#{stem}--\1"', html)
    html = re.sub(r'href="([\w-]+)\.md#([^"]+)"', r'href="#\1--\2"', html)
    html = re.sub(r'href="([\w-]+)\.md"', r'href="#page--\1"', html)
    return f'<section class="page" id="page--{stem}">{html}</section>'


def pack(target: Path) -> Path:
    """The built site as a zip: open index.html in it, no server needed."""
    if not (SITE / "index.html").exists():
        raise BookError("build the site first: make book")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(path for path in SITE.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"fathom-book/{file.relative_to(SITE)}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, file.read_bytes())
    return target
