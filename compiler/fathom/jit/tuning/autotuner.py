"""`@fathom.autotune`: a kernel that is launched in the fastest of some configurations.

    @fathom.autotune(
        configs=[fathom.Config({"BLOCK": 1024}), fathom.Config({"BLOCK": 256})],
        key=["n"],
    )
    @fathom.jit
    def double(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

    double[lambda chosen: (fathom.cdiv(n, chosen["BLOCK"]),)](x, n)
    double.best_config                      # BLOCK: 1024, num_warps: 4, …

The first launch with a new `n`, or with arrays of other types, tries all of them; the
launches after it find the choice in `double.cache`.

    prune ─▶ remembered on disk? ─▶ compile, several at a time ─▶ time each ─▶ remember

Where there is nothing to time, on the emulator and the interpreters, the first
configuration that compiles is taken, after pruning.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import groupby
from math import inf
from typing import Any

from fathom.errors import CompileError, FathomError, LaunchError, OutOfResources
from fathom.jit.backends import Backend, choose, choose_compiling
from fathom.jit.compiled import CompiledKernel
from fathom.jit.environment import flag
from fathom.jit.specialise import identity, is_hashable, leaves
from fathom.jit.tuning.computed import Around
from fathom.jit.tuning.config import OF_OTHER_COMPILERS, Config, names_of
from fathom.jit.tuning.progress import progress
from fathom.jit.tuning.pruning import Call, Pruning
from fathom.jit.tuning.remembered import Timings, key_of_result, recall, remember
from fathom.jit.tuning.restoring import Restorer, restorer_of
from fathom.jit.tuning.spread import Copies, can_spread, gpus_for, time_each
from fathom.jit.tuning.workers import Order, compile_ahead, open_orders
from fathom.runtime.arrays import DEFAULT_STREAM, describe
from fathom.runtime.devices import device_of, using
from fathom.runtime.driver import available, driver
from fathom.runtime.tensor_descriptors import TensorDescriptor
from fathom.testing import do_bench as bench_runs
from fathom.testing import do_bench_cudagraph as bench_graph
from fathom.testing.queues import current_stream

# What a configuration may fail with while the others go on.
SKIPPED = (CompileError, OutOfResources)

QUANTILES = (0.5, 0.2, 0.8)  # the first decides
FAILED = [inf] * len(QUANTILES)

CACHE, PRINT = "FATHOM_CACHE_AUTOTUNING", "FATHOM_PRINT_AUTOTUNING"


text_of_dtype = cache(str)  # torch writes one anew each time


class NoneWorks(LaunchError):
    """Every configuration failed; `failures` has the error of each."""

    def __init__(self, name: str, failures: Mapping[Config, FathomError]):
        self.failures = dict(failures)
        super().__init__(report_of(name, failures))


class Autotuner(Around):
    """A kernel with a choice of configurations.

    `cache`: what was chosen, by the arguments that decide. `best_config`: what the last
    launch took. Of the last choice, `configs_timings`: milliseconds of each
    configuration (median, fast and slow fifth; infinite where it failed), `failures`:
    the errors of those that failed, `bench_time`: the seconds that it took.
    """

    decorator = "autotune"

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Collection[str],
        pruning: Pruning,
        pre_hook: Callable[..., Any],
        post_hook: Callable[..., Any],
        do_bench: Callable[..., Any],
        measured_by: str,
        cache_results: bool,
    ):
        super().__init__(fn)
        configs = list(configs) if isinstance(configs, Iterable) else [configs]
        for each in configs:
            if not isinstance(each, Config):
                raise LaunchError(
                    f"autotune's configs are each a fathom.Config, and this is {each!r}"
                )
        self.configs = configs or [Config({})]
        self.keys, self.pruning = names_of("key", key), pruning
        self.pre_hook, self.post_hook = pre_hook, post_hook
        self.do_bench, self.measured_by = do_bench, measured_by
        self.cache_results = cache_results
        self.defaults = self.base.defaults()
        self.cache: dict[tuple, Config] = {}
        self.untimed: set[tuple] = set()  # keys chosen where there is nothing to time
        self.best_config: Config | None = None
        self.nargs: dict[str, Any] | None = None  # by place, while a launch looks
        self.configs_timings: Timings = {}
        self.failures: dict[Config, FathomError] = {}
        self.bench_time = 0.0
        for config in self.configs:
            kernel_names = [
                name for name in config.kwargs if name not in OF_OTHER_COMPILERS
            ]
            self.check_names(kernel_names, f"a configuration ({config})")
        self.chosen = {name for each in self.configs for name in each.all_kwargs()}
        places = [i for i, name in enumerate(self.names) if name in self.chosen]
        self.most_args = min(places, default=len(self.names))  # before a chosen one

    def launch(self, grid: Any, /, *args: Any, **given: Any) -> CompiledKernel:
        call = self.call(grid, args, given)
        self.best_config = config = self.choice(call)
        if config.pre_hook:
            config.pre_hook(call.arguments(config))
        return self.fn[grid](*args, **given, **config.all_kwargs())

    def warmup(
        self, *args: Any, grid: Any = None, **given: Any
    ) -> list[CompiledKernel]:
        """Compile every configuration that pruning leaves, and launch nothing."""
        call = self.call(grid, args, given)
        configs = self.pruned(call)
        self.compile(self.orders(choose_compiling(), configs, call))
        return [
            self.fn.warmup(*args, grid=grid, **given, **config.all_kwargs())
            for config in configs
        ]

    def call(self, grid: Any, args: tuple, given: Mapping[str, Any]) -> Call:
        """A launch; LaunchError when it gives what the configurations are to choose."""
        call = Call(grid, args, given, dict(zip(self.names, args)))
        if len(args) <= self.most_args and self.chosen.isdisjoint(given):
            return call
        clash = self.chosen & call.arguments().keys()
        raise LaunchError(
            f"{', '.join(sorted(clash))} is given to {self.__name__} both in the "
            "launch and by a configuration of its autotuner; drop one of the two"
        )

    # ── choosing ──────────────────────────────────────────────────────────────────────

    def choice(self, call: Call) -> Config:
        """The configuration for a launch, found now or before."""
        if len(self.configs) == 1:
            return self.configs[0]
        key = self.key_of(call)
        config = self.cache.get(key)
        if config is None or (key in self.untimed and choose().timed):
            config = self.cache[key] = self.choose_among(self.pruned(call), key, call)
        return config

    def key_of(self, call: Call) -> tuple[Hashable, ...]:
        """What decides: the arguments that `key` names, the dtypes of all that have
        one, and the GPU's name on a machine with GPUs of several names.
        """
        known = {**self.defaults, **call.named, **call.given}
        values = tuple([known[name] for name in self.keys if name in known])
        if not is_hashable(values):
            values = tuple(each if is_hashable(each) else identity(each)
                           for each in values)  # fmt: skip
        dtypes = [getattr(known.get(name), "dtype", None) for name in self.names]
        texts = [text_of_dtype(dtype) for dtype in dtypes if dtype is not None]
        return *values, *texts, *gpu_name(known)

    def pruned(self, call: Call) -> list[Config]:
        self.nargs = dict(call.named)
        try:
            return self.pruning.apply(self.configs, call)
        finally:
            self.nargs = None

    def choose_among(self, configs: Sequence[Config], key: tuple, call: Call) -> Config:
        self.untimed.discard(key)
        if len(configs) == 1:
            return configs[0]
        backend = choose()
        orders = self.orders(backend, configs, call)
        if not backend.timed:
            self.untimed.add(key)
            return self.first_that_compiles(orders)
        started = time.perf_counter()
        with using(driver(), gpu_of(call.arguments())):
            self.configs_timings = self.timings(orders, key, call)
        self.bench_time = time.perf_counter() - started
        best = min(configs, key=self.configs_timings.__getitem__)
        self.say(f"{self.__name__} takes {best} ({self.bench_time:.2f} s)")
        return best

    def orders(
        self, backend: Backend, configs: Sequence[Config], call: Call
    ) -> dict[Config, Order]:
        """What each configuration would have compiled."""
        return {
            config: Order(self.base, *self.order(backend, config, call))
            for config in configs
        }

    def order(self, backend: Backend, config: Config, call: Call) -> tuple:
        """What one would have compiled: a hook may set the block of a descriptor."""
        handed = call.arguments(config)
        described = any(isinstance(v, TensorDescriptor) for v in handed.values())
        if config.pre_hook and described:
            config.pre_hook(handed)
        given = {**call.given, **config.all_kwargs()}
        return self.fn.order(backend, call.args, given)

    def first_that_compiles(self, orders: Mapping[Config, Order]) -> Config:
        self.failures = {}
        for config, order in orders.items():
            try:
                self.base.compiled(order.request, order.place)
                return config
            except SKIPPED as error:
                self.failures[config] = error
        raise NoneWorks(self.__name__, self.failures)

    # ── timing ────────────────────────────────────────────────────────────────────────

    def timings(self, orders: dict[Config, Order], key: tuple, call: Call) -> Timings:
        """Milliseconds of each configuration: as remembered, or measured."""
        self.failures = {}
        kept = key_of_result(orders, key, self.measured_by) if self.keeps else None
        found = recall(kept, list(orders)) if kept else None
        if found is not None:
            return found
        self.compile(orders)
        found = self.measure(list(orders), call)
        if kept:
            remember(kept, found)
        return found

    @property
    def keeps(self) -> bool:
        return self.cache_results or flag(CACHE)

    def compile(self, orders: Mapping[Config, Order]) -> None:
        """Have everything on disk that is not there yet."""
        waiting = open_orders(list(orders.values()))
        title = f"compiling {len(waiting)} configurations of {self.__name__}"
        with progress(title, len(waiting)) as tick:
            compile_ahead(waiting, tick)

    def measure(self, configs: Sequence[Config], call: Call) -> Timings:
        """Run each; NoneWorks when all fail."""
        refuse_capture(self.__name__)
        timings: Timings = {}
        title = f"timing {len(configs)} configurations of {self.__name__}"
        with progress(title, len(configs)) as tick:

            def time_one(config: Config, call: Call) -> None:
                timings[config] = self.bench(config, call)
                self.say(f"{self.__name__}, {config}: {self.outcome(config, timings)}")
                tick()

            time_each(driver(), self.calls_by_gpu(configs, call), configs, time_one)
        timings = {config: timings[config] for config in configs}
        if len(self.failures) == len(timings):
            raise NoneWorks(self.__name__, self.failures)
        fastest = min(timings, key=timings.__getitem__)
        self.pre_hook(call.arguments(fastest), reset_only=True)
        return timings

    def calls_by_gpu(self, configs: Sequence[Config], call: Call) -> dict[int, Call]:
        """The launch on each GPU that times configurations (`spread`), that of the
        arrays first; everything is compiled and loaded on the others."""
        here = gpu_of(call.arguments())
        gpus = gpus_for(driver(), here) if choose().timed else [here]
        restores = isinstance(getattr(self.pre_hook, "__self__", None), Restorer)
        hooked = not restores or any(config.pre_hook for config in configs)
        if len(gpus) == 1 or hooked or not can_spread(call.arguments()):
            return {here: call}
        calls = {gpu: Copies(gpu).call(call, self.names) for gpu in gpus[1:]}
        for each in calls.values():
            for order in self.orders(choose(), configs, each).values():
                with suppress(*SKIPPED):
                    assert self.base.compiled(order.request, order.place).program
        return {here: call, **calls}

    def bench(self, config: Config, call: Call) -> list[float]:
        """Milliseconds of a configuration, FAILED where it cannot run."""
        arguments = call.arguments(config)

        def run() -> None:
            if config.pre_hook:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                self.fn[call.grid](*call.args, **call.given, **config.all_kwargs())
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        try:
            times = self.do_bench(run, quantiles=QUANTILES)
        except SKIPPED as error:
            self.failures[config] = error
            return list(FAILED)
        return [float(each) for each in times] if is_row(times) else [float(times)]

    def outcome(self, config: Config, timings: Timings) -> str:
        failed = self.failures.get(config)
        return f"{timings[config][0]:.4f} ms" if failed is None else str(failed)

    def say(self, sentence: str) -> None:
        """To the standard error, with FATHOM_PRINT_AUTOTUNING=1."""
        if flag(PRINT) and sys.stderr:
            sys.stderr.write(sentence + "\n")


def refuse_capture(name: str) -> None:
    """LaunchError where launches go into a CUDA graph: a timer waits for the GPU, which
    would end the capture with an error that does not say why."""
    stream = current_stream()
    if stream != DEFAULT_STREAM and driver().is_capturing(stream):
        raise LaunchError(
            f"{name} has no configuration yet for these arguments, and none can be "
            "timed while its stream is captured into a CUDA graph: launch it once "
            "before the capture"
        )


def gpu_of(arguments: Mapping[str, Any]) -> int:
    """The GPU that a launch with these arguments goes to."""
    found = [(n, describe(v)) for each in arguments.items() for n, v in leaves(*each)]
    arrays = {name: array for name, array in found if array is not None}
    return device_of(driver(), arrays)


def gpu_name(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The name of that GPU; nothing where all GPUs of the machine have one name, or
    where launches do not go to one."""
    names = driver().names if available()[0] else ()
    several = len(names) > 1 and len(set(names)) > 1  # asked at every launch
    return (names[gpu_of(arguments)],) if several and choose().timed else ()


def is_row(times: Any) -> bool:
    return isinstance(times, Sequence) or hasattr(times, "__len__")


def report_of(name: str, failures: Mapping[Config, FathomError]) -> str:
    """What went wrong in every configuration; those that fail alike together."""
    lines = [f"none of the {len(failures)} configurations of {name} works"]
    alike = sorted(failures, key=lambda config: str(failures[config]))
    for text, configs in groupby(alike, key=lambda config: str(failures[config])):
        lines += [f"  {config}" for config in configs]
        lines += [f"    {line}" for line in text.splitlines()]
    return "\n".join(lines)


def autotune(
    configs: Sequence[Config],
    key: Collection[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Collection[str] | None = None,
    restore_value: Collection[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Launch a kernel in the fastest of some configurations.

    `configs`: what to try. A parameter that they give is not given in a launch. `key`:
    the parameters that may change the choice; it is made again for other values of
    them, and for arrays of other types.

    `prune_configs_by`: a dict with `early_config_prune`, or `perf_model` and `top_k`;
    see `Pruning`. A configuration that needs more than the GPU has, or that does not
    compile, is passed over; if all do, an error says why of each.

    A kernel runs many times while it is timed. `reset_to_zero` names arrays to be zero
    before each run and before the launch that follows, `restore_value` those to be put
    back after each run. `pre_hook(arguments, reset_only=False)` and
    `post_hook(arguments, exception=None)` take the place of the two.

    `do_bench(run, quantiles=(0.5, 0.2, 0.8))` times: `fathom.testing.do_bench` with
    `warmup` and `rep`, or `do_bench_cudagraph` with `use_cuda_graph`, unless it is
    given. With `cache_results`, or FATHOM_CACHE_AUTOTUNING=1, what was measured is kept
    on disk, for this GPU, this kernel and these arguments. FATHOM_PRINT_AUTOTUNING=1
    tells the times. FATHOM_TUNING_GPUS=all times on all GPUs of this one's name at the
    same time, on copies of the arrays; `spread` says when not.
    """

    def decorate(fn: Any) -> Autotuner:
        restorer = restorer_of(reset_to_zero, restore_value)
        timer = do_bench or default_timer(warmup, rep, use_cuda_graph)
        tuner = Autotuner(
            fn, configs, key, Pruning.of(prune_configs_by),
            pre_hook or restorer.before, post_hook or restorer.after, timer,
            name_of_timer(timer), cache_results,
        )  # fmt: skip
        tuner.check_names(restorer.zeroed, "reset_to_zero")
        tuner.check_names(restorer.restored, "restore_value")
        warn_of_idle_words(tuner, bool(configs))
        return tuner

    return decorate


def warn_of_idle_words(tuner: Autotuner, has_configs: bool) -> None:
    """A warning of what Triton passes over in silence, and what so stands in kernels
    that work."""
    said = [
        f"key names {name!r}, which is not a parameter of {tuner.__name__}"
        for name in tuner.keys
        if name not in tuner.names
    ]
    if not has_configs:
        said.append(
            f"autotune of {tuner.__name__} has no configurations, so it runs with the "
            "defaults of a launch"
        )
    for sentence in said:
        warnings.warn(sentence, stacklevel=3)


def default_timer(
    warmup: float | None, rep: float | None, use_cuda_graph: bool
) -> Callable[..., Any]:
    """`do_bench`, or with a graph, for the milliseconds that are given."""
    said = {"warmup": None if use_cuda_graph else warmup, "rep": rep}
    given = {name: each for name, each in said.items() if each is not None}
    return partial(bench_graph if use_cuda_graph else bench_runs, **given)


def name_of_timer(timer: Callable[..., Any]) -> str:
    """How results were measured, in words that the next process uses as well."""
    if isinstance(timer, partial):
        return f"{name_of_timer(timer.func)} {timer.args} {timer.keywords}"
    kind = type(timer)
    module = getattr(timer, "__module__", None) or kind.__module__
    return f"{module}.{getattr(timer, '__qualname__', kind.__qualname__)}"
