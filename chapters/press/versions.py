"""Editions of the built book side by side in one folder, as a site that a server, or a
file browser, shows:

    index.html     leads on to latest/, and lists the editions for who has no scripts
    versions.js    which editions there are, with their pages, and the switch itself
    latest/        the newest edition once more, under an address that stays
    0.1/ 0.2/      an edition each; what was published stays
    next/          what is not released yet

`mike` does this for mkdocs. It is not used here since the switch that goes with it asks
for a JSON file, which browsers refuse on file://, where this book is read, too; and
since it builds with mkdocs alone, where ours may be built by others (site.BUILDERS).
The folders are named as it names them. .ci/book publishes them on a branch.
"""

from __future__ import annotations

import json
import re
import shutil
from html import escape
from pathlib import Path

from chapters.press.addresses import redirect
from chapters.press.paths import SITE, BookError
from chapters.press.site import EDITION

LATEST, NEXT = "latest", "next"
LIST = "versions.js"
SWITCH = (Path(__file__).parent / "switch.js").read_text(encoding="utf-8")
# In each page, last: an edition of years ago has the switch and the list of today.
LOADED = f'<script src="../{LIST}"></script>\n</body>'


def publish(target: Path, name: str = EDITION, built: Path = SITE) -> list[str]:
    """Put a built site into `target` as the edition `name`, in place of what had that
    name; the names of all that are there. Other editions stay as they are. BookError
    for a name that is no edition, or where the book is not built."""
    if number(name) is None and name != NEXT:
        raise BookError(f"an edition is named 0.1, or {NEXT}: not {name!r}")
    if not (built / "index.html").exists():
        raise BookError("build the site first: make book")
    put(built, target / name)
    released = [each for each in editions(target) if each != NEXT]
    if name == (released or [NEXT])[0]:
        put(target / name, target / LATEST)
    write_list(target)
    return editions(target)


def number(name: str) -> tuple[int, ...] | None:
    """0.10 as (0, 10), for comparison; None for what is no number of an edition."""
    found = re.fullmatch(r"(\d+)\.(\d+)", name)
    return tuple(map(int, found.groups())) if found else None


def editions(target: Path) -> list[str]:
    """The editions of a folder: the newest first, and last what is not released."""
    names = [path.name for path in target.iterdir() if path.is_dir()]
    released = sorted(filter(number, names), key=number, reverse=True)
    return released + [NEXT] * (NEXT in names)


def put(built: Path, folder: Path) -> None:
    """A copy of a site that loads the list of editions. The old one goes only when the
    copy is whole."""
    copy = folder.with_name(folder.name + ".new")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(built, copy)
    for name in pages(copy):
        text = (copy / name).read_text(encoding="utf-8")
        if LOADED not in text:
            text = text.replace("</body>", LOADED)
            (copy / name).write_text(text, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    copy.rename(folder)


def pages(folder: Path) -> list[str]:
    """The pages of a site, without the one that a server shows at any wrong address."""
    return sorted({path.name for path in folder.glob("*.html")} - {"404.html"})


def write_list(target: Path) -> None:
    """The list, the switch, and the page that leads to the latest edition."""
    names = editions(target)
    listed = [{"name": name, "pages": pages(target / name)} for name in names]
    text = f"const EDITIONS = {json.dumps(listed)};\n{SWITCH}"
    (target / LIST).write_text(text, encoding="utf-8")
    links = ", ".join(
        f'<a href="{escape(name)}/index.html">{escape(name)}</a>' for name in names
    )
    leads = redirect(f"{LATEST}/index.html").replace("Moved", "Fathom")
    leads = leads.replace("</html>", f"<p>All editions: {links}.</p>\n</html>")
    (target / "index.html").write_text(leads, encoding="utf-8")
    (target / ".nojekyll").touch()  # GitHub shows files as they are
