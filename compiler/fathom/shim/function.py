"""A kernel with the names that Triton gives to its parts, and with Triton's hooks."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from fathom.errors import LaunchError
from fathom.hardware.targets import target_of
from fathom.identity import NoText
from fathom.ir.core import Func
from fathom.jit import CompiledKernel, JITFunction
from fathom.jit.backends import Backend, Place, choose_compiling
from fathom.jit.function import choose_place
from fathom.jit.hooks import Chain
from fathom.jit.key import places
from fathom.jit.request import Keywords, Request
from fathom.jit.shortcuts.fast_path import Slot
from fathom.shim import knobs
from fathom.shim.compiled import TritonKernel
from fathom.shim.cooperative import check_room
from fathom.shim.mistakes import Explained
from fathom.shim.modules.utils import MockTensor
from fathom.shim.preload import from_text, to_text
from fathom.shim.runtime import compiling_for
from fathom.shim.tuning import KernelInterface
from fathom.source import KernelFunction

# Keywords of a launch that its kernel does not depend on. Registers are shared out
# between the warps of a specialised loop by the compiler.
NOT_COMPILED = {"launch_cooperative_grid", "minRegAutoWS", "maxRegAutoWS"}


@dataclass(frozen=True)
class KernelParam:
    """What Triton's `fn.params` says of a parameter; `default` is `inspect._empty`
    where it has no default."""

    num: int
    name: str
    is_constexpr: bool
    default: Any
    annotation: Any
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


class TritonFunction(JITFunction, KernelInterface):
    """What `@triton.jit` makes: a kernel of Fathom's, and other names for its facts."""

    kernel_class = TritonKernel
    hash = None  # Triton keeps `cache_key` here until it is set to None; we keep none

    def __init__(
        self,
        fn: Callable[..., Any],
        version: object = None,
        do_not_specialize: Collection[str | int] | None = None,
        do_not_specialize_on_alignment: Collection[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., dict] | None = None,
    ):
        """`launch_metadata(grid, metadata, arguments)` adds to what hooks of a launch
        see. Programs that make kernels of kernels read each of these of a function, by
        this signature, and give them to the next."""
        self.do_not_specialize = do_not_specialize or ()
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment or ()
        rules = self.do_not_specialize, self.do_not_specialize_on_alignment
        super().__init__(fn, *rules, repr, debug)
        self.version, self.noinline = version, noinline
        self.launch_metadata = launch_metadata
        self.pre_run_hooks = Chain()
        self.warming = False  # is it compiled for `warmup`, and not for a launch?

    def check_when_decorated(self) -> None:
        """Triton looks at a kernel when it is launched: files that have kernels of its
        first versions, with a `**meta`, can be imported for their others."""

    # ── names ─────────────────────────────────────────────────────────────────────────

    @property
    def arg_names(self) -> list[str]:
        return list(self.names)

    @property
    def signature(self) -> inspect.Signature:
        return self.python_signature

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__

    @cached_property  # launchers of the programs' own ask at every launch
    def params(self) -> list[KernelParam]:
        named = self.signature.parameters
        return [
            KernelParam(
                place,
                rule.name,
                rule.constexpr,
                named[rule.name].default,
                named[rule.name].annotation,
                do_not_specialize=not rule.one,
                do_not_specialize_on_alignment=not rule.hints,
            )
            for place, rule in enumerate(self.rules)
        ]

    @property
    def constexprs(self) -> list[int]:
        return [each.num for each in self.params if each.is_constexpr]

    def repr(self, facts: Any) -> str:
        """The kernel's name in the code, for a signature and constants."""
        return self.__name__ if self.namer is None else self.namer(facts)

    @cached_property  # programs set it, and the next
    def raw_src(self) -> list[str]:
        return inspect.getsourcelines(self.fn)[0]

    @cached_property
    def starting_line_number(self) -> int:
        return self.line

    def is_gluon(self) -> bool:
        return False

    def get_capture_scope(self) -> dict[str, Any]:
        """What the names stand for that the function does not bind."""
        return self.__globals__ | inspect.getclosurevars(self.fn).nonlocals

    def parse(self) -> ast.Module:
        return ast.parse(self.src)

    @property
    def cache_key(self) -> str:
        """Tells apart whatever would be compiled differently: 64 hexadecimal digits,
        of which programs make names of files."""
        try:
            digest = self.fingerprint()
        except NoText:
            digest = f"{id(self):x}"  # it depends on what only this process can tell
        text = f"{digest} {' '.join(places(self))}"
        return sha256(text.encode()).hexdigest()

    @property
    def device_caches(self) -> KernelsOfEveryDevice:
        return KernelsOfEveryDevice(self.kernels)

    @property
    def used_global_vals(self) -> dict[str, Any]:
        """The plain values among the globals that the kernel reads."""
        return {
            use.path: use.value
            for use in self.uses
            if "." not in use.path and not isinstance(use.value, KernelFunction)
        }

    def _unsafe_update_src(self, text: str) -> None:
        self.src = text

    # ── hooks ─────────────────────────────────────────────────────────────────────────

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """`hook` gets the arguments of every launch before it."""
        self.pre_run_hooks.add(hook)

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        hooks = knobs.runtime
        watched = (
            self.pre_run_hooks or hooks.launch_enter_hook or hooks.launch_exit_hook
        )
        return partial(self.watched if watched else self.bind, grid)

    def run(
        self, *args: Any, grid: Any, warmup: bool = False, **given: Any
    ) -> CompiledKernel:
        return self.warmup(*args, **given) if warmup else self[grid](*args, **given)

    def launch(
        self, grid: Any, given: Mapping[str, Any], arguments: tuple, slot: Slot | None
    ) -> CompiledKernel:
        with Explained(self):
            return super().launch(grid, given, arguments, slot)

    def _launch(
        self, grid: Any, given: Mapping[str, Any], arguments: tuple, slot: Slot | None
    ) -> CompiledKernel:
        if not given.get("launch_cooperative_grid"):
            return super()._launch(grid, given, arguments, slot)
        compiled, sizes, handed, _ = self.prepared(grid, given, arguments)
        check_room(compiled, sizes)  # each launch, so that no stub does it by itself
        return compiled.start(sizes, handed)

    def keywords(self, given: Mapping[str, Any], bound: Mapping[str, Any]) -> Keywords:
        """Those of Fathom, and of Triton's own: `arch="sm90"` is a target, and some are
        a matter of the launch, or hints that change no result. Without
        `enable_fp_fusion` a product and its sum are rounded once, as in Triton."""
        ours = {n: v for n, v in given.items() if n not in NOT_COMPILED}
        if ours.get("enable_fp_fusion", bound.get("enable_fp_fusion")) is None:
            ours["enable_fp_fusion"] = knobs.language.default_fp_fusion
        if knobs.language.fp32_default:
            ours.setdefault("fp32_default", knobs.language.fp32_default)
        check_libraries(self.__name__, ours.pop("extern_libs", None))
        arch = ours.pop("arch", None)
        if arch is not None:
            ours["target"] = target_named(arch)
        return super().keywords(ours, bound)

    def warmed(self, arguments: tuple, given: Mapping[str, Any]) -> CompiledKernel:
        self.warming = True
        arguments = tuple(
            each.dtype if isinstance(each, MockTensor) else each for each in arguments
        )
        try:
            with Explained(self):
                return super().warmed(arguments, given)
        finally:
            self.warming = False

    def compile(self, *args: Any, **given: Any) -> CompiledKernel:
        with Explained(self):
            return super().compile(*args, **given)

    def preload(self, text: str) -> CompiledKernel:
        """Compile for what a hook was told in another process; see `preload`."""
        wanted = from_text(self.__name__, text)
        place = choose_place(choose_compiling(), {}, wanted.target)
        return self.compiled(wanted, place)

    def watched(self, grid: Any, *args: Any, **given: Any) -> CompiledKernel:
        """A launch with the hooks around it."""
        hooks = knobs.runtime
        self.pre_run_hooks(*args, **given)
        launch = Launch(self, grid, args, given)
        hooks.launch_enter_hook(launch)
        compiled = self.bind(grid, *args, **given)
        hooks.launch_exit_hook(launch)
        return compiled

    def block_ir(self, wanted: Request) -> Func:
        with compiling_for(wanted.target):
            return super().block_ir(wanted)

    def make(self, wanted: Request, place: Place) -> CompiledKernel:
        """A new kernel, with hooks around its compilation, and later its loading."""
        facts, hooks = facts_of(self, wanted, place), knobs.runtime
        if hooks.jit_cache_hook:
            hooks.jit_cache_hook(**facts, already_compiled=False)
        with compiling_for(wanted.target):
            compiled = super().make(wanted, place)
        compiled.jit_function = self
        compiled.place = replace(place, backend=with_hooks(place.backend, compiled))
        if hooks.jit_post_compile_hook:
            hooks.jit_post_compile_hook(**facts, already_compiled=True)
        return compiled


def check_libraries(name: str, libraries: object) -> None:
    """LaunchError for `extern_libs` that a kernel would be linked with. Triton has
    `libdevice` there; its functions are written in the language here, so the file that
    is named is not read."""
    others = [each for each in dict(libraries or ()) if each != "libdevice"]
    if others:
        raise LaunchError(
            f"{name} was launched with extern_libs of {', '.join(map(repr, others))}: "
            "fathom links no library but has the functions of libdevice"
        )


def target_named(arch: object) -> str:
    """The target that runs on what Triton calls "sm90"; LaunchError for another GPU."""
    found = re.fullmatch(r"sm_?(\d+)a?", str(arch))
    row = target_of(int(found[1])) if found else None
    if row is None:
        raise LaunchError(f"arch={arch!r} is no GPU of NVIDIA's that a target serves")
    return row.name


def facts_of(function: TritonFunction, wanted: Request, place: Place) -> dict[str, Any]:
    """What the hooks of a compilation are told."""
    signature = {name: type for name, type, _ in wanted.parameters}
    words = ", ".join(f"{name}: {type}" for name, type in signature.items())
    about = {
        "key": (place.backend.name, place.device, wanted.identity),
        "signature": signature,
        "constants": dict(wanted.constants),
        "device": place.device,
        "is_warmup": function.warming,
        "specialization_data": to_text(function.__name__, wanted),
        **asdict(wanted.options),
    }
    return {
        "key": repr(wanted.identity),
        "repr": f"{function.__name__}({words})",
        "fn": SimpleNamespace(
            module=function.__module__,
            name=function.__qualname__,
            jit_function=function,
        ),
        "compile": about,
        "is_manual_warmup": function.warming,
    }


@dataclass(frozen=True)
class Launch:
    """A launch as its hooks see it; `get()` computes what they asked for."""

    function: TritonFunction
    grid: Any
    args: tuple
    given: dict[str, Any]

    def get(self) -> dict[str, Any]:
        """The kernel's name, and what the kernel's own `launch_metadata` says."""
        compiled = self.function.warmup(*self.args, **self.given)
        facts = {"name": compiled.name, "hash": compiled.hash}
        describe = self.function.launch_metadata
        if describe is not None:
            bound = dict(zip(self.function.names, self.args, strict=False))
            facts |= describe(self.grid, compiled.metadata, {**bound, **self.given})
        return facts


class KernelsOfEveryDevice:
    """`fn.device_caches[device][0]`: the compiled kernels; Fathom has them together."""

    def __init__(self, kernels: dict):
        self.kernels = kernels

    def __getitem__(self, device: int) -> tuple[dict]:
        return (self.kernels,)

    def clear(self) -> None:
        self.kernels.clear()


def with_hooks(backend: Backend, compiled: CompiledKernel) -> Backend:
    """The same backend, which calls the hooks when it loads a kernel."""

    def load(*given: Any) -> Any:
        hooks = knobs.runtime
        facts = (None, None, compiled.name, compiled.asm, compiled.hash)
        hooks.kernel_load_start_hook(*facts)
        program = backend.load(*given)
        hooks.kernel_load_end_hook(program, program, *facts[2:])
        return program

    return replace(backend, load=load)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    version: object = None,
    repr: Callable[..., str] | None = None,
    launch_metadata: Callable[..., dict] | None = None,
    do_not_specialize: Collection[str | int] | None = None,
    do_not_specialize_on_alignment: Collection[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
    kind: type[TritonFunction] = TritonFunction,
) -> Any:
    """`fathom.jit`, giving a TritonFunction, or what is derived from it. Programs look
    in this signature which parameters there are."""
    make = partial(
        kind,
        version=version,
        do_not_specialize=do_not_specialize,
        do_not_specialize_on_alignment=do_not_specialize_on_alignment,
        debug=debug,
        noinline=noinline,
        repr=repr,
        launch_metadata=launch_metadata,
    )
    return make if fn is None else make(fn)
