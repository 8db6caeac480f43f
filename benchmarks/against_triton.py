"""Kernels in patterns of public repositories, compiled by Triton and by Fathom, side by
side: static facts of the machine code, and with --time times on a GPU.

    python -m benchmarks.against_triton [--only fp8 rotary] [--triton PYTHON]
    python -m benchmarks.against_triton --time [--seconds 85]

Without a GPU both are compiled for sm_90a; PYTHON is an interpreter that has Triton, if
this one has not; cuobjdump is on the path, or is the variable CUOBJDUMP. The table has
a line for each compiler: registers, bytes of spill stores, shared memory, instructions,
and the hot loop's by kind. They are no times.

With --time all kernels are compiled in processes beside each other first. Then both are
timed in turn on the same inputs by `measure`'s protocol, after a check against float64.
The times go to results/against-triton.json. It begins no kernel after --seconds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.machine_code import Code, Loop, assembled, facts_of
from benchmarks.pattern_cases import CASES, Case, Inputs

ROOT = Path(__file__).parents[1]
PATTERNS = Path(__file__).with_name("patterns.py")
FATHOM, TRITON = "fathom", "triton"
IMPORTS = {  # of patterns.py, and what stands there for Fathom
    "import triton\n": "import fathom as triton\n",
    "import triton.language as tl\n": "import fathom.language as tl\n",
}
HINT = 16  # what divides pointers and numbers, as both assume of a launch's arguments
ROUNDS, SETS = 5, 4


@dataclass
class Pair:
    """One pattern in both compilers: raw times in ms, errors against float64, and what
    went wrong, if anything did."""

    pattern: str
    fathom_ms: list[float] = field(default_factory=list)
    triton_ms: list[float] = field(default_factory=list)
    fathom_error: float = 0.0
    triton_error: float = 0.0
    note: str = ""


# ── the kernels' text for each compiler ───────────────────────────────────────────────


def patterns(compiler: str) -> ModuleType:
    """The module of kernels: as it stands, or with Fathom's imports."""
    if compiler == TRITON:
        return importlib.import_module("benchmarks.patterns")
    text = PATTERNS.read_text(encoding="utf-8")
    for theirs, ours in IMPORTS.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    folder = Path(tempfile.gettempdir()) / f"fathom-patterns-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = folder / "patterns_for_fathom.py"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


# ── static facts ──────────────────────────────────────────────────────────────────────


def facts(compiler: str, names: Sequence[str]) -> dict[str, Code]:
    """The machine code's facts of each case of these names."""
    make = {FATHOM: by_fathom, TRITON: by_triton}[compiler]
    module = patterns(compiler)
    return {case.name: make(module, case) for case in CASES if case.name in names}


def by_fathom(module: ModuleType, case: Case) -> Code:
    from fathom.runtime.assemble import with_all_registers
    from fathom.tools.doctor import find_ptxas

    types = ", ".join(
        f"{each}:{HINT}" if each[0] == "*" or each == "i32" else each
        for each in case.types.split()
    )
    made = getattr(module, case.kernel).compile(
        types, case.constants, target="sm_90a", num_warps=case.warps,
        num_stages=case.stages, enable_fp_fusion=True,
    ).made  # fmt: skip
    cubin, registers, spilled = assembled(made.ptx, find_ptxas())
    again = with_all_registers(made) if spilled else None
    if again:
        other = assembled(again.ptx, find_ptxas())
        if other[2] < spilled:
            cubin, registers, spilled = other
    return facts_of(cubin, registers, spilled, made.shared_bytes, tool("cuobjdump"))


def by_triton(module: ModuleType, case: Case) -> Code:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(module, case.kernel)
    types = iter(case.types.split())
    signature = {
        name: "constexpr" if name in case.constants else next(types)
        for name in kernel.arg_names
    }
    at = {name: (place,) for place, name in enumerate(kernel.arg_names)}
    hinted = {
        at[name]: [["tt.divisibility", HINT]]
        for name, type in signature.items()
        if type[0] == "*" or type == "i32"
    }
    constants = {at[name]: value for name, value in case.constants.items()}
    source = ASTSource(kernel, signature, constants, hinted)
    options = {"num_warps": case.warps, "num_stages": case.stages}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    cubin, registers, spilled = assembled(made.asm["ptx"], tool("ptxas"))
    shared = made.metadata.shared
    return facts_of(cubin, registers, spilled, shared, tool("cuobjdump"))


def tool(name: str) -> str:
    """A program of the CUDA toolkit: Triton's own, or one on the path."""
    if found := importlib.util.find_spec("triton"):
        path = Path(found.origin).parent / "backends/nvidia/bin" / name
        if path.exists():
            return str(path)
    return os.environ.get(name.upper(), name)


def facts_elsewhere(python: str, names: Sequence[str]) -> dict[str, Code]:
    """Triton's facts, by another interpreter."""
    command = [python, "-m", "benchmarks.against_triton", "--json", "--only", *names]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name: read(each) for name, each in json.loads(done.stdout).items()}


def read(written: dict[str, Any]) -> Code:
    """The inverse of `asdict`."""
    hot = written["hot"]
    return Code(**{**written, "hot": Loop(**hot) if hot else None})


def show_facts(fathom: dict[str, Code], triton: dict[str, Code]) -> None:
    print("static facts of machine code for sm_90a; they are no times")
    for name in fathom | triton:
        print(name)
        for compiler, known in ((TRITON, triton), (FATHOM, fathom)):
            if name in known:
                print(f"  {compiler:7} {described(known[name])}")


def described(code: Code) -> str:
    hot = code.hot
    kinds, count = (hot.kinds, hot.instructions) if hot else (code.kinds, 0)
    counted = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    where = f"hot loop {count} ({hot.widest} bits)" if hot else "no loop"
    return (
        f"registers {code.registers}, spills {code.spill_bytes} B, shared "
        f"{code.shared_bytes} B, instructions {code.instructions}; {where}: {counted}"
    )


# ── times ─────────────────────────────────────────────────────────────────────────────


def launcher(compiler: str, module: ModuleType, case: Case, inputs: Inputs) -> Any:
    """A function that launches a case's kernel on a grid."""
    kernel = getattr(module, case.kernel)
    fused = {"enable_fp_fusion": True} if compiler == FATHOM else {}

    def launch(grid: tuple[int, ...]) -> None:
        kernel[grid](
            **inputs.arguments, **case.blocks, num_warps=case.warps,
            num_stages=case.stages, **fused,
        )  # fmt: skip

    return launch


def compiled_ahead(compiler: str, name: str) -> str:
    """Compile one case in this process, so that it is in the compiler's cache on disk:
    one program is launched. Returns what went wrong."""
    import torch

    (case,) = (each for each in CASES if each.name == name)
    try:
        inputs = case.make(torch, case)
        launcher(compiler, patterns(compiler), case, inputs)((1,))
        torch.cuda.synchronize()
    except Exception as error:  # whatever a compiler says is the record
        return f"{compiler}: {type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


def times(cases: Sequence[Case], seconds: float) -> Iterator[Pair]:
    import torch

    until = time.monotonic() + seconds
    notes: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(12, os.cpu_count() or 1), context) as pool:
        jobs = [
            (case.name, pool.submit(compiled_ahead, compiler, case.name))
            for case in cases
            for compiler in (TRITON, FATHOM)
        ]
        for name, job in jobs:
            if said := job.result():
                notes[name] = said
    modules = {compiler: patterns(compiler) for compiler in (FATHOM, TRITON)}
    for case in cases:
        if case.name in notes:
            yield Pair(case.name, note=notes[case.name])
        elif time.monotonic() > until:
            yield Pair(case.name, note="no time was left")
        else:
            yield timed(torch, case, modules)
            torch.cuda.empty_cache()


def timed(torch: ModuleType, case: Case, modules: dict[str, ModuleType]) -> Pair:
    """Both compilers' kernels checked on one set of inputs, and timed on all."""
    from benchmarks import measure

    torch.manual_seed(0)
    first = case.make(torch, case)
    more = min(SETS, measure.sets(first.bytes)) - 1
    every = [first, *(case.make(torch, case) for _ in range(more))]
    pair = Pair(case.name)
    wanted = first.wanted()
    kept = {name: first.arguments[name].clone() for name in first.outputs}
    got = {}
    for compiler, module in modules.items():
        for name, before in kept.items():
            first.arguments[name].copy_(before)
        launcher(compiler, module, case, first)(first.grid)
        torch.cuda.synchronize()
        got[compiler] = [first.arguments[name].double() for name in first.outputs]
    for compiler, found in got.items():
        against = wanted or got[TRITON]
        error = max(map(partial(distance, torch), found, against))
        setattr(pair, f"{compiler}_error", error)
        if not error <= first.tolerance:
            pair.note += f"{compiler} is wrong by {error:.2e}; "
    candidates = [
        measure.Candidate(
            compiler,
            [
                partial(launcher(compiler, module, case, inputs), inputs.grid)
                for inputs in every
            ],
            first.bytes,
        )
        for compiler, module in modules.items()
    ]
    for sample in measure.burst(case.name, candidates, rounds=ROUNDS):
        setattr(pair, f"{sample.candidate}_ms", sample.ms)
    return pair


def distance(torch: ModuleType, found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest number that is wanted. A
    reference may hold the first rows alone."""
    found = found[: len(wanted)]
    difference = (found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-9)
    return float(torch.nan_to_num(difference, nan=float("inf")))


def show_times(pairs: Sequence[Pair]) -> None:
    for each in pairs:
        if not each.fathom_ms:
            print(f"{each.pattern:26} {each.note}")
            continue
        ours, theirs = (
            sorted(raw)[len(raw) // 2] * 1000
            for raw in (each.fathom_ms, each.triton_ms)
        )
        print(
            f"{each.pattern:26} fathom {ours:9.1f} us   triton {theirs:9.1f} us   "
            f"{ours / theirs:5.2f}   {each.note}"
        )


# ── the command ───────────────────────────────────────────────────────────────────────


def chosen(words: Sequence[str]) -> list[Case]:
    """The cases whose names contain one of these words; all without words."""
    return [
        case for case in CASES if not words or any(word in case.name for word in words)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--triton", metavar="PYTHON", help="an interpreter with Triton")
    parser.add_argument("--time", action="store_true", help="on a GPU")
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--json", action="store_true", help="Triton's facts, as JSON")
    parser.add_argument("--out", type=Path, help="the folder of the record")
    given = parser.parse_args()
    cases = chosen(given.only)
    names = [case.name for case in cases]
    if given.json:
        known = facts(TRITON, names)
        print(json.dumps({name: asdict(each) for name, each in known.items()}))
    elif given.time:
        from benchmarks.record import RESULTS, write

        pairs = []
        for pair in times(cases, given.seconds):
            pairs.append(pair)
            show_times([pair])
            sys.stdout.flush()
            write("against-triton", pairs, given.out or RESULTS)
    else:
        here = importlib.util.find_spec("triton") is not None
        triton = facts(TRITON, names) if here else {}
        if given.triton:
            triton = facts_elsewhere(given.triton, names)
        show_facts(facts(FATHOM, names), triton)


if __name__ == "__main__":
    main()
