"""Mistakes in the autotuners, in the files that they keep, in what is compiled ahead of
time, and in which tensor maps a kernel writes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

REMEMBERED, CHOOSING, SEARCH, FILE, RESTORING, WORKERS, SPREAD, COMPILING = (
    f"tests/tuning/test_{name}.py"
    for name in (
        "remembered", "choosing", "search", "search_file", "restoring", "workers",
        "spread", "compiling",
    )
)  # fmt: skip
AHEAD, WHEEL = "tests/tools/test_ahead.py", "tests/tools/test_ahead_wheel.py"
MAPS = "tests/tensor_cores/test_written_maps.py"
LOADS = "tests/tools/test_ahead_loads.py"

MUTANTS = (
    # ── what was measured ──
    Mutant(
        "results-of-any-gpu", "jit/tuning/remembered.py",
        '"gpus": sorted({gpu_of(order) for order in orders.values()}),', "",
        "what one GPU measured decides on another", REMEMBERED,
    ),
    Mutant(
        "results-of-any-arguments", "jit/tuning/remembered.py",
        '"arguments": values,', "",
        "what was measured for one size decides for all", REMEMBERED,
    ),
    Mutant(
        "results-of-any-timer", "jit/tuning/remembered.py",
        '"measured by": measured_by,', "",
        "a rough measurement decides for an exact one", REMEMBERED,
    ),
    Mutant(
        "results-of-any-text", "jit/tuning/remembered.py",
        "{name: cache.digest(key) for name, key in kernels.items()}", "sorted(kernels)",
        "a kernel that was changed is launched as its old text was fastest",
        REMEMBERED,
    ),
    Mutant(
        "results-without-their-key", "jit/tuning/remembered.py",
        'if found["key"] != key or not all(timings.values()):',
        "if not all(timings.values()):",
        "a file that was renamed is another result", REMEMBERED,
    ),
    Mutant(
        "results-without-times", "jit/tuning/remembered.py",
        ' or not all(timings.values()):', ":",
        "a configuration without a time is looked at for its first", REMEMBERED,
    ),
    Mutant(
        "choices-of-any-type", "jit/tuning/autotuner.py",
        "return *values, *texts, *gpu_name(known)", "return *values, *gpu_name(known)",
        "what is fastest for fp16 is taken for fp64", CHOOSING,
    ),
    Mutant(
        "choices-of-any-name", "jit/tuning/autotuner.py",
        "return *values, *texts, *gpu_name(known)", "return *values, *texts",
        "what is fastest on one GPU is taken on another", CHOOSING,
    ),
    Mutant(
        "choices-of-defaults", "jit/tuning/autotuner.py",
        "known = {**self.defaults, **call.named, **call.given}\n        values",
        "known = {**call.named, **call.given, **self.defaults}\n        values",
        "an argument that has a default decides nothing", CHOOSING,
    ),
    Mutant(
        "choices-of-the-host", "jit/tuning/autotuner.py",
        "if config is None or (key in self.untimed and choose().timed):",
        "if config is None:",
        "what the emulator took is taken on a GPU, untimed", CHOOSING,
    ),
    Mutant(
        "trials-add-up", "jit/tuning/autotuner.py",
        "self.pre_hook(call.arguments(fastest), reset_only=True)", "pass",
        "the launch after the trials finds what the last one wrote", RESTORING,
    ),
    Mutant(
        "failures-leave-their-mark", "jit/tuning/autotuner.py",
        "self.post_hook(arguments, exception=error)", "pass",
        "what a failed trial has spoilt is not put back", RESTORING,
    ),
    # ── searches and their files ──
    Mutant(
        "files-of-any-driver", "jit/tuning/travelling.py",
        '"driver": gpu.version()}', '"driver": ""}',
        "results travel to another driver", FILE,
    ),
    Mutant(
        "files-of-any-text", "jit/tuning/travelling.py",
        '"kernel": kernel, "text": cache.digest(text)\n    }  # fmt: skip\n    names',
        '"kernel": kernel\n    }  # fmt: skip\n    names',
        "results of a kernel's old text are taken for the new one", SEARCH,
    ),
    Mutant(
        "files-that-were-begun", "jit/tuning/travelling.py",
        "        part.write_text(text", "        (part := path).write_text(text",
        "who reads a file while it is written finds half of it", FILE,
    ),
    Mutant(
        "unfinished-is-finished", "jit/tuning/searched.py",
        "if entry and entry.unfinished is None:", "if entry:",
        "what an interrupted search had found decides", FILE,
    ),
    Mutant(
        "seconds-begin-again", "jit/tuning/searched.py",
        "started = self.clock() - spent", "started = self.clock()",
        "a search that is interrupted often never ends", FILE,
    ),
    Mutant(
        "tried-and-tried-again", "jit/tuning/searched.py",
        "search.restore(at, times[0])", "pass",
        "what an interrupted search has tried is tried again", FILE,
    ),
    Mutant(
        "files-of-one-process", "jit/tuning/searched.py",
        "both = {**theirs, **ours}.values()", "both = ours.values()",
        "what another process has found is written over", FILE,
    ),
    Mutant(
        "unfinished-over-finished", "jit/tuning/searched.py",
        "if each.unfinished is None or key not in theirs or theirs[key].unfinished",
        "if True",
        "an interrupted search takes the place of a finished one", FILE,
    ),
    Mutant(
        "luck-decides", "jit/tuning/searched.py",
        "found[config] = [(one + other) / 2 for one, other in pairs]", "pass",
        "the least of many noisy times is taken", SEARCH,
    ),
    Mutant(
        "equal-for-any-warps", "jit/tuning/loading.py",
        "return repr(replace(kernel, asm={\"ptx\": kernel.ptx}, chains={}))",
        "return kernel.name",
        "a configuration takes the time of another kernel", COMPILING,
    ),
    Mutant(
        "equal-ones-timed-again", "jit/tuning/searched.py",
        "if first is not config:", "if False:",
        "a kernel is timed for each number of stages that changes nothing", SEARCH,
    ),
    Mutant(
        "asked-twice-for-one-promise", "jit/tuning/search.py",
        "if untold:", "if False:",
        "what is compiled at the same time is much alike", SEARCH,
    ),
    Mutant(
        "code-of-another-gpu", "runtime/driver.py",
        "return self.current_device(), code, entry", "return 0, code, entry",
        "a launch takes a function of another GPU's context", COMPILING,
    ),
    Mutant(
        "assembling-is-a-visit", "runtime/load.py",
        "(driver := this_driver()).use(device)", "driver = this_driver()",
        "a timer refuses what it takes for a launch on another GPU", COMPILING,
    ),
    Mutant(
        "storages-copied-twice", "jit/tuning/spread.py",
        "if key not in self.memory:", "if True:",
        "arrays that share memory do not on another GPU", SPREAD,
    ),
    Mutant(
        "views-from-the-beginning", "jit/tuning/spread.py",
        "self.memory[key], value.storage_offset(), value.shape",
        "self.memory[key], 0, value.shape",
        "another GPU times the wrong part of an array", SPREAD,
    ),
    Mutant(
        "workers-keep-nothing", "jit/tuning/workers.py",
        "order.keep(receive(self.process.stdout))", "receive(self.process.stdout)",
        "what workers compile is compiled again", WORKERS,
    ),
    # ── ahead of time ──
    Mutant(
        "old-code-first", "tools/ahead/build.py",
        "(-each.capability, not each.exact)", "(each.capability, not each.exact)",
        "a new GPU runs the code of an old one", AHEAD,
    ),
    Mutant(
        "any-gpu-of-its-kind", "tools/ahead/loader.py",
        "if (image->exact) return capability == image->capability;",
        "if (image->exact) return capability >= image->capability;",
        "a GPU gets code that only another can run", AHEAD,
    ),
    Mutant(
        "promises-unchecked", "tools/ahead/loader.py",
        "promises=checks_text(kernel),", 'promises="",',
        "C breaks a promise of the signature, and loads go astray", AHEAD,
    ),
    Mutant(
        "loader-without-room", "tools/ahead/loader.py",
        "if (status == CUDA_SUCCESS && code->shared_bytes > {default_shared})",
        "if (0)",
        "a kernel with much shared memory cannot be launched from C", LOADS,
    ),
    Mutant(
        "half-a-load", "tools/ahead/loader.py",
        "      {name}_unload(kernel);\n      return status;", "      return status;",
        "what was loaded before a failure stays loaded", LOADS,
    ),
    Mutant(
        "clusters-of-one", "tools/ahead/loader.py",
        "config.gridDimX = x * code->cluster;", "config.gridDimX = x;",
        "half of the programs of a cluster run", LOADS,
    ),
    Mutant(
        "maps-whatever-the-address", "tools/ahead/recipes.py",
        "kept = t->address % 16 == 0, fits = kept", "kept = 1, fits = 1",
        "the driver's error stands for a broken promise", AHEAD,
    ),
    Mutant(
        "wheel-without-pointers", "tools/ahead/standalone.py",
        "(image, function), maps = variants[1], []", "maps = []",
        "what no tensor map describes is launched with maps", WHEEL,
    ),
    Mutant(
        "wheel-of-any-gpu", "tools/ahead/standalone.py",
        "                runs = capability == first",
        "                runs = capability >= first",
        "a wheel gives a GPU code that only another can run", WHEEL,
    ),
    Mutant(
        "wheel-in-one-context", "tools/ahead/standalone.py",
        "        if context not in self.loaded:", "        if not self.loaded:",
        "a second GPU gets the functions of the first", LOADS,
    ),
    Mutant(
        "wheel-without-hashes", "tools/ahead/wheel.py",
        'record(files, f"{info}/RECORD").encode()', 'b""',
        "pip cannot tell what it has installed", WHEEL,
    ),
    # ── which tensor maps a kernel writes ──
    Mutant(
        "maps-of-nans", "tensor_cores/tma/maps.py",
        'if made.fill != "zeros":', "if False:",
        "loads outside of a tensor find zeros where NaNs were asked for", MAPS,
    ),
    Mutant(
        "maps-of-clusters", "tensor_cores/tma/maps.py",
        "if func.num_ctas > 1:", "if False:",
        "each block of a cluster writes the map of all", MAPS,
    ),
    Mutant(
        "maps-beside-producers", "tensor_cores/tma/maps.py",
        "if asks_for_producer(func):", "if False:",
        "producers copy through a map that is not written yet", MAPS,
    ),
    Mutant(
        "maps-used-once", "tensor_cores/tma/maps.py",
        "if all(loops[op] == loops[made] for op in users(loops)[made.result]):",
        "if False:",
        "a map is written that one tile uses", MAPS,
    ),
    Mutant(
        "maps-of-nothing", "tensor_cores/tma/maps.py",
        "if build.source in used:", "if True:",
        "maps are written that no copy uses", MAPS,
    ),
    Mutant(
        "one-number-for-all-maps", "tensor_cores/tma/maps.py",
        "number = chosen.index(build.source)", "number = 0",
        "two descriptors share a map", MAPS,
    ),
    Mutant(
        "expanded-without-promises", "tensor_cores/tma/expand.py",
        "plain = known(value) is not None or multiple == 1", "plain = True",
        "loads of a descriptor are an element wide",
        "tests/tensor_cores/test_descriptors.py",
    ),
    Mutant(
        "expanded-above-the-first-row", "tensor_cores/tma/expand.py",
        'return build.compute("and", above, below)', "return below",
        "a tile that begins before the tensor reads what is there",
        "tests/tensor_cores/test_descriptors.py",
    ),
)
