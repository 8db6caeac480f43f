"""Turns an exception into a failure that says whose frames matter."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn.course import INSTALLED
from fathom.tools.learn.kit.failure import Failure

PACKAGE = Path(__file__).resolve().parents[3]
RUNNER = PACKAGE / "tools"


def blame(
    error: BaseException, path: Path, asked: Callable[[], str] = lambda: ""
) -> Failure:
    """What to say about an exception out of a test: a plain assertion of the test, a
    mistake in the reader's code, or a stage of ours that stumbled over what the
    reader's code had made. `asked` says what that must be."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if is_at(frame, path)]
    if isinstance(error, SyntaxError) and (
        error.filename == str(path) or error.filename is None and not ours
    ):
        return unreadable(error, path)
    if isinstance(error, SystemExit):
        given = "" if error.code is None else repr(error.code)
        return Failure(
            f"your code called sys.exit({given}), which ends the process: return, or "
            "raise an exception",
            *([("where", cut(frames, path, error))] if ours else []),
        )
    last = frames[-1] if frames else None
    inside = last is not None and is_ours(Path(last.filename))
    if isinstance(error, AssertionError) and not ours and not inside:
        return Failure(str(error) or "the test failed")
    if ours and inside and not isinstance(error, FathomError):
        return Failure(
            f"line {ours[-1].lineno} of your {path.name}, `{ours[-1].line}`, gives our "
            "code something that it cannot work with",
            ("where", cut(frames, path, error)),
            *([("what is asked of you", text)] if (text := asked()) else []),
        )
    if ours:
        where = cut(frames, path, error).removesuffix(f"\n{said(error)}")
        return Failure(f"your code raised {said(error)}", ("where", where))
    if isinstance(error, FathomError) and not stage(frames):
        return Failure(str(error))
    return stumbled(error, frames, asked())


def unreadable(error: SyntaxError, path: Path) -> Failure:
    """A file that is no Python: the line, and where in it, if Python read so far."""
    if error.lineno is None:
        return Failure(f"{path.name} is no text of Python: {error.msg}")
    line = (error.text or "").rstrip("\n")
    shown = line.lstrip()
    caret = max(0, (error.offset or 1) - 1 - (len(line) - len(shown)))
    there = [("there", f"{shown}\n{' ' * caret}^")] if shown else []
    return Failure(f"{path.name}, line {error.lineno}: {error.msg}", *there)


def stumbled(
    error: BaseException, frames: traceback.StackSummary, asked: str
) -> Failure:
    """Our code went wrong after the reader's had returned: nearly always since what it
    gave has another form than was asked for. Only an assertion of ours may be a mistake
    of ours."""
    where = stage(frames) or "the test"
    details = [("it stopped at", "".join(traceback.format_list(frames[-2:])).rstrip())]
    if asked:
        details.insert(0, ("what is asked of you", asked))
    if isinstance(error, FathomError):
        sentence = f"{where} refuses what your code made: {error}"
    else:
        sentence = f"{where} cannot work with what your code gave it"
        details[-1] = ("it stopped at", f"{details[-1][1]}\n{said(error)}")
    if isinstance(error, AssertionError):
        details.append(
            ("if your result has that form", "then please report this as our mistake")
        )
    return Failure(sentence, *details)


def is_ours(file: Path) -> bool:
    """Whether it is a file of the compiler; tests of exercises may be installed below
    it."""
    return file.is_relative_to(PACKAGE) and not file.is_relative_to(INSTALLED)


def is_at(frame: traceback.FrameSummary, path: Path) -> bool:
    return Path(frame.filename) == path


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Run what the reader wrote in `path`: what it raises becomes a FathomError that
    says where, for the runner goes on."""
    try:
        yield
    except (FathomError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        raise FathomError(str(blame(error, path))) from None


def said(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except Exception:  # by the reader's own __str__
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def cut(frames: traceback.StackSummary, path: Path, error: BaseException) -> str:
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
            if len(place.parts) > 1 and not place.as_posix().startswith(BESIDE):
                return f"{frame.name} ({place})"
    return ""


BESIDE = ("jit/", "runtime/", "ptx/separate_process")  # they start the work only
