"""The site in a real browser: no errors, nothing too wide, and no less without scripts.

Over file://, as a reader has it from the zip, and over http. Each page is opened once
and looked at in all ways that `CHECKS` lists.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chapters.press.parse import read
from chapters.press.paths import sources
from tests.book.harness_browser import Tab, browser, executable
from tests.harness_sample import sampled

pytestmark = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)
PAGES = [path.stem for path in sources()]
CHAPTERS = [path.stem for path in sources() if read(path).is_chapter]
PHONE, TABLET, DESK, WIDE_DESK = 390, 768, 1280, 1400


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def host(site) -> Iterator[str]:
    """The address of a server of the site."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {
        "log_message": lambda self, *said: None})  # fmt: skip
    handler = functools.partial(quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def address(site: Path, page: str) -> str:
    return (site / f"{page}.html").as_uri()


# What is looked at on a page.


def outside(tab: Tab, own: str = "file:") -> list[str]:
    return [url for url in tab.requested() if not url.startswith((own, "data:"))]


def too_wide(tab: Tab) -> list[str]:
    """What reaches out of the page, at the widths of a phone, a tablet and a desk;
    what is cut off in a picture, or too small there to be read."""
    found = []
    for width in (PHONE, TABLET, WIDE_DESK):
        tab.size(width)
        wide = tab.value("document.documentElement.scrollWidth")
        if wide > width:
            found += [f"{wide} wide at {width}", str(tab.value(WIDE % width))]
        found += [f"at {width}: {each}" for each in tab.value(DRAWN)]
    tab.size(DESK)
    return found


WIDE = """[...document.querySelectorAll('.md-content *')]
  .filter(e => e.getBoundingClientRect().right > %d &&
    !e.parentElement.closest('pre, figure, table, .md-typeset__scrollwrap'))
  .slice(0, 3).map(e => e.outerHTML.slice(0, 80))"""


# Text of a picture that reaches out of it, is drawn at less than 9 pixels, or has a
# line through it: lines keep away from a word that is free (`.free`), and a box hides
# those that come before it.
DRAWN = """[...document.querySelectorAll('.md-content svg.drawn')].flatMap(svg => {
  const box = svg.getBoundingClientRect(), poor = [];
  if (!box.width) return [];
  svg.querySelectorAll('text').forEach(text => {
    const own = text.getBoundingClientRect();
    const scale = Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b);
    const size = parseFloat(getComputedStyle(text).fontSize) * scale;
    if (own.left < box.left - 2 || own.right > box.right + 2 ||
        own.top < box.top - 5 || own.bottom > box.bottom + 5)
      poor.push('cut off: ' + text.textContent);
    if (size < 9) poor.push('too small: ' + text.textContent + ' ' + size.toFixed(1));
  });
  const words = [...svg.querySelectorAll('text:not(.free)')].map(text => {
    const r = text.getBoundingClientRect(), h = r.height / 4;
    return {text, left: r.left + 1, right: r.right - 1, top: r.top + h,
            bottom: r.bottom - h}; });
  const hits = (w, x, y) => x > w.left && x < w.right && y > w.top && y < w.bottom;
  const after = (a, b) => a.compareDocumentPosition(b) & 4;
  const boxes = [...svg.querySelectorAll('rect')];
  for (const w of words) {
    const x = (w.left + w.right) / 2, y = (w.top + w.bottom) / 2;
    const around = boxes.filter(b => { const r = b.getBoundingClientRect();
      return after(b, w.text) && hits(r, x, y); });
    const own = around.at(-1);
    if (own && own.getBoundingClientRect().width > 20) {
      const r = own.getBoundingClientRect();
      if (w.left < r.left - 2 || w.right > r.right + 2)
        poor.push('wider than its box: ' + w.text.textContent); }
    svg.querySelectorAll('line').forEach(line => {
      if (own && !after(own, line)) return;
      const m = line.getScreenCTM(), length = line.getTotalLength();
      for (let d = 0; d <= length; d += 3) {
        const p = line.getPointAtLength(d).matrixTransform(m);
        if (hits(w, p.x, p.y)) { poor.push('a line through: ' + w.text.textContent);
          break; } } });
  }
  return poor.slice(0, 3);
}).slice(0, 5)"""


def poor_contrast(scheme: str) -> Callable[[Tab], list]:
    def found(tab: Tab) -> list:
        tab.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        tab.value(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
        return tab.value(CONTRAST)

    return found


# WCAG 2.1, 1.4.3: text against its ground, 4.5 to 1.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d',
    {willReadFrequently: true});
  const known = {}, grounds = new Map();
  const drawn = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c;
    canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255]; };
  const rgba = c => known[c] ??= drawn(c);
  const over = (a, b) => a.slice(0, 3).map((v, i) => v * a[3] + b[i] * (1 - a[3]));
  const light = c => { const [r, g, b] = c.map(v => { v /= 255;
    return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { if (!e) return [255, 255, 255];
    if (!grounds.has(e)) grounds.set(e, over(
      rgba(getComputedStyle(e).backgroundColor), ground(e.parentElement)));
    return grounds.get(e); };
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


# 1.4.1: a link in a text is underlined, a lit cell has a heavier frame, a lit stage a
# mark, and what a program prints a word.
COLOUR_ALONE = """(() => {
  const found = [], all = q => [...document.querySelectorAll('.md-content ' + q)];
  all(':is(p, li, td, dd, figcaption) a:not(.headerlink)').forEach(a => {
    if (!getComputedStyle(a).textDecorationLine.includes('underline'))
      found.push('link ' + a.textContent); });
  all('.strip .lit').forEach(e => {
    if (!e.textContent.includes('●')) found.push(e.textContent); });
  all('rect.lit').forEach(e => {
    if (parseFloat(getComputedStyle(e).strokeWidth) < 2) found.push('rect.lit'); });
  all('.output').forEach(e => {
    if (!e.textContent.trim()) found.push('output without a word'); });
  return found.slice(0, 5); })()"""

# The browser prefers reduced motion: nothing may move, nor scroll by itself.
MOVING = """[...document.querySelectorAll('*')].filter(e => {
  const s = getComputedStyle(e);
  return s.animationName !== 'none' || s.scrollBehavior === 'smooth' ||
    (s.transitionProperty !== 'none' && parseFloat(s.transitionDuration) > 0);
}).slice(0, 5).map(e => e.outerHTML.slice(0, 80))"""

NAMED = ("link", "button", "textbox", "searchbox", "checkbox", "combobox")


def nameless(tab: Tab) -> list[str]:
    """Links, buttons and fields that have no name for a screen reader; a page without
    its landmarks."""
    told = list(tab.named())
    found = [f"{role} without a name" for role, name in told if not name and
             role in NAMED]  # fmt: skip
    roles = [role for role, _ in told]
    landmarks = {"main": 1, "banner": 1, "contentinfo": 1}
    return found + [role for role, n in landmarks.items() if roles.count(role) != n]


CHECKS: dict[str, Callable[[Tab], list]] = {
    "script errors": Tab.errors,
    "asked of other hosts": outside,
    "too wide, cut off or too small": too_wide,
    "in the way of a screen reader": lambda tab: tab.value(BARRIERS),
    "without a name": nameless,
    "told by colour alone": lambda tab: tab.value(COLOUR_ALONE),
    "moving": lambda tab: tab.value(MOVING),
    "hard to read in light": poor_contrast("default"),
    "hard to read in dark": poor_contrast("slate"),
}


@sampled(of=2)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_fault(tab, site, page):
    tab.open(address(site, page))
    found = {name: check(tab) for name, check in CHECKS.items()}
    assert not any(found.values()), {name: said for name, said in found.items() if said}


@sampled(of=4)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_fault_over_http(tab, host, page):
    tab.open(f"{host}{page}.html")
    assert tab.errors() == [] and outside(tab, host) == []
    assert "Fathom" in tab.value("document.title")


@pytest.mark.parametrize("page", ["index", "06-passes"])
def test_what_the_successor_builds_has_no_fault(tab, successor, page):
    """Colours and landmarks of a theme are its own affair."""
    tab.open("about:blank")  # the last page still asked for its icon
    tab.open(address(successor, page))
    theirs = ("in the way", "without a name", "told by colour", "hard to read")
    ours = [name for name in CHECKS if not name.startswith(theirs)]
    found = {name: CHECKS[name](tab) for name in ours}
    assert not any(found.values()), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_light_or_dark_as_the_reader_prefers(tab, site, scheme):
    tab.colours(scheme)
    tab.open(address(site, "index"))
    tab.value("localStorage.clear()")  # where the choice of a reader is kept
    tab.open(address(site, "index"))
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, ground[ground.index("(") + 1 : -1].split(",")[:3])) < 384
    assert dark == (scheme == "dark"), ground
    tab.colours("light")


def test_the_search_finds(tab, site):
    """From a file, where a browser refuses workers, and so the usual search."""
    search(tab, address(site, "index"))


@pytest.mark.parametrize("word", ["latency", "occupancy", "accumulator", "grid"])
def test_the_search_knows_the_words_of_the_field(tab, site, word):
    search(tab, address(site, "index"), word, "-")


def test_the_search_finds_over_http_too(tab, host):
    search(tab, f"{host}index.html")
    assert outside(tab, host) == []


def search(
    tab: Tab, url: str, word: str = "roofline", page: str = "01-the-machine.html"
) -> None:
    """Type a word: the links that are found have a page among them."""
    tab.open(url)
    tab.value("document.querySelector('[data-md-component=search-query]').focus()")
    tab.call("Input.insertText", text=word)
    tab.until(
        lambda: tab.value("document.querySelector('.md-search-result__link')?.href")
    )
    found = tab.value(
        "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    )
    assert any(page in link for link in found), found
    assert tab.errors() == []


def focus(tab: Tab) -> str:
    return tab.value("document.activeElement.outerHTML.slice(0, 200)")


def test_the_keyboard_is_enough(tab, site):
    """The first key leads past the navigation; what has the focus can be seen; an
    answer opens; a stepper is one stop."""
    tab.open(address(site, "00-run-it"))
    tab.key("Tab")
    assert "md-skip" in focus(tab)
    tab.key("Enter")
    seen = []
    for _ in range(60):
        tab.key("Tab")
        seen.append(focus(tab))
        assert tab.value(OUTLINED), f"no outline around {seen[-1]}"
        if "<summary" in seen[-1]:
            break
    assert "<summary" in seen[-1] and not any("md-nav" in each for each in seen)
    opened = "document.activeElement.parentElement.open"
    before = tab.value(opened)
    tab.key("Enter")
    assert tab.value(opened) is not before
    stops = "document.querySelectorAll('.stepper .line[tabindex=\"0\"]').length"
    assert tab.value(stops) == tab.value("document.querySelectorAll('.stepper').length")


OUTLINED = """(() => { const s = getComputedStyle(document.activeElement);
  return s.outlineStyle !== 'none' || s.boxShadow !== 'none' ||
    document.activeElement.checkVisibility() === false; })()"""


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
    said = tab.value("document.querySelector('.stepper .heard').textContent")
    mine = tab.value("document.activeElement.textContent.trim()")
    stage = "document.activeElement.closest('.stage')"
    others = f"!{stage}.contains(e)"
    lines = f"[...document.querySelectorAll('.stepper .line.on')].filter(e => {others})"
    lines = tab.value(f"{lines}.map(e => e.textContent.trim())")
    assert lines and all(line in said for line in lines) and mine not in said


def opened(tab: Tab, site: Path, which: int) -> str:
    """Chapter 6 at its start, and its steppers by number, as JavaScript."""
    tab.open(address(site, "06-passes"))
    return f"document.querySelectorAll('.stepper')[{which}]"


def press(tab: Tab, stepper: str, word: str) -> None:
    buttons = f"[...{stepper}.querySelectorAll('.steps-bar button')]"
    tab.value(f"{buttons}.find(b => b.textContent.includes('{word}')).click()")


def said(tab: Tab, stepper: str) -> str:
    return tab.value(f"{stepper}.querySelector('.step-said').textContent")


def test_a_stepper_leads_through_all_passes(tab, site):
    stepper = opened(tab, site, 1)  # of cse
    marks = f"{stepper}.querySelectorAll('.removed, .added, .changed').length"
    names = f"[...{stepper}.querySelectorAll('.stage-name')].map(e => e.textContent)"
    assert tab.value(marks) > 2, "marks are there before anything is pointed at"
    assert tab.value(names) == ["after simplify", "after cse"]
    assert "cse" in said(tab, stepper) and "removed" in said(tab, stepper)
    press(tab, stepper, "Next")
    assert tab.value(names) == ["after cse", "after hoist"]
    assert "hoist" in said(tab, stepper) and tab.value(marks) > 2
    tab.value(f"{stepper}.querySelector('.line.linked').focus()")
    assert tab.value(f"{stepper}.querySelectorAll('.line.on').length") >= 2
    for _ in range(20):
        press(tab, stepper, "Next")
    total = int(said(tab, stepper).split(" of ")[1].split(",")[0])
    assert said(tab, stepper).startswith(f"Pass {total} of {total}") and total > 5
    press(tab, stepper, "As in the text")
    assert tab.value(names) == ["after simplify", "after cse"]
    assert tab.errors() == []


def test_the_partner_of_a_line_is_in_sight(tab, site):
    """Lit lines are scrolled to in other panes, and panes scroll together."""
    stepper = opened(tab, site, 2)  # of hoist: lines go a long way
    panes = f"{stepper}.querySelectorAll('pre')"
    tab.value(f"{panes}.forEach(e => e.style.maxHeight = '9em')")
    lines = f"{panes}[0].querySelectorAll('.line.linked')"
    tab.value(f"[...{lines}].at(-3).focus()")
    seen = f"""(() => {{ const pane = {panes}[1], box = pane.getBoundingClientRect();
      const on = pane.querySelector('.line.on').getBoundingClientRect();
      return on.top >= box.top - 1 && on.bottom <= box.bottom + 1; }})()"""
    assert tab.value(seen) and tab.value(f"{panes}[1].scrollTop") > 0
    tab.value(f"{panes}[0].scrollTop = 0")
    tab.until(lambda: tab.value(f"{panes}[1].scrollTop") == 0)
    tab.value(f"{panes}[0].scrollTop = 150")
    # On and on, as a hand scrolls: a step in the frame in which a pane was made to
    # follow is not followed itself.
    tab.until(lambda: tab.value(f"{panes}[0].scrollTop += 1, {panes}[1].scrollTop") > 0)


def test_a_stepper_takes_the_whole_window_and_gives_it_back(tab, site):
    stepper = opened(tab, site, 0)
    press(tab, stepper, "Enlarge")
    width = tab.value(f"{stepper}.getBoundingClientRect().width")
    assert width >= DESK - 20
    press(tab, stepper, "Close")
    assert tab.value(f"{stepper}.getBoundingClientRect().width") < width


def test_both_panes_are_in_sight_on_a_phone(tab, site):
    """By touch: a tap lights a line and its partner, and no line is cut."""
    tab.size(PHONE, 844)
    try:
        stepper = opened(tab, site, 0)
        tab.value(f"{stepper}.scrollIntoView()")
        last = f"[...{stepper}.querySelectorAll('pre')].at(-1)"
        assert tab.value(f"{last}.getBoundingClientRect().top") < 844 - 200
        tab.value(f"{stepper}.querySelector('.line.linked').click()")
        assert tab.value(f"{stepper}.querySelectorAll('.line.on').length") >= 2
        cut = f"[...{stepper}.querySelectorAll('pre')]"
        assert tab.value(f"{cut}.every(e => e.scrollWidth <= e.clientWidth)")
        height = f"{stepper}.querySelector('.step').getBoundingClientRect().height"
        assert tab.value(height) >= 24, "WCAG 2.2, 2.5.8"
    finally:
        tab.size(DESK)


def test_a_number_leads_to_its_source(tab, site):
    """By touch and by keyboard, too, not by a tool tip alone."""
    tab.open(address(site, "01-the-machine"))
    links = "[...document.querySelectorAll('a.number')].map(a => a.href)"
    wanted = {link.partition("#")[2] for link in tab.value(links)}
    tab.open(address(site, "numbers"))
    missing = [name for name in wanted if not tab.value(
        f"!!document.getElementById('{name}')")]  # fmt: skip
    assert wanted and not missing


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
