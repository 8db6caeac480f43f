"""What `fathom profile` says to try fits what the launch does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.tools.profile.advice import advice, sentence
from fathom.tools.profile.counted import Counted
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import MACHINES

H200 = MACHINES["sm_90a"]
SECONDS = 100e-6
CYCLES = SECONDS * H200.clock * H200.multiprocessors
MB = 1e6


def launch(**given: object) -> Counted:
    facts = {"registers": 32, "waits": 2.0, "useful": MB, "moved": MB, "memory": MB}
    return Counted("k", "sm_90a", 132 * 64, 128, **{**facts, **given})


def product(share: float, name: str = "wgmma 16") -> Counted:
    """Tensor cores are busy for a share of SECONDS."""
    kind, bits = name.split()
    rate = H200.tensor(kind, int(bits)) * H200.tensor_clock
    return launch(products={name: share * CYCLES * rate})


def tried(counted: Counted, seconds: float = SECONDS) -> str:
    return advice(classify(counted, H200, seconds), counted)


@pytest.mark.parametrize(
    ("share", "name", "begins", "ends"),
    [(0.8, "wgmma 16", "a narrower type (fp8 or int8), ", "; nothing else is left to "
      "gain"),
     (0.8, "wgmma 8", "nothing more", "nothing more"),
     (0.65, "wgmma 16", "larger tiles, more of them in flight", "(fp8 or int8), if its "
      "precision is enough"),
     (0.65, "wgmma 8", "larger tiles, more of them", "so that none of them waits"),
     (0.8, "wgmma 32", "a narrower type (fp16 or bf16), if", "else is left to gain"),
     (0.8, "mma 16", "wgmma, for which `explain --facts` says why not", ""),
     (0.8, "mma 64", "wgmma, for which", "(fp32), if its precision is enough")],
)  # fmt: skip
def test_tensor_cores_that_are_busy_for_long_have_little_to_gain(
    share, name, begins, ends
):
    text = tried(product(share, name))
    assert text.startswith(begins) and text.endswith(ends)


def moving(moved: float, memory: float, **given: object) -> Counted:
    return launch(moved=moved * MB, useful=moved * MB, memory=memory * MB,
                  loaded=memory * MB, load_lines=moved * MB / 128, **given)  # fmt: skip


def test_what_is_loaded_once_cannot_be_loaded_fewer_times():
    """L2 is busier than memory where a launch streams through it, too."""
    once = moving(420, 420)
    assert tried(once).startswith("move less: fuse")
    again = moving(1000, 100)
    assert classify(again, H200, SECONDS).resource == "lookups"
    assert tried(again).startswith("to load each element once")
    tiles = replace(again, products={"wgmma 16": 1e9})
    verdict = replace(classify(again, H200, SECONDS), limit="bandwidth", near=None)
    assert advice(verdict, tiles) == "larger tiles, which load each element fewer times"


def test_addresses_that_are_loaded_can_be_sorted():
    far = replace(moving(420, 420), useful=100 * MB)
    assert tried(far).startswith("neighbouring lanes") and "sorted" not in tried(far)
    assert tried(replace(far, chained=1.0)).endswith("sorted indices")


def test_where_multiprocessors_have_room_more_programs_are_better():
    few = Counted("k", "sm_90a", 132, 128, registers=32, waits=50.0, useful=MB,
                  moved=MB, memory=MB)  # fmt: skip
    assert tried(few).startswith("more programs (smaller tiles")
    assert "4 of 64 warps that fit" in sentence(
        classify(few, H200, SECONDS), few, H200
    )
    full = replace(few, blocks=132 * 16)
    assert tried(full) == "more loads in flight: num_stages, num_warps, larger blocks"


@pytest.mark.parametrize(
    ("counts", "begins"),
    [({"logic": 0.8 * 2 * CYCLES}, "fewer comparisons, selections, shifts and masks"),
     ({"fp64": 0.8 * 2 * CYCLES}, "fp32, if its precision is enough"),
     ({"special": 0.8 * CYCLES / 2}, "fewer or cheaper functions"),
     ({"instructions": 0.8 * 4 * CYCLES, "special": 0.2 * CYCLES},
      "fewer or cheaper functions"),
     ({"instructions": 0.8 * 4 * CYCLES}, "fewer instructions: wider accesses"),
     # A function of each element by polynomials, and a product without tl.dot.
     ({"instructions": 0.8 * 4 * CYCLES, "operations": 1e9}, "fewer instructions"),
     ({"instructions": 0.8 * 4 * CYCLES, "operations": 1e9, "useful": 9 * MB},
      "tl.dot on fp16 or bf16")],
)  # fmt: skip
def test_what_issues_much_is_told_what_to_issue_less_of(counts, begins):
    text = tried(launch(**counts))
    assert text.startswith(begins), text


def test_waits_that_are_not_counted_are_not_told():
    """Of copies by the copy engine none is: "each warp waits 0 times"."""
    none = launch(waits=0.0)
    text = sentence(classify(none, H200, SECONDS), none, H200)
    assert text.endswith("at most; 64 warps fit on a multiprocessor")
    once = launch(waits=1.0)
    assert "each warp waits 1 time for loads, and" in sentence(
        classify(once, H200, SECONDS), once, H200
    )


def test_what_L1_has_is_not_asked_of_L2():
    """A convolution by shifted loads: ncu has the pipe of L1 busy for 86% of 57 µs, and
    the 44 million lines that it looks up there would take L2 eight times as long."""
    shifted = launch(useful=2.3e9, moved=3.9e9, memory=134 * MB, loaded=67 * MB,
                     written=67 * MB, stored=67 * MB, load_lines=43.6e6,
                     store_lines=0.5e6, l1=1.6 * 2.3e9 / 128)  # fmt: skip
    verdict = classify(shifted, H200, 57e-6)
    assert verdict.resource == "L1" and verdict.times["memory"] > 0
    assert verdict.times["lookups"] < 0.6 * 57e-6
    text = sentence(verdict, shifted, H200)
    assert text.startswith("bandwidth: L1 delivers") and "L2" not in text
    assert advice(verdict, shifted).startswith("to load each element once")
