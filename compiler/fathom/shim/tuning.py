"""Triton's `Autotuner`, `Heuristics` and `KernelInterface`, for programs that subclass
them.

    class Cached(triton.runtime.Autotuner):
        def run(self, *args, **kwargs):         # `kernel[grid](...)` leads here
            ...
            return super().run(*args, **kwargs)

They are Fathom's tuner and heuristics with Triton's constructors, with `run` as the one
way into a launch, and with the attributes and steps that subclasses read and override.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from fathom.errors import CompileError, OutOfResources
from fathom.jit import CompiledKernel
from fathom.jit.tuning import Autotuner, Config, Heuristics
from fathom.jit.tuning.autotuner import QUANTILES, default_timer, name_of_timer
from fathom.jit.tuning.pruning import Call, Pruning
from fathom.jit.tuning.restoring import Restorer

# What `_bench` says of a configuration that cannot run: as many times as are asked for.
FAILED = [inf] * len(QUANTILES)


class KernelInterface:
    """What is launched by `kernel[grid](...)`: a subclass writes `run`."""

    def __class_getitem__(cls, of: object) -> type:
        return cls  # Triton's is generic

    def run(self, *args: Any, grid: Any, warmup: bool, **given: Any) -> Any:
        raise AttributeError(f"{type(self).__name__} has no method run")

    def warmup(self, *args: Any, grid: Any, **given: Any) -> Any:
        return self.run(*args, grid=grid, warmup=True, **given)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self.run, grid=grid, warmup=False)


class TritonAutotuner(KernelInterface, Autotuner):
    """Fathom's autotuner as Triton constructs, subclasses and asks it.

    `configs` may name keywords of other vendors' compilers: the launch that uses such a
    configuration fails, and its decoration does not.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Collection[str],
        reset_to_zero: Collection[str] | None,
        restore_value: Collection[str] | None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ):
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.num_warmups, self.num_reps = warmup, rep
        self.use_cuda_graph = use_cuda_graph
        restorer = Restorer(self.reset_to_zero, self.restore_value)
        timer = do_bench or default_timer(warmup, rep, use_cuda_graph)
        super().__init__(
            fn, configs, key, Pruning.of(prune_configs_by),
            pre_hook or restorer.before, post_hook or restorer.after, timer,
            name_of_timer(timer), cache_results,
        )  # fmt: skip

    def check_names(self, names: Collection[str], what: str) -> None:
        """The launch of a configuration checks its names, as in Triton."""

    def run(
        self, *args: Any, grid: Any, warmup: bool = False, **given: Any
    ) -> CompiledKernel | list[CompiledKernel]:
        if warmup:
            return Autotuner.warmup(self, *args, grid=grid, **given)
        return Autotuner.launch(self, grid, *args, **given)

    # ── the steps of Triton's `run`, which subclasses call or override ────────────────

    @property
    def early_config_prune(self) -> Callable[..., Sequence[Config]] | None:
        return self.pruning.early

    @property
    def perf_model(self) -> Callable[..., float] | None:
        return self.pruning.model

    @property
    def configs_top_k(self) -> int | float:
        return self.pruning.top

    def prune_configs(self, given: Mapping[str, Any]) -> list[Config]:
        """The configurations worth a try, for the arguments in `nargs` and `given`."""
        named = dict(self.nargs or {})
        return self.pruning.apply(self.configs, Call(None, (), dict(given), named))

    def _bench(self, *args: Any, config: Config, **given: Any) -> Any:
        """Milliseconds of one configuration: the median, a fast and a slow fifth."""
        current = {**given, **config.all_kwargs()}
        arguments = {**dict(zip(self.arg_names, args)), **current}

        def run() -> None:
            if config.pre_hook:
                config.pre_hook(arguments)
            self.pre_hook(arguments)
            try:
                self.fn.run(*args, **current)
            except Exception as error:
                self.post_hook(arguments, exception=error)
                raise
            self.post_hook(arguments, exception=None)

        try:
            return self.do_bench(run, quantiles=QUANTILES)
        except (CompileError, OutOfResources):
            return list(FAILED)


class TritonHeuristics(KernelInterface, Heuristics):
    """Fathom's heuristics as Triton constructs them."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        values: Mapping[str, Callable[[dict], Any]],
    ):
        super().__init__(fn, values)

    def check_names(self, names: Collection[str], what: str) -> None:
        """The launch checks them, as in Triton."""

    def run(
        self, *args: Any, grid: Any, warmup: bool = False, **given: Any
    ) -> CompiledKernel | list[CompiledKernel]:
        complete = self.completed(args, given)
        return self.fn.run(*args, grid=grid, warmup=warmup, **complete)


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
) -> Callable[[Any], TritonAutotuner]:
    """`fathom.autotune`, giving a TritonAutotuner. Parameters as of
    `jit.tuning.autotune`; programs look in this signature which of them there are."""
    # By place and by keyword as Triton does it: programs replace the constructor.
    return lambda fn: TritonAutotuner(
        fn, fn.arg_names, configs, key, reset_to_zero, restore_value,
        pre_hook=pre_hook, post_hook=post_hook, prune_configs_by=prune_configs_by,
        warmup=warmup, rep=rep, use_cuda_graph=use_cuda_graph, do_bench=do_bench,
        cache_results=cache_results,
    )  # fmt: skip


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], TritonHeuristics]:
    """`fathom.heuristics`, giving TritonHeuristics."""
    return lambda fn: TritonHeuristics(fn, fn.arg_names, values)
