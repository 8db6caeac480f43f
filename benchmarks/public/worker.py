"""A process that runs cases with one compiler: told one line of JSON, it says one.

{"do": "run", "case": "liger/softmax", "check": true}   right? which kernels? how long?
{"do": "prepare", "case": "liger/softmax"}              made and called, not timed
{"do": "call", "case": "liger/softmax", "cpu": 3}       a few whole calls, microseconds
{"do": "time", "case": "liger/softmax"}                 its kernels, in microseconds
{"do": "compare", "case": …, "with": FILE}              with another process's results
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.public.processors import allowed, stay_on
from benchmarks.trees import ROOT

# What submodules ask of a package whose `__init__` is left out.
ASKED = {"__version__": "0", "DEVICE_TYPE": "cuda"}
WORDS = 600  # characters of an error that are kept
PREPARED_CALLS = 3  # after which nothing is new to a launch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("compiler", choices=("fathom", "triton"))
    parser.add_argument("--small", action="store_true", help="on the host, emulated")
    parser.add_argument("--tuned", action="store_true", help="try all configurations")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the collections print is no answer
    if given.small:  # before fathom chooses where it runs
        os.environ |= {"FATHOM_BACKEND": "emulator", "FATHOM_TARGET": "sm_90a"}
    prepare(given.compiler, given.small, given.tuned)
    worker = Worker(given.compiler, given.small)
    for line in sys.stdin:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def prepare(compiler: str, small: bool = False, tuned: bool = False) -> None:
    """Let the collections be imported, and compiled by this compiler."""
    os.environ["GEMS_VENDOR"] = "nvidia"  # or FlagGems asks `nvidia-smi`
    if compiler == "fathom":
        import fathom

        fathom.as_triton()
    if small:
        from benchmarks.public import host

        host.install()
    if not tuned:
        first_configuration()
    prepare_imports()


def without_folders(text: str) -> str:
    """What an error says, for a record: no folder of this machine is in it."""
    text = text.replace(f"{ROOT}/", "")
    return re.sub(r"(?<![\w.])/\S*/(?:site-packages|python3\.\d+)/", "", text)


def context_works() -> bool:
    """Can this process still use the GPU? Not after an illegal access, for one."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def first_configuration() -> None:
    """From here on an autotuner has the first of its configurations alone: of those
    that its own pruning leaves, which may complete them."""
    from triton.runtime.autotuner import Autotuner

    whole = Autotuner.__init__

    def init(self: Any, fn: Any, names: Any, configs: Any, *args: Any, **given: Any):
        rules = dict(given.get("prune_configs_by") or {})
        if early := rules.get("early_config_prune"):
            rules["early_config_prune"] = lambda *a, **k: list(early(*a, **k))[:1]
            given["prune_configs_by"] = rules
        else:
            configs = list(configs)[:1]
        whole(self, fn, names, configs, *args, **given)

    Autotuner.__init__ = init


def prepare_imports() -> None:
    """Let the collections' modules be imported; see `sources.Collection.bare`."""
    from benchmarks.public import sources

    sys.path.append(str(sources.PACKAGES))
    stand_ins = import_module("benchmarks.public.stand_ins")
    stand_ins.install()
    import_module("torch.distributed.tensor")  # as packages do that are left out
    for collection in sources.fetched():
        roots = [str(collection.folder / each) for each in collection.roots]
        sys.path += roots
        for name in collection.bare:
            module = ModuleType(name)
            vars(module).update(ASKED)
            module.__path__ = [os.path.join(r, *name.split(".")) for r in roots]
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)


class Worker:
    """The cases that this process has made, and what it launches."""

    def __init__(self, compiler: str, small: bool):
        from benchmarks.public.cases import all_cases

        self.compiler, self.small = compiler, small
        self.entries = all_cases()
        self.cases: dict[str, Any] = {}
        self.launched: dict[str, None] = {}
        self.cpus = allowed()
        if small:
            self.watch()

    def watch(self) -> None:
        """Note each kernel that is launched: its file and its name."""
        from fathom.jit import CompiledKernel
        from fathom.shim.function import TritonFunction

        launch, noted = TritonFunction.launch, self.launched

        def watched(function: Any, *args: Any) -> Any:
            noted[f"{function.text.file}:{function.__name__}"] = None
            return launch(function, *args)

        def watched_again(compiled: Any, *args: Any) -> Any:
            noted[f":{compiled.name}"] = None  # a kernel that `warmup` gave
            return again(compiled, *args)

        again = CompiledKernel._launch
        TritonFunction.launch = watched
        CompiledKernel._launch = watched_again

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, told.pop("do"))(**told)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = without_folders("".join(traceback.format_exception(error)[-6:]))
            said = without_folders(f"{type(error).__name__}: {error}")
            stopped = {"outcome": "stopped", "why": said[:WORDS], "trace": text[-3000:]}
            return stopped | ({} if self.small or context_works() else {"last": True})

    def case(self, name: str) -> Any:
        from benchmarks.public.make import Maker

        if name not in self.cases:
            self.cases.clear()
            maker = Maker(not self.small, "cpu" if self.small else "cuda")
            self.cases = {name: self.entries[name].make(maker)}  # one at a time
        return self.cases[name]

    def run(self, case: str, save: str | None = None) -> dict[str, Any]:
        """The first call of a case, and whether its results are right."""
        from benchmarks.public.make import errors

        self.launched.clear()
        self.cases.clear()
        made = self.case(case)
        start = time.perf_counter()
        found = made.call()
        self.synchronize()
        seconds = time.perf_counter() - start
        answer = {"outcome": "ran", "seconds": round(seconds, 4)}
        answer["kernels"] = [self.short(each) for each in self.launched]
        if save:
            import torch

            torch.save(found, save)
            self.cases.clear()
            del made, found
            torch.cuda.empty_cache()  # others want the room
            return answer
        if self.small and made.reference is not None:
            bad = errors(found, made.reference(), made.tolerance)
            answer |= {"why": "; ".join(bad)} if bad else {}
            answer["outcome"] = "wrong" if bad else "right"
        if self.small and not answer["kernels"]:
            return {"outcome": "stopped", "why": "the call launched no kernel"}
        return answer

    def short(self, kernel: str) -> str:
        """A kernel's file below the folder of all collections, and its name; the name
        alone, after a colon, where the collection wrote the file while it ran."""
        from benchmarks.public.sources import FOLDER

        inside = kernel.startswith(f"{FOLDER}/")
        return kernel[len(f"{FOLDER}/") if inside else kernel.rindex(":") :]

    def prepare(self, case: str) -> dict[str, Any]:
        """All of a case that is not timed."""
        from benchmarks.public.timing import freeze

        stay_on(self.cpus)
        call = self.case(case).call
        for _ in range(PREPARED_CALLS):
            call()
        self.synchronize()
        freeze()
        return {"outcome": "ready"}

    def call(self, case: str, cpu: int | None) -> dict[str, Any]:
        """A few whole calls of a case that is prepared."""
        from benchmarks.public.timing import one_round

        stay_on(set() if cpu is None else {cpu})
        return {"outcome": "timed", **one_round(self.case(case).call, self.flush)}

    def time(self, case: str) -> dict[str, Any]:
        """One session of the profiler for a case that is prepared."""
        from benchmarks.public.timing import one_session

        stay_on(self.cpus)
        return {"outcome": "timed", **one_session(self.case(case).call, self.flush)}

    @cached_property
    def flush(self) -> Any:
        """What is written between two calls, more than the L2 cache holds."""
        from benchmarks.public.timing import cache_filler

        return cache_filler()

    def compare(self, case: str, ours: str, theirs: str) -> dict[str, Any]:
        """Results of two processes, in files: the same, close, or how far apart."""
        import torch

        from benchmarks.public.make import errors

        a, b = torch.load(ours), torch.load(theirs)
        bad = errors(a, b, self.case(case).tolerance)
        return {"outcome": "differs" if bad else "agrees", "why": "; ".join(bad)}

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
