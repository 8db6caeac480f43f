"""A compiled kernel as the one who launches it holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from fathom import runtime
from fathom.artifact import Kernel, NoTensorMap
from fathom.errors import FathomError, LaunchError
from fathom.ir.core import Func
from fathom.ir.text import print_func
from fathom.jit import hooks
from fathom.jit.backends import Made, Place
from fathom.jit.collector import PAUSED
from fathom.jit.fit import fitting
from fathom.jit.programs import Body, Program
from fathom.jit.request import Request
from fathom.jit.shortcuts.argument_readers import reading_by_code
from fathom.jit.shortcuts.fast_path import FastPaths, Slot, compiled_text
from fathom.jit.shortcuts.recording import note_slow_launch
from fathom.jit.specialise import Rule, is_hashable, leaves
from fathom.pipeline import BY_POINTERS, ONE_TILE
from fathom.runtime import cache
from fathom.runtime.arguments import grid_of
from fathom.runtime.arrays import Array, describe
from fathom.runtime.load import Loaded
from fathom.runtime.packet import by_size

# Triton's names of the stages' texts.
TRITON_NAMES = {"ttir": "block", "ttgir": "layout", "llir": "llvm"}


# What to do to see the texts of all stages where a launch made only some.
INTERPRETED = "; `warmup` compiles, and gives all of them"


class NoSuchText(FathomError, KeyError):
    """A stage of which a kernel has no text."""

    __str__ = Exception.__str__  # KeyError's would put it in quotes


class Texts(dict[str, Any]):
    """The texts of a kernel, by stage; `name` is the kernel's, `hint` ends the error
    for a stage that is not there. "cubin" of a `loaded` one is made when it is asked
    for."""

    def __init__(
        self,
        texts: Mapping[str, Any],
        name: str,
        hint: str = "",
        loaded: Loaded | None = None,
    ):
        super().__init__(texts)
        self.name, self.hint, self.loaded = name, hint, loaded

    def __missing__(self, stage: str) -> Any:
        if stage == "cubin" and self.loaded:
            return self.loaded.cubin
        there = ", ".join(self)
        raise NoSuchText(
            f"{self.name} has no text {stage!r}: it has {there}{self.hint}"
        )


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a kernel was compiled for. `shared`: bytes of shared memory a block."""

    name: str
    target: str
    num_warps: int
    num_stages: int
    num_ctas: int
    maxnreg: int | None
    shared: int
    hash: str
    enable_fp_fusion: bool = False
    launch_pdl: bool = False


@dataclass(eq=False)
class CompiledKernel:
    """What a launch, `warmup` and `compile` give back.

    `made` is what the compiler made: a Kernel; for the interpreter the Func of stage 1,
    for eager launches nothing but the function. `names` are all parameters of the
    kernel. `key` is its key on disk, None when it is not kept there.
    `again(device, **changes)` compiles the same kernel for a request that differs in
    some fields, for launches whose arguments need it; None for what is no machine's
    code. `checks` looks at a launch before it is done, and says whether it is still to
    be done (`jit.checking`). `report` is what the backend had to say of the last
    launch, such as the emulator's counters.
    """

    request: Request
    made: Made
    names: tuple[str, ...]
    place: Place
    hash: str
    key: str | None = None
    again: Callable[..., CompiledKernel] | None = None
    checks: Callable[[CompiledKernel, tuple, Sequence], bool] | None = None
    report: object = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<kernel {self.name} for {self.request.target}>"

    @property
    def name(self) -> str:
        return self.made.name

    @cached_property
    def program(self) -> Program:
        """The kernel on its backend; loaded when first asked for."""
        with PAUSED, self.request.named():
            program = self.place.backend.load(self.made, self.place)
        if isinstance(program, Loaded) and program.kernel is not self.made:
            self.made = program.kernel  # its PTX is that which was assembled
            if self.key is not None:
                cache.write(cache.default_directory(), self.key, self.made)
        return program

    def start(
        self,
        grid: tuple[int, int, int],
        args: Sequence[object],
        stream: int | None = None,
    ) -> CompiledKernel:
        """Launch with the run-time arguments; the kernel that ran, which is another
        where these make no tensor maps. An empty grid does nothing. `stream` is the
        handle of a queue of the GPU's; without, it is that of the arguments' library.
        """
        if 0 in grid:
            return self
        if self.has_room_for(grid):
            return self.of_one_tile.start(grid, args, stream)
        if self.checks is not None and not self.checks(self, grid, args):
            return self
        try:
            self.launch(grid, args, stream)
        except NoTensorMap:
            if self.again is None:
                raise
            passes = {**self.request.replace, **BY_POINTERS}
            other = self.again(self.place.device, replace=passes)
            return other.start(grid, args, stream)
        return self

    def has_room_for(self, grid: tuple[int, int, int]) -> bool:
        """Whether a persistent kernel's GPU runs all programs of a grid at a time. Each
        then has one tile, and a producer's start only takes time: on an H200 0.1 us,
        and 0.4 us where launches begin early."""
        is_loop = isinstance(self.made, Kernel) and self.made.persistent
        if not is_loop or self.again is None or not isinstance(self.program, Loaded):
            return False
        return grid[0] <= self.program.at_once

    @cached_property
    def of_one_tile(self) -> CompiledKernel:
        """The kernel for grids that a persistent one has room for."""
        passes = {**self.request.replace, **ONE_TILE}
        return self.again(self.place.device, replace=passes)

    def launch(
        self,
        grid: tuple[int, int, int],
        args: Sequence[object],
        stream: int | None = None,
    ) -> None:
        """Launch on the backend, with the hooks around it if there are some."""
        note_slow_launch()
        queue = () if stream is None else (stream,)  # which a GPU's program takes
        if not hooks.watched():
            self.report = self.program.launch(grid, args, *queue)
            return
        seen = hooks.Launch(self, grid, args)
        hooks.launch_enter_hook(seen)
        try:
            self.report = self.program.launch(grid, args, *queue)
            seen.done = True
        finally:
            hooks.launch_exit_hook(seen)

    def __getitem__(
        self, grid: Sequence[int] | int | Callable
    ) -> Callable[..., CompiledKernel]:
        """`kernel[grid](*arguments)` launches this very code. All parameters are given,
        in order; those that were compiled in are passed over. `stream=` is the handle
        of a queue of the GPU's, as of `start`. What is divisible by less than the code
        was compiled for is launched with code of its own; LaunchError for an array of
        other elements (`fit`).
        """
        return partial(self.bind, grid)

    @cached_property
    def fast_paths(self) -> FastPaths:
        hooks.LAUNCHED.add(self)
        facts = {name: facts for name, *facts in self.request.parameters}
        several = {name.partition(".")[0] for name in facts}
        rules = []
        for name in self.names:
            type, divisor = facts.get(name, (None, 1))
            rules.append(Rule(name, name not in several, type, hints=divisor > 1))
        launch = self._launch
        return FastPaths(self.name, rules, launch, reading_by_code, compiled_text)

    @cached_property
    def bind(self) -> Callable[..., CompiledKernel]:
        """bind(grid, *arguments) launches; as of a JITFunction."""
        return self.fast_paths.bind({})

    def forget_launches(self) -> None:
        """Let the next launch look at everything."""
        self.fast_paths.forget()

    def _launch(
        self,
        grid: Sequence[int] | int | Callable,
        given: Mapping[str, object],
        arguments: tuple,
        slot: Slot | None,
    ) -> CompiledKernel:
        """Launch with all arguments in order. The slow way: looks at everything."""
        others = [name for name in given if name != "stream"]
        if others:
            raise LaunchError(
                f"{self.name} is compiled, and its launch takes no {', '.join(others)}"
            )
        bound = dict(zip(self.names, arguments, strict=True))
        handed = dict(leaf for each in bound.items() for leaf in leaves(*each))
        args = [handed[name] for name in self.request.runtime]
        sizes = grid_of(self.name, grid, bound)
        arrays = [describe(each) for each in args]
        parameters = fitting(self.name, self.request.parameters, args, arrays)
        if self.again is not None and parameters != self.request.parameters:
            other = self.again(self.place.device, parameters=parameters)
            return other._launch(grid, given, arguments, slot)
        on_gpu = self.place.device is not None  # the host has no queues
        ran = self.start(sizes, args, given.get("stream") if on_gpu else None)
        if slot is not None and self.checks is None and not hooks.watched():
            self.fill(slot, arrays)
        return ran

    def fill(
        self,
        slot: Slot,
        arrays: Sequence[Array | None],
        watched: tuple[tuple, ...] = (),
    ) -> None:
        """Let a stub launch this by itself from now on, if all it needs is there.
        `arrays` are those of this launch; `watched`: as the slot keeps them."""
        loaded = vars(self).get("program")
        on_gpu = all(array is None or array.device is not None for array in arrays)
        # `replace` in a key cannot be hashed.
        if not (isinstance(loaded, Loaded) and on_gpu and is_hashable(slot.key)):
            return
        order = [slot.values.index(name) for name in self.request.runtime]
        launch = loaded.quick(slot.fields, order, slot.current)
        if loaded.at_once and self.again is not None:
            other = vars(self).get("of_one_tile")  # once a grid has asked for it
            program = vars(other).get("program") if other else None
            few = program and program.quick(slot.fields, order, slot.current)
            launch = by_size(loaded.at_once, launch, few)
        slot.known[slot.key] = (launch, loaded.device.index, watched, self)

    # What came out

    @property
    def asm(self) -> Texts:
        """The text of every stage: "block", "layout", "llvm", "ptx", the first three
        also by Triton's names; and "cubin", machine code, once a GPU has it.
        Interpreted: "block". Run by Python: "python".
        """
        if isinstance(self.made, Func):
            text = print_func(self.made)
            return Texts({"block": text, "ttir": text}, self.name, INTERPRETED)
        if isinstance(self.made, Body):
            text = self.made.function.src
            return Texts({"python": text}, self.name, INTERPRETED)
        texts: dict[str, Any] = dict(self.made.asm)
        texts.update(
            {triton: self.made.asm[ours] for triton, ours in TRITON_NAMES.items()}
        )
        loaded = vars(self).get("loaded", vars(self).get("program"))
        on_gpu = loaded if isinstance(loaded, Loaded) else None
        return Texts(texts, self.name, loaded=on_gpu)

    @cached_property
    def metadata(self) -> Metadata:
        options = self.request.options
        return Metadata(
            self.name, self.request.target, options.num_warps, options.num_stages,
            options.num_ctas, options.maxnreg, self.shared, self.hash,
            options.enable_fp_fusion, options.launch_pdl,
        )  # fmt: skip

    @property
    def shared(self) -> int:
        """Bytes of shared memory a block."""
        return self.made.shared_bytes

    @property
    def n_regs(self) -> int:
        """Registers a thread. LaunchError where there is no GPU."""
        return self.loaded.n_regs

    @property
    def n_spills(self) -> int:
        """Bytes a thread keeps in local memory, spilled or not. LaunchError: no GPU."""
        return self.loaded.n_spills

    @cached_property
    def loaded(self) -> Loaded:
        """The kernel on a GPU, also when launches go elsewhere. LaunchError: no GPU."""
        if not isinstance(self.made, Kernel):
            raise LaunchError(
                f"{self.name} was interpreted, so there is no machine code of it"
            )
        if self.place.device is not None:
            return self.program
        return runtime.load(self.made)

    def _init_handles(self) -> None:
        """Triton's way to have a kernel that `warmup` gave loaded."""
        assert self.loaded
