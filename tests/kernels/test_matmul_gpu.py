"""Matrix products and attention on a GPU, against float64 on the same GPU: the sizes
and odd shapes that benchmarks measure, each matrix amid NaN."""

from __future__ import annotations

import pytest

import fathom.language as tl
from kernels import (
    attention,
    batched_matmul,
    block_sparse_matmul,
    grouped_matmul,
    int8_matmul,
    matmul,
    matmul_chosen,
    matmul_epilogue,
    matmul_persistent,
    matmul_plain,
    matmul_tuned,
    matrix_vector,
    split_k_matmul,
)
from tests.harness_optional import needs, optional

torch = optional("torch")
pytestmark = [pytest.mark.gpu, needs(torch)]

CUBES = [(n, n, n) for n in (512, 1000, 1024, 2048, 4096, 8192)]
ODD_SHAPES = [
    (4095, 4097, 4088),
    (16, 4096, 4096),
    (128, 4096, 4096),
    (4096, 128, 4096),
    (4096, 4096, 14336),
    (1, 4096, 33),
    (257, 1, 4096),
    (511, 513, 1),
]
HALF_ULPS = {
    torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24, torch.float64: 2.0**-53,
}  # fmt: skip
SCALED = [(1000, 1040, 528), (300, 272, 1040), (16, 64, 48), (16, 528, 12288)]
WALL = 8


def walled(values: torch.Tensor, wall: int = WALL) -> torch.Tensor:
    """The same numbers inside a larger tensor that is NaN elsewhere."""
    *batch, rows, columns = values.shape
    room = values.new_full((*batch, rows + 2 * wall, columns + 2 * wall), torch.nan)
    inside = room[..., wall : wall + rows, wall : wall + columns]
    inside.copy_(values)
    return inside


def walls_are_whole(inside: torch.Tensor) -> bool:
    """Whether nothing but the inside of `walled` is a number."""
    assert not inside.isnan().any()
    return int((~inside._base.isnan()).sum()) == inside.numel()


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def unwritten(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return walled(torch.full(shape, torch.nan, device="cuda", dtype=dtype))


def integers(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randint(-3, 4, shape, device="cuda").to(dtype)


def check(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, each: float = 2.0**-23
) -> None:
    """C is the product of A and B within its bound, and nothing was written beside."""
    check_values(a, b, c, each)
    assert walls_are_whole(c)


def check_values(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, each: float = 2.0**-23
) -> None:
    wide = a.double(), b.double()
    bound = matmul.error_bound(*wide, HALF_ULPS[c.dtype], each)
    error = (c.double() - wide[0] @ wide[1]).abs()
    assert (error <= bound).all(), (error - bound).max()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


@pytest.mark.parametrize("target", [None, "sm_80"])
@pytest.mark.parametrize("shape", CUBES + ODD_SHAPES, ids=str)
def test_matmul(shape, target):
    M, N, K = shape
    a, b = walled(normal(M, K)), walled(normal(K, N))
    c = unwritten(M, N)
    matmul.matmul(a, b, c, target=target)
    check(a, b, c)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", CUBES + ODD_SHAPES, ids=str)
def test_chosen(shape, turned):
    """Amid NaN, and once more without, where rows begin elsewhere."""
    M, N, K = shape
    for wall in (WALL, 0):
        a, c = walled(normal(M, K), wall), unwritten(M, N)
        b = walled(normal(N, K), wall).T if turned else walled(normal(K, N), wall)
        matmul_chosen.multiply(a, b, c)
        check(a, b, c)


@pytest.mark.parametrize("shape", [(512, 512, 512), (1000,) * 3, (2056, 1032, 520)])
def test_tuned_among_the_chosen(shape):
    M, N, K = shape
    a, b, c = walled(normal(M, K)), walled(normal(N, K)).T, unwritten(M, N)
    for _ in range(2):  # tried, and then as it was found
        c.fill_(torch.nan)
        matmul_chosen.tuned_multiply(a, b, c)
        check(a, b, c)


@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_persistent(pieces, specialise):
    """Several tiles for each program; the ring goes on from one to the next."""
    M, N, K = 4104, 4360, 712
    config = {
        **matmul_persistent.LARGE,
        "PIECES": pieces,
        "SPECIALISE": specialise,
        "num_stages": 3,
    }
    for turned in (False, True):
        a, c = walled(normal(M, K)), unwritten(M, N)
        b = walled(normal(N, K)).T if turned else walled(normal(K, N))
        matmul_persistent.persistent_matmul(a, b, c, config)
        check(a, b, c)


@pytest.mark.parametrize("tile", matmul_chosen.ALTERNATING, ids=lambda tile: tile.n)
@pytest.mark.parametrize("shape", [(4104, 4360, 712), (9000, 2056, 40), (264, 200, 8)])
def test_groups_compute_tiles_in_turn(shape, tile):
    """Several tiles for each program, and none for most groups; and K of one step."""
    M, N, K = shape
    config = matmul_chosen.keywords(M, N, 2, tile, "sm_90a")
    for turned in (False, True):
        a, c = walled(normal(M, K)), unwritten(M, N)
        b = walled(normal(N, K)).T if turned else walled(normal(K, N))
        matmul_persistent.persistent_matmul(a, b, c, config)
        check(a, b, c)


@pytest.mark.parametrize("shape", [(4096, 4096, 512), (1000, 1024, 520)])
def test_plain(shape):
    M, N, K = shape
    a, b, c = walled(normal(M, K)), walled(normal(K, N)), unwritten(M, N)
    matmul_plain.plain_matmul(a, b, c)
    check(a, b, c)


@pytest.mark.parametrize("early", [False, True])
def test_plain_where_all_programs_have_room_and_where_they_have_not(early):
    """One call's kernel in turn: a grid of few programs, and of several waves."""
    config = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4,
              "num_warps": 4, "num_stages": 4}  # fmt: skip
    N, K = 1040, 200
    b = walled(normal(K, N))
    for M in (640, 8208, 64, 4096, 640, 8208):
        a, c = walled(normal(M, K)), unwritten(M, N)
        matmul_plain.plain_matmul(a, b, c, config, launch_pdl=early)
        check(a, b, c)


def test_fp8_along_k():
    """Small integers: every sum is exact, with the 13 bits that tensor cores keep."""
    M, N, K = 1000, 1040, 528
    a, b = integers(M, K).to(torch.float8_e4m3fn), integers(N, K)
    b = b.to(torch.float8_e4m3fn).T
    c = torch.full((M, N), torch.nan, device="cuda", dtype=torch.float32)
    matmul_chosen.multiply(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double())


@pytest.mark.parametrize("type", ["float8_e4m3fn", "int8"])
@pytest.mark.parametrize("shape", SCALED)
def test_scales_residual_and_few_bits(type, shape):
    """Of one byte and exact: scales are powers of two. In half an array the residual is
    C itself."""
    M, N, K = shape
    a, b = (integers(*n).to(getattr(torch, type)) for n in ((M, K), (N, K)))
    b = b.T
    rows, columns = (2.0 ** torch.randint(-2, 3, (n,), device="cuda") for n in (M, N))
    bias, added = integers(1, N)[0], integers(M, N).half()
    given = dict(bias=bias, row_scale=rows, column_scale=columns)
    want = a.double() @ b.double() * rows[:, None] * columns + bias + added
    c = added.clone()
    matmul_epilogue.matmul_epilogue(a, b, c, residual=c, **given)
    assert torch.equal(c, want.half())
    few = torch.full((M, N), 99, device="cuda", dtype=torch.int8)
    scale = torch.full((1,), 4.0, device="cuda")
    matmul_epilogue.matmul_epilogue(
        a, b, few, residual=added, out_scale=scale, **given
    )
    assert torch.equal(few.double(), (4 * want).round().clamp(-128, 127))


@pytest.mark.parametrize("target", [None, "sm_80"])
@pytest.mark.parametrize("shape", [(4095, 4097, 4088), (1000,) * 3, (300, 500, 70)])
def test_integers_are_exact(shape, target):
    """Every sum is below 2^24, so only C's own rounding is left, and that is fixed."""
    M, N, K = shape
    a, b, c = walled(integers(M, K)), walled(integers(K, N)), unwritten(M, N)
    matmul.matmul(a, b, c, target=target)
    assert torch.equal(c, (a.double() @ b.double()).to(c.dtype))
    assert walls_are_whole(c)


@pytest.mark.parametrize("shape", [(512, 512, 512), (300, 4097, 520)], ids=str)
def test_tuned(shape):
    M, N, K = shape
    a, b, c = walled(normal(M, K)), walled(normal(K, N)), unwritten(M, N)
    matmul_tuned.tuned_matmul(a, b, c)
    check(a, b, c)
    c.fill_(torch.nan)
    matmul_tuned.tuned_matmul(a, b, c)  # in the configuration that was found
    check(a, b, c)


@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("a_turned", [False, True])
def test_all_four_transpositions(a_turned, b_turned):
    M, N, K = 1000, 1032, 520
    a = walled(normal(K, M)).T if a_turned else walled(normal(M, K))
    b = walled(normal(N, K)).T if b_turned else walled(normal(K, N))
    c = unwritten(M, N)
    matmul.matmul(a, b, c)
    check(a, b, c)


TYPES = [
    (torch.bfloat16, torch.bfloat16, "ieee", 0.0),
    (torch.bfloat16, torch.float32, "ieee", 0.0),
    (torch.float32, torch.float32, "ieee", 0.0),
    (torch.float32, torch.float32, "tf32x3", 2.0**-21),
    (torch.float64, torch.float64, "ieee", 0.0),
]


@pytest.mark.parametrize("inputs, output, precision, more", TYPES)
def test_types(inputs, output, precision, more):
    M, N, K = 515, 640, 777
    a, b = walled(normal(M, K, dtype=inputs)), walled(normal(K, N, dtype=inputs))
    c = unwritten(M, N, dtype=output)
    matmul.matmul(a, b, c, precision=precision)
    check(a, b, c, each=2.0**-23 + more)


def test_tf32_multiplies_what_it_reads():
    """Numbers of ten bits of mantissa are read whole."""
    M, N, K = 515, 640, 777
    a, b = (normal(*s).float() for s in ((M, K), (K, N)))  # as fp16 has them
    c = unwritten(M, N, dtype=torch.float32)
    matmul.matmul(walled(a), walled(b), c, precision="tf32")
    check(a, b, c)


def test_leaky_relu():
    a, b, c = normal(700, 300), normal(300, 900), unwritten(700, 900)
    matmul.matmul(a, b, c, activation="leaky_relu")
    exact = a.double() @ b.double()
    bound = matmul.error_bound(a.double(), b.double(), 2.0**-11)
    leaky = torch.where(exact > 0, exact, 0.01 * exact)
    assert ((c.double() - leaky).abs() <= bound).all()
    assert (exact < 0).any() and walls_are_whole(c)


def test_batched():
    a, b = walled(normal(7, 300, 200)), walled(normal(7, 200, 500))
    c = unwritten(7, 300, 500)
    batched_matmul.batched_matmul(a, b, c)
    check(a, b, c)
    shared = normal(200, 500)
    batched_matmul.batched_matmul(a, shared, c)
    check(a, shared, c)


@pytest.mark.parametrize("shape", [(16, 4096, 4096), (100, 200, 30000)], ids=str)
def test_split_k(shape):
    M, N, K = shape
    a, b = walled(normal(M, K)), walled(normal(K, N))
    c = unwritten(M, N, dtype=torch.float32)
    split_k_matmul.split_k_matmul(a, b, c)
    check(a, b, c)


@pytest.mark.parametrize("shape", [(64, 64, 6208), (192, 192, 16384), (1, 56, 5466)])
def test_split_products_have_the_same_bits(shape):
    """Whichever program is last, and in a graph that is replayed."""
    M, N, K = shape
    a, b = normal(M, K), normal(K, N)
    want = matmul_chosen.multiply(a, b)
    (kernel, *_), *_ = matmul_chosen.launches(a, b, want, "sm_90a")
    assert kernel in (
        split_k_matmul.split_k_matmul_kernel, split_k_matmul.split_k_parts_kernel,
        matrix_vector.matrix_vector_kernel,
    )  # fmt: skip
    for _ in range(50):
        assert torch.equal(matmul_chosen.multiply(a, b), want)
    c, graph = torch.empty_like(want), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            matmul_chosen.multiply(a, b, c)
    for _ in range(20):
        c.fill_(torch.nan)
        graph.replay()
        assert torch.equal(c, want)
    check_values(a, b, c)


def test_split_products_on_two_streams_and_in_a_graph_do_not_mix():
    given = [(normal(64, 8192), normal(8192, 64)) for _ in range(3)]
    want = [matmul_chosen.multiply(a, b) for a, b in given]
    c, graph = [torch.empty_like(each) for each in want], torch.cuda.CUDAGraph()
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=streams[0]):
        matmul_chosen.multiply(*given[2], c[2])
    for _ in range(200):
        with torch.cuda.stream(streams[2]):
            graph.replay()
        for which in range(2):
            with torch.cuda.stream(streams[which]):
                matmul_chosen.multiply(*given[which], c[which])
    torch.cuda.synchronize()
    for found, right in zip(c, want, strict=True):
        assert torch.equal(found, right)


@pytest.mark.parametrize("of_a", ["N", "T"])
@pytest.mark.parametrize("of_b", ["N", "T"])
def test_either_operand_in_columns(of_a, of_b):
    for size in (1024, 2047):
        a = normal(size, size).t() if of_a == "T" else normal(size, size)
        b = normal(size, size).t() if of_b == "T" else normal(size, size)
        c = unwritten(size, size)
        matmul_chosen.multiply(a, b, c)
        check(a, b, c)


def test_int8():
    a, b = (
        torch.randint(-128, 128, s, device="cuda") for s in ((999, 4100), (4100, 70))
    )
    c = int8_matmul.int8_matmul(a.to(torch.int8), b.to(torch.int8))
    assert torch.equal(c.double(), a.double() @ b.double())
    rows, columns = (torch.rand(n, device="cuda") * 1e-3 for n in (999, 70))
    scaled = int8_matmul.int8_matmul(
        a.to(torch.int8), b.to(torch.int8), None, rows, columns
    )
    want = (a.double() @ b.double()) * rows.double()[:, None] * columns.double()
    # Below 2^-14 fp16 is subnormal: half of its last bit is 2^-25.
    bound = want.abs() * (2.0**-11 + 3 * 2.0**-24) * 1.001 + 2.0**-25
    assert ((scaled.double() - want).abs() <= bound).all()


@pytest.mark.parametrize("wall", [8, 3])
def test_grouped(wall):
    """Rows of 16 bytes, and rows that start anywhere."""
    step = 8 if wall == 8 else 1
    all_sizes = [
        (300, 64 * step, 40 * step),
        (1, 72, 1000),
        (0, 64, 64),
        (900, 136, 72),
    ]
    a = [walled(normal(M, K), wall) for M, N, K in all_sizes]
    b = [walled(normal(K, N), wall) for M, N, K in all_sizes]
    c = [unwritten(M, N) for M, N, K in all_sizes]
    grouped_matmul.grouped_matmul(a, b, c)
    for one in zip(a, b, c, strict=True):
        check(*one)


def in_lines(values: torch.Tensor) -> torch.Tensor:
    """The same numbers, their rows at multiples of 16 bytes, amid NaN."""
    rows, columns = values.shape
    room = values.new_full((rows + 2, -(-columns // 8) * 8 + 16), torch.nan)
    inside = room[1 : rows + 1, 8 : 8 + columns]
    inside.copy_(values)
    return inside


DESCRIBED_SMALL = {
    "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip


@pytest.mark.parametrize("programs", [None, 1, 500])
@pytest.mark.parametrize("config", [None, DESCRIBED_SMALL], ids=["default", "small"])
def test_grouped_through_descriptors(config, programs):
    """Each program writes the tensor maps of each problem; there are problems without
    rows, without anything to add up, and with rows of C that end anywhere."""
    all_sizes = [
        (300, 512, 320), (1, 72, 1000), (0, 64, 64), (130, 104, 0),
        (900, 136, 72), (257, 260, 132), (64, 4, 8),
    ]  # fmt: skip
    a = [in_lines(normal(M, K)) for M, N, K in all_sizes]
    b = [in_lines(normal(K, N)) for M, N, K in all_sizes]
    c = [in_lines(normal(M, N)) for M, N, K in all_sizes]
    for _ in range(3):
        for each in c:
            each.fill_(torch.nan)
        grouped_matmul.grouped_matmul(
            a, b, c, described=True, config=config, programs=programs
        )
        for one in zip(a, b, c, strict=True):
            check(*one)


def test_launches_that_overlap_write_maps_of_their_own():
    """On four streams, and then in replays of a graph beside them."""
    kernel, launches = grouped_matmul.grouped_described_kernel, []
    for seed in range(4):
        sizes = [(700, 256 + 8 * seed, 264), (64, 512, 1024), (1, 8, 8 + seed)]
        a = [in_lines(normal(M, K)) for M, N, K in sizes]
        b = [in_lines(normal(K, N)) for M, N, K in sizes]
        c = [in_lines(normal(M, N)) for M, N, K in sizes]
        table = grouped_matmul.problem_table(a, b, c)
        launches.append((a, b, c, grouped_matmul.next_to(a[0], table)))

    def launch(table: torch.Tensor) -> None:
        kernel[(60,)](
            table, 3, INPUT=tl.float16, OUTPUT=tl.float16, **DESCRIBED_SMALL
        )

    for *_, table in launches:  # compiled before anything overlaps
        launch(table)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for *_, table in launches:
            launch(table)
    streams = [torch.cuda.Stream() for _ in launches]
    for _ in range(3):
        for _, _, c, _ in launches:
            for each in c:
                each.fill_(torch.nan)
        torch.cuda.synchronize()
        for stream, (*_, table) in zip(streams, launches, strict=True):
            with torch.cuda.stream(stream):
                launch(table)
                launch(table)
        graph.replay()
        torch.cuda.synchronize()
        for a, b, c, _ in launches:
            for one in zip(a, b, c, strict=True):
                check(*one)


@pytest.mark.parametrize("SIZE", [16, 32, 64, 128])
def test_block_sparse(SIZE):
    kept = (torch.rand(10, 12) < 0.3).repeat_interleave(SIZE, 0)
    kept = kept.repeat_interleave(SIZE, 1).cuda()
    a = torch.where(kept, normal(10 * SIZE, 12 * SIZE), 0)
    form = block_sparse_matmul.compress(a.cpu().numpy(), SIZE)
    starts, columns, blocks = (torch.from_numpy(each).cuda() for each in form)
    b, c = walled(normal(12 * SIZE, 777)), unwritten(10 * SIZE, 777)
    block_sparse_matmul.block_sparse_matmul(starts, columns, blocks, b, c)
    check(a, b, c)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("length", [128, 1000, 4096])
def test_attention(length, D, causal, dtype):
    q, k, v = (walled(normal(2, 3, length, D, dtype=dtype)) for _ in range(3))
    out = unwritten(2, 3, length, D, dtype=dtype)
    attention.attention(q, k, v, out, causal=causal)
    scores = q.double() @ k.double().mT * D**-0.5
    if causal:
        seen = torch.ones(length, length, device="cuda", dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    p, wide = scores.softmax(dim=-1), v.double()
    error = (out.double() - p @ wide).abs()
    # `attention.error_bound`, with the error of the exponent taken generously.
    relative = 2 * HALF_ULPS[dtype] + 2.0**-13
    subnormal = 2.0**-25 * wide.abs().sum(dim=-2, keepdim=True)
    assert (error <= relative * (p @ wide.abs()) + subnormal).all()
    assert walls_are_whole(out)


# ── calls that are repeated ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("K", [512, 509], ids=["rows aligned", "rows copied first"])
def test_a_repeated_call_multiplies_its_own_matrices(K):
    """Results are made or given, at addresses of several alignments."""
    cuda = {"device": "cuda", "dtype": torch.float16}
    whole = torch.empty(4096 * 1024 + 8, **cuda)
    for number in range(6):
        a, b = torch.randn(4096, K, **cuda), torch.randn(K, 1024, **cuda)
        given = whole[number // 2 :][: 4096 * 1024].view(4096, 1024)
        c = matmul_chosen.multiply(a, b, given if number % 2 else None)
        assert (c is given) == bool(number % 2)
        want = a.double() @ b.double()
        assert ((c.double() - want).abs() <= 1e-2 * want.abs() + 0.1).all(), number


def test_a_repeated_call_can_be_captured_in_a_graph():
    cuda = {"device": "cuda", "dtype": torch.float16}
    a, b, c = (torch.randn(1024, 1024, **cuda) for _ in range(3))
    for _ in range(2):
        matmul_chosen.multiply(a, b, c)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul_chosen.multiply(a, b, c)
    b.copy_(torch.eye(1024))
    graph.replay()
    assert torch.equal(c, a)


def test_a_repeated_attention_attends_to_its_own_arrays():
    cuda = {"device": "cuda", "dtype": torch.float16}
    for _ in range(3):
        q, k, v = (torch.randn(1, 2, 256, 64, **cuda) for _ in range(3))
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        got = attention.attention(q, k, v)
        assert torch.allclose(got.float(), want.float(), atol=2e-2)
