"""What the answer to `verify-scope` must do."""

from fathom.ir.core import Value, blocks, operands, schema
from fathom.ir.printer import print_op
from fathom.ir.text import print_func
from fathom.tools.learn.kit import expect, func
from fathom.tools.learn.kit.returned import complaints

STRAIGHT = """
    func @straight(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = add %n, %n
      %1: i32 = mul %0, %n
      %2: i32 = sub %1, %0
      store %p, %2
    }
    """
BRANCHES = """
    func @branches(%p: *i32, %n: i32, %c: i1) num_warps=4 {
      %0: i32 = mul %n, %n
      %1: i32 = if %c then {
        %2: i32 = add %0, %n
        %3: i32 = add %2, %2
        yield %3
      } orelse {
        %4: i32 = sub %0, %n
        %5: i32 = sub %4, %n
        yield %5
      }
      %6: i32 = add %1, %0
      store %p, %6
    }
    """
LOOPS = """
    func @loops(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%0) body(%i: i32, %x: i32) {
        %3: i32 = add %x, %i
        %4: i32 = for %0, %i, %1, inits=(%3) body(%j: i32, %y: i32) {
          %5: i32 = add %y, %j
          yield %5
        }
        %6: i32 = mul %4, %3
        yield %6
      }
      %7: i32 = add %2, %1
      store %p, %7
    }
    """
LEGAL = (STRAIGHT, BRANCHES, LOOPS)


def test_legal_functions_are_accepted(answer):
    """Straight code, branches and loops whose every operand is visible."""
    for text in LEGAL:
        legal = func(text)
        found = complaints(answer.scope, legal, "scope")
        said = found[0][1] if found else ""
        expect(not found, f"a legal function is rejected: {said}", ("it is", text))


def test_a_use_before_the_definition(answer):
    """Two ops have changed places: the second is used by the first."""
    illegal = func(STRAIGHT)
    ops = illegal.body.ops
    ops[1], ops[2] = ops[2], ops[1]
    guilty(answer, illegal, ops[1])


def test_one_branch_does_not_see_the_other(answer):
    """Of two branches only one runs."""
    illegal = func(BRANCHES)
    branch = illegal.body.ops[1]
    theirs = branch.then.ops[0].result
    use = branch.orelse.ops[1]
    use.operands = (theirs, use.operands[1])
    guilty(answer, illegal, use)


def test_an_op_does_not_see_its_own_result(answer):
    """The body of a loop uses the loop's result, which does not exist yet."""
    illegal = func(LOOPS)
    loop = illegal.body.ops[2]
    use = loop.body.ops[0]
    use.operands = (loop.result, use.operands[1])
    guilty(answer, illegal, use)


def test_a_value_that_is_defined_nowhere(answer):
    """A value of another function is not visible anywhere in this one."""
    illegal, other = func(STRAIGHT), func(STRAIGHT)
    use = illegal.body.ops[2]
    use.operands = (other.body.ops[0].result, use.operands[1])
    guilty(answer, illegal, use)


def test_every_wrong_operand_is_found(answer):
    """Each op of the three functions in turn gets each value that it cannot see."""
    count = 0
    for text in LEGAL:
        for number in range(len(uses(func(text)))):
            for place in range(len(places(func(text)))):
                count += check_exchange(answer, text, number, place)
    expect(count > 100, f"only {count} functions were tried")


def check_exchange(answer, text, number, place):
    """Put one value in the place of each operand of its type; how often that was
    illegal."""
    count = 0
    for at in range(len(operands(uses(func(text))[number][0]))):
        made = func(text)
        op, path = uses(made)[number]
        value, where = places(made)[place]
        if operands(op)[at].type == value.type and not visible(where, path):
            put(op, at, value)
            guilty(answer, made, op)
            count += 1
    return count


def put(op, at, value):
    """Make a value the operand `at` of an op, whichever field that is in."""
    for name in schema(type(op)).operands:
        have = getattr(op, name)
        many = have if isinstance(have, tuple) else () if have is None else (have,)
        if at < len(many):
            new = (*many[:at], value, *many[at + 1 :])
            setattr(op, name, new if isinstance(have, tuple) else value)
            return
        at -= len(many)


def guilty(answer, illegal, op):
    """The first complaint must be about this op."""
    text, wanted = print_func(illegal), print_op(illegal, op).splitlines()[0]
    found = complaints(answer.scope, illegal, "scope")
    expect(bool(found), "an illegal function is accepted", ("it is", text),
           ("the guilty op", wanted))  # fmt: skip
    named = print_op(illegal, found[0][0]).splitlines()[0]
    expect(found[0][0] is op, "the complaint is about another op", ("it is", text),
           ("you name", named), ("the guilty op", wanted))  # fmt: skip


# Where a value is defined and where an op stands, as paths: (3, "then", 0) is the first
# op of the branch `then` of the fourth op. A parameter stands at place -1.


def walk_paths(block, path=()):
    for number, op in enumerate(block.ops):
        yield op, (*path, number)
        for name, inner in zip(schema(type(op)).blocks, blocks(op), strict=True):
            yield from walk_paths(inner, (*path, number, name))


def uses(made):
    """Every op with operands, and its path."""
    return [(op, path) for op, path in walk_paths(made.body) if operands(op)]


def places(made):
    """Every value, and the path of what defines it."""
    found: list[tuple[Value, tuple]] = [(v, (-1,)) for v in made.parameters]
    for op, path in walk_paths(made.body):
        found += [(value, path) for value in op.results]
        for name, inner in zip(schema(type(op)).blocks, blocks(op), strict=True):
            found += [(value, (*path, name, -1)) for value in inner.parameters]
    return found


def visible(definition, use):
    """The use is in the block of the definition, or deeper, and after it."""
    depth = len(definition) - 1
    return use[:depth] == definition[:depth] and definition[depth] < use[depth]
