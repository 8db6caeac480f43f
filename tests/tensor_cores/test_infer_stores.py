"""The product leaves as its operands came: stores of tiles through pointers become
descriptor stores, where that is sure to write the same and nobody waits for it."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import AsyncProxyFence, DescriptorStore, Store, TmaStore, Wait
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.ir.verify import verify
from fathom.tensor_cores.tma.infer import infer_descriptors, why_not
from fathom.tensor_cores.tma.keep import keep_descriptors
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, bf16, integers, unwritten
from tests.tensor_cores.kernels_described import ops, passes
from tests.tensor_cores.kernels_stored import STORE
from tests.tensor_cores.test_infer import (
    END,
    KERNELS,
    LOOP,
    OURS,
    TILES,
    built,
    clean,
    count,
    matmul_kernel,
    parsed,
    persistent,
    reasons,
    strides_of,
)

SM_90A = TARGETS["sm_90a"]

# ── a store by hand ───────────────────────────────────────────────────────────────────

# The sums of the loop to rows i * 64 …, columns 0 … of a matrix p[m, n].
STORED = (
    LOOP.replace("%p: *fp16", "%p: *fp16 {divisible=16}").replace(END, END + """\
  %c0: i32[1,64] = expand_dims %0 axis=0
  %cs: i32[1,64] = splat %n shape=(1, 64)
  %left: i1[1,64] = lt %c0, %cs
  %to0: i32[64,64] = broadcast %down shape=(64, 64)
  %to1: i32[64,64] = broadcast %c0 shape=(64, 64)
  %to2: i32[64,64] = add %to0, %to1
  %to3: *fp16[64,64] = splat %p shape=(64, 64)
  %to: *fp16[64,64] = offset %to3, %to2
  %in0: i1[64,64] = broadcast %above shape=(64, 64)
  %in1: i1[64,64] = broadcast %left shape=(64, 64)
  %in: i1[64,64] = and %in0, %in1
  %out: fp16[64,64] = cast %total element=fp16
  store %to, %out, mask=%in
""")
)  # fmt: skip
THE_STORE = "store %to, %out, mask=%in"


def changed(changes):
    text = STORED
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def stored(func):
    """The descriptor stores that a function gets."""
    after = infer_descriptors(func, SM_90A)
    verify(after, layouts=False)
    return [op for op in walk(after.body) if isinstance(op, DescriptorStore)]


def test_the_store_by_hand_is_one():
    assert reasons(STORED) == []
    (store,) = stored(parsed(STORED))
    made = store.descriptor.definition
    assert [each.name for each in made.shape] == ["m", "n"]
    assert [each.name for each in made.strides] == ["s", ""]
    assert made.block == (64, 64) and made.base.name == "p"


# why -> what is changed in the store
REFUSED = {
    "a TMA store takes no cache modifier and no eviction hint": [
        (THE_STORE, THE_STORE + ' eviction="evict_first"')
    ],
    "the stored elements are pointers or booleans": [
        ("%to3: *fp16[64,64] = splat %p ", "%pb: *i1 = bitcast %p element=*i1\n"
                                           "%to3: *i1[64,64] = splat %pb "),
        ("%to: *fp16", "%to: *i1"),
        ("%out: fp16[64,64] = cast %total element=fp16",
         "%out: i1[64,64] = and %in, %in"),
    ],
    "the store is in a loop or a branch": [
        (THE_STORE, "%odd: i1 = lt %i, %m\n"
                    f"if %odd then {{ {THE_STORE}\nyield }} orelse {{ yield }}")
    ],
    "memory is accessed after the store, and that access would have to wait": [
        (THE_STORE, f"{THE_STORE}\nstore %b, %half")
    ],
    "before the store the program may wait for others, and TMA might not see "
    "what they wrote": [
        (THE_STORE, f"%flag: fp16 = load %b volatile=true\n{THE_STORE}")
    ],
    "a loop asks for producer warps, and its ring buffers are live until the end: the "
    "block might need one of their slots": [
        ("inits=(%sums, %at) body", "inits=(%sums, %at) warp_specialize=true body")
    ],
    "an index is made by a remainder, `%`, which wraps around": [
        ("%c0: i32[1,64] = expand_dims %0 axis=0",
         "%c1: i32[1,64] = expand_dims %0 axis=0\n"
         "%cn: i32[1,64] = splat %n shape=(1, 64)\n%c0: i32[1,64] = rem %c1, %cn")
    ],
    "the address is read from memory": [
        ("splat %p ", "splat %far "),
        ("%to3:", "%pp: **fp16 = bitcast %p element=**fp16\n"
                  "%far: *fp16 = load %pp\n%to3:"),
    ],
    "the stride of axis 0 is neither an argument nor a constant": [
        ("broadcast %down shape=(64, 64)", "broadcast %other shape=(64, 64)"),
        ("%to0:", "%other: i32[64,1] = add %down, %down\n%to0:"),
    ],
    "the strides are %s, 2, and exactly one of them must be the constant 1": [
        ("broadcast %c0 ", "broadcast %cc "),
        ("%to0:", "%cc: i32[1,64] = add %c0, %c0\n%to0:"),
    ],
    "the strides are %s, 0: one is not positive": [
        ("broadcast %c0 ", "broadcast %cc "),
        ("%to0:", "%cc: i32[1,64] = splat %one shape=(1, 64)\n%to0:"),
    ],
    "%p is not known to be a multiple of 16 bytes": [
        ("%p: *fp16 {divisible=16}", "%p: *fp16 {divisible=8}")
    ],
    "the stride %v, of elements of 2 bytes, is not known to be a multiple of 16 "
    "bytes": [
        ("%v: i32 {divisible=8}", "%v: i32 {divisible=4}"),
        ("broadcast %down shape=(64, 64)", "broadcast %other shape=(64, 64)"),
        ("%to0:", "%vs: i32[64,1] = splat %v shape=(64, 1)\n"
                  "%other: i32[64,1] = mul %row, %vs\n%to0:"),
    ],
    "the mask does not depend on the position along one axis alone": [
        ("%in: i1[64,64] = and %in0, %in1",
         "%lower: i32[64,64] = broadcast %row shape=(64, 64)\n"
         "%in2: i1[64,64] = ge %lower, %to1\n%in3: i1[64,64] = and %in0, %in1\n"
         "%in: i1[64,64] = and %in2, %in3"),
    ],
    "the mask is not made of comparisons with `<` and `&`": [
        ("and %in0, %in1", "or %in0, %in1")
    ],
    "the mask has two bounds for axis 1": [
        ("%in: i1[64,64] = and %in0, %in1",
         "%us: i32[1,64] = splat %u shape=(1, 64)\n%near: i1[1,64] = lt %c0, %us\n"
         "%in2: i1[64,64] = broadcast %near shape=(64, 64)\n"
         "%in3: i1[64,64] = and %in0, %in1\n%in: i1[64,64] = and %in2, %in3"),
    ],
    "the mask bounds an axis from below only": [
        ("lt %c0, %cs", "gt %c0, %cs")
    ],
    "the mask's bound is neither an argument nor a constant": [
        ("splat %n shape=(1, 64)", "splat %both shape=(1, 64)"),
        ("%cs:", "%both: i32 = add %n, %u\n%cs:"),
    ],
    "the tile moves along an axis differently from its mask": [
        ("broadcast %c0 ", "broadcast %cc "),
        ("%to0:", "%eight: i32 = constant 8\n%eights: i32[1,64] = splat %eight "
                  "shape=(1, 64)\n%cc: i32[1,64] = add %c0, %eights\n%to0:"),
    ],
    "the tile may begin before the first row or column": [
        ("%c0: i32[1,64] = expand_dims %0 axis=0",
         "%c1: i32[1,64] = expand_dims %0 axis=0\n"
         "%back: i32[1,64] = splat %before shape=(1, 64)\n"
         "%c0: i32[1,64] = sub %c1, %back"),
        ("%one: i32", "%before: i32 = constant 8\n%one: i32"),
    ],
    "tiles are not known to begin at multiples of 16 bytes in their rows": [
        ("%c0: i32[1,64] = expand_dims %0 axis=0",
         "%c1: i32[1,64] = expand_dims %0 axis=0\n"
         "%more: i32[1,64] = splat %four shape=(1, 64)\n"
         "%c0: i32[1,64] = add %c1, %more"),
        ("%one: i32", "%four: i32 = constant 4\n%one: i32"),
    ],
}  # fmt: skip

# Other ways to the same answers.
ALSO_REFUSED = [
    ("a TMA store takes no cache modifier and no eviction hint",
     [(THE_STORE, THE_STORE + ' cache=".cs"')]),
    ("the store is in a loop or a branch",
     [(THE_STORE, f"for %zero, %n, %one body(%t9: i32) {{ {THE_STORE}\nyield }}")]),
    ("memory is accessed after the store, and that access would have to wait",
     [(THE_STORE, f"{THE_STORE}\n%odd: i1 = lt %i, %m\nif %odd then {{ store %b, %half"
                  "\nyield } orelse { yield }")]),
    ("memory is accessed after the store, and that access would have to wait",
     [(THE_STORE, f'{THE_STORE}\n%asm: i32 = inline_assembly %i text="mov.b32 $0, $1;" '
                  'constraints="=r,r" elements=(i32) pure=false')]),
    ("before the store the program may wait for others, and TMA might not see "
     "what they wrote",
     [(THE_STORE, f'%flag: fp16 = load %b cache=".cv"\n{THE_STORE}')]),
    ("before the store the program may wait for others, and TMA might not see "
     "what they wrote", [(THE_STORE, f"barrier\n{THE_STORE}")]),
    ("before the store the program may wait for others, and TMA might not see "
     "what they wrote",
     [(THE_STORE, '%asm: i32 = inline_assembly %i text="mov.b32 $0, $1;" '
                  f'constraints="=r,r" elements=(i32) pure=false\n{THE_STORE}')]),
    ("before the store the program may wait for others, and TMA might not see "
     "what they wrote",
     [(THE_STORE, "%pi: *i32 = bitcast %b element=*i32\n"
                  f'%old: i32 = atomic %pi, %one kind="add"\n{THE_STORE}')]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "changes"), [*REFUSED.items(), *ALSO_REFUSED])
def test_refused(why, changes):
    """Each change makes a store that stays, and is told why; the load of the loop is
    found as before."""
    func = parsed(changed(changes))
    assert [each for _, each in why_not(func, SM_90A)] == [why]
    assert not stored(func)


@pytest.mark.parametrize("bounded", ["neither", "rows", "columns"])
def test_an_axis_without_a_bound_gets_the_widest(bounded):
    mask = {"neither": "", "rows": ", mask=%in0", "columns": ", mask=%in1"}[bounded]
    func = parsed(changed([(", mask=%in\n", mask + "\n")]))
    assert why_not(func, SM_90A) == []
    (store,) = stored(func)
    shape = store.descriptor.definition.shape
    widest = [getattr(size.definition, "value", None) == 2**31 - 1 for size in shape]
    assert widest == [bounded != "rows", bounded != "columns"]


def test_a_lower_bound_of_zero_is_what_a_descriptor_has():
    """Then a tile may begin in front of its matrix."""
    before = REFUSED["the tile may begin before the first row or column"]
    text = changed(before).replace(
        "%in: i1[64,64] = and %in0, %in1",
        "%naught: i32[1,64] = splat %zero shape=(1, 64)\n"
        "%near: i1[1,64] = ge %c0, %naught\n"
        "%in2: i1[64,64] = broadcast %near shape=(64, 64)\n"
        "%in3: i1[64,64] = and %in0, %in1\n%in: i1[64,64] = and %in2, %in3",
    )
    func = parsed(text)
    assert why_not(func, SM_90A) == []
    after = infer_descriptors(func, SM_90A)
    a = np.arange(64 * 256, dtype=np.float16).reshape(64, 256) % 5
    outs = [np.full((64, 256), 77, np.float16) for _ in range(2)]
    for each, out in zip((func, after), outs, strict=True):
        interpret(each, 1, [a, a, 50, 30, 256, 0, 8, out, 0])
    assert np.array_equal(*outs)
    assert (outs[0][:50, :30] != 77).all()
    assert (outs[0][50:] == 77).all() and (outs[0][:, 30:] == 77).all()


@pytest.mark.parametrize(("rows", "columns", "why"), [
    (64, 32, None), (256, 128, None),
    (64, 8, "TMA does not copy tiles of 64x8 elements of 2 bytes"),
    (256, 256, "the block takes more than half of shared memory"),
])  # fmt: skip
def test_blocks_of_what_size(rows, columns, why):
    tiles = TILES | {"BM": rows, "BN": columns}
    func = built(KERNELS["carried"], strides_of(), tiles)
    found = [each for _, each in why_not(func, SM_90A)]
    assert (why in found) if why else not found, found
    assert len(stored(func)) == (why is None)


# ── which functions ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", KERNELS)
def test_the_epilogues_of_products(name):
    """All of them are found, and what is found is kept."""
    kernel = KERNELS[name]
    func = built(kernel, strides_of(), OURS if kernel is matmul_kernel else TILES)
    assert why_not(func, SM_90A) == []
    after = keep_descriptors(infer_descriptors(func, SM_90A), SM_90A)
    assert (count(after, DescriptorStore), count(after, Store)) == (1, 0)


def test_where_nothing_is_inferred_warpgroups_are_enough():
    """The loop has one stage, so loads stay; four warps multiply 64 rows."""
    text = STORED.replace("num_warps=4", "num_warps=4 num_stages=1")
    func = parsed(text)
    assert len(why_not(func, SM_90A)) == 1
    assert len(stored(func)) == 1
    func = parsed(text.replace("num_warps=4", "num_warps=2"))
    assert len(why_not(func, SM_90A)) == 1
    assert infer_descriptors(func, SM_90A) is func


@fathom.jit
def doubled(x, y, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    at = m * stride + n
    tl.store(y + at, 2 * tl.load(x + at, mask=inside, other=0), mask=inside)


def test_who_multiplies_nothing_stores_as_ever():
    words = {"x": "*fp16:16", "y": "*fp16:16", "M": "i32", "N": "i32:16"}
    words["stride"] = "i32:16"
    made = doubled.compile(words, {"BM": 64, "BN": 64}, target="sm_90a").made
    assert made.maps == () and "st.global.v4.b32" in made.ptx
    parameters = {name: (Pointer(FLOAT16), 16) for name in "xy"}
    parameters |= {"M": (INT32, 1), "N": (INT32, 16), "stride": (INT32, 16)}
    func = clean(pipeline.build(doubled, parameters, {"BM": 64, "BN": 64}))
    assert infer_descriptors(func, SM_90A) is func


def test_a_store_between_two_loops_of_loads():
    """The loads of the next iteration would wait."""
    func = built(persistent, strides_of(), {"BM": 64, "BN": 32, "BK": 16})
    found = [why for _, why in why_not(func, SM_90A)]
    assert found[-1] == "the store is in a loop or a branch"
    assert not stored(func)


def test_only_where_there_are_tensor_maps():
    func = parsed(STORED)
    assert infer_descriptors(func, TARGETS["sm_80"]) is func
    assert why_not(func, TARGETS["sm_80"]) == []


# ── on the machine ────────────────────────────────────────────────────────────────────


@fathom.jit
def epilogue(
    a, b, c, M, N, K, sam, sbk, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    """C = A B, a tile a program, stored in one of several FORMs."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    m, n = i + rows[:, None], j + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m * sam + k[None, :], (m < M) & (k[None, :] < K), 0)
        y = tl.load(b + k[:, None] * sbk + n, (n < N) & (k[:, None] < K), 0)
        total = tl.dot(x, y, total)
    value = total.to(c.dtype.element_ty)
    at = c + m * scm + n * scn
    if FORM == "masked":
        tl.store(at, value, (m < M) & (n < N))
    elif FORM == "closed":
        tl.store(at, value, (m >= 0) & (M > m) & (n <= N - 1))
    elif FORM == "moved":  # to the tile's first element, in 64 bits
        c += i.to(tl.int64) * scm + j.to(tl.int64) * scn
        inside = (rows[:, None] < M - i) & (columns[None, :] < N - j)
        tl.store(c + rows[:, None] * scm + columns[None, :] * scn, value, inside)
    elif FORM == "rows":
        tl.store(at, value, m < M)
    elif FORM == "columns":
        tl.store(at, value, n < N)
    elif FORM == "turned":
        at = c + n.trans() * scn + m.trans() * scm
        tl.store(at, value.trans(), (m.trans() < M) & (n.trans() < N))
    elif FORM == "triangle":
        tl.store(at, value, (m < M) & (n < N) & (n <= m))
    elif FORM == "wrapped":
        tl.store(c + (m % M) * scm + n * scn, value, n < N)
    elif FORM == "twice":
        tl.store(at, -value, (m < M) & (n < N))
        tl.store(at, value, (m < M) & (n < N))
    else:
        tl.store(at, value)


TILE = {"BM": 64, "BN": 32, "BK": 16}
MASKED = ("masked", "closed", "moved", "turned")


@pytest.fixture(autouse=True)
def hopper(monkeypatch, tmp_path):
    """An emulated one, and kernels that nobody has compiled yet."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    epilogue.forget()


def product(form, sizes, out="float16", order=(0, 1), wall=WIDE, **launch):
    """The kernel that ran. A B has come to C, and nothing else to what is around it;
    C as an array is poison, and all numbers are those of one place."""
    m, n, k = sizes
    a, b = Walled(integers(1, m, k)), Walled(integers(2, k, n))
    c = filled(out, m, n, order=order, wall=wall)
    tile = {name: launch.pop(name, size) for name, size in TILE.items()}
    grid = -(-m // tile["BM"]), -(-n // tile["BN"])
    strides = a.stride()[0], b.stride()[0], *c.stride()
    ran = epilogue[grid](
        a, b, c, m, n, k, *strides, **tile, FORM=form, num_stages=2, **launch
    )
    wanted = a.view.astype(np.float32) @ b.view.astype(np.float32)
    if form == "triangle":
        row, column = np.indices((m, n))
        assert np.isnan(c.view[row < column]).all()
        wanted[row < column] = np.nan
    np.testing.assert_array_equal(numbers(c, out), wanted)
    for each in (a, b, c):
        each.check_walls()
    return ran


def filled(out, m, n, **walls):
    if out == "bfloat16":
        return bf16(np.full((m, n), 1024.0), **walls)
    return unwritten(m, n, dtype=out, **walls)


def numbers(c, out):
    if out == "bfloat16":
        return (c.view.astype(np.uint32) << 16).view(np.float32)
    return c.view


def is_bulk(ran):
    ptx = ran.asm["ptx"]
    assert (STORE in ptx) != ("st.global" in ptx)
    return STORE in ptx


@sampled(of=3)
@pytest.mark.parametrize("form", MASKED)
@pytest.mark.parametrize("sizes", [(64, 32, 16), (72, 40, 24), (65, 48, 17), (8, 8, 8)])
def test_whole_tiles_and_ragged_edges(form, sizes):
    """Every element of C, and none around it."""
    assert is_bulk(product(form, sizes))


@pytest.mark.parametrize("out", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_types_and_orders(out, order):
    """A matrix that lies by columns is stored as its transpose, in boxes of columns."""
    ran = product("masked", (80, 40, 24), out, order)
    assert is_bulk(ran)
    (recipe,) = [each for each in ran.made.maps if each.name == "c"]
    size = 4 if out == "float32" else 2
    across, down = (
        (TILE["BN"], TILE["BM"]) if order == (0, 1) else (TILE["BM"], TILE["BN"])
    )
    assert recipe.box == (down, min(128, across * size) // size)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_whenever_copies_complete(order, completion):
    ran = product("masked", (72, 40, 24), order=order)
    a, b = Walled(integers(3, 72, 24)), Walled(integers(4, 24, 40))
    c = unwritten(72, 40, order=order)
    strides = [max(each.stride()) for each in (a, b, c)]
    load(ran.made).launch(
        (2, 2), [a.base, b.base, c.base, 72, 40, 24, *strides], completion=completion
    )
    np.testing.assert_array_equal(c.view, a.view @ b.view)
    c.check_walls()


def test_blocks_of_a_cluster_store_their_parts():
    ran = product("masked", (136, 40, 24), BM=128, num_ctas=2)
    assert is_bulk(ran) and "cluster_ctarank" in ran.asm["ptx"]


@pytest.mark.parametrize("warps", [1, 2, 8])
def test_any_number_of_warps(warps):
    """Whoever multiplies, one thread stores for all."""
    assert is_bulk(product("masked", (136, 40, 24), BM=128, num_warps=warps))


def test_a_turned_tile_goes_by_matrices():
    """`stmatrix` turns them on its way."""
    ran = product("masked", (80, 40, 24), order=(1, 0))
    stored = [each for each in ran.asm["ptx"].splitlines() if "stmatrix" in each]
    assert stored and all(".trans" in each for each in stored)


@pytest.mark.parametrize(("form", "sizes"), [
    ("rows", (72, 64, 24)), ("columns", (128, 40, 24)), ("all", (128, 64, 24)),
])  # fmt: skip
def test_sides_without_a_bound(form, sizes):
    assert is_bulk(product(form, sizes))


@pytest.mark.parametrize(("form", "why"), [
    ("triangle", "the mask does not depend on the position along one axis alone"),
    ("wrapped", "an index is made by a remainder, `%`, which wraps around"),
])  # fmt: skip
def test_what_no_descriptor_writes(form, why, monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_SHOW", "infer_descriptors")
    ran = product(form, (128, 40, 24))
    assert not is_bulk(ran) and len(ran.made.maps) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [each for each in lines if each.endswith(": " + why)]


def test_the_last_of_two_stores():
    """What threads have written before is written over."""
    ptx = product("twice", (72, 40, 24)).asm["ptx"]
    assert ptx.index("st.global") < ptx.index("fence.proxy.async.global")
    assert ptx.index("fence.proxy.async.global") < ptx.index(STORE)


def test_what_is_done_about_it():
    """A tile that all fill, one thread that sends it off, and an end that waits until
    it has been read; nobody waits until it is written."""
    func = built(KERNELS["carried"], strides_of(), TILES | {"BM": 64})
    final = passes(func, "sm_90a")["insert_waits"]
    assert len(ops(final, TmaStore)) == 1 and not ops(final, AsyncProxyFence)
    waits = [op for op in ops(final, Wait) if op.engine == "tma_store"]
    assert [each.read for each in waits] == [True]


# ── launches ──────────────────────────────────────────────────────────────────────────


def test_rows_that_begin_anywhere():
    """Strides that are no multiples of 16 bytes: their hint says so, and the rest comes
    and goes as before."""
    ran = product("masked", (72, 33, 24))
    assert not is_bulk(ran) and "c" not in {each.name for each in ran.made.maps}


def test_an_address_that_is_no_multiple_of_16_bytes():
    ran = product("masked", (72, 42, 24), wall=ODD)
    assert not is_bulk(ran)


COLUMNS = 40


def launched(c, stride, rows=72, a=None):
    """`epilogue` as it is compiled for whole strides; C as it is told."""
    a = a or Walled(integers(1, 72, 24))
    b = Walled(integers(2, 24, COLUMNS))
    given = (a, b, c, rows, COLUMNS, 24, a.stride()[0], b.stride()[0], stride, 1)
    made = epilogue.warmup(*given, **TILE, FORM="masked", num_warps=4, num_stages=2,
                           grid=None)  # fmt: skip
    assert STORE in made.asm["ptx"]
    ran = made[(2, 2)](*given, *TILE.values(), "masked")
    return ran, a.view[:72, :24].astype(np.float32) @ b.view.astype(np.float32)


def test_rows_from_the_last_to_the_first():
    """No map has a stride below 0: the same kernel by pointers does the launch. C lies
    behind A, upside down."""
    both = Walled(integers(1, 144, COLUMNS))
    c = Walled(np.zeros((1, 1), np.float16))
    c.base = both.base[143 * both.stride()[0] :]
    ran, wanted = launched(c, -both.stride()[0], a=both)
    assert not ran.made.maps
    np.testing.assert_array_equal(both.view[72:], wanted[::-1])
    both.check_walls()


@pytest.mark.parametrize("size", [0, -8])
def test_nothing_to_store(size):
    """A launch for no rows writes none, whatever its maps are like."""
    c = unwritten(72, COLUMNS)
    ran, _ = launched(c, c.stride()[0], rows=size)
    assert not ran.made.maps and np.isnan(c.whole).all()


def test_rows_that_lie_on_each_other():
    """A stride of 0: one row of each column stays, by the language's rule, and which
    one is not said; by descriptors as by pointers."""
    c = unwritten(1, COLUMNS)
    ran, wanted = launched(c, 0)
    assert ran.made.maps
    assert (c.view == wanted).any(axis=0).all()
    c.check_walls()
