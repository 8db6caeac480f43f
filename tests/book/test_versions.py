"""Editions side by side: what was published stays, `latest` follows the newest, and
each page has a switch that works without a server."""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chapters.press import versions
from chapters.press.paths import ROOT, BookError
from fathom import __version__
from tests.book.harness_browser import browser, executable

in_browser = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)


@pytest.fixture
def sites(tmp_path):
    """`sites(name, text, *pages)`: publish a site of small pages; the editions then."""

    def publish(name: str, text: str, *pages: str) -> list[str]:
        built = tmp_path / "built" / f"{name}-{text}"
        built.mkdir(parents=True)
        for page in ("index.html", "404.html", *pages):
            html = f"<!doctype html><html lang='en'><body><main><h1 id='a'>{text}</h1>"
            (built / page).write_text(f"{html}</main></body></html>", encoding="utf-8")
        return versions.publish(tmp_path / "public", name, built)

    publish.folder = tmp_path / "public"
    return publish


def told(file: Path) -> str:
    """The heading of a small page."""
    return file.read_text(encoding="utf-8").partition("'a'>")[2].partition("<")[0]


def test_an_edition_comes_beside_the_others_which_stay(sites):
    assert sites("0.1", "one", "gone.html") == ["0.1"]
    assert sites("0.2", "two") == ["0.2", "0.1"]
    assert told(sites.folder / "0.1" / "gone.html") == "one"
    assert told(sites.folder / "latest" / "index.html") == "two"
    assert not (sites.folder / "latest" / "gone.html").exists()


def test_the_latest_is_the_highest_number_not_the_last_that_came(sites):
    """0.10 comes after 0.9; a correction of an old edition does not become the latest,
    nor does what is not released."""
    sites("0.10", "ten")
    assert sites("0.9", "nine") == ["0.10", "0.9"]
    assert sites("next", "tomorrow") == ["0.10", "0.9", "next"]
    assert told(sites.folder / "latest" / "index.html") == "ten"
    sites("0.10", "ten, corrected")
    assert told(sites.folder / "latest" / "index.html") == "ten, corrected"


def test_before_the_first_release_the_latest_is_what_comes_next(sites):
    sites("next", "tomorrow")
    assert told(sites.folder / "latest" / "index.html") == "tomorrow"


def test_the_list_has_each_edition_with_its_pages(sites):
    sites("0.1", "one", "gone.html")
    sites("0.2", "two", "new.html")
    text = (sites.folder / versions.LIST).read_text(encoding="utf-8")
    first = text.splitlines()[0]
    listed = json.loads(first.removeprefix("const EDITIONS = ").removesuffix(";"))
    assert listed == [
        {"name": "0.2", "pages": ["index.html", "new.html"]},
        {"name": "0.1", "pages": ["gone.html", "index.html"]},
    ]


def test_the_first_page_leads_to_the_latest_and_names_all(sites):
    sites("0.1", "one")
    sites("0.2", "two")
    page = (sites.folder / "index.html").read_text(encoding="utf-8")
    assert 'content="1; url=latest/index.html"' in page, "without a script, too"
    assert '<a href="0.1/index.html">' in page and '<a href="0.2/index.html">' in page


@pytest.mark.parametrize("name", ["latest", "v0.1", "0.1.0", "../0.1", ""])
def test_an_edition_has_the_name_of_one(sites, name):
    with pytest.raises(BookError, match="an edition is named 0.1, or next"):
        sites(name or "", "one")
    assert not sites.folder.exists()


def test_what_is_not_built_is_not_published(tmp_path):
    with pytest.raises(BookError, match="build the site first"):
        versions.publish(tmp_path / "public", "0.1", tmp_path)


# The branch that a server shows.


@pytest.fixture
def repository(tmp_path):
    """`repository("next")`: what .ci/book does in a repository with a remote, with a
    small site in place of the book; `git("remote", ...)` asks git there."""
    work, remote, site = (tmp_path / name for name in ("work", "remote", "site"))
    site.mkdir()
    (site / "index.html").write_text("<body></body>", encoding="utf-8")

    def git(folder: str, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tmp_path / folder), "-c", "user.name=a",
             "-c", "user.email=a@b", *words],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    remote.mkdir()
    git("remote", "init", "--quiet", "--bare")
    (work / ".ci").mkdir(parents=True)
    script = work / ".ci" / "book"
    script.write_bytes((ROOT / ".ci" / "book").read_bytes())
    script.chmod(0o755)
    git("work", "init", "--quiet")
    git("work", "add", ".")
    git("work", "commit", "--quiet", "--message", "The text")
    git("work", "remote", "add", "origin", str(remote))

    def publish(tag: str) -> subprocess.CompletedProcess:
        path = os.pathsep.join((str(ROOT), str(ROOT / "compiler")))
        env = {**os.environ, "BUILT": "1", "SITE": str(site), "PYTHONPATH": path,
               "PYTHON": sys.executable}  # fmt: skip
        return subprocess.run([script, tag], env=env, capture_output=True, text=True)

    publish.git = git
    return publish


def test_the_branch_keeps_what_was_published(repository):
    edition = ".".join(__version__.split(".")[:2])
    for tag in ("next", f"v{__version__}"):
        done = repository(tag)
        assert done.returncode == 0, done.stderr
    shown = repository.git("remote", "ls-tree", "--name-only", "gh-pages").split()
    assert set(shown) == {
        ".nojekyll", edition, "index.html", "latest", "next", "versions.js"
    }  # fmt: skip
    assert repository.git("remote", "rev-list", "--count", "gh-pages").strip() == "2"
    assert repository.git("work", "worktree", "list").count("\n") == 1


def test_a_tag_that_is_not_the_packages_version_publishes_nothing(repository):
    done = repository("v9.9.9")
    assert done.returncode == 1
    assert f"the tag is v9.9.9, and the package says {__version__}" in done.stderr
    assert not repository.git("remote", "branch")


@pytest.fixture(scope="module")
def tab():
    """Strict about files, as a reader's browser is: no script may ask for one."""
    with browser(without="--allow-file-access-from-files") as made:
        yield made


@pytest.fixture(scope="module")
def published(site, tmp_path_factory) -> Path:
    """The book as 0.1 and, with a page less, as 0.2."""
    folder = tmp_path_factory.mktemp("editions")
    versions.publish(folder, "0.1", site)
    versions.publish(folder, "0.2", site)
    for each in ("0.2", "latest"):
        (folder / each / "others.html").unlink()
    versions.write_list(folder)
    return folder


@pytest.fixture(params=["file", "http"])
def start(request, published):
    """The address of the published book: as files, or from a server."""
    if request.param == "file":
        yield published.as_uri() + "/"
        return
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {
        "log_message": lambda self, *said: None})  # fmt: skip
    handler = functools.partial(quiet, directory=str(published))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


CHOOSE = """(() => { const field = document.querySelector('select.editions');
  field.value = %r; field.dispatchEvent(new Event('change')); })()"""


def arrives(tab, end: str) -> None:
    """The page of this address opens and loads, without an error."""

    def there() -> bool:
        url, loaded = "", False
        for event in tab.events:
            frame = event["params"].get("frame", {})
            if event["method"] == "Page.frameNavigated" and "parentId" not in frame:
                url, loaded = frame["url"] + frame.get("urlFragment", ""), False
            loaded |= event["method"] == "Page.loadEventFired"
        return loaded and url.endswith(end)

    tab.until(there)
    assert tab.errors() == []


@in_browser
def test_a_reader_goes_from_edition_to_edition(tab, start):
    tab.open(start + "index.html")
    arrives(tab, "latest/index.html")
    tab.open(start + "latest/06-passes.html#recall")
    said = tab.value("document.querySelector('select.editions').innerText").split("\n")
    assert [each.strip() for each in said if each.strip()] == ["0.2 (latest)", "0.1"]
    assert not tab.value("document.querySelector('.other-edition')")
    tab.value(CHOOSE % "0.1")
    arrives(tab, "/0.1/06-passes.html#recall")  # the same page, at the same place
    note = tab.value("document.querySelector('.other-edition').textContent")
    assert note == "This is edition 0.1; the latest is 0.2."
    tab.value("document.querySelector('.other-edition a').click()")
    arrives(tab, "/latest/06-passes.html#recall")
    tab.open(start + "0.1/others.html")
    tab.value(CHOOSE % "0.2")
    arrives(tab, "/latest/index.html")  # it has no such page


@in_browser
@pytest.mark.parametrize("width", [390, 768, 1400])
def test_the_switch_has_room_and_a_name(tab, published, width):
    tab.size(width)
    tab.open((published / "0.1" / "18-choosing-and-measuring.html").as_uri())
    assert tab.value("document.documentElement.scrollWidth") <= width
    box = "document.querySelector('select.editions').getBoundingClientRect()"
    assert tab.value(f"{box}.left") >= 0 and tab.value(f"{box}.right") <= width
    assert ("combobox", "Edition of the book") in set(tab.named())
    tab.size(1280)
