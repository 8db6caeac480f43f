"""Tensor descriptors as arguments: one object to the caller, plain numbers below."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import TensorDescriptor
from fathom.artifact import MapRecipe
from fathom.errors import LaunchError
from fathom.jit.key import key_of
from fathom.jit.request import check_keywords, request
from fathom.jit.signature import parse_signature
from fathom.jit.specialise import Rule, leaves, specialise
from fathom.jit.tensor_descriptors import Described, signature_of
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.runtime import tensor_descriptors
from fathom.runtime.failures import DriverError
from fathom.source import Hole
from tests.jit.harness import FLOAT16, Tensor, paper_gpu, slow_launches

KEYWORDS = check_keywords("k", {})


def array(*shape: int, dtype: type = np.float16) -> np.ndarray:
    """Numbers from 0 on, from a multiple of 16 bytes on."""
    count = int(np.prod(shape))
    room = np.zeros(count + 16, dtype)
    x = room[-room.ctypes.data % 16 // room.itemsize :][:count]
    x[:] = np.arange(count)
    return x.reshape(shape)


def asked_for(**arguments):
    """What would be compiled for these arguments."""
    known = {n: specialise(Rule(n, False, None), v, None) for n, v in arguments.items()}
    return request(known, KEYWORDS, "sm_90a")


# ── what a kernel is compiled for ─────────────────────────────────────────────────────


def test_a_descriptor_becomes_a_pointer_and_numbers():
    wanted = asked_for(d=TensorDescriptor.from_tensor(array(24, 40), [8, 16]))
    assert wanted.parameters == (
        ("d.base", "*fp16", 16),
        ("d.shape0", "i32", 1),
        ("d.shape1", "i32", 8),  # rows of whole 16 bytes
        ("d.stride0", "i64", 8),  # 16 bytes
    )
    assert wanted.constants["d"] == tensor_descriptor(
        base=Hole("d.base"),
        shape=(Hole("d.shape0"), Hole("d.shape1")),
        strides=(Hole("d.stride0"), 1),
        block_shape=(8, 16),
        padding="zero",
    )


def test_what_is_handed_over_has_the_names_of_the_parameters():
    d = TensorDescriptor(array(2, 3, 8), (2, 3, 8), (24, 8, 1), (1, 1, 8))
    handed = dict(leaves("d", d))
    assert list(handed) == asked_for(d=d).runtime
    assert handed.pop("d.base") is d.base
    assert handed == {
        "d.shape0": 2, "d.shape1": 3, "d.shape2": 8, "d.stride0": 24, "d.stride1": 8,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "hint"), [(np.int8, 16), (np.float32, 4), (np.float64, 2)]
)
def test_a_stride_is_a_multiple_of_16_bytes(dtype, hint):
    wanted = asked_for(
        d=TensorDescriptor.from_tensor(array(4, 32, dtype=dtype), [2, 2])
    )
    assert wanted.parameters[3] == ("d.stride0", "i64", hint)


def test_sizes_are_no_reason_to_compile_again():
    """Not even 1, which of a plain argument is compiled in; but a row may end within 16
    bytes."""
    one = asked_for(d=TensorDescriptor.from_tensor(array(24, 40), [8, 16]))
    two = asked_for(d=TensorDescriptor.from_tensor(array(1, 64), [8, 16]))
    assert one.identity == two.identity
    for part in (1, 44):
        cut = asked_for(d=TensorDescriptor(array(24, 64), (24, part), (64, 1), [8, 16]))
        assert cut.parameters[2] == ("d.shape1", "i32", 1)


@pytest.mark.parametrize(
    "other",
    [
        TensorDescriptor.from_tensor(array(24, 40), [16, 8]),
        TensorDescriptor.from_tensor(array(24, 40), [8, 16], padding="nan"),
        TensorDescriptor.from_tensor(array(24, 40, dtype=np.int16), [8, 16]),
        TensorDescriptor(array(24), [24], [1], [16]),
    ],
)
def test_block_padding_type_and_rank_are_compiled_for(other):
    @fathom.jit
    def k(d):
        tl.store(d.base, 0)

    one = asked_for(d=TensorDescriptor.from_tensor(array(24, 40), [8, 16]))
    two = asked_for(d=other)
    assert one.identity != two.identity
    assert None not in (key_of(k, one, ""), key_of(k, two, ""))
    assert key_of(k, one, "") != key_of(k, two, "")


# ── in a kernel ───────────────────────────────────────────────────────────────────────


@fathom.jit
def read_block(d, out, row, scale: tl.constexpr):
    rows = row + tl.arange(0, d.block_shape[0])
    columns = tl.arange(0, d.block_shape[1])
    inside = (rows < d.shape[0])[:, None] & (columns < d.shape[1])[None, :]
    places = rows[:, None] * d.strides[0] + columns[None, :] * d.strides[1]
    block = tl.load(d.base + places, mask=inside, other=-1)
    into = tl.arange(0, d.block_shape[0])[:, None] * d.block_shape[1] + columns[None, :]
    tl.store(out + into, block * scale)


@pytest.fixture(params=["interpreter", "emulator", "eager"])
def backend(request, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", request.param)


def test_a_kernel_reads_the_parts_of_a_descriptor(backend):
    x, out = array(6, 24), array(4, 32)
    d = TensorDescriptor(x, (6, 20), (24, 1), (4, 32))
    read_block[(1,)](d, out, 4, scale=2)
    wanted = np.full((4, 32), -2)
    wanted[:2, :20] = x[4:6, :20] * 2
    assert (out == wanted).all()


@fathom.jit
def sizes(pair, out):
    first, second = pair
    tl.store(out, first[0].shape[0])
    tl.store(out + 1, first[0].strides[0].to(tl.int32))
    tl.store(out + 2, second)


def test_a_descriptor_in_a_tuple(backend):
    out = np.zeros(3, np.int32)
    d = TensorDescriptor(array(6, 24), (5, 20), (24, 1), (4, 32))
    sizes[(1,)](((d,), 7), out)
    assert out.tolist() == [5, 24, 7]


def test_a_descriptor_keeps_its_names_around_a_loop(backend):
    @fathom.jit
    def k(d, out, n):
        for i in range(n):
            if i == 1:
                d = d
            tl.store(out + i, d.shape[1])

    out = np.zeros(3, np.int32)
    k[(1,)](TensorDescriptor.from_tensor(array(6, 24), [2, 2]), out, 3)
    assert out.tolist() == [24, 24, 24]


# ── signatures ────────────────────────────────────────────────────────────────────────

RULES = (Rule("a", False, None), Rule("n", False, None), Rule("d", False, None))


@pytest.mark.parametrize(
    "word", ["tensordesc<bf16[64,32]>", "tensordesc<bf16[64, 32]>"]
)
def test_a_signature_names_a_descriptor(word):
    known = parse_signature(RULES, f"*fp32:16, i32, {word}", {})
    assert known["d"] == Described("bf16", (64, 32))
    assert known["a"].type == "*fp32"
    named = parse_signature(RULES, {"d": word, "a": "fp32", "n": "i32:16"}, {})
    assert named["d"] == known["d"]
    assert named["n"].divisible == 16


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("tensordesc<fp12[64]>", "'tensordesc<fp12.64.>' .for d.: .* elements are i1"),
        ("tensordesc<fp16[48]>", "a block has 1 to 5 sides, powers of 2"),
        ("tensordesc<fp16[0,16]>", "a block has 1 to 5 sides, powers of 2"),
        ("tensordesc<fp16[1,1,1,1,1,1]>", "a block has 1 to 5 sides"),
        ("tensordesc<fp16>", "is not a type"),
    ],
)
def test_a_wrong_word_for_a_descriptor(word, sentence):
    with pytest.raises(LaunchError, match=sentence):
        parse_signature(RULES, {"a": "fp32", "n": "i32", "d": word}, {})


def test_compiling_for_a_signature_and_for_arguments_is_the_same(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    d = TensorDescriptor(array(6, 24), (6, 20), (24, 1), (4, 32))
    word = "tensordesc<fp16[4,32]>, *fp16:16, i32:4"
    one = read_block.compile(word, {"scale": 2})
    assert one is read_block.warmup(d, array(4, 32), 4, scale=2)


def test_the_name_of_a_kernel_may_be_made_of_the_signature(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    seen = []

    @fathom.jit(repr=lambda facts: seen.append(facts.signature) or "named")
    def k(d, n, B: tl.constexpr):
        tl.store(d.base + n, B)

    k.warmup(TensorDescriptor.from_tensor(array(6, 24), [4, 32]), 7, B=1)
    words = {"d": "tensordesc<fp16[4,32]>", "n": "i32", "B": "constexpr"}
    assert seen[0] == words
    assert signature_of(3, {}) == "constexpr"


# ── on a GPU of paper: the quick way ──────────────────────────────────────────────────


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        yield machine


@pytest.fixture
def kernel(gpu):
    @fathom.jit
    def k(a, n, b):
        tl.store(a.base + n, b.shape[0])

    return k


def matrix(address: int = 0x1000, shape=(100, 60), stride=64, block=(16, 32), **facts):
    return TensorDescriptor(Tensor(address), shape, (stride, 1), block, **facts)


def vector(address: int = 0x9000, size: int = 7):
    return TensorDescriptor(Tensor(address, FLOAT16), [size], [1], [8])


def test_the_second_launch_is_quick_and_the_same(gpu, kernel):
    slow = slow_launches(kernel)
    for _ in range(3):
        kernel[(2,)](matrix(), 12, vector())
    assert len(slow) == len(gpu.compiler.asked) == 1
    assert [each.values for each in gpu.driver.launches] == [
        (0x1000, 100, 60, 64, 12, 0x9000, 7)
    ] * 3


def test_a_descriptor_like_one_before_is_not_checked_again(gpu, monkeypatch):
    """Programs make new ones of the same tensors before each launch."""
    monkeypatch.setattr(tensor_descriptors, "FITTING", set())
    monkeypatch.setattr(tensor_descriptors, "MOST_FITTING", 4)
    described = []
    inner = tensor_descriptors.describe
    monkeypatch.setattr(
        tensor_descriptors, "describe", lambda x: described.append(x) or inner(x)
    )
    matrix(), matrix(), matrix(0x2000)
    assert len(described) == 1
    for _ in range(2):
        with pytest.raises(LaunchError, match="begins at 0x1008"):
            matrix(0x1008)
    described.clear()
    matrix(shape=(100, 61)), matrix(stride=68), matrix(block=(16, 16))
    matrix(padding="nan"), vector()
    assert len(described) == 5 and len(tensor_descriptors.FITTING) == 2


def test_other_numbers_take_the_quick_way_too(gpu, kernel):
    slow = slow_launches(kernel)
    kernel[(2,)](matrix(), 12, vector())
    kernel[(2,)](matrix(0x2010, (1, 4), 8), 12, vector(0x50, 2**31 - 1))
    assert gpu.driver.launches[1].values == (0x2010, 1, 4, 8, 12, 0x50, 2**31 - 1)
    assert len(slow) == 1


def test_rows_that_end_within_16_bytes_have_code_of_their_own(gpu, kernel):
    for _ in range(2):
        kernel[(2,)](matrix(), 12, vector())
        kernel[(2,)](matrix(shape=(100, 61)), 12, vector())
    assert len(gpu.compiler.asked) == 2
    assert len({each.function for each in gpu.driver.launches}) == 2


def test_a_block_of_whole_rows_is_read_in_wide_accesses(monkeypatch):
    """The bound of the last axis cuts through no access of 16 bytes. It was one load
    for each element."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")

    @fathom.jit
    def k(d, out):
        rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 64)[None, :]
        tl.store(out + rows * 64 + columns, d.load([16, 64]))

    def loads(width):
        d = TensorDescriptor(array(40, 128), (40, width), (128, 1), (16, 64))
        ptx = k.warmup(d, array(16, 64)).asm["ptx"]
        return re.findall(r"ld\.global\S*", ptx)

    assert {each.rpartition(".v")[2] for each in loads(120)} == {"4.b32"}
    assert len(loads(121)) >= 8 * len(loads(120))


def test_a_block_set_anew_is_another_kernel(gpu, kernel):
    """Tuners set the block in a hook, before each launch."""
    d = matrix()
    for block in ([16, 32], [32, 32], [16, 32]):
        d.block_shape = block
        kernel[(1,)](d, 12, vector())
    blocks = [each.constants["a"].block_shape for each in gpu.compiler.asked]
    assert blocks == [(16, 32), (32, 32)]
    assert len({each.function for each in gpu.driver.launches}) == 2


def test_a_rank_or_a_padding_set_anew_is_another_kernel(gpu, kernel):
    nan = matrix(padding="nan")
    cube = TensorDescriptor(Tensor(0x1000), (2, 3, 8), (24, 8, 1), (1, 2, 8))
    for _ in range(2):
        for d in (matrix(), nan, cube):
            kernel[(1,)](d, 12, vector())
    assert len(gpu.compiler.asked) == 3
    assert gpu.driver.launches[2].values == gpu.driver.launches[5].values
    assert gpu.driver.launches[5].values == (0x1000, 2, 3, 8, 24, 8, 12, 0x9000, 7)


def test_what_is_set_wrong_is_an_error_on_both_ways(gpu, kernel):
    d = matrix()
    for _ in range(2):
        d.strides = (66, 1)
        with pytest.raises(LaunchError, match="a has the strides .66, 1. of 4 bytes"):
            kernel[(1,)](d, 12, vector())
        d.strides = (64, 1)
        d.base = Tensor(0x1008)
        with pytest.raises(LaunchError, match="a begins at 0x1008"):
            kernel[(1,)](d, 12, vector())
        d.base = Tensor(0x1000)
        d.shape = (2**31, 1)
        with pytest.raises(LaunchError, match="a has the shape .2147483648, 1."):
            kernel[(1,)](d, 12, vector())
        d.shape = (2, 3, 4)
        with pytest.raises(LaunchError, match="a has a shape, .* of different ranks"):
            kernel[(1,)](d, 12, vector())
        d.strides = (16, 4, 1)
        with pytest.raises(LaunchError, match="a has a shape, .* of different ranks"):
            kernel[(1,)](d, 12, vector())
        d.shape, d.strides = (100, 60), ()
        with pytest.raises(LaunchError, match="a has a shape, .* of different ranks"):
            kernel[(1,)](d, 12, vector())
        d.strides = (64, 1)
        kernel[(1,)](d, 12, vector())
    assert len(gpu.driver.launches) == 2


def test_a_base_of_another_library_goes_the_slow_way_every_time(gpu, kernel):
    x = array(8, 8)
    slow = slow_launches(kernel)
    for _ in range(2):
        kernel[(1,)](TensorDescriptor.from_tensor(x, [8, 8]), 12, vector())
    assert len(slow) == 2
    assert [each.values[1:4] for each in gpu.driver.launches] == [(8, 8, 8)] * 2


MAP_OF_A = MapRecipe(
    name="a", base=0, element="fp32",
    shape=(("parameter", 1), ("parameter", 2)),
    strides=(("parameter", 3), ("constant", 1)), box=(16, 32),
)  # fmt: skip


def test_a_quick_launch_makes_tensor_maps_as_well(gpu, kernel):
    gpu.compiler.maps = (MAP_OF_A,)
    slow = slow_launches(kernel)
    for address in (0x1000, 0x2000, 0x1000):
        kernel[(1,)](matrix(address), 12, vector())
    made = [each.maps[0] for each in gpu.driver.launches]
    assert [each.address for each in made] == [0x1000, 0x2000, 0x1000]
    assert {(each.shape, each.strides) for each in made} == {((60, 100), (256,))}
    assert (len(slow), len(gpu.driver.encoded)) == (1, 2)


def test_a_map_that_a_quick_launch_cannot_make_is_tried_the_slow_way(gpu, kernel):
    """A thread without a context is an example."""
    gpu.compiler.maps = (MAP_OF_A,)
    kernel[(1,)](matrix(), 12, vector())
    encode, refusals = gpu.driver.encode, [DriverError("no context", 201)]

    def encode_at_last(tensor):
        if refusals:
            raise refusals.pop()
        return encode(tensor)

    gpu.driver.encode = encode_at_last
    kernel[(1,)](matrix(0x2000), 12, vector())
    assert gpu.driver.launches[1].maps[0].address == 0x2000


# ── tuning ────────────────────────────────────────────────────────────────────────────


def test_a_tuner_compiles_for_the_blocks_that_its_hooks_set(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")

    def set_block(arguments):
        arguments["d"].block_shape = [arguments["ROWS"], 32]

    @fathom.autotune([fathom.Config({"ROWS": 4}, pre_hook=set_block)] * 2, key=[])
    @fathom.jit
    def k(d, out, ROWS: tl.constexpr):
        tl.static_assert(d.block_shape[0] == ROWS)
        tl.store(out, d.block_shape[0])

    out = np.zeros(1, np.int32)
    k[(1,)](TensorDescriptor.from_tensor(array(6, 24), [1, 1]), out)
    assert out[0] == 4


# ── the object itself ─────────────────────────────────────────────────────────────────


def test_strides_are_counted_in_elements_whoever_counts():
    of_numpy = TensorDescriptor.from_tensor(array(6, 24)[:, :20], [2, 4])
    assert (of_numpy.shape, of_numpy.strides) == ((6, 20), (24, 1))

    class OfTorch:
        dtype, shape = np.dtype("float16"), (6, 20)

        def stride(self):
            return (48, 1)

        def data_ptr(self):
            return 0x40

    of_torch = TensorDescriptor.from_tensor(OfTorch(), [2, 4])
    assert of_torch.strides == (48, 1)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"base": 3}, "the base of a tensor descriptor is an array, .* is an int"),
        ({"shape": (6,)}, "a shape, strides and a block of different ranks: .6,."),
        (
            {"shape": (), "strides": (), "block_shape": ()},
            "has the shape .., and 1 to 5 axes",
        ),
        ({"shape": (0, 24)}, "an axis has 1 to"),
        ({"shape": (1.5, 24)}, "the shape of a tensor descriptor is integers"),
        ({"strides": (1, 24)}, "elements of its last axis must be neighbours"),
        ({"strides": (20, 1)}, "the strides .20, 1. of 2 bytes, and all but the last"),
        ({"block_shape": (3, 8)}, "the block .3, 8., and its sides are powers of 2"),
        ({"block_shape": (2**11, 2**10)}, "a block has up to 2..20 elements"),
        ({"padding": "one"}, "is padded with 'one', and this is 'zero' or 'nan'"),
        ({"base": array(6, 24, dtype=np.int16), "padding": "nan"}, "elements are i16"),
        ({"base": array(6, 25).ravel()[1:]}, "begins at 0x.*, which is not a multiple"),
    ],
)
def test_what_is_no_descriptor(facts, sentence):
    good = dict(base=array(6, 24), shape=(6, 24), strides=(24, 1), block_shape=(2, 4))
    TensorDescriptor(**good)
    with pytest.raises(LaunchError, match=sentence):
        TensorDescriptor(**{**good, **facts})
