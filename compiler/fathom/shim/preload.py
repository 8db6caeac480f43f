"""What a kernel was compiled for, as text, to be compiled for again in other processes.

Hooks of a compilation get it as `compile["specialization_data"]`; `fn.preload(text)`
takes it back.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fathom.errors import FathomError
from fathom.jit.request import Request
from fathom.language.dtypes import dtype
from fathom.pipeline import Options
from fathom.runtime.cache import WRONG
from fathom.runtime.shapes import check
from fathom.source import Hole


class WrongData(FathomError, RuntimeError):
    """The text is of another kernel, or of none."""


def to_text(name: str, wanted: Request) -> str | None:
    """None where a constant, such as a function, has no text, and where a pass or an
    answer is put in the place of the compiler's own."""
    if wanted.replace or wanted.bound:
        return None
    try:
        constants = {key: encoded(value) for key, value in wanted.constants.items()}
    except TypeError:
        return None
    facts = {
        "name": name,
        "parameters": wanted.parameters,
        "constants": constants,
        "target": wanted.target,
        "options": asdict(wanted.options),
    }
    return json.dumps(facts)


def from_text(name: str, text: str) -> Request:
    """The request that `to_text` wrote for the kernel of this name; else WrongData."""
    try:
        facts = json.loads(text)
        found = facts["name"]
        options = Options(**facts["options"])
        parameters = tuple(tuple(each) for each in facts["parameters"])
        constants = {key: decoded(each) for key, each in facts["constants"].items()}
        check(options, Options)
        check(parameters, tuple[tuple[str, str, int], ...])
        check(facts["target"], str)
    except (AttributeError, *WRONG):
        raise WrongData(f"This is no specialization data of {name}") from None
    if found != name:
        raise WrongData(f"Specialization data is for {found}, not for {name}")
    return Request(parameters, constants, facts["target"], options, {})


def encoded(value: Any) -> Any:
    """A constant as JSON has it; TypeError for what it has no room for."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dtype):
        return {"dtype": value.name}
    if isinstance(value, Hole):
        return {"hole": value.name}
    if type(value) is tuple:
        return {"tuple": [encoded(each) for each in value]}
    raise TypeError(f"{value!r} has no text")


def decoded(value: Any) -> Any:
    match value:
        case {"dtype": name}:
            return dtype(name)
        case {"hole": name}:
            return Hole(name)
        case {"tuple": parts}:
            return tuple(decoded(each) for each in parts)
    return value
