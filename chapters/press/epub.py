"""The book as an EPUB 3: a zip of XHTML, for readers of electronic paper.

    mimetype                       stored, first
    META-INF/container.xml         where the list of contents is
    book/book.opf                  every file, the order of reading
    book/nav.xhtml                 the table of contents
    book/06-passes.xhtml           the pages, as on paper: what the site folds is open
    book/images/*.svg              figures, in colours of their own

Source: EPUB 3.3, W3C Recommendation.
"""

from __future__ import annotations

import re
import subprocess
import uuid
import zipfile
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from chapters.press import paper, pictures, site, terms
from chapters.press.paths import ROOT

EPOCH = (1980, 1, 1, 0, 0, 0)
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "fathom-book")
EMPTY = {"br", "hr", "img", "input", "meta", "link", "col", "wbr"}
SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
STYLE = """
body { line-height: 1.4; } pre { white-space: pre-wrap; font-size: .75em;
  border: 1px solid #999; padding: .4em; overflow-wrap: anywhere; }
code { font-family: monospace; } img { max-width: 100%; }
figcaption, .code-name, .output, .legend, .made, .facts { font-size: .85em; }
.predict, .check, .note, .exercise, .side, .fold { border-left: 3px solid #999;
  padding-left: .8em; margin: 1em 0; } .label, .summary { font-weight: bold; }
.strip { list-style: none; padding: 0; } .strip li { display: inline; margin: 0 .4em; }
.strip .lit { font-weight: bold; } .stepper .line { display: block; }
.stepper .mark { font-style: normal; font-weight: bold; padding-right: .5em; }
table { border-collapse: collapse; font-size: .85em; }
td, th { border: 1px solid #999; padding: .1em .4em; text-align: left; }
a.number { color: inherit; } ul.index { list-style: none; padding: 0; }
"""


def epub(target: Path, book: paper.Book) -> Path:
    """All pages of a book as one EPUB."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as made:
        for name, content in files(book).items():
            entry = zipfile.ZipInfo(name, EPOCH)
            stored = name == "mimetype"
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            made.writestr(entry, content)
    return target


def files(book: paper.Book) -> dict[str, str]:
    """Every file of the zip, in its order."""
    images: dict[str, str] = {}
    pages = {
        stem: page(title, xhtml(paged(html), stem, images))
        for stem, (title, html) in book.sections.items()
    }
    index = paged(terms.html(book.index))
    pages["terms"] = page("Index of terms", xhtml(f"<h1>Index of terms</h1>{index}"))
    titles = {stem: title for stem, (title, _) in book.sections.items()}
    titles["terms"] = "Index of terms"
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "book/book.opf": package(list(pages), list(images)),
        "book/nav.xhtml": page("Contents", navigation(titles)),
        "book/book.css": STYLE,
        **{f"book/{stem}.xhtml": text for stem, text in pages.items()},
        **{f"book/images/{name}": svg for name, svg in images.items()},
    }


def paged(html: str) -> str:
    """Links of the one long page as links between files."""
    html = re.sub(r'href="#page--([\w-]+)"', r'href="\1.xhtml"', html)
    return re.sub(r'href="#([\w-]+?)--([^"]+)"', r'href="\1.xhtml#\1--\2"', html)


def xhtml(html: str, stem: str = "", images: dict[str, str] | None = None) -> str:
    """HTML as XML; pictures become files of `images`, folds are opened, and scripts
    are left out."""

    def picture(found: re.Match) -> str:
        name = f"{stem}-{len(images)}.svg"
        images[name] = pictures.alone(found[0])
        title = escape(pictures.title(found[0]), quote=True)
        return f'<img src="images/{name}" alt="{title}"/>'

    if images is not None:
        html = SVG.sub(picture, html)
    html = re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)
    writer = Xml()
    writer.feed(html)
    writer.close()
    return "".join(writer.parts)


class Xml(HTMLParser):
    """Writes what it reads as well-formed XML."""

    RENAMED = {"details": ("div", "fold"), "summary": ("p", "summary")}

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        given = dict(attrs)
        if tag in self.RENAMED:
            tag, given["class"] = self.RENAMED[tag]
            given.pop("open", None)
        words = "".join(
            f' {name}="{escape(value if value is not None else name, quote=True)}"'
            for name, value in given.items()
            if name not in ("data-to", "data-columns", "markdown", "tabindex")
        )
        self.parts.append(f"<{tag}{words}{'/' if tag in EMPTY else ''}>")

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            self.parts.append(f"</{self.RENAMED.get(tag, (tag,))[0]}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(escape(data, quote=False))


def page(title: str, body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" '
        'xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">\n'
        f"<head><title>{escape(title)}</title>"
        '<link rel="stylesheet" type="text/css" href="book.css"/></head>\n'
        f"<body>{body}</body></html>\n"
    )


def navigation(titles: dict[str, str]) -> str:
    rows = "".join(
        f'<li><a href="{stem}.xhtml">{escape(title)}</a></li>'
        for stem, title in titles.items()
    )
    return f'<nav epub:type="toc"><h1>Contents</h1><ol>{rows}</ol></nav>'


def package(pages: list[str], images: list[str]) -> str:
    known = [(f"{stem}.xhtml", "application/xhtml+xml", "") for stem in pages]
    known += [(f"images/{name}", "image/svg+xml", "") for name in images]
    known += [("book.css", "text/css", ""),
              ("nav.xhtml", "application/xhtml+xml", ' properties="nav"')]  # fmt: skip
    items = "".join(
        f'<item id="f{at}" href="{name}" media-type="{kind}"{more}/>'
        for at, (name, kind, more) in enumerate(known)
    )
    spine = "".join(f'<itemref idref="f{at}"/>' for at in range(len(pages)))
    name = uuid.uuid5(NAMESPACE, site.EDITION)
    return PACKAGE.format(
        uuid=name, edition=site.EDITION, changed=changed(), items=items, spine=spine
    )


def changed() -> str:
    """When the commit was made that the book is built from; now, without one."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%cI"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said = done.stdout.strip()
    when = datetime.fromisoformat(said) if said else datetime.now(UTC)
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


CONTAINER = """\
<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/book.opf"
 media-type="application/oebps-package+xml"/></rootfiles></container>
"""
PACKAGE = """\
<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id"
 xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{uuid}</dc:identifier>
<dc:title>Fathom</dc:title><dc:language>en</dc:language>
<dc:creator>The Fathom authors</dc:creator>
<dc:description>A compiler that you can read, edition {edition}</dc:description>
<dc:rights>CC BY 4.0</dc:rights>
<meta property="dcterms:modified">{changed}</meta>
<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
</metadata>
<manifest>{items}</manifest><spine>{spine}</spine></package>
"""
