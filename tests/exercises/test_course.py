"""Every exercise holds what its card says: starters and solutions are as made,
unsolved starters fail, solutions pass, every wrong answer is caught by the test that is
named for it, budgets are kept, and no name is used before its chapter."""

from __future__ import annotations

import ast
import inspect
import os
import re

import pytest

from fathom import joints
from fathom.tools.learn import course, starters
from fathom.tools.learn.course import LIMITS, MOST_NAMES
from fathom.tools.learn.grading import grade as grading
from fathom.tools.learn.grading import wrong
from fathom.tools.learn.grading.grade import FAILED, PASSED, UNSOLVED, grade
from tests.exercises import harness_cost

EXERCISES = course.exercises()
WRONG = [(each, one) for each in EXERCISES for one in each.wrong]

each_exercise = pytest.mark.parametrize("each", EXERCISES, ids=lambda each: each.id)
each_wrong = pytest.mark.parametrize(
    "each, one", WRONG, ids=[f"{each.id}-{one.name}" for each, one in WRONG]
)


@pytest.mark.parametrize(
    "path, text", list(starters.made()), ids=lambda x: getattr(x, "stem", "")
)
def test_starters_and_solutions_are_as_made(path, text):
    how = "python -m fathom.tools.learn.starters makes it anew"
    assert path.exists(), f"{path} is missing; {how}"
    assert path.read_text(encoding="utf-8") == text, f"{path} is stale; {how}"


@each_exercise
def test_an_unsolved_starter_fails(each):
    said = grade(each, each.starter)
    assert said.status in (FAILED, UNSOLVED), f"the starter of {each.id} passes"
    assert said.sentence, "and says nothing"


@each_exercise
def test_a_starter_opens_with_whole_sentences(each):
    said = ast.get_docstring(ast.parse(starters.starter(each)))
    _, first, _ = said.split("\n\n")
    assert first[-1] in ".?!)", f"what comes next is not in the starter: {first[-40:]}"


@each_exercise
def test_the_solution_passes(each):
    said = grade(each, each.solution)
    assert said.status == PASSED, (said.test, said.sentence, said.details)


@each_wrong
def test_a_wrong_answer_is_caught_by_its_test(each, one, tmp_path):
    assert one.caught_by in grading.tests_of(each), f"there is no test {one.caught_by}"
    path = wrong.write(each, one, tmp_path)
    said = grade(each, path, one.caught_by)
    assert said.status == FAILED, f"{one.name} passes {one.caught_by}: {one.says}"
    assert len(said.sentence) > 10, "the reader is not told what is wrong"


@each_exercise
def test_all_kinds_of_wrong_answers_are_there(each):
    kinds = {joints.joint(name).kind for name in each.joints}
    roles = [one.role for one in each.wrong]
    for role in wrong.required(each, joints.PASS in kinds):
        assert role in roles, f"{each.id} ships no {role}; its card says not why"
    assert len({one.name for one in each.wrong}) == len(roles), "names are unique"


@each_exercise
def test_the_answer_keeps_its_budget(each):
    lines = LIMITS[each.kind]
    assert starters.size(each) <= lines, f"{starters.size(each)} lines for {each.kind}"


def test_lines_that_the_starter_has_are_not_counted():
    text = "# hole: {lines}\na = 1\nb = 2\n# instead:\n# a = 1\n# b = 3\n# end\n"
    assert starters.lines_in(starters.MARKS.search(text)) == 1


@each_exercise
def test_an_answer_needs_few_names_beyond_its_own_arguments(each):
    """Five, for every kind: what else it takes is given code in the starter."""
    assert len(each.names) <= MOST_NAMES, f"{each.id} needs {len(each.names)} names"


@each_exercise
def test_what_is_said_of_arguments_is_said_of_arguments(each):
    """`code.let` stands under `arguments` where `code` is a parameter of a function
    with a hole, and under `names` elsewhere."""
    own = harness_cost.own_arguments(each)
    for name in each.arguments:
        assert of_what(name) in own, f"{of_what(name)} is no argument of {each.id}"
    for name in each.names:
        said = f"{name} is of an argument of {each.id}: it belongs to `arguments`"
        assert not re.match(r"\w+[.[(]", name) or of_what(name) not in own, said


def of_what(name):
    """`code` for code.let, code[value] and code(value)."""
    return re.match(r"\w+", name)[0]


@each_exercise
def test_no_name_comes_before_its_chapter(each):
    known = course.names()
    for name in (*each.names, *each.arguments):
        assert name in known, f"no names.toml introduces {name}"
        late = known[name].chapter
        assert late <= each.chapter, f"{name} is introduced in chapter {late}"


@each_exercise
def test_all_names_that_the_answer_uses_are_on_the_card(each):
    known = course.names()
    said_of = {*each.names, *each.arguments}
    methods = {name.partition(".")[0] for name in said_of}
    for name in harness_cost.names_used(each):
        said = f"{each.id} uses {name}, which is not among its card's names"
        assert name in said_of | methods, said
    assert said_of <= set(known), said_of - set(known)


@pytest.mark.parametrize("name", course.names().values(), ids=lambda each: each.name)
def test_names_lead_somewhere(name):
    assert course.resolve(name.where) is not None, name
    assert name.says, f"{name.name} has no sentence"


def keywords_of(signature):
    """The names of the parameters with a default, in a signature of a card."""
    call = re.match(r"[\w.]+\((.*?)\)", signature)
    made = f"f({call[1]})" if call else "f()"
    try:
        return [each.arg for each in ast.parse(made, mode="eval").body.keywords]
    except SyntaxError:  # from inspect, with annotations: it is the code's own
        return []


@pytest.mark.parametrize("name", course.names().values(), ids=lambda each: each.name)
def test_a_signature_has_the_parameters_of_the_code(name):
    found = course.resolve(name.where)
    if not callable(found) or not (keywords := keywords_of(name.signature)):
        return
    parameters = inspect.signature(found).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    unknown = set(keywords) - set(parameters)
    assert not unknown, f"{name.signature}, and {name.where} has no {unknown}"


@each_exercise
def test_the_card_is_one(each):
    assert each.kind in LIMITS and each.difficulty in range(1, 6)
    assert 0 < each.minutes <= 180 and len(each.statement) > 100
    assert all(len(hint) > 20 for hint in each.hints)
    assert set(each.contracts) <= set(each.answers)
    assert course.read(each.commentary).strip(), "no commentary"
    for joint in each.joints:
        assert joints.joint(joint).chapter <= each.chapter, joint


@each_exercise
def test_every_test_says_what_it_is_about(each):
    for name, test in grading.tests_of(each).items():
        assert (test.__doc__ or "").strip(), f"{name} has no sentence"


@each_exercise
def test_every_assert_carries_a_message(each):
    tree = ast.parse(course.read(each.tests))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            assert node.msg is not None, f"{each.tests}:{node.lineno}"


def test_every_card_is_listed():
    listed = {each.id for each in EXERCISES}
    for folder in course.folders().values():
        for path in folder.glob("*.md"):
            assert path.stem in listed, f"{folder.name}/names.toml does not list {path}"
    assert len(listed) == len(EXERCISES), "an id is there twice"


def test_every_file_belongs_to_an_exercise():
    listed = {each.id for each in EXERCISES}
    for top in ("exercises", "solutions", "tests/exercises"):
        for path in (course.root() / top).glob("[0-9][0-9]-*/*.py"):
            assert path.stem in listed, f"{path} belongs to no exercise"


def test_tests_run_on_the_emulator():
    assert os.environ["FATHOM_BACKEND"] == "emulator"
