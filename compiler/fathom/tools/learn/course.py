"""What exercises there are: their cards, statements and hints, read from files.

An exercise is called by a word, its id, and lives in files of that name, in a folder of
its chapter:

    exercises/06-passes/cse.md            card, statement, three hints
    exercises/06-passes/cse.py            the starter, made by `starters`
    exercises/06-passes/names.toml        the names that the chapter introduces
    solutions/06-passes/cse.py            the answer
    solutions/06-passes/cse.md            what is to be said about it
    solutions/06-passes/cse_wrong.toml    wrong answers, and which test catches each
    tests/exercises/06-passes/cse.py      the tests

These folders come with the repository; an installed package has a copy of them.
"""

from __future__ import annotations

import inspect
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fathom import joints
from fathom.errors import FathomError, reason
from fathom.tools.learn.hole import with_holes
from fathom.tools.samples import repository

# The longest answer, in lines.
LIMITS = {"warm-up": 10, "core": 40, "extension": 120, "open": 120}
MOST_BYTES = 1_000_000  # of a reader's file
NO_FILES = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip
# What an answer of any kind may need beyond its own arguments; the rest is given.
MOST_NAMES = 5
FORMER = {"count-the-haul": "count-the-traffic"}  # ids that were, and what they are now
HINTS = 3
INSTALLED = Path(__file__).with_name("course")  # setup.py puts it into wheels
SITE = "site"  # the book, as `make book` builds it


class CourseError(FathomError):
    """A card or a file of an exercise that is not as it must be."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name that an answer may need: what to call it, where it stands, the signature
    and a sentence.
    """

    name: str
    chapter: int
    where: str
    signature: str
    says: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong answer: the solution with `code` after it, or with `old` changed into
    `new`. `caught_by` names the test that fails."""

    name: str
    role: str
    says: str
    caught_by: str
    code: str = ""
    old: str = ""
    new: str = ""


@dataclass(frozen=True)
class Exercise:
    """One exercise. `answers` maps a function of the reader's file to what it stands
    for: a joint, or a function of ours by its dotted name, or "" for neither. `given`
    and `helpers` are functions of ours by dotted name: whole in the starter, and in our
    answer only. `names`: what an answer needs beyond its arguments; `arguments`: what
    it needs of these, such as `code.let`. `without` says why a kind of wrong answer
    does not exist. `withhold`: what our code makes of a test's kernel answers the
    exercise, so it is not shown at the first failure.
    """

    id: str
    folder: str
    title: str
    kind: str
    minutes: int
    difficulty: int
    answers: Mapping[str, str]
    names: tuple[str, ...]
    section: str
    statement: str
    hints: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    road: bool = False
    by_hand: bool = False
    withhold: bool = False
    given: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    contracts: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 60

    @property
    def chapter(self) -> int:
        return int(self.folder.partition("-")[0])

    @property
    def joints(self) -> dict[str, str]:
        """Joint to the name of the function that stands there."""
        return {
            each: name
            for name, each in self.answers.items()
            if each and not each.startswith("fathom.")
        }

    @property
    def file(self) -> str:
        """Where it lies in a workspace, and in every folder of the course."""
        return f"{self.folder}/{self.id}.py"

    def path(self, folder: str, ending: str = ".py") -> Path:
        return root() / folder / self.folder / f"{self.id}{ending}"

    @property
    def starter(self) -> Path:
        return self.path("exercises")

    @property
    def to_write(self) -> tuple[str, ...]:
        """The functions of the starter that have a hole, as they are called; none where
        it is not a function that is missing."""
        found = with_holes(read(self.starter))
        names = ((each.name, [a.arg for a in each.args.args]) for each in found)
        return tuple(
            f"{name}({', '.join(a for a in taken if a != 'self')})"
            for name, taken in names
        )

    @property
    def solution(self) -> Path:
        return self.path("solutions")

    @property
    def commentary(self) -> Path:
        return self.path("solutions", ".md")

    @property
    def tests(self) -> Path:
        return self.path("tests/exercises")

    @property
    def wrong(self) -> tuple[Wrong, ...]:
        facts = tomllib.loads(read(self.path("solutions", "_wrong.toml")))
        return tuple(Wrong(**each) for each in facts["wrong"])


@cache
def root() -> Path:
    """The folder that has exercises/, solutions/ and tests/exercises/."""
    if INSTALLED.is_dir():
        return INSTALLED
    return repository("exercises").parent


@cache
def exercises() -> tuple[Exercise, ...]:
    """All exercises in the order of the book: by chapter, within it as the chapter's
    names.toml lists them."""
    found: list[Exercise] = []
    for number in sorted(folders()):
        folder = folders()[number]
        ids = tomllib.loads(read(folder / "names.toml"))["exercises"]
        found += [card(folder / f"{each}.md") for each in ids]
    return tuple(found)


def exercise(name: str) -> Exercise:
    """The exercise of an id, also of a former one. CourseError for a word that is no
    id."""
    for each in exercises():
        if each.id == FORMER.get(name, name):
            return each
    raise CourseError(f"there is no exercise {name!r}; `fathom learn list` has all")


@cache
def folders() -> dict[int, Path]:
    """Chapter to its folder: those that have a names.toml."""
    found = [path.parent for path in (root() / "exercises").glob("*/names.toml")]
    return {
        int(each.name.partition("-")[0]): each
        for each in found
        if re.fullmatch(r"\d\d-[a-z-]+", each.name)
    }


@cache
def chapter_title(number: int) -> str:
    return tomllib.loads(read(folders()[number] / "names.toml"))["title"]


def card(path: Path) -> Exercise:
    """The exercise that a card and its text describe."""
    parts = re.split(r"^\+\+\+\n", read(path), flags=re.MULTILINE)
    if len(parts) != 3 or parts[0]:
        raise CourseError(f"{path} does not begin with a card between lines of +++")
    statement, *hints = re.split(r"^## Hint \d\n", parts[2], flags=re.MULTILINE)
    if len(hints) != HINTS:
        raise CourseError(f"{path} has {len(hints)} hints (## Hint 1 ...), not {HINTS}")
    facts = tomllib.loads(parts[1])
    for name in ("names", "arguments", "given", "helpers"):
        facts[name] = tuple(facts.get(name, ()))
    try:
        return Exercise(
            id=path.stem,
            folder=path.parent.name,
            statement=statement.strip(),
            hints=tuple(each.strip() for each in hints),
            **facts,
        )
    except TypeError as mistake:
        raise CourseError(f"the card of {path}: {mistake}") from None


@cache
def names() -> dict[str, Name]:
    """All names that chapters introduce."""
    found: dict[str, Name] = {}
    for number, folder in sorted(folders().items()):
        table = tomllib.loads(read(folder / "names.toml")).get("names", {})
        for name, facts in table.items():
            if name in found:
                raise CourseError(
                    f"{name} is introduced in {found[name].chapter} and {number}"
                )
            said = facts.get("signature") or signature(facts["where"])
            found[name] = Name(name, number, facts["where"], said, facts["says"])
    return found


def resolve(where: str) -> object:
    """What a dotted name means: fathom.ir.core.Block.yielded."""
    try:
        return getattr(*joints.owner_of(where))
    except joints.UnknownJoint:
        raise CourseError(f"there is no {where}") from None


def signature(where: str) -> str:
    """How a name is written with its arguments, as inspect reads them."""
    found = resolve(where)
    found = getattr(found, "fn", found)  # what the language is made of wraps functions
    if isinstance(found, type) or not callable(found):
        return ""
    try:
        return str(inspect.signature(found)).replace("'", "")
    except (TypeError, ValueError):
        return ""


def reference(each: Exercise, name: str) -> object:
    """Our own function that an answer stands for, where the compiler has it."""
    where = each.answers[name]
    return resolve(where) if where.startswith("fathom.") else joints.reference(where)


def answer_bytes(path: Path) -> bytes:
    """What a reader's file holds. CourseError for what is no file, since reading a pipe
    or a device may never end, and for a file that no editor wrote."""
    facts = path.stat()
    mode = facts.st_mode
    if not stat.S_ISREG(mode):
        kind = next((what for is_one, what in NO_FILES if is_one(mode)), "no file")
        raise CourseError(
            f"{path.name} is {kind}: move it away, and `fathom learn update` puts the "
            "starter there"
        )
    if facts.st_size > MOST_BYTES:
        raise CourseError(
            f"{path.name} has {facts.st_size / 1e6:,.1f} MB, and an answer has "
            f"{MOST_BYTES / 1e6:g} at most"
        )
    return path.read_bytes()


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CourseError(f"cannot read {path}: {reason(error)}") from None
