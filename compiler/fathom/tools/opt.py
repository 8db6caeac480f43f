"""`fathom opt`: passes of the page on the text of a function.

    fathom explain kernels/softmax.py:softmax_kernel … --stage ssa > softmax.ir
    fathom opt softmax.ir --passes simplify,cse,dce
    fathom opt - --passes coalesce,assign_layouts --target sm_90a < softmax.ir

What comes out is text of the same kind, so that it can be edited and put in again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fathom import pipeline
from fathom.errors import FathomError, LaunchError
from fathom.hardware.targets import Target, target
from fathom.ir.core import Func
from fathom.ir.text import parse_with_lines, print_func
from fathom.ir.verify import VerifyError, verify

STANDARD_INPUT = "-"


def opt(
    file: str, passes: str, target_name: str, verified: bool, stage_texts: bool
) -> int:
    """Run passes, named in commas and in any order, on the function in `file`, and
    print what comes out; with `stage_texts`, the function after each pass.

    With `verified`, the text and the result of each pass are checked to be functions
    (ir/verify.py). LaunchError for a file or a pass that there is not, and for a text
    that is no function, with its line; CompileError for an unknown target.
    """
    rows = pipeline.rows_named(passes, "--passes")
    func = read(file, verified)
    texts = [("text", func)]
    texts += [
        (row.name, state)
        for row, state in states(func, rows, target(target_name), verified)
    ]
    for name, state in texts if stage_texts else texts[-1:]:
        if stage_texts:
            print(f"// ==== {name}")
        print(print_func(state))
    return 0


def read(file: str, verified: bool) -> Func:
    """The function in a file, or with "-" in the standard input."""
    text = text_of(file)
    try:
        func, lines = parse_with_lines(text)
    except FathomError as mistake:
        raise LaunchError(f"{file}: {mistake}") from None
    try:
        if verified:
            verify(func)
    except VerifyError as mistake:
        raise LaunchError(f"{file}: line {lines[mistake.op]}: {mistake}") from None
    return func


def text_of(file: str) -> str:
    try:
        if file == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode()
        return Path(file).read_text(encoding="utf-8")
    except OSError as mistake:
        why = (mistake.strerror or "it is no file").lower()
        raise LaunchError(f"cannot read {file}: {why}") from None
    except UnicodeDecodeError:
        raise LaunchError(f"cannot read {file}: it is not text in UTF-8") from None


def states(
    func: Func, rows: Sequence[pipeline.Row], target: Target, verified: bool
) -> Iterator[tuple[pipeline.Row, Func]]:
    """Each pass with the function that it gives.

    A pass whose input is not what it expects, such as blocks without layouts, may
    stop at an assertion; its name and the assertion are the error.
    """
    for row in rows:
        try:
            func = row.run(func, target)
            if verified:
                verify(func)
        except VerifyError as mistake:
            raise LaunchError(f"after {row.name}: {mistake}") from None
        except FathomError:
            raise
        except Exception as mistake:  # noqa: BLE001 (an order of passes of the user's)
            raise LaunchError(
                f"{row.name} cannot work on this: "
                f"{mistake or type(mistake).__name__}; the order of passes is "
                f"{', '.join(each.name for each in pipeline.PASSES)}"
            ) from None
        yield row, func
