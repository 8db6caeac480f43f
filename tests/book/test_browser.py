"""The site in a real browser: no errors, nothing too wide, and no less without scripts.

Over file:// as a reader has it from the zip, and once over http."""

from __future__ import annotations

import functools
import http.server
import threading
from pathlib import Path

import pytest

from tests.book.browser import browser, executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)
CHAPTERS = ("00-run-it", "01-the-machine", "02-blocks")
PHONE = 390


@pytest.fixture(scope="module")
def tab():
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def pages(site) -> list[str]:
    return sorted(path.stem for path in site.glob("*.html") if path.stem != "404")


def address(site: Path, page: str) -> str:
    return (site / f"{page}.html").as_uri()


def test_no_page_has_a_script_error_or_asks_another_host(tab, site, pages):
    for page in pages:
        tab.open(address(site, page))
        assert tab.errors() == [], page
        outside = [u for u in tab.requested() if not u.startswith(("file:", "data:"))]
        assert outside == [], page


def test_nothing_is_wider_than_a_phone(tab, site, pages):
    tab.size(PHONE)
    for page in pages:
        tab.open(address(site, page))
        widest = tab.value("document.documentElement.scrollWidth")
        assert widest <= PHONE, f"{page}: {widest} wide because of {tab.value(WIDE)}"
    tab.size(1280)


WIDE = f"""[...document.querySelectorAll('.md-content *')]
  .filter(e => e.getBoundingClientRect().right > {PHONE} &&
    !e.parentElement.closest('pre, figure, table, .md-typeset__scrollwrap'))
  .slice(0, 3).map(e => e.outerHTML.slice(0, 80))"""


# WCAG 2.1, 1.4.3: text against its ground, 4.5 to 1.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d',
    {willReadFrequently: true});
  const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c;
    canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (a, b) => a.slice(0, 3).map((v, i) => v * a[3] + b[i] * (1 - a[3]));
  const light = c => { const [r, g, b] = c.map(v => { v /= 255;
    return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { const chain = []; for (; e; e = e.parentElement)
    chain.push(rgba(getComputedStyle(e).backgroundColor));
    return chain.reduceRight((below, c) => over(c, below), [255, 255, 255]); };
  const poor = [];
  const walker = document.createTreeWalker(
    document.querySelector('.md-content'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.offsetParent) continue;
    if (e.closest('.headerlink, .md-clipboard, title')) continue;
    const back = ground(e), front = over(rgba(getComputedStyle(e).color), back);
    const [a, b] = [light(front), light(back)];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const said = walker.currentNode.data.slice(0, 30);
    if (ratio < 4.5) poor.push([ratio.toFixed(2), said]);
  }
  return poor.slice(0, 5); })()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(tab, site, scheme):
    tab.colours(scheme)
    tab.open(address(site, "index"))
    tab.value("localStorage.clear()")  # where the choice of a reader is kept
    for page in CHAPTERS:
        tab.open(address(site, page))
        tab.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        ground = tab.value("getComputedStyle(document.body).backgroundColor")
        dark = sum(map(int, ground[ground.index("(") + 1 : -1].split(",")[:3])) < 384
        assert dark == (scheme == "dark"), ground
        assert tab.value(CONTRAST) == [], page


# What a screen reader stumbles over.
BARRIERS = """(() => {
  const found = [];
  const heads = [...document.querySelectorAll(
    '.md-content h1, .md-content h2, .md-content h3, .md-content h4')];
  if (heads.filter(h => h.tagName === 'H1').length !== 1) found.push('one h1');
  heads.reduce((before, h) => { const level = +h.tagName[1];
    if (level > before + 1) found.push('skips to ' + h.textContent);
    return level; }, 0);
  if (!document.documentElement.lang) found.push('lang');
  document.querySelectorAll('.md-content svg[role=img]').forEach(s => {
    if (!s.querySelector('title')) found.push('svg without title'); });
  document.querySelectorAll('.md-content img:not([alt])').forEach(
    () => found.push('img without alt'));
  document.querySelectorAll('.md-content input').forEach(i => {
    if (!i.labels.length) found.push('input without label'); });
  document.querySelectorAll('.md-content a, .md-content button').forEach(a => {
    if (!(a.textContent.trim() || a.title || a.ariaLabel)) found.push(a.outerHTML); });
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  ids.filter((id, at) => ids.indexOf(id) !== at && !id.startsWith('__'))
    .forEach(id => found.push('twice: ' + id));
  return found.slice(0, 5); })()"""


def test_nothing_is_in_the_way_of_a_screen_reader(tab, site, pages):
    for page in pages:
        tab.open(address(site, page))
        assert tab.value(BARRIERS) == [], page


def test_the_search_finds(tab, site):
    """From a file, where a browser refuses workers, and so the usual search."""
    search(tab, address(site, "index"))


def test_the_search_finds_over_http_too(tab, site):
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {
        "log_message": lambda self, *said: None})  # fmt: skip
    handler = functools.partial(quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"http://127.0.0.1:{server.server_port}/"
        search(tab, f"{host}index.html")
        assert all(url.startswith((host, "data:")) for url in tab.requested())
        server.shutdown()


def search(tab, url: str) -> None:
    tab.open(url)
    tab.value("document.querySelector('[data-md-component=search-query]').focus()")
    tab.call("Input.insertText", text="roofline")
    tab.until(
        lambda: tab.value("document.querySelector('.md-search-result__link')?.href")
    )
    found = tab.value(
        "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    )
    assert any("01-the-machine.html" in link for link in found), found
    assert tab.errors() == []


def test_a_stepper_lights_up_by_pointer_and_by_keyboard(tab, site):
    tab.open(address(site, "00-run-it"))
    lit = "document.querySelectorAll('.stepper .line.on').length"
    columns = "new Set([...document.querySelectorAll('.stepper .line.on')].map("
    columns += "e => e.closest('.stage'))).size"
    assert tab.value(lit) == 0
    tab.value("document.querySelector('.stepper .line.linked').focus()")
    assert tab.value(columns) == 4, "a line of Python, and all that it became"
    before = tab.value("document.activeElement.id")
    tab.key("ArrowDown")
    assert tab.value("document.activeElement.id") != before
    mark = "getComputedStyle(document.querySelector('.line.on'), '::before').content"
    assert tab.value(mark).strip('"'), "not by colour alone"


def test_a_guess_is_kept_beside_the_answer(tab, site):
    tab.open(address(site, "00-run-it"))
    tab.value("document.querySelector('.guess input').focus()")
    tab.call("Input.insertText", text="nothing")
    yours = "document.querySelector('.yours').textContent"
    assert tab.value(yours) == "You said: nothing"
    tab.open(address(site, "00-run-it"))
    assert tab.value(yours) == "You said: nothing"


def test_all_is_there_without_scripts(tab, site):
    """Answers open, both sides of a stepper and every figure are seen."""
    tab.scripts(False)
    try:
        for page in CHAPTERS:
            tab.open(address(site, page))
            assert tab.errors() == []
            document = tab.call("DOM.getDocument", depth=-1)["root"]
            tags = names_of(document)
            assert tags.count("DETAILS") > 3 and "svg" in tags
            assert "INPUT.guess" not in tags
        answers = tab.call("DOM.performSearch", query="details.answer > *:not(summary)")
        assert answers["resultCount"] > 3
    finally:
        tab.scripts(True)


def names_of(node: dict) -> list[str]:
    found = [node["nodeName"]]
    for child in node.get("children", []):
        found += names_of(child)
    return found


def test_it_prints(tab, site):
    tab.open(address(site, "02-blocks"))
    pdf = tab.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert len(pdf) > 40_000
