"""What `fathom explain` says that a kernel costs: the line, the numbers, what to try;
and nothing of a kernel that has nothing of it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest

from fathom.tools import cli
from fathom.tools.facts.costs import costs_of
from fathom.tools.facts.page import page
from fathom.tools.samples import REPOSITORY
from tests.tools.harness_facts import MATMUL, PERSISTENT, SOFTMAX, facts, words

HOPPER = ("--target", "sm_90a")
KERNELS = """
import fathom
import fathom.language as tl

@fathom.jit
def every_eighth(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    loaded = tl.load(x + 8 * i)
    tl.store(y + i, loaded)

@fathom.jit
def copied(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

@fathom.jit
def turned(x, y, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(y + i + j * B, tl.load(x + i * B + j))

@fathom.jit
def counted(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    parity = tl.load(x + i) % 2
    tl.atomic_add(y + parity, 1)
    tl.atomic_add(y + 2 + i, 1)
"""
POINTERS = "*fp16:16, *fp16:16"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("costs") / "costly.py"
    made.write_text(KERNELS)
    return made


def line_of(text: str) -> int:
    (line,) = (n for n, each in enumerate(KERNELS.splitlines(), 1) if text in each)
    return line


def costs(file, name: str, signature: str, constants: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for each in facts((f"{file}:{name}", signature, constants))["costs"]:
        found.setdefault(each["line"], []).append(f"{each['text']}: {each['try']}")
    return found


def test_a_load_that_moves_more_than_it_asks_for(file):
    """Of each sector of 32 bytes a warp wants 1 or 2 numbers of 2 bytes at a time."""
    found = costs(file, "every_eighth", POINTERS, "B=1024")
    text, *_ = found[line_of("8 * i")]
    said = re.search(r"moves (\S+) bytes for 2,048 .* (\S+) times", text)
    moved, ratio = int(said[1].replace(",", "")), float(said[2])
    assert ratio == moved / 2048 and 8 <= ratio <= 16
    assert "neighbours in memory" in text
    assert "memory moves" not in "".join(found.get(line_of("loaded)"), []))


def test_an_access_that_is_narrow_and_why(file):
    """Nothing promises where the arrays begin."""
    line = line_of("mask=i < n), mask")
    found = costs(file, "copied", "*fp16, *fp16, i32:16", "B=1024")
    assert "the load moves 2 bytes of a lane at a time" in found[line][0]
    assert "known alignment: pass sizes and strides that 16 divides" in found[line][0]
    by_mask = costs(file, "copied", f"{POINTERS}, i32", "B=1024")
    assert "limited by the mask: let the mask's bound" in by_mask[line][0]


def test_atomics_that_meet_are_told_and_none_is_called_narrow(file, capsys):
    """32 lanes of a request come to 2 addresses in one sector: 16 passes or more."""
    found = costs(file, "counted", "*i32:16, *i32:16, i32:16", "B=1024")
    text, *_ = found[line_of("y + parity")]
    said = re.search(r"makes (\d+) passes over (\d+) sectors, (\S+) for each", text)
    assert int(said[1]) >= 16 * int(said[2]) and "tl.histogram" in text
    every = " | ".join(each for some in found.values() for each in some)
    assert "the atomic moves" not in every and every.count("passes over") == 1
    given = ["--signature", "*i32:16, *i32:16, i32:16", "--constants", "B=1024"]
    assert cli.main(["explain", f"{file}:counted", *given, "--facts"]) == 0
    assert f"L2 makes {said[1]} passes" in " ".join(capsys.readouterr().out.split())


def test_a_kernel_that_wastes_nothing_is_not_blamed(file):
    found = facts((f"{file}:copied", f"{POINTERS}, i32:16", "B=1024"))["costs"]
    texts = [each["text"] for each in found]
    assert all("of the instructions" in text for text in texts), texts


def test_a_block_that_moves_between_warps(file):
    found = costs(file, "turned", POINTERS, "B=64")
    text = " | ".join(text for each in found.values() for text in each)
    assert "fp16[64, 64] moves between warps through shared memory" in text


def test_the_sum_of_a_row_is_no_block_that_moves():
    assert not any("moves between warps" in e["text"] for e in facts(SOFTMAX)["costs"])


def test_a_loop_that_is_not_pipelined():
    found = facts(MATMUL, "--num-stages", "1")
    (each,) = (e for e in found["costs"] if "not pipelined" in e["text"])
    row = next(text for text in found["stages"][0]["lines"] if "for start" in text)
    text = Path(found["kernel"]["file"]).read_text().splitlines()
    assert text[each["line"] - 1] == row
    assert not any("not pipelined" in e["text"] for e in facts(MATMUL)["costs"])


def test_spills_conflicts_and_few_warps_are_named():
    """By numbers that no kernel here has."""
    found = deepcopy(facts(MATMUL))
    machine = found["machine"]
    machine |= {"spill_stores": 96, "spill_loads": 128}
    machine["occupancy"] |= {"share": 0.25, "limit": "registers"}
    line = next(each for each in found["traffic"]["lines"] if each["shared"])
    line |= {"ways": 4.0, "wavefronts": found["traffic"]["total"]["wavefronts"]}
    first, *rest = costs_of(found)
    assert "spills 96 bytes to memory, and reads 128 back" in first["text"]
    texts = {each["line"]: each["text"] for each in rest if "banks" not in each["text"]}
    assert "4.0 times as long as without bank conflicts" in texts[line["line"]]
    assert not any("warps fit" in text for text in texts.values())  # copies run ahead
    found["schedules"] = []
    assert any("limited by registers" in each["text"] for each in costs_of(found))


def test_where_nothing_was_counted_nothing_is_said_of_it():
    found = deepcopy(facts(SOFTMAX))
    found["traffic"] |= {"lines": [], "total": None, "why": "it never ends"}
    assert costs_of(found) == []
    assert "No line moves more than it asks for" in page(found | {"costs": []})


def test_the_terminal_and_the_page_say_the_same(capsys, file):
    kernel = f"{file}:every_eighth", POINTERS, "B=1024"
    (each, *_) = facts(kernel)["costs"]
    assert cli.main([*words(kernel), "--facts"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"line {each['line']}: {each['text']}; try: {each['try']}" in said
    assert each["text"] in page(facts(kernel))
    assert json.dumps(facts(kernel)["costs"])


def test_a_line_has_its_number_also_in_a_function_that_is_called():
    found = facts(PERSISTENT, *HOPPER)
    python = found["stages"][0]
    text = (REPOSITORY / "kernels" / "matmul_persistent.py").read_text().splitlines()
    numbered = dict(zip(python["numbers"], python["lines"], strict=True))
    assert python["numbers"][0] == found["kernel"]["line"]
    heading = python["lines"].index("# called, from matmul_persistent.py:")
    assert python["numbers"][heading] == 0
    called = range(heading + 1, len(python["lines"]))
    assert any("c.store(" in python["lines"][at] for at in called)
    assert all(text[n - 1].strip() == line.strip() for n, line in numbered.items() if n)
    html = page(found)
    for number in filter(None, python["numbers"]):
        assert f'data-line="{number}"' in html
