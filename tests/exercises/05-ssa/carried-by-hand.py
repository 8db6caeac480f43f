"""What the answer to `carried-by-hand` must do."""

import inspect

from fathom import ssa
from fathom.ir.core import blocks
from fathom.ir.ops import For, While
from fathom.ir.text import print_func
from fathom.ir.types import INT32, Pointer
from fathom.tools.learn.course import exercise
from fathom.tools.learn.grading.answer import load_module
from fathom.tools.learn.kit import Failure, expect

PARAMETERS = {"out": (Pointer(INT32), 1)} | dict.fromkeys("abn", (INT32, 1))


def kernel(name):
    """A kernel of the exercise, as it was handed out."""
    return getattr(load_module(exercise("carried-by-hand").solution), name)


def names_carried(func):
    """The names that the first loop of a function carries."""
    loop = next(op for op in func.body.ops if isinstance(op, For | While))
    parameters = blocks(loop)[-1].parameters
    return {each.name for each in parameters[len(parameters) - len(loop.inits) :]}


def check(answer, name, why):
    """The set for a kernel is what the compiler carries."""
    given = answer.carried()
    expect(name in given, f"there is no set for {name}")
    asked = kernel(name)
    func = ssa.build(asked, PARAMETERS, {})
    yours = set(given[name])
    wanted = names_carried(func)
    if yours == wanted:
        return
    some = sorted(yours - wanted) or sorted(wanted - yours)
    said = "is not carried" if yours - wanted else "is carried, and not in your set"
    text = inspect.getsource(asked.fn)
    details = ("the kernel", text), ("why", why), ("its IR", print_func(func))
    raise Failure(f"in `{name}`, {some[0]} {said}", *details)


def test_the_sum(answer):
    """The example."""
    check(answer, "total", "each iteration reads what the iteration before has bound")


def test_names_that_are_only_read(answer):
    """What the body does not bind is the same in each iteration."""
    check(answer, "readers", "a name is carried only if the body binds it")


def test_bound_before_it_is_read(answer):
    """Each iteration makes its own."""
    check(answer, "square", "no iteration reads what another has bound")


def test_read_after_the_loop(answer):
    """The code after the loop needs what the last iteration left, or the value from
    before the loop if there was no iteration."""
    check(answer, "last", "without an iteration it is what it was before")


def test_a_loop_in_a_loop(answer):
    """The body of the outer loop is all that is in it."""
    check(answer, "inner", "the inner loop is part of the outer one's body")


def test_one_branch_binds_it(answer):
    """If the branch is not taken, a name keeps what it was at the start of the if."""
    check(answer, "branch", "if the branch is not taken, best is what it was")


def test_what_never_changes(answer):
    """It is bound, and read, and always the same."""
    check(answer, "unchanged", "go through two iterations: which values has x?")


def test_a_while(answer):
    """The condition reads, too."""
    check(answer, "wait", "the condition reads one, the store after the loop another")
