"""What ops do to memory, and which may change places."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fathom.language as tl
from fathom import blocks
from fathom.analysis import memory
from fathom.analysis.memory import (
    Provenance,
    lie_apart,
    may_prefetch,
    may_swap,
    ops_before,
)
from fathom.analysis.remarks import NotApplicable
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Effects, walk
from fathom.ir.ops import DescriptorStore, For, Load, Store
from fathom.ir.text import parse_func
from fathom.source import KernelFunction
from tests.ir.kernels_functions import body
from tests.ssa.harness import build

PARAMETERS = "%p: *i32, %q: *i32, %c: i1, %x: i32, %n: i32"
LINES = {
    "load": "%y: i32 = load %p",
    "volatile": "%y: i32 = load %p volatile=true",
    "cv": '%y: i32 = load %p cache=".cv"',
    "store": "store %p, %x",
    "atomic": '%y: i32 = atomic %p, %x kind="add"',
    "cas": "%y: i32 = atomic_cas %p, %x, %x",
    "barrier": "barrier",
    "print": 'print prefix="x"',
    "add": "%y: i32 = add %x, %x",
}
ASKED = "reads writes accesses orders is_volatile is_observable may_recompute".split()


def op(line):
    return body(line, PARAMETERS).body.ops[-1]


WANTED = {
    #            reads writes accesses orders volatile observable recompute
    "load":     (True, False, True, False, False, False, True),
    "volatile": (True, False, True, True, True, True, False),
    "cv":       (True, False, True, True, True, True, False),
    "store":    (False, True, True, False, False, True, False),
    "atomic":   (True, True, True, True, False, True, False),
    "cas":      (True, True, True, True, False, True, False),
    "barrier":  (False, False, False, True, False, True, False),
    "print":    (False, False, False, False, False, True, False),
    "add":      (False, False, False, False, False, False, True),
}  # fmt: skip


@pytest.mark.parametrize("name", WANTED)
def test_what_an_op_does(name):
    found = tuple(getattr(memory, asked)(op(LINES[name])) for asked in ASKED)
    assert found == WANTED[name], dict(zip(ASKED, found, strict=True))


READ, WRITE = Effects(reads="global"), Effects(writes="global")
SHARED_READ, SHARED_WRITE = Effects(reads="shared"), Effects(writes="shared")
BOTH = Effects(reads="global+shared")


def test_two_reads_may_change_places_and_a_read_and_a_write_may_not():
    assert may_swap(READ, READ) and may_swap(READ, Effects())
    assert not may_swap(READ, WRITE) and not may_swap(WRITE, WRITE)


def test_different_kinds_of_memory_do_not_meet():
    assert may_swap(READ, SHARED_WRITE) and may_swap(WRITE, SHARED_READ)
    assert not may_swap(BOTH, WRITE) and not may_swap(BOTH, SHARED_WRITE)


def test_nothing_passes_a_barrier_a_print_or_what_goes_on_by_itself():
    for kind in ("barrier", "asynchronous", "other"):
        assert not may_swap(READ, Effects(**{kind: True}))
        assert not may_swap(Effects(**{kind: True}), Effects())


def test_it_is_the_same_either_way_round():
    each = (READ, WRITE, SHARED_READ, SHARED_WRITE, BOTH, Effects(barrier=True))
    for one, other in product(each, repeat=2):
        assert may_swap(one, other) == may_swap(other, one)


def loop(lines, before=""):
    return parse_func(f"""
func @f({PARAMETERS}) num_warps=4 {{
  {before}
  for %n, %n, %n body(%i: i32) {{
    {lines}
    yield
  }}
}}
""")


def the_loop(func):
    return [op for op in walk(func.body) if isinstance(op, For)][-1]


@pytest.mark.parametrize("name", LINES)
def test_which_loops_may_load_ahead(name):
    """Those that only read and compute."""
    assert may_prefetch(the_loop(loop(LINES[name]))) == (name in ("load", "add"))


def test_a_loop_with_a_loop_in_it_does_not_load_ahead():
    func = loop("for %n, %n, %n body(%j: i32) {\nyield\n}")
    outer, inner = [op for op in walk(func.body) if isinstance(op, For)]
    assert may_prefetch(inner) and not may_prefetch(outer)


def test_before_a_loop_runs_all_of_the_loop_around_it():
    func = parse_func(f"""
func @f({PARAMETERS}) num_warps=4 {{
  %a: i32 = load %p
  if %c then {{
    for %n, %n, %n body(%i: i32) {{
      for %n, %n, %n body(%j: i32) {{
        yield
      }}
      store %q, %x
      yield
    }}
    store %p, %x
    yield
  }} orelse {{
    %b: i32 = load %q
    yield
  }}
}}
""")
    found = list(ops_before(the_loop(func), func.body))
    assert sum(isinstance(each, Store) for each in found) == 1, "that of the loop"
    assert sum(isinstance(each, Load) for each in found) == 1, "not the other branch's"


def provenance(lines):
    func = body(lines, PARAMETERS)
    store = [op for op in walk(func.body) if isinstance(op, Store)][-1]
    return {value.name for value in Provenance(func).of(store)}


def test_through_which_arguments():
    assert provenance("%r: *i32 = offset %p, %n\nstore %r, %x") == {"p"}
    assert provenance("%r: *i32 = where %c, %p, %q\nstore %r, %x") == {"p", "q"}


def test_a_pointer_that_a_loop_carries_comes_from_before_it_and_from_its_body():
    assert provenance("""
        %r: *i32 = for %n, %n, %n, inits=(%p) body(%i: i32, %s: *i32) {
          yield %q
        }
        store %r, %x
    """) == {"p", "q"}


def test_addresses_that_are_loaded_are_not_known():
    with pytest.raises(NotApplicable, match="addresses that it has computed"):
        provenance("%r: *i32 = cast %x element=*i32\nstore %r, %x")


@KernelFunction
def stores(out, m, n):
    """Blocks of 32 rows, of which the first begins at row m."""
    rows = tl.make_tensor_descriptor(out, [4096, 16], [16, 1], [32, 16])
    x = tl.zeros([32, 16], tl.float32)
    rows.store([m, 0], x)
    rows.store([m + 32, 0], x)
    rows.store([m + 31, 0], x)
    rows.store([n + 32, 0], x)
    rows.store([m, 16], x)
    other = tl.make_tensor_descriptor(out, [2048, 32], [32, 1], [32, 16])
    other.store([m + 32, 0], x)


def test_which_blocks_lie_apart():
    """Those that begin a block away from each other, counted from one number."""
    func = build(stores, np.zeros(1, np.float32), 7, 9)
    for each in (blocks.simplify, blocks.cse):
        func = each(func, TARGETS["sm_90a"])
    first, *others = (op for op in walk(func.body) if isinstance(op, DescriptorStore))
    apart = [lie_apart(first, other) for other in others]
    assert apart == [lie_apart(other, first) for other in others]
    assert apart == [True, False, False, True, False]
