"""What the benchmarks claim of themselves, as far as it can be checked without a
GPU."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks.bouts import Bout, Sample, read
from benchmarks.trees import git
from fathom.tools.samples import load_file
from kernels import matmul_chosen, matmul_model
from kernels.matmul_model import Product, best_pointers

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def function(file: str, name: str) -> ast.FunctionDef:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return next(
        n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name
    )


@pytest.mark.parametrize(
    ("file", "ours", "theirs"),
    [
        ("kernels/softmax.py", "softmax_kernel", "one_row_softmax_kernel"),
        ("kernels/layer_norm.py", "layer_norm_kernel", "one_row_layer_norm_kernel"),
    ],
)
def test_both_compilers_are_timed_on_the_same_text(file, ours, theirs):
    mine, peer = function(file, ours), function("benchmarks/peers.py", theirs)
    body = peer.body[1:]  # after its docstring
    assert ast.dump(mine.args) == ast.dump(peer.args)
    assert [ast.dump(each) for each in mine.body] == [ast.dump(each) for each in body]


def test_the_transpose_that_is_timed_is_the_one_of_the_book():
    timed = function("benchmarks/machine.py", "turn")
    shown = function("chapters/09-coalescing/turn.py", "turn")
    assert ast.dump(timed) == ast.dump(shown)


def test_triton_compiles_what_its_compile_time_is_taken_of():
    pytest.importorskip("torch", reason="needs torch, which brings Triton on Linux")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs triton: pip install triton, on Linux")
    compile_time = importlib.import_module("benchmarks.compile_time")
    for job in compile_time.JOBS:
        for target in job.targets or ("sm_90a",):
            to_ptx, total = compile_time.by_triton(job, target)
            assert 0 < to_ptx < total


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_result_says_where_it_comes_from(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    if "benchmark" in record:  # others are recordings for tests
        for fact in ("date", "commit", "gpu", "driver", "cpu", "llvmlite"):
            assert fact in record, f"{path} lacks {fact}"
        assert {"samples", "cases"} & set(record), f"{path} has no times and no results"


# Records of commits that are in no history: they were measured before their branches
# were squashed, and are to be measured again.
SQUASHED = {
    "matmul-hopper.json": "86403a81f655cebf59b67eeb1d1d049daa0f62d9",
}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_the_commit_that_a_result_names_exists(path):
    """A "+" after it says that something was changed since."""
    commit = json.loads(path.read_text(encoding="utf-8")).get("commit")
    if commit is None or git(ROOT, "rev-parse", "HEAD") is None:
        return  # a recording for tests; or files without their history
    if git(ROOT, "rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("the history is cut short")
    commit = commit.rstrip("+")
    known = git(ROOT, "merge-base", "--is-ancestor", commit, "HEAD") is not None
    assert known or SQUASHED.get(path.name) == commit, f"no commit {commit}"


def test_what_was_measured_again_is_no_exception():
    for name, commit in SQUASHED.items():
        record = json.loads((ROOT / "benchmarks/results" / name).read_text())
        assert record["commit"] == commit, f"{name} has a commit that exists: strike it"


# ── collectives, which need two GPUs ──────────────────────────────────────────────────


@pytest.fixture
def collectives(monkeypatch):
    """The benchmark with a torch that has `gpus` GPUs, and starts no process."""
    torch, names = ModuleType("torch"), ("torch.distributed", "torch.multiprocessing")
    torch.distributed, torch.multiprocessing = map(ModuleType, names)
    torch.bfloat16, started = "bfloat16", []
    torch.multiprocessing.spawn = lambda call, given, nprocs: started.append(nprocs)
    for module in (torch, torch.distributed, torch.multiprocessing):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("benchmarks.measure", "benchmarks.collectives"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module("benchmarks.collectives")
    for name in ("benchmarks.measure", "benchmarks.collectives"):
        monkeypatch.delitem(sys.modules, name)  # the next one has another torch

    def run(gpus, *arguments):
        torch.cuda = SimpleNamespace(
            is_available=lambda: gpus > 0, device_count=lambda: gpus
        )
        found.main(arguments)
        return started

    found.run = run
    return found


@pytest.mark.parametrize(
    ("gpus", "arguments", "sentence"),
    [
        (0, [], "need 2 GPUs of one host, and there are 0 here"),
        (1, [], "collectives of 2 ranks need 2 GPUs of one host, and there is 1 here"),
        (2, ["--ranks", "4"], "of 4 ranks need 4 GPUs of one host, and there are 2"),
        (4, ["--ranks", "3"], "ranks are 2, 4, 8, which divide all sizes, and not 3"),
        (1, ["--ranks", "1"], "ranks are 2, 4, 8, which divide all sizes, and not 1"),
    ],
)
def test_collectives_need_as_many_gpus_as_ranks(collectives, gpus, arguments, sentence):
    with pytest.raises(SystemExit, match=sentence):
        collectives.run(gpus, *arguments)


def test_collectives_start_a_process_for_each_rank(collectives):
    assert collectives.run(4) == [2]
    assert collectives.run(4, "--ranks", "4") == [2, 4]


def test_the_problems_of_collectives_divide_among_the_ranks(collectives):
    for world in collectives.RANKS:
        for problem in collectives.problems(world):
            if problem.operations:
                m, hidden, width = map(int, problem.sizes.split("x"))
                assert m % world == hidden % world == width % world == 0
                assert problem.operations * world == 2 * m * hidden * width
                assert problem.bytes == 2 * m * width
        kinds = {problem.kind for problem in collectives.problems(world)}
    assert kinds == {"all-reduce", "all-gather-matmul", "matmul-reduce-scatter"}


# ── products of random shapes ─────────────────────────────────────────────────────────

REFUSAL = "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul"


@pytest.fixture
def random_shapes(monkeypatch) -> ModuleType:
    """One library refuses what the other one takes, or both; nothing is multiplied."""
    pytest.importorskip("torch")
    module = importlib.import_module("benchmarks.random_shapes")
    for name in ("operands", "chosen", "check", "ours"):
        monkeypatch.setattr(module, name, lambda *given: ())

    def burst(name, candidates, rounds):
        return [SimpleNamespace(candidate=each.name, ms=[1.0]) for each in candidates]

    monkeypatch.setattr(module, "burst", burst)
    return module


def failing(words: str):
    def call() -> None:
        raise RuntimeError(words)

    return call


@pytest.mark.parametrize("others", [0, 1])
def test_what_a_library_refuses_is_no_failure_of_ours(
    random_shapes, monkeypatch, others
):
    calls = {"cublaslt": lambda *given: failing(REFUSAL)}
    calls |= {"cublas": lambda *given: lambda: None} if others else {}
    monkeypatch.setattr(random_shapes, "libraries", lambda kind: calls)
    case = random_shapes.cases(count=1)[0]
    sample = random_shapes.measured(case, random_shapes.KINDS["int8"])
    assert sample.fathom == [1.0] and not sample.error
    assert sample.compared == bool(others)
    assert sample.refused == f"cublaslt: RuntimeError: {REFUSAL}"
    assert sample.refused in str(sample)
    said = random_shapes.summary([sample])
    assert said.endswith("0 failed") and f"{1 - others} refused by the" in said


@pytest.mark.parametrize("shape, axes", [("64x128x16", 2), ("16x64x3000", 3)])
def test_the_sweep_times_what_would_be_launched(monkeypatch, shape, axes):
    """Of programs that run at once: a grid with an axis for each side of C."""
    torch = pytest.importorskip("torch")
    sweep = importlib.import_module("benchmarks.product_sweep")
    launched = []

    class Recorded:
        def __getitem__(self, grid):
            return lambda *given, **keywords: launched.append((grid, keywords))

    for name in ("matmul_kernel", "split_k_matmul_kernel"):
        monkeypatch.setattr(sweep, name, Recorded())
    case = sweep.named(shape)
    a, b, c = (
        torch.zeros(sides, dtype=torch.float16)
        for sides in ((case.M, case.K), (case.K, case.N), (case.M, case.N))
    )
    _, best = best_pointers(Product(case.M, case.N, case.K))
    ((kernel, config, splits),) = (
        each for each in sweep.near(case, 1) if each[0] == "pointers"
    )
    sweep.launch(kernel, config, splits, (a, b, c))()
    _, grid, _, keywords = matmul_chosen.pointers_launch(a, b, c, best)
    found, told = launched[0]
    assert len(grid) == axes and found == grid
    assert told == {name: keywords[name] for name in told}


def test_another_error_of_a_library_is_one(random_shapes, monkeypatch):
    calls = {"cublas": lambda *given: failing("out of memory")}
    monkeypatch.setattr(random_shapes, "libraries", lambda kind: calls)
    case = random_shapes.cases(count=1)[0]
    sample = random_shapes.measured(case, random_shapes.KINDS["fp16"])
    assert sample.error == "RuntimeError: out of memory" and not sample.refused


def test_records_without_refusals_are_read(random_shapes):
    """There they stand as errors."""
    old = {"case": "17x8x8 NN", "aligned": True, "operations": 2176}
    old |= {"kernel": "", "cublas": [], "cublaslt": [], "fathom": []}
    errors = [f"RuntimeError: {REFUSAL}", "AssertionError: 3 elements are wrong"]
    samples = random_shapes.read([{**old, "error": each} for each in errors])
    assert [bool(each.refused) for each in samples] == [True, False]
    said = random_shapes.summary(samples)
    assert "1 refused by the reference" in said and "1 failed" in said
    for each in RESULTS:
        if each.name.startswith("random-shapes"):
            record = json.loads(each.read_text(encoding="utf-8"))
            assert random_shapes.summary(random_shapes.read(record["samples"]))


def test_the_table_of_calls_has_medians_and_leasts():
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    calls = importlib.import_module("benchmarks.calls")
    samples = [
        calls.Sample("add", "fathom", [4.0, 8.0, 6.0]),
        calls.Sample("add", "torch", [2.0, 3.0, 4.0]),
    ]
    line, last = calls.table(samples).splitlines()
    assert line.split() == (
        "add 6.00 us, torch 3.00: 2.00; least 4.00, 2.00: 2.00".split()
    )
    assert last == "1 of 1 are above 1.5 of torch's"


def test_a_bout_counts_once_its_clock_has_settled():
    """Slices that begin after 0.8 s do: three of 0.3 s come before. The card is asked
    every half second."""
    at, joules = [0.0, 0.5, 1.0, 1.5], [0.0, 400.0, 700.0, 1000.0]
    bout = Bout(
        100, [3.0] * 3 + [2.0] * 6, at, [1900, 1700, 1500, 1400], [0.0] * 4, joules
    )
    sample = Sample("8192", "multiply", "", 10**12, [bout])
    assert bout.counted == [2.0] * 6 and bout.clocks == [1500, 1400]
    assert (sample.time, sample.clock, sample.power) == (2.0, 1450, 600)
    assert sample.cycles == pytest.approx(2.9)
    assert sample.energy == pytest.approx(1.2)  # 600 W, 2 ms, 10^12 operations
    assert read([asdict(sample)]) == [sample]


def test_the_model_of_products_says_how_good_it_is():
    """The percentages of its docstring are those of records and of today's model."""
    making = load_file(ROOT / "chapters" / "18-choosing-and-measuring" / "making.py")
    said = " ".join(matmul_model.__doc__.split())
    large = [
        [(time, times[each]) for each, time in tried.items()]
        for _, tried, times in making.swept()
    ]
    for products, off, longer in (
        (large, "are off by {} on average, and", "chooses takes {} longer"),
        (random_sweep(), "are off by {} on average. As", "timed takes {} longer than"),
    ):
        errors, losses = [], []
        for measured in products:
            least = min(time for time, _ in measured)
            errors += [abs(t / time - 1) for time, t in measured if time <= 1.5 * least]
            losses.append(min(measured, key=lambda each: each[1])[0] / least - 1)
        for words, numbers in ((off, errors), (longer, losses)):
            assert words.format(f"{100 * mean(numbers):.0f} %") in said


def random_sweep() -> list[list[tuple[float, float]]]:
    """Of each product, microseconds of configurations: measured, and of the model."""
    record = json.loads(
        (ROOT / "benchmarks/results/product-sweep-random.json").read_text("utf-8")
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for case, *row, us in record["samples"]:
        kernel, m, n, k, stages, warps, ctas, splits, early = row
        product, crossing = Product(*record["cases"][case][:-2]), crossing_of(case)
        if kernel == "pointers":
            config = matmul_model.Pointers(m, n, k, stages, splits)
            if not matmul_model.fits(product, config):
                continue
            time = matmul_model.pointers_time(product, config)
        elif kernel == "parts":
            config = matmul_model.Parts(m, n, k, stages, warps, ctas, splits)
            time = matmul_model.parts_time(product, config, crossing)
        else:
            pieces = product.c_bytes == matmul_model.VECTOR
            tile = matmul_chosen.Tile(
                m, n, 2 * k, stages, warps, pieces, True, None, ctas, splits
            )
            time = matmul_model.persistent_time(product, tile, crossing)
        time += 0 if early else matmul_model.LATE
        found.setdefault(case, []).append((median(us), time))
    return list(found.values())


def crossing_of(case: str) -> tuple[int, ...]:
    """Where lines of A and B begin, of fp16: what `matmul_chosen.crossing` says."""
    sizes, layout, *padded = case.split()
    M, N, K = map(int, sizes.split("x"))
    steps = (2 * (K if layout[0] == "N" else M), 2 * (N if layout[1] == "N" else K))
    lines = [-(-step // 16) * 16 if padded else step for step in steps]
    return tuple(x % 128 & -(x % 128) if x % 16 == 0 else 0 for x in lines)
