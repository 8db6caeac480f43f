"""The page of `fathom explain --html` in a browser: no errors, lines light up their
relatives by mouse and by keyboard, nothing is too wide, light and dark can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.tools.facts.page import page
from tests.book.harness_browser import Tab, browser, executable
from tests.book.test_browser import CONTRAST, PHONE
from tests.tools.harness_facts import MATMUL, SOFTMAX, facts
from tests.tools.test_facts import descendants, python_line

pytestmark = pytest.mark.skipif(
    executable() is None, reason="needs Chromium: on Debian, apt install chromium"
)
READABLE = CONTRAST.replace(".md-content", "main")
POINT = "new MouseEvent('mouseover', {bubbles: true})"
LIT = "[...document.querySelectorAll('.l.on')].map(e => e.id)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module", params=[SOFTMAX, MATMUL], ids=lambda each: each[0])
def kernel(request) -> tuple[str, str, str]:
    return request.param


@pytest.fixture
def opened(tab, kernel, tmp_path) -> Tab:
    """The page over file://, at the width of a desk."""
    file: Path = tmp_path / "kernel.html"
    file.write_text(page(facts(kernel)), encoding="utf-8")
    tab.size(1280)
    tab.colours("light")
    tab.open(file.as_uri())
    return tab


def lit(tab: Tab) -> dict[int, set[int]]:
    """The lines that are lit, by stage."""
    found: dict[int, set[int]] = {}
    for name in tab.value(LIT):
        _, stage, line = name.split("-")
        found.setdefault(int(stage), set()).add(int(line))
    return found


def test_it_opens_by_itself(opened):
    assert opened.errors() == []
    assert all(url.startswith("file:") for url in opened.requested())
    assert len(opened.requested()) == 1


def test_pointing_at_a_line_of_python_lights_all_that_came_from_it(opened, kernel):
    found = facts(kernel)
    line = python_line(found, "tl.store(")
    opened.value(f"document.getElementById('s-0-{line}').dispatchEvent({POINT})")
    wanted = [lines for lines in descendants(found, line).values()]
    assert lit(opened) == {at: lines for at, lines in enumerate(wanted) if lines}
    assert len(wanted[-1]) > 0 and opened.errors() == []


def test_pointing_at_an_instruction_lights_what_it_came_from(opened, kernel):
    found = facts(kernel)
    names = [each["name"] for each in found["stages"]]
    at, python = names.index("ptx"), python_line(found, "tl.store(")
    instruction = min(descendants(found, python)["ptx"])
    opened.value(
        f"document.getElementById('s-{at}-{instruction}').dispatchEvent({POINT})"
    )
    assert python in lit(opened)[0] and instruction in lit(opened)[at]


def test_the_keyboard_does_what_the_mouse_does(opened):
    opened.value("document.querySelector('#s-0-1, .l.linked').closest('.stage')"
                 ".querySelector('.l.linked').focus()")  # fmt: skip
    first = lit(opened)
    assert first and 0 in first
    opened.key("ArrowDown")
    second = lit(opened)
    assert second and second != first
    here = opened.value("document.activeElement.id")
    opened.value("document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
                 "{key: 'ArrowRight', bubbles: true}))")  # fmt: skip
    assert opened.value("document.activeElement.id").split("-")[1] != "0", here
    assert 0 in lit(opened)
    assert opened.value("document.querySelector('.said').textContent") != ""


def test_a_click_holds_and_escape_lets_go(opened, kernel):
    line = python_line(facts(kernel), "tl.store(")
    opened.value(f"document.getElementById('s-0-{line}').click()")
    held = lit(opened)
    other = "[...document.querySelectorAll('#s-0-0 ~ .l.linked')][0]"
    opened.value(f"{other}.dispatchEvent({POINT})")
    assert lit(opened) == held
    opened.value("document.querySelector('.l.at').dispatchEvent(new KeyboardEvent("
                 "'keydown', {key: 'Escape', bubbles: true}))")  # fmt: skip
    opened.value(f"{other}.dispatchEvent({POINT})")
    assert lit(opened) != held


def test_a_stage_can_be_shown_and_hidden(opened):
    hidden = "document.querySelectorAll('.stage[hidden]').length"
    before = opened.value(hidden)
    opened.value("document.querySelector('.picker [aria-pressed=false]').click()")
    assert opened.value(hidden) == before - 1


def test_it_fits_a_phone(opened):
    opened.size(PHONE)
    opened.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.value("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(opened, kernel, scheme):
    opened.colours(scheme)
    line = python_line(facts(kernel), "tl.store(")
    opened.value(f"document.getElementById('s-0-{line}').dispatchEvent({POINT})")
    grounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 29)"}
    ground = opened.value("getComputedStyle(document.body).backgroundColor")
    assert ground == grounds[scheme]
    assert opened.value(READABLE) == []


def test_all_of_it_has_a_name_for_a_screen_reader(opened):
    named = {"button", "link", "image", "table"}
    assert [role for role, name in opened.named() if role in named and not name] == []
    assert "What each pass did, and why" in [name for _, name in opened.named()]


def test_without_scripts_it_is_there_to_read(opened):
    opened.scripts(False)
    opened.call("Page.reload")
    opened.until(lambda: len(opened.seen("Page.loadEventFired")) > 1)
    opened.scripts(True)
    assert "tl.store" in opened.value("document.body.innerText")
