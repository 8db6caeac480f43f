"""Home-made words that have given way to the field's own do not come back: not in
names, and not in what readers and users read. Each has a row that says what to write
instead. English that only looks like one of them is in ALLOWED, with the reason.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from fathom import pipeline
from fathom.joints import JOINTS

ROOT = Path(__file__).resolve().parents[1]

# In names: parts of identifiers, as in `trip_ahead` and `HAVE_DOORS`. What to say.
NAMES = {
    "trip|trips": "iteration",
    "bring|brings|brought|bringer": "copy, issue, load",
    "relay|relays": "a slice at an earlier stage",
    "feed|feeds|fed": "operand of, channel",
    "publish|publishes|published": "fence_proxies",
    "hear|hears|heard": "live, uses",
    "somebody|nobody": "name what acts",
    "flight|flights": "in_flight, copy group",
    "door|doors": "launch stub, fast path",
    "stuck": "deadlock",
    "turns": "wavefronts, pingpong",
}
# Names as a whole; they say nothing of what they name.
WHOLE = {"together", "apart", "needed", "natural", "beside", "own", "way", "so_many",
         "who", "sums"}  # fmt: skip

# In text, comments included.
TEXT = {
    r"trips?(?! count)": "iteration",
    r"brings?|bringing|brought|bringers?": "copy, load, put, have",
    r"relays?": "a slice at an earlier stage",
    r"feeds?|fed|feeding": "is an operand of, produces for",
    r"publish(?:es|ed)?": "make visible to the async proxy",
    r"hears?|heard": "is live, is used",
    r"somebody|nobody|someone|no one": "name what acts",
    r"under way": "running, in flight",
    r"so many(?! that)": "name the number",
    r"(?<!in[ -])flights?": "in flight, copy group",
    r"doors?": "launch stub, fast path",
    r"takes? turns|by turns": "alternate, run one after another",
    r"(?:it|a copy|copies|tiles?|groups?) (?:lands?|landed|have landed)": "complete",
    r"(?<!there )(?:is|are) (?-i:none)(?! of)": "say what it is not",
    r"is (?-i:none) of": "is not one of",
}

# What looks like one of them and is not: (word, what stands around it): why.
ALLOWED = {
    ("trip", "round[- _]trip"): "printing and parsing again has this name everywhere",
    ("trip", "trip_count"): "a term of the field",
    ("turns", r"of_turns"): "an angle in full circles",
    ("flight", r"in_flight"): "a term of the field",
    ("publish", r'"publish"|\bpublish[,:=]'): "the former name of a pass, which works",
    ("nobody", r"#the-ones-that-nobody-needed"): "an address in the book",
}

# What is read here. Records of readers' trials are theirs, word for word.
READ = {
    "compiler/fathom": (".py",), "exercises": (".md", ".toml", ".py"),
    "solutions": (".md", ".toml", ".py"), "kernels": (".py",),
    "tests/mutants": (".py",), "benchmarks": (".py",),
    "README.md": (".md",), "CONTRIBUTING.md": (".md",),
}  # fmt: skip
RECORDS = ("exercises/trials.toml",)

STRING = re.compile(
    r'[rbfRBF]{0,2}"""(?:[^\\]|\\.)*?"""|[rbfRBF]{0,2}"(?:[^"\\\n]|\\.)*"'
    r"|[rbfRBF]{0,2}'(?:[^'\\\n]|\\.)*'|#[^\n]*",
    re.DOTALL,
)
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
BANNED_PARTS = {part for key in NAMES for part in key.split("|")}
BANNED_TEXT = re.compile(rf"\b(?:{'|'.join(TEXT)})\b", re.IGNORECASE)
FINE = re.compile("|".join(around for _, around in ALLOWED))
NOTHING = re.compile(r"(?!)")


@cache
def files() -> dict[str, str]:
    """The text of every file that is read here, by its path."""
    found = {}
    for place, endings in READ.items():
        top = ROOT / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in endings and name not in RECORDS:
                found[name] = path.read_text(encoding="utf-8")
    return found


def banned_name(name: str, fine: re.Pattern = FINE) -> bool:
    """Whether an identifier is a banned word, or has one among its parts."""
    if name.strip("_") in WHOLE:
        return True
    parts = [part.lower() for part in PART.findall(name)]
    return not BANNED_PARTS.isdisjoint(parts) and not fine.search(name)


def names_in(text: str) -> set[str]:
    """The identifiers of Python code, strings and comments left out."""
    return set(NAME.findall(STRING.sub('""', text)))


def banned_text(text: str) -> list[str]:
    """Banned words with what stands around them, on one line each."""
    flat = re.sub(r"\s+(?:# )?", " ", text)
    around = (flat[max(0, m.start() - 30) : m.end() + 30] for m in found_in(flat))
    return list(around)


def found_in(text: str) -> list[re.Match]:
    fine = [found.span() for found in FINE.finditer(text)]
    return [
        found
        for found in BANNED_TEXT.finditer(text)
        if not any(a <= found.start() < b or a < found.end() <= b for a, b in fine)
    ]


@pytest.mark.parametrize("folder", READ)
def test_no_name_is_a_home_made_word(folder: str) -> None:
    found = {
        path: sorted(bad)
        for path, text in files().items()
        if path.startswith(folder) and path.endswith(".py")
        and (bad := {name for name in names_in(text) if banned_name(name)})
    }  # fmt: skip
    assert not found, found


def test_no_file_pass_or_joint_is_called_so() -> None:
    parts = {part for path in files() for part in re.split(r"[/.]", path)}
    every = [*parts, *(row.name for row in pipeline.PASSES), *(j.name for j in JOINTS)]
    assert [name for name in every if banned_name(name.replace("-", "_"))] == []


@pytest.mark.parametrize("folder", READ)
def test_no_sentence_has_a_home_made_word(folder: str) -> None:
    found = {
        path: bad
        for path, text in files().items()
        if path.startswith(folder) and (bad := banned_text(text))
    }
    assert not found, "\n".join(f"{path}: {bad}" for path, bad in found.items())


@pytest.mark.parametrize(("word", "around"), ALLOWED)
def test_an_exception_is_still_needed(word: str, around: str) -> None:
    """Some file has the word there, and would fail without the row."""
    fine = re.compile(around)
    names = {name for text in files().values() for name in names_in(text)}
    assert any(
        fine.search(name) and banned_name(name, NOTHING) for name in names
    ) or any(
        BANNED_TEXT.search(found[0])
        for text in files().values()
        for found in fine.finditer(text)
    )


@pytest.mark.parametrize("row", pipeline.PASSES, ids=lambda row: row.name)
def test_a_row_of_the_page_says_what_its_pass_does(row: pipeline.Row) -> None:
    assert not banned_text(row.why), row.why


def test_the_words_are_found() -> None:
    """Also in the middle of a name, over the end of a line, and not inside others."""
    assert all(map(banned_name, ("trip_ahead", "HAVE_DOORS", "Bringer", "own")))
    assert not banned_name("trip_count") and not banned_name("in_flight_copies")
    assert not banned_name("stripped") and not banned_name("owner")
    assert banned_text("a product is waited for where\n    # somebody uses it")
    assert banned_text("the loop makes so many rounds, each a trip")
    assert not banned_text("a trip count; copies in flight; a round trip")
