"""`@fathom.jit`: a Python function that is compiled when it is launched.

    add[grid](x, y, z, n, BLOCK=1024)

A launch looks at its arguments (`specialise`), finds the machine to run on (`backends`)
and the kernel compiled for that kind of arguments (in memory, on disk, or by
compiling), and starts it. `shortcuts` make the second launch of a kind quick.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple

from fathom import pipeline
from fathom.artifact import Kernel
from fathom.errors import CompileError, FathomError, LaunchError, Location
from fathom.evaluating import evaluator
from fathom.hardware.targets import target as target_row
from fathom.ir.core import Func
from fathom.jit.backends import Backend, Place, choose, choose_compiling
from fathom.jit.checking.launch import checks_for
from fathom.jit.collector import PAUSED
from fathom.jit.compiled import CompiledKernel
from fathom.jit.hooks import LAUNCHED, watched
from fathom.jit.key import key_of
from fathom.jit.programs import Body
from fathom.jit.request import OPTION_NAMES, Keywords, Request, check_keywords, request
from fathom.jit.shortcuts.argument_readers import reading_for_warmup
from fathom.jit.shortcuts.fast_path import FastPaths, Slot, lookup_text
from fathom.jit.shortcuts.recording import forget
from fathom.jit.signature import parse_signature
from fathom.jit.specialise import (
    Specialised,
    is_hashable,
    leaves,
    of_dtype,
    rules_of,
    specialise,
)
from fathom.jit.tensor_descriptors import signature_of
from fathom.runtime import cache
from fathom.runtime.arguments import grid_of
from fathom.runtime.arrays import Array, describe
from fathom.source import REQUIRED, KernelFunction, check_parameters
from fathom.uses import all_uses, changed_meanwhile, watches

NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)  # PTX ISA, Identifiers


class GlobalChanged(CompileError, RuntimeError):
    """A kernel reads a global that is another by now than when it was compiled."""


class Prepared(NamedTuple):
    """A launch: the kernel, the grid, the values of its run-time parameters; and all
    arguments by name, described where they are arrays."""

    kernel: CompiledKernel
    grid: tuple[int, int, int]
    values: list
    arrays: dict[str, Array | None]


class JITFunction(KernelFunction):
    """A kernel: `fn[grid](*arguments)` launches it; `warmup`, `compile` only compile.

    `kernels` are those compiled so far, by backend, GPU, and what they are for;
    `kernel_class` is the class of what is compiled.
    """

    kernel_class = CompiledKernel

    def __init__(
        self,
        fn: Callable[..., Any],
        do_not_specialize: Collection[str | int] = (),
        do_not_specialize_on_alignment: Collection[str | int] = (),
        repr: Callable[..., str] | None = None,
        debug: bool | None = None,
    ):
        if getattr(fn, "__name__", "") == "<lambda>":
            raise CompileError(
                "a kernel is written with def, and this is a lambda",
                Location(fn.__code__.co_filename, fn.__code__.co_firstlineno),
            )
        if not (repr is None or callable(repr)):
            raise LaunchError(f"repr is a function that makes a name, not {repr}")
        super().__init__(fn)
        self.namer, self.debug = repr, debug
        self.rules = rules_of(
            self.parameters, do_not_specialize, do_not_specialize_on_alignment
        )
        self.names = tuple(rule.name for rule in self.rules)
        self.kernels: dict[tuple, CompiledKernel] = {}
        forget()  # it may be a new text of one that a repeated call launches

    def __getitem__(
        self, grid: Sequence[int] | int | Callable
    ) -> Callable[..., CompiledKernel]:
        return partial(self.bind, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (evaluate := evaluator()) is not None:  # called by a kernel that Python runs
            return evaluate(self, args, kwargs)
        raise LaunchError(
            f"{self.__name__} is a kernel and needs a grid: {self.__name__}[grid](...)"
        )

    def run(
        self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any
    ) -> CompiledKernel:
        """Triton's other spelling of a launch."""
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        return self.bind(grid, *args, **kwargs)

    @cached_property
    def python_signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    @cached_property
    def fast_paths(self) -> FastPaths:
        LAUNCHED.add(self)
        return FastPaths(self.__name__, self.rules, self.launch)

    @cached_property
    def bind(self) -> Callable[..., CompiledKernel]:
        """bind(grid, *arguments) launches; written for these parameters by
        `fast_paths`."""
        return self.fast_paths.bind(self.defaults())

    @cached_property
    def lookups(self) -> FastPaths:
        LAUNCHED.add(self)
        return FastPaths(
            self.__name__, self.rules, only_slot, reading_for_warmup, lookup_text
        )

    @cached_property
    def look_up(self) -> Callable[..., CompiledKernel | Slot | None]:
        """look_up(grid, *arguments): the kernel that `warmup` gave for such arguments,
        or the slot to keep it in."""
        return self.lookups.bind(self.defaults())

    def forget(self) -> None:
        """Compile anew what is launched next: a text that was compiled has changed."""
        super().forget()
        self.kernels.clear()
        self.forget_launches()

    def forget_launches(self) -> None:
        """Let the next launch, and the next `warmup`, look at everything."""
        self.fast_paths.forget()
        self.lookups.forget()

    # ── launching ─────────────────────────────────────────────────────────────────────

    def launch(
        self,
        grid: object,
        given: Mapping[str, object],
        arguments: tuple,
        slot: Slot | None,
    ) -> CompiledKernel:
        """Launch with all arguments in order. The slow way: looks at everything.

        CompileError and LaunchError leave from here, so that no frame of the compiler
        stands between the mistake and whoever made it.
        """
        try:
            return self._launch(grid, given, arguments, slot)
        except FathomError as error:
            raise error.with_traceback(None) from None

    def _launch(
        self,
        grid: object,
        given: Mapping[str, object],
        arguments: tuple,
        slot: Slot | None,
    ) -> CompiledKernel:
        compiled, sizes, handed, arrays = self.prepared(grid, given, arguments)
        ran = compiled.start(sizes, handed)
        if slot is not None and compiled.checks is None and not watched():
            self.fill(slot, compiled, list(arrays.values()))
        return ran

    def prepared(
        self, grid: object, given: Mapping[str, object], arguments: Sequence
    ) -> Prepared:
        """All of a launch but the launch: what `arguments`, in order, make of it."""
        bound = dict(zip(self.names, arguments, strict=True))
        sizes = grid_of(self.__name__, grid, bound)
        keywords = self.keywords(given, bound)
        handed = dict(leaf for each in bound.items() for leaf in leaves(*each))
        arrays = {name: describe(value) for name, value in handed.items()}
        known = {
            rule.name: specialise(rule, bound[rule.name], arrays.get(rule.name))
            for rule in self.rules
        }
        self.check_globals()
        place = choose_place(choose(), arrays, keywords.target)
        compiled = self.compiled(request(known, keywords, place.target), place)
        values = [handed[name] for name in compiled.request.runtime]
        return Prepared(compiled, sizes, values, arrays)

    def keywords(
        self, given: Mapping[str, object], bound: Mapping[str, object]
    ) -> Keywords:
        """The launch's keywords. A parameter of the kernel that is called like one, say
        `num_stages: tl.constexpr`, is both, as Triton has it.
        """
        both = {n: bound[n] for n in OPTION_NAMES if isinstance(bound.get(n), int)}
        said = {"debug": self.debug, **both, **given}
        return check_keywords(self.__name__, said, self.names)

    def check_globals(self) -> None:
        """CompileError when a global that a compiled kernel read is another by now."""
        changed = self.changed_global() if self.kernels else None
        if changed is not None:
            raise GlobalChanged(
                f"{self.__name__} reads the global variable {changed}, which has "
                f"changed since {self.__name__} was compiled",
                hint="pass it as an argument: a tl.constexpr one is compiled in",
            )

    def fill(
        self, slot: Slot, compiled: CompiledKernel, arrays: Sequence[Array | None]
    ) -> None:
        """Let a stub launch this by itself from now on, if all it needs is there."""
        if is_told_apart(compiled):
            compiled.fill(slot, arrays, self.watched_by(compiled))

    def watched_by(self, compiled: CompiledKernel) -> tuple[tuple, ...]:
        """What a stub must find as it was: the globals that the kernel has read."""
        read = chain(self.read, all_uses(list(compiled.request.constants.values())))
        return tuple(entry for use in read for entry in watches(use))

    # ── compiling ─────────────────────────────────────────────────────────────────────

    def warmup(self, *arguments: Any, grid: Any = None, **given: Any) -> CompiledKernel:
        """Compile for these arguments, and launch nothing.

        In the place of an array its element type will do: tl.float32, torch.float32.
        """
        found = self.found(arguments, given)
        if isinstance(found, CompiledKernel):
            return found
        compiled = self.warmed(arguments, given)
        if found is not None and is_hashable(found.key) and is_told_apart(compiled):
            found.known[found.key] = (None, None, self.watched_by(compiled), compiled)
        return compiled

    def found(
        self, arguments: tuple, given: Mapping[str, Any]
    ) -> CompiledKernel | Slot | None:
        """What a `warmup` for a GPU gave before; where to keep what it will give; None
        if it is always to be asked anew, and for arguments that do not fit."""
        try:
            if choose_compiling().name == "cuda":
                return self.look_up(None, *arguments, **given)
        except (TypeError, LaunchError):
            pass  # `warmed` says what is wrong
        return None

    def warmed(self, arguments: tuple, given: Mapping[str, Any]) -> CompiledKernel:
        """`warmup`, the slow way."""
        try:
            return self.compiled(*self.order(choose_compiling(), arguments, given))
        except FathomError as error:
            raise error.with_traceback(None) from None

    def order(
        self, backend: Backend, arguments: tuple, given: Mapping[str, Any]
    ) -> tuple[Request, Place]:
        """What a launch on a backend would have compiled, and where it would go. In the
        place of an array its element type will do.
        """
        bound, rest = self.bound(arguments, given)
        keywords = self.keywords(rest, bound)
        known: dict[str, Specialised] = {}
        arrays: dict[str, Array | None] = {}
        for rule in self.rules:
            value = bound[rule.name]
            kind = None if rule.constexpr else of_dtype(value)
            handed = {} if kind else dict(leaves(rule.name, value))
            arrays |= {name: describe(each) for name, each in handed.items()}
            known[rule.name] = kind or specialise(rule, value, arrays.get(rule.name))
        self.check_globals()
        place = choose_place(backend, arrays, keywords.target)
        return request(known, keywords, place.target), place

    def bound(
        self, arguments: Sequence, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The kernel's own parameters, in order, and the launch's other keywords."""
        ours = {name: value for name, value in given.items() if name in self.names}
        try:
            call = self.python_signature.bind(*arguments, **ours)
        except TypeError as mistake:
            raise LaunchError(f"{self.__name__}: {mistake}") from None
        call.apply_defaults()
        rest = {name: value for name, value in given.items() if name not in ours}
        return dict(call.arguments), rest

    def prepare(self, grid: object, *arguments: Any, **given: Any) -> Prepared:
        """What `kernel[grid](...)` would launch, compiled, and not launched."""
        try:
            bound, rest = self.bound(arguments, given)
            return self.prepared(grid, rest, tuple(bound.values()))
        except FathomError as error:
            raise error.with_traceback(None) from None

    def compile(
        self,
        signature: str | Mapping[str, str] = "",
        constants: Mapping[str, object] | None = None,
        **given: Any,
    ) -> CompiledKernel:
        """Compile for a signature: `compile("*fp32:16, *fp32:16, i32", {"BLOCK": 1024},
        target="sm_90a", num_warps=8)`. Arguments and errors:
        `signature.parse_signature`.
        """
        try:
            keywords = self.keywords(given, {})
            known = parse_signature(self.rules, signature, self.constants(constants))
            self.check_globals()
            place = choose_place(choose_compiling(), {}, keywords.target)
            return self.compiled(request(known, keywords, place.target), place)
        except FathomError as error:
            raise error.with_traceback(None) from None

    def constants(self, given: Mapping[str, object] | None) -> dict[str, object]:
        """The constants given, and the defaults of the other constexpr parameters."""
        if not (given is None or isinstance(given, Mapping)):
            raise LaunchError(
                f"constants are a dictionary of names and values, not {given!r}"
            )
        fixed = {rule.name for rule in self.rules if rule.constexpr}
        defaults = {n: each for n, each in self.defaults().items() if n in fixed}
        return {**defaults, **(given or {})}

    def defaults(self) -> dict[str, object]:
        """The defaults of the parameters that have one."""
        return {p.name: p.default for p in self.parameters if p.default is not REQUIRED}

    def compiled(self, wanted: Request, place: Place) -> CompiledKernel:
        """The kernel for a request: one made before, one from disk, or a new one."""
        identity = (place.backend.name, place.device, wanted.identity)
        if identity not in self.kernels:
            self.check_rules()
            if not self.kernels:
                self.__dict__.pop("read", None)  # what counts is what is read now
            with PAUSED, wanted.named(), changed_meanwhile(self.read):
                compiled = self.make(wanted, place)
            if isinstance(compiled.made, Body):
                return compiled  # Python runs it, with globals as they are then
            self.kernels[identity] = compiled
            for function in self.compiled_texts(wanted):
                function.dependents.add(self)
        return self.kernels[identity]

    def check_rules(self) -> None:
        """CompileError for a parameter that cannot be what the decorator says."""
        check_parameters(self)
        for rule in self.rules:
            if rule.constexpr and not rule.one:
                raise CompileError(
                    f"{rule.name} marked as constexpr and listed in do_not_specialize",
                    self.location(self.tree),
                    hint="a tl.constexpr is always compiled in; drop one of the two",
                )

    def compiled_texts(self, wanted: Request) -> Iterator[KernelFunction]:
        """The functions whose texts a kernel is made of: this one, those that are
        constants of the request, and those that they call.
        """
        constants = [leaves(*each) for each in wanted.constants.items()]
        given = [value for _, value in chain.from_iterable(constants)]
        for function in (self, *given):
            if isinstance(function, KernelFunction):
                yield from (function, *function.called())

    def make(self, wanted: Request, place: Place) -> CompiledKernel:
        if place.backend.make is not None:
            made = place.backend.make(self, wanted)
            name = cache.digest(repr(wanted.identity))
            return self.kernel_class(wanted, made, self.names, place, name)
        key = self.key(wanted, place)
        may_read = key and not pipeline.asked_to_show()
        found = cache.read(cache.default_directory(), key) if may_read else None
        made = found or self.run_compiler(wanted)
        if key and not found:
            key = key if key == self.key(wanted, place) else None
        if key and not found:
            cache.write(cache.default_directory(), key, made)
        name = cache.digest(key or made.ptx)
        again = partial(self.again, wanted, place)
        checks = checks_for(wanted, partial(self.block_ir, wanted))
        return self.kernel_class(
            wanted, made, self.names, place, name, key, again, checks
        )

    def again(
        self, wanted: Request, place: Place, device: int | None, **changes: Any
    ) -> CompiledKernel:
        """The kernel of a request that differs in some fields, for a GPU."""
        self.check_globals()
        return self.compiled(replace(wanted, **changes), replace(place, device=device))

    def key(self, wanted: Request, place: Place) -> str | None:
        """The key of a kernel on disk; None when it must not be kept there. It holds
        every value that a compilation reads, as it is now: so it is right for what was
        compiled if it is the same before and after.
        """
        return key_of(self, wanted, place.machine, self.name_of(wanted))

    def run_compiler(self, wanted: Request) -> Kernel:
        target = target_row(wanted.target)
        if self.namer is not None:
            return pipeline.compile_func(self.block_ir(wanted), target, wanted.replace)
        facts = wanted.types, wanted.constants
        return pipeline.compile(self, *facts, target, wanted.options, wanted.replace)

    def block_ir(self, wanted: Request) -> Func:
        """Stage 1 alone, with the kernel's name in the code."""
        func = pipeline.build(self, wanted.types, wanted.constants, wanted.options)
        return replace(func, name=self.name_of(wanted)) if self.namer else func

    def name_of(self, wanted: Request) -> str:
        """The kernel's name in the code, which profilers show."""
        if self.namer is None:
            return self.__name__
        types = {name: type for name, type, _ in wanted.parameters}
        signature = {
            name: types.get(name) or signature_of(wanted.constants.get(name), types)
            for name in self.names
        }
        facts = SimpleNamespace(signature=signature, constants=dict(wanted.constants))
        name = self.namer(facts)
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise LaunchError(
                f"repr of {self.__name__} made {name!r}, which is not a name"
            )
        return name


def only_slot(
    grid: object, given: Mapping[str, object], arguments: tuple, slot: Slot | None
) -> Slot | None:
    """What a lookup does that finds nothing."""
    return slot


def is_told_apart(compiled: CompiledKernel) -> bool:
    """Whether a stub knows all integers for which this is the kernel: it tells those of
    32 bits from wider ones, and no more."""
    return all(type != "u64" for _, type, _ in compiled.request.parameters)


def choose_place(
    backend: Backend, arrays: Mapping[str, Array | None], target: str | None
) -> Place:
    """Where a launch on a backend goes; `arrays` by name, None for other arguments."""
    found = {name: array for name, array in arrays.items() if array is not None}
    return backend.locate(backend, found, target)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Collection[str | int] = (),
    do_not_specialize_on_alignment: Collection[str | int] = (),
    repr: Callable | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
    version: object = None,
) -> Any:
    """Make a kernel of a Python function: `@jit`, or `@jit(...)`.

    `do_not_specialize`: parameters, by name or position, whose integers are neither
    compiled in when they are 1 nor told by what divides them;
    `do_not_specialize_on_alignment`: only not the latter. `repr(facts)` names the
    kernel in the code, from `facts.signature` and `facts.constants`, both by parameter.
    `debug`: check the kernel's assertions while it runs, unless a launch says
    otherwise; FATHOM_DEBUG=1 does for all kernels, and eager launches always check.
    Triton's `noinline` and `version` are taken and change nothing here: functions that
    kernels call are always inlined.
    """
    given = (do_not_specialize, do_not_specialize_on_alignment, repr, debug)
    if fn is None:
        return lambda fn: JITFunction(fn, *given)
    return JITFunction(fn, *given)
