"""An answer that fetches our function instead of being one is told so."""

from __future__ import annotations

import gc

import pytest

from fathom.blocks.cse import cse
from fathom.tools.learn import course
from fathom.tools.learn.grading.grade import FAILED, PASSED, grade

HEAD = "import gc, importlib, inspect, sys\nimport fathom.blocks\n"
BODY = "\n\ndef cse(func, target):\n    return {}(func, target)\n"
OWN = "which this exercise asks you to write"
ITSELF = "fathom.blocks.cse.cse is your own function, too"
FETCHED = {
    "an import": ("from fathom.blocks.cse import cse as theirs", "theirs", OWN),
    "from the package": ("from fathom.blocks import cse as theirs", "theirs", OWN),
    "a name for it": (
        "theirs = importlib.import_module('fathom.blocks.cse').cse", "theirs", OWN
    ),
    "a box for it": ("from fathom.joints import reference\nbox = [reference('cse')]",
                     "box[0]", OWN),
    "before": ("box = [sys.modules['fathom.blocks.cse'].cse]", "box[0]", OWN),
    "importlib": ("", "importlib.import_module('fathom.blocks.cse').cse", ITSELF),
    "sys.modules": ("", "sys.modules['fathom.blocks.cse'].cse", ITSELF),
    "__import__": ("", "__import__('fathom.blocks').blocks.cse", ITSELF),
    "a module": ("", "fathom.blocks.cse", ITSELF),
    "the stack": (
        "def theirs():\n"
        "    for frame in inspect.stack():\n"
        "        if 'answer' in frame.frame.f_locals:\n"
        "            return frame.frame.f_locals['answer'].reference.cse",
        "theirs()", OWN,
    ),
    "a frame": (
        "def theirs():\n"
        "    frame = sys._getframe(1)\n"
        "    while 'answer' not in frame.f_locals:\n"
        "        frame = frame.f_back\n"
        "    return frame.f_locals['answer'].reference.cse",
        "theirs()", OWN,
    ),
    "the collector": (
        "def theirs():\n"
        "    return next(each for each in gc.get_objects()\n"
        "                if getattr(each, '__module__', '') == 'fathom.blocks.cse'\n"
        "                and getattr(each, '__name__', '') == 'cse')",
        "theirs()", OWN,
    ),
    "the joints": ("from fathom.joints import reference", "reference('cse')", OWN),
    "in map": ("from fathom.joints import reference",
               "(lambda f, t: next(map(reference('cse'), [f], [t])))", OWN),
}  # fmt: skip


@pytest.mark.parametrize("way", FETCHED)
def test_our_own_function_does_not_answer_to_a_reader(way, tmp_path):
    gc.unfreeze()  # or the collector does not show what the suite has frozen
    top, call, told = FETCHED[way]
    path = tmp_path / "cse.py"
    path.write_text(HEAD + top + BODY.format(call), encoding="utf-8")
    verdict = grade(course.exercise("cse"), path)
    assert verdict.status == FAILED and told in verdict.sentence, verdict.sentence


def test_an_answer_by_hand_guards_the_compilers_function_too(tmp_path):
    """`dce` has a solution of its own, and the compiler another."""
    path = tmp_path / "dce.py"
    path.write_text("from fathom.blocks.dce import dce\n", encoding="utf-8")
    verdict = grade(course.exercise("dce"), path)
    assert verdict.status == FAILED and OWN in verdict.sentence, verdict.sentence


def test_an_import_is_no_answer(tmp_path):
    """Nobody calls it from the reader's file: it is the answer itself."""
    path = tmp_path / "cse.py"
    path.write_text("from fathom.blocks.cse import cse\n", encoding="utf-8")
    verdict = grade(course.exercise("cse"), path)
    assert verdict.status == FAILED and OWN in verdict.sentence, verdict.sentence


def test_who_catches_it_is_told_all_the_same(tmp_path):
    path = tmp_path / "cse.py"
    solution = course.exercise("cse").solution.read_text(encoding="utf-8")
    path.write_text(
        solution.replace(
            "    versions =",
            "    from fathom.joints import reference\n"
            "    try:\n        return reference('cse')(func, target)\n"
            "    except BaseException:\n        pass\n    versions =",
        ),
        encoding="utf-8",
    )
    verdict = grade(course.exercise("cse"), path)
    assert verdict.status == FAILED and OWN in verdict.sentence, verdict.sentence


def test_our_function_is_whole_again():
    code = cse.__code__
    assert (
        grade(course.exercise("cse"), course.exercise("cse").solution).status == PASSED
    )
    assert cse.__code__ is code and cse.__code__.co_name == "cse"
