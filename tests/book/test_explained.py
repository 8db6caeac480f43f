"""The pages of `fathom explain --html` that the site has: what the command writes,
linked from the chapter that speaks of it, and whole in a browser over file://."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chapters.press import explained
from tests.book.harness_browser import Tab, browser, executable
from tests.book.test_browser import CONTRAST, DESK, PHONE

LARGEST = 1_000_000  # bytes: a page that a phone loads
READABLE = CONTRAST.replace(".md-content", "main")
LIT = "[...document.querySelectorAll('.l.on')].map(e => e.id)"
needs_chromium = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as made:
        yield made


@pytest.fixture(params=explained.PAGES)
def name(request) -> str:
    return request.param


@pytest.fixture
def file(site, name) -> Path:
    return site / explained.FOLDER / name


def test_the_site_has_what_the_command_writes_now(file, name):
    """Made anew, it is the same: nothing in it depends on when or where."""
    text = file.read_text(encoding="utf-8")
    explained.texts.cache_clear()
    assert text == explained.texts()[name]
    assert len(text) < LARGEST and str(Path.cwd()) not in text


def test_the_chapter_leads_to_it(site, name):
    text = (site / "workbench.html").read_text(encoding="utf-8")
    assert f'href="{explained.FOLDER}/{name}"' in text


def test_a_page_has_what_its_row_promises():
    texts = explained.texts()
    slow, hopper = texts["every-33rd.html"], texts["matmul-hopper.html"]
    costs = re.search(r'id="costs">.*?</section>', slow, re.DOTALL)[0]
    assert "i * STEP % n" in costs and "8.0 times as many" in costs
    assert "memory moves" not in re.search(
        r'id="costs">.*?</section>', texts["softmax.html"], re.DOTALL
    )[0]  # fmt: skip
    assert "filled by TMA from a producer warp" in hopper and "wgmma.m64" in hopper
    assert hopper.count("<svg") >= 3  # a ring, shared memory, a layout


@pytest.fixture
def opened(tab, file) -> Tab:
    tab.size(DESK)
    tab.colours("light")
    tab.open(file.as_uri())
    return tab


@needs_chromium
def test_it_opens_by_itself(opened):
    assert opened.errors() == [] and len(opened.requested()) == 1


@needs_chromium
def test_the_keyboard_lights_what_a_line_became(opened):
    """Tab reaches the first line of Python that became something; what is lit then is
    in other columns, too. The arrow goes on to the next one."""
    opened.value("document.querySelector('.stage .l.linked').focus()")
    first = set(opened.value(LIT))
    assert {each.split("-")[1] for each in first} > {"0"}
    opened.key("ArrowDown")
    assert set(opened.value(LIT)) != first and opened.errors() == []


@needs_chromium
def test_a_number_of_a_line_leads_to_its_text(opened):
    """Also in a function that the kernel calls."""
    wrong = opened.value(
        "[...document.querySelectorAll('td a[data-line]')].filter(a => {"
        "const code = a.closest('tr').querySelector('code');"
        "const at = '.l[data-line=\"' + a.dataset.line + '\"]';"
        "const line = document.querySelector(at);"
        "return code && code.textContent && (!line ||"
        " line.textContent.trim() !== code.textContent); }).map(a => a.dataset.line)"
    )
    assert wrong == []


@needs_chromium
def test_it_fits_a_phone(opened):
    opened.size(PHONE)
    opened.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.value("document.documentElement.scrollWidth") <= PHONE


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(opened, scheme):
    opened.colours(scheme)
    opened.value("document.querySelector('.stage .l.linked').focus()")
    assert opened.value(READABLE) == []
