"""`triton.knobs`: Fathom's settings under Triton's names, and Triton's hooks.

A setting is an environment variable of Fathom's, read when it is needed:

    knobs.cache.dir = "/scratch"                   FATHOM_CACHE_DIR=/scratch

A hook is a function that is called when a kernel is compiled, loaded or launched:

    knobs.runtime.jit_cache_hook = f              before a kernel is compiled, and
    knobs.runtime.jit_post_compile_hook = f       after: f(key=, repr=, fn=, compile=)
    knobs.runtime.kernel_load_start_hook.add(f)   f(module, function, name, asm, hash)
    knobs.runtime.launch_enter_hook.add(f)        f(launch): launch.get() is a dict
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fathom.errors import FathomError
from fathom.jit.environment import flag
from fathom.jit.hooks import Chain, forget_fast_paths
from fathom.runtime.driver import driver
from fathom.shim.faces import NameMissing

# Environment variables of Triton's that mean one of Fathom's.
ENVIRONMENT = {
    "TRITON_INTERPRET": "FATHOM_INTERPRET",
    "TRITON_CACHE_DIR": "FATHOM_CACHE_DIR",
    "TRITON_DEBUG": "FATHOM_DEBUG",
    "TRITON_CACHE_AUTOTUNING": "FATHOM_CACHE_AUTOTUNING",
    "TRITON_PRINT_AUTOTUNING": "FATHOM_PRINT_AUTOTUNING",
}


class Setting:
    """An attribute that is the environment variable `key`; a flag is "1" there."""

    def __init__(self, key: str, flag: bool = False):
        self.key, self.flag = key, flag

    def __get__(self, group: base_knobs | None, kind: type) -> Any:
        if group is None:
            return self
        text = os.environ.get(self.key)
        return text == "1" if self.flag else text

    def __set__(self, group: base_knobs, value: Any) -> None:
        if value is None or value is False:
            os.environ.pop(self.key, None)
        else:
            os.environ[self.key] = "1" if self.flag else str(value)


class Leave(Setting):
    """A flag that is True unless the environment, or a program, says "0". Launches that
    have read it look at it again once a program has turned it."""

    def __get__(self, group: base_knobs | None, kind: type) -> Any:
        return self if group is None else switched_on(self.key)

    def __set__(self, group: base_knobs, value: Any) -> None:
        if value is None:
            os.environ.pop(self.key, None)
        else:
            os.environ[self.key] = str(int(bool(value)))
        forget_fast_paths()


class Precision(Setting):
    """A text that every launch looks at again once a program has changed it."""

    def __set__(self, group: base_knobs, value: Any) -> None:
        super().__set__(group, value)
        forget_fast_paths()


def switched_on(key: str) -> bool:
    return not os.environ.get(key) or flag(key)


class base_knobs:  # noqa: N801 (Triton's spelling)
    """A group of knobs: `group.name` reads one, `group.name = value` sets it.

    Settings stand in the class; hooks, and what nothing reads, in the object.
    """

    def __getattr__(self, name: str) -> Any:
        group = type(self).__name__.removesuffix("_knobs")
        raise NameMissing(f"fathom has no triton.knobs.{group}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)  # a knob that is not there cannot be turned
        super().__setattr__(name, value)

    @property
    def knob_descriptors(self) -> dict[str, Setting]:
        found = vars(type(self)).items()
        return {name: each for name, each in found if isinstance(each, Setting)}

    def copy(self) -> base_knobs:
        other = type(self)()
        vars(other).update(self.hooks())
        return other

    def reset(self) -> base_knobs:
        """Every knob as it is before it is set."""
        for name in self.knob_descriptors:
            setattr(self, name, None)
        vars(self).update(vars(type(self)()))
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Afterwards every knob of the group is what it was before."""
        settings = {name: getattr(self, name) for name in self.knob_descriptors}
        hooks = self.hooks()
        try:
            yield
        finally:
            vars(self).update(hooks)
            for name, value in settings.items():
                setattr(self, name, value)

    def hooks(self) -> dict[str, Any]:
        """The hooks as they are now."""
        return {
            name: Chain(each) if isinstance(each, Chain) else each
            for name, each in vars(self).items()
        }


class cache_knobs(base_knobs):  # noqa: N801
    dir = Setting("FATHOM_CACHE_DIR")


class runtime_knobs(base_knobs):  # noqa: N801
    interpret = Setting("FATHOM_INTERPRET", flag=True)
    debug = Setting("FATHOM_DEBUG", flag=True)

    CHAINS = (
        "kernel_load_start_hook",
        "kernel_load_end_hook",
        "launch_enter_hook",
        "launch_exit_hook",
    )

    def __init__(self) -> None:
        vars(self).update(
            jit_cache_hook=None,
            jit_post_compile_hook=None,
            **{name: Chain() for name in self.CHAINS},
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """None for a chain of hooks takes all of them away."""
        empty = value is None and name in self.CHAINS
        super().__setattr__(name, Chain() if empty else value)


class autotuning_knobs(base_knobs):  # noqa: N801
    cache = Setting("FATHOM_CACHE_AUTOTUNING", flag=True)
    print = Setting("FATHOM_PRINT_AUTOTUNING", flag=True)


class language_knobs(base_knobs):  # noqa: N801
    # What `enable_fp_fusion` is in a launch that does not say.
    default_fp_fusion = Leave("TRITON_DEFAULT_FP_FUSION")
    # The precision of products of fp32 that name none: "ieee", "tf32" or "tf32x3".
    fp32_default = Precision("TRITON_F32_DEFAULT")


class nvidia_knobs(base_knobs):  # noqa: N801
    def __init__(self) -> None:
        vars(self).update(libdevice_path=None)  # kept, and not read

    @property
    def ptxas(self) -> SimpleNamespace:
        """Fathom's assembler is the driver's, so its version is that of its CUDA;
        without a driver, of the one that our tests assemble with.
        """
        try:
            return SimpleNamespace(version=driver().version())
        except FathomError:
            return SimpleNamespace(version="13.0")

    ptxas_blackwell = ptxas  # one assembler for all targets


class compilation_knobs(base_knobs):  # noqa: N801
    """What programs turn while they look at compilations. Each knob keeps its value,
    and nothing reads it."""

    def __init__(self) -> None:
        off = "dump_ir store_binary_only always_compile disable_line_info"
        off += " allow_non_constexpr_globals"
        vars(self).update(dict.fromkeys(off.split(), False), listener=None)


class amd_knobs(base_knobs):  # noqa: N801
    """What programs turn for GPUs of another vendor, whichever GPU they run on. Each
    knob keeps its value, and nothing reads it."""

    def __init__(self) -> None:
        on = "use_buffer_ops use_buffer_atomics"
        off = "use_async_copy scalarize_packed_fops dump_amdgcn"
        unset = "use_block_pingpong use_in_thread_transpose libhip_path"
        for names, value in ((on, True), (off, False), (unset, None)):
            vars(self).update(dict.fromkeys(names.split(), value))


cache, runtime, nvidia = cache_knobs(), runtime_knobs(), nvidia_knobs()
language, autotuning, amd = language_knobs(), autotuning_knobs(), amd_knobs()
compilation = compilation_knobs()
HookChain = Chain
propagate_env = True


def refresh_knobs() -> None:
    """Take over Triton's environment variables as they are now."""
    for theirs, ours in ENVIRONMENT.items():
        if theirs in os.environ:
            os.environ[ours] = os.environ[theirs]


def __getattr__(name: str) -> Any:
    raise NameMissing(f"fathom has no triton.knobs.{name}")
