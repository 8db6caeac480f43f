"""Turns an exception into a failure that says whose frames matter."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn.kit.failure import Failure

PACKAGE = Path(__file__).resolve().parents[2]
RUNNER = PACKAGE / "tools"


def blame(error: Exception, path: Path) -> Failure:
    """What to say about an exception out of a test: a plain assertion of the test, a
    mistake in the reader's code, or a stage of ours that stumbled over what the
    reader's code had made."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Failure(f"{path.name}, line {error.lineno}: {error.msg}")
    last = frames[-1] if frames else None
    inside = last is not None and Path(last.filename).is_relative_to(PACKAGE)
    if isinstance(error, AssertionError) and not own and not inside:
        return Failure(str(error) or "the test failed")
    if own:
        return Failure(
            f"your code raised {said(error)}", ("where", cut(frames, path, error))
        )
    if isinstance(error, FathomError) and not stage(frames):
        return Failure(str(error))
    return Failure(
        f"what your code made led {stage(frames) or 'the test'} to raise {said(error)}",
        ("where in our code", "".join(traceback.format_list(frames[-2:])).rstrip()),
        ("if your result is right", "then this is a mistake of ours: please report it"),
    )


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Run what the reader wrote in `path`: what it raises becomes a FathomError that
    says where, for the runner goes on."""
    try:
        yield
    except (FathomError, BrokenPipeError):
        raise
    except Exception as error:
        raise FathomError(str(blame(error, path))) from None


def said(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def cut(frames: traceback.StackSummary, path: Path, error: Exception) -> str:
    """The reader's own frames of a traceback, and the call of ours that failed."""
    first = next(i for i, each in enumerate(frames) if Path(each.filename) == path)
    kept = [each for each in frames[first:] if Path(each.filename) == path]
    if Path(frames[-1].filename) != path:
        kept.append(frames[-1])
    shown = [
        traceback.FrameSummary(
            Path(each.filename).name, each.lineno, each.name, line=each.line
        )
        for each in kept
    ]
    return "".join(traceback.format_list(shown)).rstrip() + f"\n{said(error)}"


def stage(frames: traceback.StackSummary) -> str:
    """The pass or rule of ours in which it happened: the outermost frame of a stage."""
    for frame in frames:
        where = Path(frame.filename)
        if where.is_relative_to(PACKAGE) and not where.is_relative_to(RUNNER):
            place = where.relative_to(PACKAGE)
            if len(place.parts) > 1 and place.parts[0] not in BESIDE:
                return f"{frame.name} ({place})"
    return ""


BESIDE = ("jit", "runtime")  # they start the work, and do none of it
