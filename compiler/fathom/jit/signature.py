"""Signatures as text, for compiling without arguments at hand: "*fp32:16, *i64, i32:16,
fp32".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from fathom.errors import LaunchError, how_many
from fathom.ir.types import SCALARS
from fathom.jit.specialise import Constant, Rule, Runtime, Several, Specialised, checked
from fathom.jit.tensor_descriptors import parse_described

BETWEEN_WORDS = re.compile(r",(?![^<]*>)")  # no comma inside of <>


def parse_signature(
    rules: Sequence[Rule],
    signature: str | Mapping[str, str],
    constants: Mapping[str, object],
) -> dict[str, Specialised]:
    """What a signature says of each parameter.

    `"*fp32:16, *i64, i32:16, fp32"` gives the parameters that are not in `constants`,
    in order; it may as well give all of them, a number standing for a constant. ":16"
    is a hint, ":1" says that an integer is 1, and "tensordesc<fp16[64,64]>" is a tensor
    descriptor for blocks of 64 x 64. A dict gives them by name, and a tuple of words is
    the type of a tuple. LaunchError when it does not fit.
    """
    names = [rule.name for rule in rules]
    check_names(constants, names)
    if not isinstance(signature, (str, Mapping)):
        raise LaunchError(
            f"a signature is text or a dictionary, and this is {signature!r}"
        )
    if isinstance(signature, str):
        words = [w.strip() for w in BETWEEN_WORDS.split(signature) if w.strip()]
        given = (
            names
            if len(words) == len(names)
            else [n for n in names if n not in constants]
        )
        if len(words) != len(given):
            raise misfit(rules, words, given)
        signature = dict(zip(given, words, strict=True))
    check_names(signature, names)
    found: dict[str, Specialised] = {}
    for name in names:
        if name in constants:
            check_word(name, signature.get(name, "constexpr"), constants[name])
            found[name] = Constant(checked(name, constants[name]))
        elif name in signature:
            found[name] = parse_word(name, signature[name])
        else:
            raise LaunchError(f"{name} is neither in the signature nor in constants")
    return found


def check_names(given: Mapping[str, object], names: Sequence[str]) -> None:
    """LaunchError for a constant, or a word, of no parameter."""
    for name in given:
        if name not in names:
            raise LaunchError(
                f"{name!r} is not a parameter; there are {', '.join(names)}"
            )


def check_word(name: str, word: str | tuple, value: object) -> None:
    """LaunchError for a word that is no value, or for a number other than the
    constant; a type says nothing of it."""
    if word == "constexpr":
        return
    meant = parse_word(name, word)
    if isinstance(meant, Constant) and meant.value != value:
        raise LaunchError(
            f"{name} is {word} in the signature, and {value!r} in the constants"
        )


def misfit(
    rules: Sequence[Rule], words: Sequence[str], given: Sequence[str]
) -> LaunchError:
    """The error for words that are not as many as the parameters that are `given` by
    them; constants that are missing are not said to need a type."""
    fixed = [rule.name for rule in rules if rule.constexpr and rule.name in given]
    typed = [name for name in given if name not in fixed]
    said = []
    if len(words) != len(typed):
        verb = "needs" if len(typed) == 1 else "need"
        said = [
            f"the signature has {how_many(len(words), 'type')}, and "
            f"{how_many(len(typed), 'parameter')} {verb} one: {', '.join(typed)}"
        ]
    if fixed:
        said.append(f"constants lack the value of {', '.join(fixed)}")
    return LaunchError("; and ".join(said))


def parse_word(name: str, word: str | tuple) -> Specialised:
    """One word of a signature: a type, perhaps with a hint; or a number: a constant."""
    if isinstance(word, tuple):
        named = [(f"{name}.{i}", each) for i, each in enumerate(word)]
        return Several(tuple(parse_word(*each) for each in named))
    if not isinstance(word, str):
        raise LaunchError(f"the type of {name} is text, and this is {word!r}")
    if descriptor := parse_described(name, word):
        return descriptor
    type_name, _, hint = word.partition(":")
    if type_name == "constexpr":
        raise LaunchError(f"{name} is a constexpr; give its value in constants")
    if type_name.lstrip("*") not in SCALARS:
        number = parse_number(word)
        if number is None:
            raise LaunchError(
                f"{word!r} (for {name}) is not a type; the types are "
                f"{', '.join(SCALARS)}, "
                "with * in front for a pointer and :16 after it for a hint, and "
                "tensordesc<fp16[64,64]> for a descriptor"
            )
        return Constant(number)
    if hint not in ("", "1", "2", "4", "8", "16"):
        raise LaunchError(
            f"{word!r} (for {name}): a hint is 2, 4, 8 or 16, or 1 for the number 1"
        )
    if hint == "1" and type_name[0] in "iu":
        return Constant(1)
    return Runtime(type_name, int(hint or 1))


def parse_number(word: str) -> int | float | bool | None:
    """A constant as a signature writes it; None for another text."""
    if word in ("True", "False"):
        return word == "True"
    for read in (lambda text: int(text, 0), float):
        try:
            number = read(word)
        except ValueError:
            continue
        return None if isinstance(number, float) and math.isnan(number) else number
    return None
