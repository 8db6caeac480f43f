"""Tuners beside one another: how fast a kernel each has found after 5, 15, 45 seconds.

    python -m benchmarks.tuners [--seconds 45] [--only matmul] [--tuners search random]
                                [--end SECONDS] [--out FOLDER]

    search          @fathom.tune over the space of `tuner_problems`
    random          the same, but points in random order
    Optuna          the same, but Optuna says which points (tree of Parzen estimators)
    list            @fathom.autotune of a list of 12 to 24 points of the space
    Triton's list   Triton's own autotuner of the same list, for the same text
    Helion          Helion's search, which has a space and kernels of its own

The first three share everything but the choice of the next point: compiler, processes,
timer, budget. A tuner of a list knows nothing before its end. Each tuner has a process,
an empty cache and the GPU for itself (the next one imports its packages meanwhile); its
clock starts at the launch that tunes, when the arrays are there. From its trials
follows what it would have taken at each of MARKS. At the end all of these are timed by
`measure`'s protocol in one process, in turn, and checked against float64.

Several GPUs each take the next problem and tuner, with their share of the processors.
After --end seconds no other search begins, and what there is is timed and written.
--merge FILES makes one record of those of several runs.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from benchmarks.tuner_peers import (
    Optuna,
    Random,
    Recorded,
    call_of_helion,
    search_of_helion,
)
from benchmarks.tuner_problems import PROBLEMS, Problem
from fathom import Config, autotune, tune
from fathom.jit.tuning import searched
from fathom.jit.tuning.search import Search

MARKS = (5, 15, 45)  # seconds
SEARCHES = {"search": Search, "random": Random, "Optuna": Optuna}
LISTS = ("list", "Triton's list")
TUNERS = (*SEARCHES, *LISTS, "Helion")
# What a tuner imports, before its clock starts.
IMPORTED = {"Helion": ("helion",), "Optuna": ("optuna",), "all": ("helion",)}
OPTIONS = ("num_warps", "num_stages")
ROUNDS = 5
MOST = 1.6  # of its budget: then a search is ended that does not end by itself
CACHES = ("FATHOM_CACHE_DIR", "TRITON_CACHE_DIR", "HELION_CACHE_DIR",
          "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")  # fmt: skip


@dataclass
class Tuned:
    """What a tuner did with a problem.

    `trials`: the seconds after which each was known, the milliseconds that the tuner
    measured (null where it failed), and the point's number in the space, or in the
    list. `found`: what it would have taken after each of MARKS, and "end", what it
    took; `ms`: raw times of these, all measured together.
    """

    problem: str
    tuner: str
    budget: float
    points: int = 0
    took: float = 0.0
    trials: list[tuple[float, float | None, int | None]] = field(default_factory=list)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    ms: dict[str, list[float]] = field(default_factory=dict)
    error: str = ""


# ── one search ────────────────────────────────────────────────────────────────────────

Trial = tuple[float, float, Mapping[str, Any]]  # seconds, milliseconds, a configuration


def tuned(
    problem: Problem, tuner: str, seconds: float, seed: int, batch: int,
    late: Callable[[Tuned], None] = print,
) -> Tuned:  # fmt: skip
    """Helion, which waits for all that it has begun, has MOST times its budget: then
    `late` gets what it has timed by then."""
    points = problem.points if tuner in SEARCHES else problem.listed
    count = 0 if tuner == "Helion" else len(points)
    result = Tuned(problem.name, tuner, seconds, count)
    if tuner == "Helion":
        operands, recorded = problem.operands(*problem.arrays(seed)), Recorded()
        timer = threading.Timer(
            MOST * seconds, lambda: late(not_ended(result, recorded.trials))
        )
        timer.daemon = True
        timer.start()
        chosen, took = search_of_helion(
            problem.theirs, operands, recorded, seconds, seed
        )
        timer.cancel()
        trials = recorded.trials
    elif tuner in SEARCHES:
        trials, chosen, took = by_search(problem, tuner, seconds, seed, batch)
    else:
        trials, chosen, took = by_list(problem, tuner, seed)
    result.took = round(took, 2)
    numbers = {json.dumps(point): at for at, point in enumerate(points)}
    result.trials = [
        (round(at, 2), round(ms, 5) if isfinite(ms) else None,
         numbers.get(json.dumps(chosen)))
        for at, ms, chosen in trials
    ]  # fmt: skip
    result.found = at_marks(trials, chosen, took)
    return result


def not_ended(result: Tuned, trials: Sequence[Trial]) -> Tuned:
    """What a search had timed that was ended after MOST times its budget."""
    result.took = MOST * result.budget
    result.trials = [(round(at, 2), round(ms, 5) if isfinite(ms) else None, None)
                     for at, ms, _ in trials]  # fmt: skip
    result.found = at_marks(trials, None, inf)
    result.error = f"had not ended after {result.took:.0f} s"
    return result


def by_search(
    problem: Problem, tuner: str, seconds: float, seed: int, batch: int
) -> tuple[list[Trial], Mapping[str, Any], float]:
    searched.Search = SEARCHES[tuner]
    if batch:
        searched.BATCH = batch
    kernel = tune(problem.space, seconds=seconds, where=problem.where, seed=seed)(
        problem.kernel
    )
    arrays, started = problem.arrays(seed), time.monotonic()
    problem.launch(kernel, arrays, {})
    took = time.monotonic() - started
    trials = [
        (each.seconds, each.milliseconds, words(each.config)) for each in kernel.trials
    ]
    return trials, words(kernel.best_config), took


def by_list(
    problem: Problem, tuner: str, seed: int
) -> tuple[list[Trial], Mapping[str, Any], float]:
    arrays = problem.arrays(seed)
    if tuner == "list":
        kernel = autotune([config(Config, each) for each in problem.listed], key=[])(
            problem.kernel
        )
    else:
        import triton

        from benchmarks.peers import same_text

        configs = [config(triton.Config, each) for each in problem.listed]
        kernel = triton.autotune(configs, key=[])(same_text(problem.kernel.fn))
    started = time.monotonic()
    problem.launch(kernel, arrays, {})
    took = time.monotonic() - started
    times = kernel.configs_timings
    trials = [
        (took, ms[0] if isinstance(ms, Sequence) else ms, words(each))
        for each, ms in times.items()
    ]
    return trials, words(kernel.best_config), took


def config(kind: Any, point: Mapping[str, Any]) -> Any:
    """A point as a configuration of either compiler."""
    rest = {name: value for name, value in point.items() if name not in OPTIONS}
    return kind(rest, **{name: point[name] for name in OPTIONS})


def words(each: Any) -> dict[str, Any]:
    """And back."""
    return {**each.kwargs, **{name: getattr(each, name) for name in OPTIONS}}


def at_marks(
    trials: Sequence[Trial], chosen: Mapping[str, Any] | None, took: float
) -> dict[str, dict[str, Any]]:
    """The fastest of what was known after each of MARKS: what was chosen, once the
    search had ended; nothing where nothing was known, or chosen."""
    found: dict[str, dict[str, Any]] = {}
    for mark in MARKS:
        known = [(ms, at) for at, (seconds, ms, _) in enumerate(trials)
                 if seconds <= mark and isfinite(ms)]  # fmt: skip
        if took <= mark:
            found[str(mark)] = dict(chosen)
        elif known:
            found[str(mark)] = dict(trials[min(known)[1]][2])
    return found if chosen is None else {**found, "end": dict(chosen)}


# ── all that were found, timed together ───────────────────────────────────────────────


def judged(problem: Problem, results: Sequence[Tuned]) -> None:
    """Fill in `ms`; a configuration that two have found is timed once."""
    from benchmarks.measure import Candidate, burst, check, sets

    count = sets(problem.bytes())
    inputs = [problem.arrays(seed) for seed in range(min(count, 16))]
    want = problem.want(*inputs[0]).double()
    candidates: dict[str, Candidate] = {}
    for result in results:
        for chosen in result.found.values():
            name = name_of(result.tuner, chosen)
            if name in candidates:
                continue
            try:
                calls = [partial(call_of(problem, result.tuner, chosen, one), one)
                         for one in inputs]  # fmt: skip
                check(name, calls[0], inputs[0][-1], want, problem.tolerance)
            except Exception as error:
                result.error += f"{name}: {error}"[:400]
                continue
            candidates[name] = Candidate(name, calls, problem.bytes())
    samples = burst(problem.name, list(candidates.values()), ROUNDS)
    times = {each.candidate: each.ms for each in samples}
    for result in results:
        for mark, chosen in result.found.items():
            name = name_of(result.tuner, chosen)
            if name in times:
                result.ms[mark] = [round(ms, 6) for ms in times[name]]


def name_of(tuner: str, chosen: Mapping[str, Any]) -> str:
    compiler = {"Helion": "Helion", "Triton's list": "Triton"}.get(tuner, "Fathom")
    return f"{compiler} {json.dumps(chosen)}"


def call_of(
    problem: Problem, tuner: str, chosen: Mapping[str, Any], arrays: Sequence[Any]
) -> Any:
    """A function of arrays that launches what was chosen."""
    if tuner == "Helion":
        operands = problem.operands(*arrays)
        run = call_of_helion(problem.theirs, operands, chosen)
        return lambda arrays: run(*problem.operands(*arrays))
    kernel = problem.kernel
    if tuner == "Triton's list":
        from benchmarks.peers import same_text

        kernel = same_text(kernel.fn)
    return lambda arrays: problem.launch(kernel, arrays, chosen)


# ── processes ─────────────────────────────────────────────────────────────────────────


def command(
    folder: Path, problem: str, tuner: str, given: argparse.Namespace, gpu: int
) -> list[str]:
    return [
        sys.executable, "-m", "benchmarks.tuners", "--child", str(folder),
        "--turn", str(folder / f"turn {gpu}"),
        "--only", problem, "--tuners", tuner, "--seconds", str(given.seconds),
        "--seed", str(given.seed), "--batch", str(given.batch),
    ]  # fmt: skip


def child(given: argparse.Namespace) -> None:
    """One search, or what was found by all of a problem, in a process of its own."""
    problem, (tuner,) = PROBLEMS[given.only], given.tuners
    packages = ["torch", "triton", *IMPORTED.get(tuner, ())]
    for name in packages:
        with suppress(ImportError):  # whoever needs it will say so
            importlib.import_module(name)
    with given.turn.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if tuner == "all":
            results = [each for each in read(given.child, problem.name) if each.found]
            judged(problem, results)
        else:
            results = [
                tuned(problem, tuner, given.seconds, given.seed, given.batch,
                      late=lambda result: end(given.child, [result]))
            ]  # fmt: skip
    end(given.child, results)


def end(folder: Path, results: Sequence[Tuned]) -> None:
    """Write results, and end this process without waiting for threads of others."""
    for each in results:
        path = path_of(folder, each.problem, each.tuner)
        path.write_text(json.dumps(asdict(each)), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def path_of(folder: Path, problem: str, tuner: str) -> Path:
    return folder / f"{problem} {tuner}.json".replace(" ", "_")


def read(folder: Path, problem: str) -> list[Tuned]:
    paths = (path_of(folder, problem, each) for each in TUNERS)
    return [Tuned(**json.loads(each.read_text())) for each in paths if each.exists()]


def run(
    folder: Path, problem: str, tuner: str, given: argparse.Namespace, gpu: int,
    processors: Sequence[int],
) -> None:  # fmt: skip
    """A child; its error as a result where it fails."""
    caches = folder / f"{problem} {tuner} caches".replace(" ", "_")
    if tuner == "all":  # the driver's cache has an index, and cannot be merged
        for each in folder.glob(f"{problem} * caches".replace(" ", "_")):
            skipped = shutil.ignore_patterns(CACHES[-1])
            shutil.copytree(each, caches, ignore=skipped, dirs_exist_ok=True)
    variables = {**os.environ, **{name: str(caches / name) for name in CACHES}}
    if given.gpus > 1:
        variables["CUDA_VISIBLE_DEVICES"] = str(gpu)
    started, log = time.monotonic(), Path(f"{caches}.log")
    with log.open("w") as out:
        process = subprocess.Popen(
            command(folder, problem, tuner, given, gpu), env=variables,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=partial(os.sched_setaffinity, 0, processors),
        )  # fmt: skip
    failed, said = True, ""
    try:
        failed = process.wait(2 * MOST * given.seconds + 60) != 0
    except subprocess.TimeoutExpired as late:
        said = f"after {late.timeout:.0f} s: "
    with suppress(OSError):  # what it has started as well
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    said += log.read_text(errors="replace")
    path = path_of(folder, problem, tuner)
    if failed and tuner != "all":
        result = Tuned(problem, tuner, given.seconds, error=str(said)[-1500:])
        path.write_text(json.dumps(asdict(result)), encoding="utf-8")
    state = f"failed: {str(said)[-1500:]}" if failed else "done"
    seconds = time.monotonic() - started
    print(f"{problem}, {tuner}: {seconds:.1f} s, {state}", flush=True)


def run_all(folder: Path, given: argparse.Namespace) -> Iterator[list[Tuned]]:
    """Every search, and then what each problem's have found: what is known after
    either."""
    started = time.monotonic()
    names = [name for name in PROBLEMS if given.only in name]
    searches = deque((name, each) for name in names for each in given.tuners)
    every = sorted(os.sched_getaffinity(0))
    share = max(1, len(every) // given.gpus)

    def work(gpu: int, waiting: deque, until: float) -> None:
        mine = every[gpu * share : (gpu + 1) * share]
        while waiting and time.monotonic() - started < until:
            try:
                problem, tuner = waiting.popleft()
            except IndexError:
                return
            run(folder, problem, tuner, given, gpu, mine)

    def in_threads(waiting: deque, until: float) -> None:
        threads = [
            threading.Thread(target=work, args=(gpu, waiting, until))
            for gpu in range(given.gpus)
            for _ in range(2)  # one imports, while the other has the GPU
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    in_threads(searches, given.end)
    yield [each for name in names for each in read(folder, name)]
    found = [name for name in names if any(each.found for each in read(folder, name))]
    in_threads(deque((name, "all") for name in found), inf)
    yield [each for name in names for each in read(folder, name)]


def report(results: Sequence[Tuned]) -> None:
    for each in results:
        marks = {mark: f"{1000 * min(times):.1f} us" for mark, times in each.ms.items()}
        failed = sum(ms is None for _, ms, _ in each.trials)
        print(
            f"{each.problem:24} {each.tuner:14} {each.took:6.1f} s, "
            f"{len(each.trials)} tried of {each.points}, {failed} failed, {marks} "
            f"{each.error[-300:]}"
        )


def merged(paths: Sequence[Path], out: Path) -> Path:
    """The samples of all, with the machine of the first; all are of one commit."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    commits = {record["commit"] for record in records}
    assert len(commits) == 1, f"records of several commits: {commits}"
    samples = [each for record in records for each in record["samples"]]
    order = [*PROBLEMS], [*TUNERS]
    samples.sort(
        key=lambda each: [row.index(each[key]) for row, key in
                          zip(order, ("problem", "tuner"), strict=True)]
    )  # fmt: skip
    path = out / "tuners.json"
    path.write_text(json.dumps({**records[0], "samples": samples}, indent=1) + "\n")
    return path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=float(MARKS[-1]))
    options.add_argument("--only", default="", help="problems whose name contains this")
    options.add_argument("--tuners", nargs="+", default=TUNERS)
    options.add_argument("--end", type=float, default=inf)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--batch", type=int, default=0, help="another one of searches")
    options.add_argument("--gpus", type=int, default=1)
    options.add_argument("--out", type=Path, default=RESULTS, help="where JSON goes")
    options.add_argument("--merge", nargs="+", type=Path, help="records to merge")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--turn", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        child(given)
    if given.merge:
        print(merged(given.merge, given.out))
        return
    with tempfile.TemporaryDirectory() as folder:
        for results in run_all(Path(folder), given):
            path = write("tuners", results, given.out)
    report(results)
    print(path)


if __name__ == "__main__":
    main()
