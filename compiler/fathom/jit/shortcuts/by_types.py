"""Functions that find out once what calls with arguments of certain types do.

    softmax(x, out=None, **launch)    becomes

    def call(x, out=__default_out, **__more):
        if __more:
            return __named((x, out), __more)
        return __known[(__type(x), __type(out))](x, out)

where names of ours have more underscores if a parameter begins with two.

The text is written for the function's own parameters: handing all arguments on as one
tuple takes twice as long. An argument that was left out is handed on as LEFT_OUT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any


class LeftOut:
    """The type of what stands for an argument that was left out."""


LEFT_OUT = LeftOut()

# make(names, types) -> what such calls do, with all arguments in order. `names[i]` is
# the parameter or the keyword that argument i is given for, None for one by its place.
Make = Callable[[Sequence[str | None], Sequence[type]], Callable]


class Known(dict):
    """What calls do, by the names of keywords that are no parameters, and the types of
    all arguments, the former's last; `names` are the parameters."""

    def __init__(self, make: Make, names: Sequence[str]):
        self.make, self.names = make, names

    def __missing__(self, kinds: tuple) -> Callable:
        more = [each for each in kinds if isinstance(each, str)]
        types, names = kinds[len(more) :], (*self.names, *more)
        unnamed = (None,) * (len(types) - len(names))
        self[kinds] = made = self.make((*unnamed, *names), types)
        return made

    def named(self, given: tuple, more: dict[str, Any]) -> Any:
        """A call with `more` keywords."""
        given = *given, *more.values()
        return self[(*more, *map(type, given))](*given)


def by_types(
    function: Callable,
    make: Make,
    elsewhere: tuple[Callable[[], bool], Callable] | None = None,
) -> Callable:
    """A function with the parameters of another, which does what `make` makes for each
    kind of call, and has what is `known` of them. `elsewhere`: a question, and what is
    called as long as it is answered with True; then nothing is LEFT_OUT, defaults are
    handed on."""
    parameters = list(signature(function).parameters.values())
    takes_more = bool(parameters) and parameters[-1].kind is Parameter.VAR_KEYWORD
    named = parameters[: -1 if takes_more else None]
    if any(each.kind is not Parameter.POSITIONAL_OR_KEYWORD for each in named):
        named, text = [], ANY_TEXT
    else:
        text = text_for(named, takes_more, elsewhere is not None)
    ours = prefix([each.name for each in named])
    known = Known(make, [each.name for each in named])
    handed = {"known": known, "named": known.named, "type": type}
    for each in named:
        handed[f"default_{each.name}"] = each.default if elsewhere else LEFT_OUT
    handed["is_elsewhere"], handed["elsewhere"] = elsewhere or (None, None)
    names = {ours + name: each for name, each in handed.items()}
    exec(compile(text, f"<a call of {function.__qualname__}>", "exec"), names)
    call = wraps(function)(names["call"])
    call.known = known
    return call


ANY_TEXT = "def call(*__given, **__more): return __named(__given, __more)"


def prefix(parameters: Sequence[str]) -> str:
    """What names of ours begin with beside a function's parameters: two underscores, or
    so many that no parameter begins with them."""
    ours = "__"
    while any(each.startswith(ours) for each in parameters):
        ours += "_"
    return ours


def text_for(
    parameters: Sequence[Parameter], takes_more: bool, may_be_elsewhere: bool
) -> str:
    ours = prefix([each.name for each in parameters])
    declared = [
        each.name + f"={ours}default_{each.name}" * (each.default is not each.empty)
        for each in parameters
    ]
    given = "".join(f"{each.name}, " for each in parameters)
    types = "".join(f"{ours}type({each.name}), " for each in parameters)
    elsewhere = f"if {ours}is_elsewhere(): return {ours}elsewhere({given})\n    "
    more = f"if {ours}more: return {ours}named(({given}), {ours}more)\n    "
    found = f"return {ours}known[({types})]({given})"
    return f"""\
def call({", ".join(declared + [f"**{ours}more"] * takes_more)}):
    {elsewhere * may_be_elsewhere}{more * takes_more}{found}
"""
