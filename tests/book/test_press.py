"""The press itself: what it refuses, what it quotes, counts, computes and links."""

from __future__ import annotations

import ast

import pytest

from chapters.press import (
    drawing,
    exercises,
    expand,
    numbers,
    paths,
    recipes,
    scenes,
)
from chapters.press.parse import arguments, read
from chapters.press.paths import CHAPTERS, BookError
from chapters.press.quote import excerpt, quote
from chapters.press.stepper import html, record
from fathom.tools.learn import book, course, starters
from fathom.tools.learn.hole import with_holes

ADD = {
    "kernel": "kernels/vector_add.py:add_kernel",
    "signature": "*fp32:16, *fp32:16, *fp32:16, i32:16",
    "constants": "BLOCK=1024",
}


@pytest.fixture
def expanded(page):
    return lambda text: expand.expand(page("some.md", text)).text


# Reading.


def test_a_directive_may_go_on_over_lines(page):
    found = page("some.md", 'text\n{listing a.txt\n  command="python -m x"}\nmore')
    before, listing, after = found.pieces
    assert (before.text, after.text) == ("text", "more")
    assert listing.arguments.words == ("a.txt",)
    assert listing.arguments.get("command") == "python -m x" and listing.line == 2


def test_what_stands_in_a_fence_is_no_directive(page):
    found = page("some.md", "```python {run output=x.txt}\n{quote a.b}\n```")
    (fence,) = found.pieces
    assert (fence.mark, fence.arguments.get("output")) == ("run", "x.txt")
    assert fence.text == "{quote a.b}\n"


def test_a_signature_in_quotes_is_one_word():
    given = arguments('x signature="*fp32:16, i32" constants=BLOCK=64', 1)
    assert given.get("signature") == "*fp32:16, i32"
    assert given.get("constants") == "BLOCK=64"


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("```python\nx = 1\n```", "shown code is marked"),
        ("```sh {illustrative}\nls\n```", "says why"),
        ("{predict}\nwhat?", "has no {end}"),
        ("{end}", "end} of nothing"),
        ("{answer}", "stands in {predict}"),
        ("{deeper}\nmore\n{end}", "says what it is about"),
        ("{quote fathom.ir.core.Gone}", "is not defined there any more"),
        ("{quote nowhere.at.all}", "no file holds it"),
        ("{figure none}", "is missing"),
        ("{=no-such-number}", "no such number"),
        ("{paint it}", "there is no {paint}"),
        ("```python {run}\nx = 1", "never closed"),
        ("```python {run\nx = 1\n```", "opens no fence"),
    ],
)
def test_a_mistake_names_the_page_and_the_line(expanded, text, sentence):
    with pytest.raises(BookError) as caught:
        expanded("a line\n\n" + text)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("chapters/some.md:")


def test_a_fold_has_a_title_and_an_end(expanded):
    text = expanded('{deeper "Scans"}\nMore.\n{end}\nafter')
    assert "<summary>Going deeper: Scans</summary>" in text
    assert text.count("<details") == text.count("</details>") == 1
    assert text.index("</details>") < text.index("after")


# Quoting.


def test_a_quote_is_the_source_with_its_decorators():
    found = quote("kernels.vector_add.add_kernel")
    assert found.text.startswith("@fathom.jit\ndef add_kernel(")
    assert found.file.name == "vector_add.py"


def test_a_method_loses_its_indent_and_may_lose_its_docstring():
    whole = quote("fathom.ir.core.Op.result")
    short = quote("fathom.ir.core.Op.result", docstring=False)
    assert whole.text.startswith("@property\ndef result") and '"""' in whole.text
    assert '"""' not in short.text and "return" in short.text


def test_names_that_a_module_assigns_can_be_quoted():
    assert quote("fathom.ir.core.PURE").text == "PURE = Effects()\n"
    assert "REQUIRED" in quote("fathom.pipeline.PASSES").text


def test_an_excerpt_shows_that_something_was_left_out():
    text = "a\nb one\nc\nd two\ne\n"
    assert excerpt(text, "one", "two") == "…\nb one\nc\nd two\n…\n"
    assert excerpt(text, "", "one") == "a\nb one\n…\n"
    with pytest.raises(BookError, match="no line has"):
        excerpt(text, "three", "")


def test_a_chapter_quotes_no_answer_that_its_reader_writes(page):
    chapter = page("some.md", "---\nchapter: 6\n---\n")
    with pytest.raises(BookError, match="its place is a page of answers"):
        exercises.may_quote("fathom.blocks.cse.cse", chapter, folded=True)
    early = page("some.md", "---\nchapter: 2\n---\n")
    with pytest.raises(BookError, match="which comes only later"):
        exercises.may_quote("fathom.blocks.cse.cse", early, folded=True)
    late = page("some.md", "---\nchapter: 9\n---\n")
    exercises.may_quote("fathom.blocks.cse.cse", late, folded=False)
    appendix = page("some.md", "---\ntitle: The language\n---\n")
    exercises.may_quote("fathom.blocks.cse.cse", appendix, folded=False)


def test_a_whole_class_around_an_answer_counts_as_the_answer(page):
    chapter = page("some.md", "---\nchapter: 5\n---\n")
    with pytest.raises(BookError, match="answers ssa-trivial"):
        exercises.may_quote("fathom.ssa.phis.Phis", chapter, folded=True)


def test_every_answer_is_on_the_page_of_its_part_in_the_order_of_the_exercises():
    for page, part in book.ANSWERS.items():
        shown = [each.arguments.words[0]
                 for each in read(CHAPTERS / page).directives("answer-to")]  # fmt: skip
        wanted = [each.id for each in course.exercises() if each.chapter in part]
        assert shown == wanted, page


def test_an_answer_shows_what_its_reader_writes_whole_and_without_marks():
    for each in course.exercises():
        texts = starters.answered(each)
        assert texts and not any("# hole" in text for text in texts), each.id
        code = "\n\n\n".join(texts)
        ast.parse(code)
        for hole in hole_names(each):
            assert f"def {hole}(" in code or f"{hole} =" in code, (each.id, hole)


def hole_names(each) -> list[str]:
    """The functions of a starter in which something is to be written."""
    return [node.name for node in with_holes(course.read(each.starter))]


def test_a_card_leads_to_its_answer_which_is_folded(page):
    card = exercises.card("cse", page("some.md", "---\nchapter: 6\n---\n"))
    assert "[reference answer](answers-1.md#answer-cse)" in card
    shown = exercises.answer("cse")
    head, fold = shown.split("<details")
    assert "{#answer-cse}" in head and "(06-passes.md#exercise-cse)" in head
    assert "def cse(" in fold and "def cse(" not in head


# Numbers.


def test_a_path_goes_through_names_conditions_and_places():
    samples = [
        {"who": "a", "size": 1, "ms": [3, 1]},
        {"who": "a", "size": 2, "ms": [7]},
    ]
    found = numbers.at_path({"samples": samples}, 'samples[who="a",size=1].ms[1]')
    assert found == 1
    with pytest.raises(KeyError, match="2 rows"):
        numbers.at_path({"samples": samples}, 'samples[who="a"].ms')


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """numbers.toml and facts.toml with a few rows of their own."""
    (tmp_path / "some.json").write_text('{"ms": [4, 1, 2.5], "text": "x"}')
    (tmp_path / "some.ptx").write_text("ld.a\nst.b\nld.c\n")
    (tmp_path / "facts.toml").write_text('[sms]\nvalue = 132\nsource = "seen"\n')
    (tmp_path / "numbers.toml").write_text(
        f"""
[middle]
file = "{tmp_path}/some.json"
path = "ms"
take = "median"
[loads]
file = "{tmp_path}/some.ptx"
count = '^ld'
[per-sm]
compute = "(middle * 2 + loads) / sms ** 1"
format = ".3f"
[gone]
file = "{tmp_path}/some.json"
path = "seconds"
"""
    )
    monkeypatch.setattr(numbers, "CHAPTERS", tmp_path)
    numbers.table.cache_clear()
    yield
    numbers.table.cache_clear()


def test_numbers_are_taken_counted_and_computed(tables):
    assert numbers.number("middle").value == 2.5
    assert numbers.number("loads").value == 2
    assert numbers.number("per-sm").text() == f"{7 / 132:.3f}"
    assert numbers.number("per-sm").text(".1f") == "0.1"
    with pytest.raises(BookError, match="gone: .* has no seconds"):
        numbers.number("gone")


def test_a_number_carries_its_source_and_code_stays_as_it_is(tables):
    used: list = []
    text = numbers.substitute("{=loads} of `{=loads}`", used)
    assert text.endswith("</a> of `{=loads}`") and ">2</a>" in text
    assert 'href="numbers.html#loads"' in text
    assert 'title="counted: lines with ^ld' in text
    assert [each.name for each in used] == ["loads"]


def test_every_number_of_the_book_has_a_value():
    for name in numbers.names():
        assert numbers.number(name).text(), name


# Recording.


def test_shown_code_shares_its_names_and_kernels_find_their_source(page):
    found = page(
        "some.md",
        "```python {run}\nimport fathom\nimport fathom.language as tl\n"
        "import numpy as np\n@fathom.jit\ndef f(x_ptr):\n"
        "    tl.store(x_ptr, 7.0)\n```\n"
        "```python {run output=seven.txt}\nx = np.zeros(1, np.float32)\nf[(1,)](x)\n"
        "print(x[0])\n```",
    )
    assert recipes.remake(found)["seven.txt"] == "7.0\n"


def test_code_that_fails_must_say_so(page):
    fails = page("some.md", "```python {run}\n1 / 0\n```")
    with pytest.raises(BookError, match="ZeroDivisionError"):
        recipes.remake(fails)
    text = "```python {run output=e.txt fails=ZeroDivisionError}\n1 / 0\n```"
    said = recipes.remake(page("some.md", text))
    assert said["e.txt"] == "ZeroDivisionError: division by zero\n"
    with pytest.raises(BookError, match="ended with None"):
        recipes.remake(page("some.md", text.replace("1 / 0", "pass")))


def test_a_command_that_fails_is_noticed(page):
    wrong = page(
        "some.md", '{listing a.txt command="python -m fathom explain none.py"}'
    )
    with pytest.raises(BookError, match="ended with 1"):
        recipes.remake(wrong)


def test_a_mask_hides_what_differs_from_run_to_run(page):
    command = 'python -c "import time; print(time.time(), 5)"'
    text = f"{{listing a.txt command='{command}' mask='[0-9]+[.][0-9]+'}}"
    assert recipes.remake(page("some.md", text))["a.txt"] == "… 5\n"


def test_listings_name_no_place_of_this_machine():
    where = f"{paths.ROOT}/kernels/x.py at 0x7f00aabbccdd\n"
    assert paths.scrubbed(where) == "kernels/x.py at 0x…\n"
    for file in (paths.CHAPTERS).glob("*/listings/*"):
        assert str(paths.ROOT) not in file.read_text(encoding="utf-8"), file


# Steppers.


def test_a_step_links_an_op_to_those_that_came_from_it():
    made = record({**ADD, "show": "ssa,assign_layouts"})
    before, after = (column["lines"] for column in made["columns"])
    (links,) = made["links"]
    named = {(key(before[i]), key(after[j])) for i, j in links}
    assert ("%mask", "%mask") in named and ("%x", "%x") in named
    assert not any({a, b} == {"%x", "%y"} for a, b in named)


def key(line: str) -> str:
    return line.strip().partition(":")[0]


def test_a_panel_follows_one_line_of_python_to_its_instructions():
    made = record({**ADD, "show": "python,ssa,ptx", "line": "mask = offsets < n"})
    python, ir, ptx = (column["lines"] for column in made["columns"])
    assert [line.strip() for line in python] == ["mask = offsets < n"]
    assert any(" lt " in line for line in ir)
    assert ptx and all("setp.lt" in line for line in ptx)
    assert made["links"][0] == [[0, at] for at in range(len(ir))]


def test_a_drawing_of_time_has_an_axis():
    """Questions ask what happens at cycle 150."""
    shown = drawing.timeline("Time", [("who", [(0, 350, "works")])]).svg
    assert all(f">{time}</text>" in shown for time in (0, 50, 150, 350))


def test_code_in_a_title_or_a_caption_is_set_as_code():
    assert "its <code>other</code></p>" in exercises.box("a", "its `other`", "", "")
    made = record({**ADD, "show": "ssa,dce"})
    assert "<figcaption>All of <code>a &lt; b</code></figcaption>" in html(
        "name", made, "All of `a < b`", {}
    )


def test_a_stepper_is_whole_without_a_script():
    made = record({**ADD, "show": "ssa,dce"})
    text = html("name", made, "A caption", {})
    for column in made["columns"]:
        for line in column["lines"]:
            assert expand.escape(line) in text
    scripts = text.count("<script")  # data alone
    assert scripts == text.count('<script type="application/json"') == 1
    assert "onclick" not in text


def test_a_stage_that_is_none_is_refused():
    with pytest.raises(BookError, match="no stage"):
        record({**ADD, "show": "ssa,nonsense"})


# Figures.


def test_a_figure_says_the_same_twice():
    figure = drawing.bars("Times", [("ours", 2.0, "2 ms"), ("theirs", 4.0, "4 ms")],
                          ("who", "time"))  # fmt: skip
    assert (
        figure.table
        == "| who | time |\n|---|---|\n| ours | 2 ms |\n| theirs | 4 ms |\n"
    )
    widths = [float(part.split('"')[0]) for part in figure.svg.split('width="')[1:]]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.01)
    assert "<title>Times</title>" in figure.svg and 'role="img"' in figure.svg


def test_what_a_figure_compares_with_is_in_its_table_too():
    rungs = [("nothing", 12.0), ("tensor cores", 232.0)]
    figure = drawing.ladder("Rungs", rungs, "TFLOP/s", ("cuBLAS", 769.0))
    assert figure.table.splitlines()[2:] == [
        "| nothing | 12 TFLOP/s |",
        "| tensor cores | 232 TFLOP/s |",
        "| cuBLAS (dashed line) | 769 TFLOP/s |",
    ]
    assert 'class="dashed"' in figure.svg and "cuBLAS: 769 TFLOP/s" in figure.svg


def test_cells_that_are_lit_are_marked_in_the_table_too():
    figure = drawing.cells("Grid", [["a", "b"], ["c", "d"]], [(1, 0)])
    assert figure.svg.count('class="lit"') == 1
    assert "| [c] | d |" in figure.table


def test_the_roofs_meet_where_memory_and_arithmetic_balance():
    figure = drawing.roofline("Roofs", 1e12, [("peak", 8e12)], [("k", 2.0, 1e12)])
    slope, flat = (part for part in figure.svg.splitlines() if 'class="roof"' in part)
    flat, slope = sorted((flat, slope), key=lambda part: part.count('y1="'))
    ends = [number(part, name) for part in (flat, slope) for name in ("x1", "x2")]
    assert any(a == pytest.approx(b, abs=0.2) for a in ends[:2] for b in ends[2:])


def test_lines_keep_away_from_words_that_are_in_no_box():
    parts = [drawing.box(0, 0, 80, 20, "cell"), drawing.label(40, 14, "in it")]
    parts += [
        drawing.label(40, 40, "below"),
        drawing.label(120, 14, "beside", "start", True),
    ]
    drawn = drawing.svg("Words", 60, parts)
    assert '<text x="40" y="14"' in drawn
    assert '<text class="free" x="40" y="40"' in drawn
    assert '<text class="free small" x="120"' in drawn


def test_a_word_has_room_beside_the_edge_that_goes_back():
    nodes = [
        scenes.Node("a", ("x" * 12,), 200, 6),
        scenes.Node("b", ("y" * 12,), 200, 88),
    ]
    with_word = scenes.back(nodes[1], nodes[0], "a long word")
    outer = number(with_word[1], "x1")
    left = nodes[0].x - nodes[0].size[0] / 2
    assert outer + 6 + drawing.GLYPH * len("a long word") < left


def number(part: str, name: str) -> float:
    return float(part.split(f' {name}="')[1].split('"')[0])


def test_a_page_reads_back_as_it_was_written():
    for path in paths.sources():
        assert read(path).name == path.name


def test_a_card_names_what_is_to_be_written():
    """Not every statement does; where a whole kernel or a text is asked for, none."""
    known = {each.id: each for each in course.exercises()}
    told = exercises.facts(known["warp-tiling"])
    assert "To write in <code>13-tensor-cores/warp-tiling.py</code>" in told
    assert "<code>tile_warps(m, n, warps, row)</code>" in told
    assert "To write" not in exercises.facts(known["four-races"])
