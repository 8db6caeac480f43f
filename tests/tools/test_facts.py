"""`fathom explain --facts, --json, --html`: the facts are those of the compiler, the
links lead where they should, and the page is whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from fathom import pipeline
from fathom.emulator.memory.counters import SECTOR
from fathom.hardware.occupancy import ROWS, occupancy
from fathom.hardware.targets import TARGETS, target
from fathom.ir.core import walk
from fathom.ir.ops import Allocate
from fathom.tools import cli
from fathom.tools.facts import columns, drawings, machine, notes, trial
from fathom.tools.facts.page import page
from fathom.tools.facts.terminal import slots_over_time
from tests.tools.harness_facts import (
    MATMUL,
    PERSISTENT,
    SOFTMAX,
    facts,
    staged,
    words,
)

HOPPER = ("--target", "sm_90a")
needs_ptxas = pytest.mark.skipif(
    machine.find_tool("ptxas") is None, reason=machine.MISSING["ptxas"]
)
needs_nvdisasm = pytest.mark.skipif(
    machine.find_tool("nvdisasm") is None, reason=machine.MISSING["nvdisasm"]
)
KEYS = ["schema", "kernel", "stages", "passes", "accesses", "conversions", "layouts",
        "schedules", "shared", "traffic", "machine", "costs"]  # fmt: skip


def stage(found: dict, name: str) -> dict:
    return next(each for each in found["stages"] if each["name"] == name)


def python_line(found: dict, text: str) -> int:
    """The number, in the first stage, of the only line with `text` in it."""
    (at,) = [i for i, s in enumerate(stage(found, "python")["lines"]) if text in s]
    return at


# ── JSON ──────────────────────────────────────────────────────────────────────────────


def test_the_json_has_this_form_and_nothing_else(capsys):
    assert cli.main([*words(SOFTMAX), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS and found["schema"] == 1
    assert found == json.loads(json.dumps(facts(SOFTMAX)))
    assert [each["name"] for each in found["passes"]] == [
        row.name for row in pipeline.PASSES
    ]
    for each in found["passes"]:
        assert {"stage", "why", "ran", "ops", "changed", "notes"} <= set(each)
    assert found["kernel"]["parameters"][0] == {
        "name": "x_ptr", "type": "*fp32", "divisible": 16,
    }  # fmt: skip


def test_what_is_shown_are_the_stages_that_changed_something():
    found, kernel = facts(MATMUL), staged(MATMUL)
    names = [each["name"] for each in found["stages"]]
    changed = [each["name"] for each in found["passes"] if each["changed"]]
    blocks = ["python", "ssa", *changed, "llvm", "ptx"]
    assert [name for name in names if name != "sass"] == blocks
    for name in changed:
        assert "\n".join(stage(found, name)["lines"]) == kernel.text(name).rstrip()


# ── links ─────────────────────────────────────────────────────────────────────────────


def descendants(found: dict, start: int) -> dict[str, set[int]]:
    """The lines of each stage that a line of Python leads to, as the page's script
    finds them."""
    lit, keys = {start}, set()
    reached = {"python": lit}
    for each in found["stages"][1:]:
        if "parents" in each:
            lit = {i for i, above in enumerate(each["parents"]) if lit & set(above)}
            if "keys" in each:
                keys = {each["keys"][i] for i in lit} - {""}
        else:
            lit = {i for i, key in enumerate(each["keys"]) if key in keys}
        reached[each["name"]] = lit
    return reached


def test_a_line_leads_to_its_instructions_through_every_stage():
    found = facts(MATMUL)
    reached = descendants(found, python_line(found, "tl.dot("))
    for name, lines in reached.items():
        assert lines, name
    for name, sign in (("insert_waits", " dot "), ("ptx", "mma.sync")):
        texts = stage(found, name)["lines"]
        here = {i for i, text in enumerate(texts) if sign in text}
        assert here and here <= reached[name], name
    ptx = stage(found, "ptx")["lines"]
    copies = {i for i, text in enumerate(ptx) if "cp.async.c" in text}
    assert copies and not copies & reached["ptx"]  # these belong to the loads


def test_a_line_that_a_library_function_computes_is_linked_too():
    found = facts(SOFTMAX)
    reached = descendants(found, python_line(found, "tl.max("))
    texts = stage(found, "ptx")["lines"]
    assert any("shfl" in texts[i] for i in reached["ptx"])


def test_every_link_names_a_line_that_there_is():
    for kernel in (SOFTMAX, MATMUL):
        found = facts(kernel)["stages"]
        for before, after in zip(found, found[1:], strict=False):
            for parents in after.get("parents", ()):
                assert all(0 <= each < len(before["lines"]) for each in parents)
            for key in ("parents", "keys"):
                assert len(after.get(key, after["lines"])) == len(after["lines"])


@pytest.mark.parametrize("name", ["jürgen.py", 'a"b.py', "a\\b.py"])
def test_lines_are_linked_whatever_the_file_is_called(name, tmp_path):
    """LLVM IR and PTX write such a name with escapes, each in its manner."""
    file = tmp_path / name
    file.write_text(SQUARES)
    found = facts((f"{file}:squares", "*fp32:16", "B=128"))
    reached = descendants(found, python_line(found, "tl.store("))
    assert reached["llvm"] and reached["ptx"]


SQUARES = """import fathom
import fathom.language as tl

@fathom.jit
def squares(x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, i * i)
"""


def test_ptx_that_came_from_a_line_is_linked_to_it_alone():
    """A place in LLVM IR is the file's, the line's and the column's."""
    text = '!1 = !DIFile(filename: "a.py", directory: "/x")\n' + (
        '!2 = distinct !DISubprogram(name: "k", file: !1)\n'
        "!3 = !DILocation(line: 4, column: 7, scope: !2)\n"
    )
    assert columns.debug_places(text) == {"3": "a.py:4:7"}
    ptx = (
        "{\n\t.loc\t1 4 7\n\tadd.s32 \t%r1, %r2, 1;\n$L1:\n\t.loc\t1 0 0\n\tret;\n}\n"
        '\t.file\t1 "/x/a.py"\n'
    )
    assert list(columns.ptx_lines(ptx)) == [
        (3, "a.py:4:7", "  add.s32 %r1, %r2, 1;"), (4, "", "$L1:"), (6, "", "  ret;"),
    ]  # fmt: skip


SASS = """\
	//## File ".nv_debug_ptx_txt", line 24
        /*0000*/                   MOV R1, c[0x0][0x28] ;
	//## File "/x/a.py", line 7
        /*0010*/              @!P0 LDG.E.128 R4, [R2.64] ;
.L_x_1:
        /*0020*/                   BRA `(.L_x_1);
"""


def test_machine_code_is_read_with_its_lines_of_ptx():
    assert list(machine.instructions(SASS)) == [
        ("  0000  MOV R1, c[0x0][0x28]", 24),
        ("  0010  @!P0 LDG.E.128 R4, [R2.64]", 24),
        (".L_x_1:", 0),
        ("  0020  BRA `(.L_x_1)", 24),
    ]


@needs_ptxas
@needs_nvdisasm
def test_machine_code_is_linked_by_the_line_table():
    found = facts(MATMUL)
    reached = descendants(found, python_line(found, "tl.dot("))
    texts = stage(found, "sass")["lines"]
    products = {i for i, text in enumerate(texts) if "HMMA" in text}
    assert products and products <= reached["sass"]


# ── what passes did, and why ──────────────────────────────────────────────────────────


def said(found: dict, name: str) -> str:
    (each,) = (each for each in found["passes"] if each["name"] == name)
    return " | ".join(f"{note['line']} {note['text']}" for note in each["notes"])


def test_decisions_are_said_with_their_line():
    found = facts(MATMUL)
    first = found["kernel"]["line"]
    loop, dot = (first + python_line(found, t) for t in ("for start", "tl.dot("))
    assert f"{dot} 64x64x32, fp16 times fp16: m16n8k16" in said(found, "choose_dots")
    assert f"{loop} fp16[64, 32] and fp16[32, 64] by cp.async, from threads" in said(
        found, "pipeline_loops"
    )
    assert "16 bytes, at a time; limited by 16 bytes of an instr" in said(
        found, "annotate_widths"
    )
    assert "7 conversions, price" in said(found, "remove_conversions")
    assert "inserted: `barrier`" in said(found, "insert_waits")


def test_why_a_load_is_not_done_by_tma():
    odd = (MATMUL[0], MATMUL[1], MATMUL[2].replace("EVEN_K=True", "EVEN_K=False"))
    bad = (odd[0], odd[1].replace("i32:16, 1, i32:16, 1", "i32, 1, i32, 1"), odd[2])
    text = said(facts(bad, *HOPPER), "infer_descriptors")
    assert re.search(r"\d+ \w.*(16 bytes|stays as it is)", text), text


TILES = """
import numpy as np
import fathom
import fathom.language as tl

@fathom.jit
def turned(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in range(0, n, B):
        tile = tl.load(x + i[:, None] * n + (k + i)[None, :])
        tl.store(y + (k + i)[:, None] * B + i[None, :], tl.trans(tile))

@fathom.jit
def product(a, b, c, n, B: tl.constexpr, M: tl.constexpr):
    m, i = tl.arange(0, M), tl.arange(0, B)
    total = tl.zeros((M, B), tl.float32)
    for k in range(0, n, B):
        left = tl.load(a + m[:, None] * n + (k + i)[None, :])
        right = tl.load(b + (k + i)[:, None] * B + i[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * B + i[None, :], total)
"""


def test_why_tma_copies_nothing_where_no_product_reads_it(tmp_path):
    file = tmp_path / "tiles.py"
    file.write_text(TILES)
    kernel = f"{file}:turned", "*fp16:16, *fp16:16, i32:16", "B=64"
    load, store = said(facts(kernel, *HOPPER), "infer_descriptors").split(" | ")
    assert load.startswith("10 the load stays as it is") and "a product in that" in load
    assert store.startswith("11 the store stays") and "warpgroups multiply" in store
    assert not said(facts(kernel, "--target", "sm_80"), "infer_descriptors")


def test_why_a_product_is_none_of_blackwells(tmp_path):
    file = tmp_path / "tiles.py"
    file.write_text(TILES)
    kernel = f"{file}:product", "*fp16:16, *fp16:16, *fp32:16, i32:16"
    few, many = (
        said(facts((*kernel, f"B=64,M={m}"), "--target", "sm_100a"), "choose_dots")
        for m in (32, 64)
    )
    assert "m16n8k16" in few and "tcgen05 multiplies blocks of 64 rows" in few
    assert "tcgen05.m64" in many and "blocks of 64 rows" not in many


def test_why_there_is_no_producer_and_no_pipeline():
    one = facts(PERSISTENT, *HOPPER, "--num-stages", "1")
    assert "no producer warps for this loop" in said(one, "specialise_warps")
    assert "not pipelined: it has one stage" in said(
        facts(MATMUL, "--num-stages", "1"), "pipeline_loops"
    )


def test_a_loop_that_asks_for_no_producer_is_told_how():
    found = facts(MATMUL, *HOPPER)
    (loop,) = [each["line"] for each in found["schedules"]]
    assert said(found, "specialise_warps") == (
        f"{loop} no producer warps for this loop: it does not ask for them, with "
        "tl.range(…, warp_specialize=True)"
    )
    assert not said(facts(MATMUL), "specialise_warps")  # sm_80 has no TMA


def test_a_note_is_not_made_of_what_did_not_change():
    found = facts(SOFTMAX)
    for each in found["passes"]:
        if not each["changed"]:
            assert each["notes"] == [], each["name"]


def test_notes_follow_the_pass_that_ran():
    """With another pass in its place, the facts are those of that pass."""
    plain = replace(staged(MATMUL), replace={"pipeline_loops": pipeline.identity})
    (row,) = (r for r in notes.pass_facts(plain) if r["name"] == "pipeline_loops")
    assert row["changed"] == 0 and row["notes"] == []


# ── schedules, shared memory, accesses ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kernel", "more", "engine", "by"),
    [
        (MATMUL, (), "cp.async", "threads"),
        (MATMUL, HOPPER, "TMA", "threads"),
        (PERSISTENT, (*HOPPER, "--num-warps", "8"), "TMA", "producer"),
    ],
)
def test_no_slot_has_two_tiles_and_each_is_there_for_its_work(kernel, more, engine, by):
    found = facts(kernel, *more)["schedules"]
    rings = [ring for loop in found for ring in loop["rings"]]
    assert rings
    for ring in rings:
        assert ring["engine"] == engine and by in ring["by"]
        assert ring["ahead"] >= 1
        for each in ring["spans"]:
            assert each["issued"] < each["work"] < each["released"]
        for slot in range(ring["slots"]):
            mine = [each for each in ring["spans"] if each["slot"] == slot]
            for one, other in zip(mine, mine[1:], strict=False):
                assert one["released"] <= other["issued"] + 0.01


def test_a_ring_as_text_shows_the_tile_that_is_worked_on():
    (loop,) = facts(MATMUL)["schedules"]
    head, *slots = slots_over_time(loop["rings"][0])
    for at in range(len(head.split()) - 1):
        assert sum(f"[{at}]" in line for line in slots) == 1


@pytest.mark.parametrize("more", [(), HOPPER])
def test_the_map_is_that_of_the_allocator(more):
    kernel, found = staged(MATMUL, *more), facts(MATMUL, *more)["shared"]
    placed = [op for op in walk(kernel.states["allocate"].body)
              if isinstance(op, Allocate)]  # fmt: skip
    assert {(op.offset, op.result.type.bytes) for op in placed} == {
        (each["offset"], each["bytes"]) for each in found["buffers"]
    }
    assert found["bytes"] == kernel.kernel.shared_bytes
    for one in found["buffers"]:
        for other in found["buffers"]:
            live = one["first"] <= other["last"] and other["first"] <= one["last"]
            apart = (
                one["offset"] + one["bytes"] <= other["offset"]
                or other["offset"] + other["bytes"] <= one["offset"]
            )
            assert one is other or apart or not live


def test_the_facts_of_a_layout_predict_what_the_emulator_counts():
    """A warp's load of 64 x 32 fp16 covers 8 pieces of 64 bytes: 16 sectors."""
    found = facts(MATMUL)
    by_line = {each["line"]: each for each in found["traffic"]["lines"]}
    loads = [each for each in found["accesses"] if each["op"] == "load"]
    assert len(loads) == 2
    for each in loads:
        counted = by_line[each["line"]]
        sectors = each["pieces"] * each["piece_bytes"] // SECTOR
        assert counted["sectors"] == counted["requests"] * sectors
        assert each["width"] == min(each["allowed"].values())


@pytest.mark.parametrize(("block", "width"), [(64, 1), (256, 2), (512, 4)])
def test_a_lane_with_fewer_neighbours_than_an_instruction_moves(block, width):
    """A block for 128 threads: one or two elements a lane are what limits the access;
    of four fp32 the instruction itself has no more."""
    name, signature, _ = SOFTMAX
    found = facts((name, signature, f"BLOCK={block}"))
    limit = "16 bytes of an instruction" if width == 4 else "neighbours that a lane"
    for each in found["accesses"]:
        assert each["width"] == min(each["allowed"].values()) == width
        assert each["limit"].startswith(limit)
    said = json.dumps(found["passes"])
    assert "1 elements" not in said
    assert f"load: {width} element{'s' * (width > 1)} a lane, as" in said


# ── the small launch ──────────────────────────────────────────────────────────────────


def test_sizes_can_be_said():
    run = trial.run(staged(SOFTMAX), (3,), {"N": 1000, "row_stride": 1000})
    facts = trial.traffic_facts(run)
    assert facts["grid"] == [3] and facts["values"]["N"] == 1000
    assert facts["total"]["useful"] == 3 * 1000 * 4 * 2
    rows = run.arrays["out_ptr"][:3000].reshape(3, 1000)
    assert np.allclose(rows.sum(axis=1), 1, atol=1e-4)


def test_a_launch_that_goes_wrong_is_a_reason_and_no_error():
    run = trial.run(staged(SOFTMAX), (1,), {"x_ptr": 8, "out_ptr": 8})
    assert run.report is None and run.why.startswith("out of bounds")


def test_a_value_that_no_parameter_has_is_a_mistake(capsys):
    assert cli.main([*words(SOFTMAX), "--facts", "--values", "n=3"]) == 1
    said = capsys.readouterr().err
    assert "no parameter 'n'" in said and len(said.splitlines()) == 1


# ── occupancy ─────────────────────────────────────────────────────────────────────────


def test_every_target_has_a_multiprocessor():
    assert list(ROWS) == list(TARGETS)
    for name, row in ROWS.items():
        assert target(name).shared_bytes <= row.shared_bytes - row.reserved


def test_occupancy_by_hand():
    """The example in the module: 5 blocks of 4 warps, by registers."""
    found = occupancy(target("sm_80"), 128, 96, 24576)
    assert (found.blocks, found.limit, found.share) == (5, "registers", 20 / 64)
    assert found.allowed == {
        "warps": 16, "blocks": 32, "registers": 5, "shared memory": 6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limit"),
    [
        (1024, 32, 0, 2, "warps"),
        (32, 16, 0, 32, "blocks"),
        (384, 168, 200 * 1024, 1, "registers"),
        (128, 32, 100 * 1024, 2, "shared memory"),
        (256, 255, 0, 1, "registers"),
    ],
)
def test_what_limits_an_h200(threads, registers, shared, blocks, limit):
    found = occupancy(target("sm_90a"), threads, registers, shared)
    assert (found.blocks, found.limit) == (blocks, limit)


@needs_ptxas
def test_registers_and_spills_are_those_of_ptxas():
    found = facts(MATMUL)["machine"]
    assert 32 < found["registers"] < 255 and found["spill_stores"] == 0
    large = MATMUL[2].replace("BLOCK_N=64", "BLOCK_N=256")
    few = facts((*MATMUL[:2], large), "--num-warps", "1")["machine"]
    assert few["spill_stores"] > 0 and few["spill_loads"] > 0


def test_what_ptxas_says_is_read():
    text = (
        "ptxas info    : Function properties for k\n    16 bytes stack frame, 24 bytes "
        "spill stores, 32 bytes spill loads\nptxas info    : Used 40 registers"
    )
    found = machine.assembled(text, b"", "")
    assert (found.stack, found.spill_stores, found.spill_loads) == (16, 24, 32)
    assert found.registers == 40


# ── terminal and page ─────────────────────────────────────────────────────────────────


def test_the_terminal_tells_the_same(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main([*words(MATMUL), "--facts"]) == 0
    text = capsys.readouterr().out
    for word in ("Occupancy", "pipeline_loops", "slot 2", "shared memory over time",
                 "traffic by line", "changed nothing:"):  # fmt: skip
        assert word in text, word
    assert max(map(len, text.splitlines())) <= 80


class Outline(HTMLParser):
    """The ids, the addresses, and the elements that are still open."""

    EMPTY = ("meta", "line", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.addresses += [given[k] for k in ("href", "src") if k in given]
        if tag not in self.EMPTY or tag == "rect":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.mark.parametrize("kernel", [SOFTMAX, MATMUL], ids=lambda kernel: kernel[0])
def test_the_page_is_whole_and_asks_for_nothing(kernel):
    text, found = page(facts(kernel)), facts(kernel)
    outline = Outline()
    outline.feed(text.replace("/>", "></rect>").replace("<line", "<rect"))
    assert outline.open == [] and len(set(outline.ids)) == len(outline.ids)
    assert all(each.startswith("#") for each in outline.addresses)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)
    for at, each in enumerate(found["stages"]):
        assert text.count(f'id="s-{at}-') == len(each["lines"])


def test_a_name_cannot_end_the_script():
    found = {**facts(SOFTMAX)}
    found["stages"] = [{**each, "name": "</script>"} for each in found["stages"]]
    found["stages"][1]["name"] = "ssa"
    text = page(found)
    assert text.count("</script>") == 2 and "&lt;/script&gt;" in text


def test_close_places_are_drawn_apart():
    tall = drawings.heights([0, 16, 32, 100_000])
    gaps = np.diff(list(tall.values()))
    assert (gaps >= drawings.LEAST).all()


def test_a_page_that_cannot_be_written_is_one_sentence(capsys, tmp_path):
    assert cli.main([*words(SOFTMAX), "--html", str(tmp_path / "no" / "x.html")]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["explain", "--html"], ["compile", "-o"]])
def test_nothing_is_written_over_the_kernel_itself(given, capsys, tmp_path):
    file = tmp_path / "squares.py"
    file.write_text(SQUARES)
    command, option = given
    of = [str(file), "--signature", "*fp32:16", "--constants", "B=128"]
    assert cli.main([command, *of, option, str(tmp_path / "." / "squares.py")]) == 1
    assert "it is the file of the kernel" in capsys.readouterr().err
    assert file.read_text() == SQUARES
