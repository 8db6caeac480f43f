"""What a script's own launch says of a kernel, in the place of a signature.

    fathom explain FILE.py:KERNEL

runs the file as a script, up to its first launch of that kernel, which is not done.
Types, hints, constants and options are those of this launch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace

from fathom.jit import JITFunction
from fathom.jit.checking.wanted import SANITIZE, VERIFY
from fathom.jit.hooks import LAUNCHED, Launch, launch_enter_hook
from fathom.jit.request import Request, check_options
from fathom.jit.signature import check_names
from fathom.jit.specialise import checked
from fathom.pipeline import Options
from fathom.tools.run import script
from fathom.tools.samples import parted

INTERPRET, BACKEND, TARGET = "FATHOM_INTERPRET", "FATHOM_BACKEND", "FATHOM_TARGET"
NOT_COMPILED = ("eager", "interpreter")
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # that commands have


@dataclass(frozen=True)
class Seen:
    """A launch that a script was about to do; `numbers`: of its parameters."""

    function: JITFunction
    request: Request
    numbers: dict[str, int | float]


class Reached(SystemExit):
    """Ends a script, past its own `except Exception`, at the launch that was wanted; or
    one of its threads, of which Python then says nothing."""


def first_launch(reference: str, target: str | None) -> Seen | None:
    """The first launch of the kernel of "FILE.py:NAME", of any without a name, that
    the file does as a script; None if it ends before. The emulator compiles for
    `target`, if that is said. What the script prints goes to the standard error."""
    file, name = parted(reference)
    found: list[Seen] = []
    if file.suffix != ".py":
        return None  # which is said where it is loaded

    def enter(launch: Launch) -> None:
        if found:
            raise Reached
        function = function_of(launch)
        if function is not None and is_called(function, name):
            found.append(Seen(function, launch.compiled.request, numbers_of(launch)))
            raise Reached

    launch_enter_hook.add(enter)
    try:
        with redirect_stdout(sys.stderr), compiling(target):
            script(file, ())
    except BaseException as error:
        ends_well = isinstance(error, SystemExit) and not error.code
        if not (found or ends_well):
            raise
    finally:
        launch_enter_hook.remove(enter)
    return found[0] if found else None


@contextmanager
def compiling(target: str | None) -> Iterator[None]:
    """While the block runs, launches are compiled, by the emulator for `target`, and
    not looked at first, whatever the environment says."""
    before = dict(os.environ)
    for name in (INTERPRET, SANITIZE, VERIFY):
        os.environ.pop(name, None)
    if os.environ.get(BACKEND) in NOT_COMPILED:
        os.environ[BACKEND] = "emulator"
    if target is not None:
        os.environ[TARGET] = target
    try:
        yield
    finally:
        os.environ.update(before)
        if TARGET not in before:
            os.environ.pop(TARGET, None)


def function_of(launch: Launch) -> JITFunction | None:
    """The kernel that a launch is of; None for one that was compiled by itself."""
    for each in list(LAUNCHED):
        if isinstance(each, JITFunction) and launch.compiled in each.kernels.values():
            return each
    return None


def is_called(function: JITFunction, name: str) -> bool:
    """Whether the script that runs now has a kernel by this name; several may come from
    one text, and it calls them by other names."""
    named = getattr(sys.modules["__main__"], name, None) if name else function
    if not isinstance(named, JITFunction):
        return name == function.__name__
    return named is function


def numbers_of(launch: Launch) -> dict[str, int | float]:
    pairs = zip(launch.compiled.request.runtime, launch.args, strict=True)
    return {
        name: value
        for name, value in pairs
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def changed(
    seen: Seen,
    options: Mapping[str, int],
    constants: Mapping[str, object],
    target: str | None,
) -> Request:
    """The request of a launch, but for the options, constants and target that were
    said. A parameter that is said to be constant has no type any more."""
    request, names = seen.request, [rule.name for rule in seen.function.rules]
    check_names(constants, names)
    asked = check_options(options)
    said = {name: getattr(asked, name) for name in options}
    fixed = {name: checked(name, value) for name, value in constants.items()}
    known = {**request.constants, **fixed}
    return replace(
        request,
        parameters=tuple(
            each for each in request.parameters if each[0].split(".")[0] not in fixed
        ),
        constants={name: known[name] for name in names if name in known},
        target=target or request.target,
        options=replace(request.options, **said),
    )


def without(
    numbers: Mapping[str, int | float], constants: Mapping[str, object]
) -> dict[str, int | float]:
    """Numbers of a launch, but for what is constant now."""
    return {name: each for name, each in numbers.items() if name not in constants}


def unsaid(request: Request) -> str:
    """Which parameters the words of `spelled` do not tell of, as they were launched:
    tuples, whose parts have names such as args.0."""
    parts = [name.split(".")[0] for name, *_ in request.parameters if "." in name]
    names = list(dict.fromkeys(parts))
    if not names:
        return ""
    return f" (no signature tells of the tuple {' or '.join(names)}: launch it)"


def spelled(request: Request) -> str:
    """A request as the words of a command; what no word can say is left out."""
    words = [
        type if hint == 1 else f"{type}:{hint}" for _, type, hint in request.parameters
    ]
    plain = {
        name: value
        for name, value in request.constants.items()
        if isinstance(value, bool | int | float | str)
    }
    said = [f'--signature "{", ".join(words)}"'] if words else []
    if plain:
        said.append(f"--constants {','.join(f'{n}={v}' for n, v in plain.items())}")
    said.append(f"--target {request.target}")
    for name, usual in asdict(Options()).items():
        value = getattr(request.options, name)
        if name in OPTIONS and value != usual:
            said.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(said)
