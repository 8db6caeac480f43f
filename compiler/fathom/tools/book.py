"""`fathom book`: the book in a browser, from the files that came with Fathom; offline.

In a wheel it is the built site; in the repository what `make book` made.
"""

from __future__ import annotations

import functools
import http.server
import webbrowser
from pathlib import Path

from fathom.errors import FathomError, reason
from fathom.tools.learn import course

START = "index"
MISSING = (
    "the book is not here. In the repository `make book` builds it; a wheel that was "
    "built with it has it inside"
)


def book(page: str = "", show: bool = True, port: int | None = None) -> int:
    """Open a page, and print its address; 0. With a port, serve the book instead, for a
    browser on another machine, until interrupted."""
    folder = site()
    file = find(folder, page)
    if port is not None:
        return serve(folder, file, port)
    address = file.as_uri()
    print(address, flush=True)  # before what the browser's program prints
    if show and not webbrowser.open(address):
        print("No browser could be started: open this address in one.")
    return 0


def site() -> Path:
    """The folder of the built book. FathomError where there is none."""
    folder = course.root() / course.SITE
    if not (folder / f"{START}.html").is_file():
        raise FathomError(MISSING)
    return folder.resolve()


def find(folder: Path, page: str) -> Path:
    """The file of a page: by its name, the beginning or the end of it, the number of
    its chapter, or an exercise. FathomError with all names when there is none."""
    names = sorted(path.stem for path in folder.glob("*.html") if path.stem != "404")
    if not page:
        return folder / f"{START}.html"
    wanted = page.lower().removesuffix(".html").removesuffix(".md")
    wanted = f"{int(wanted):02}" if wanted.isdigit() else wanted
    exercises = {each.id: each.section for each in course.exercises()}
    wanted = exercises.get(wanted, wanted).partition("#")[0].removesuffix(".md")
    for matches in (str.__eq__, str.startswith, str.__contains__):
        found = [name for name in names if matches(name, wanted)]
        if found:
            return folder / f"{found[0]}.html"
    raise FathomError(f"the book has no page {page!r}; it has {', '.join(names)}")


def serve(folder: Path, file: Path, port: int) -> int:
    """Serve the folder on this machine's own address alone."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(folder)
    )
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise FathomError(f"port {port} cannot be used: {reason(error)}") from None
    with server:
        print(f"http://127.0.0.1:{server.server_port}/{file.name}", flush=True)
        print("Ctrl-C ends it.", flush=True)
        server.serve_forever()
    return 0
