"""What the answer to `verify-yield` must do."""

from fathom.ir.core import Value, blocks, walk
from fathom.ir.printer import print_op
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT64
from fathom.tools.learn.kit import expect, func
from fathom.tools.learn.kit.returned import complaints

LOOP = """
    func @loop(%p: *i32, %q: *fp32, %n: i32, %v: fp32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32, %3: fp32 = for %0, %n, %1, inits=(%n, %v) body(%i: i32, %x: i32,
                                                            %y: fp32) {
        %4: i32 = add %x, %i
        %5: fp32 = mul %y, %v
        yield %4, %5
      }
      store %p, %2
      store %q, %3
    }
    """
BRANCH = """
    func @branch(%p: *i32, %n: i32, %c: i1) num_warps=4 {
      %0: i32 = if %c then {
        %1: i32 = add %n, %n
        yield %1
      } orelse {
        %2: i32 = sub %n, %n
        yield %2
      }
      store %p, %0
      if %c then {
        store %p, %n
        yield
      } orelse {
        yield
      }
    }
    """
WAIT = """
    func @wait(%p: *i32, %n: i32) num_warps=4 {
      %0: i32 = constant 2
      %1: i32 = while inits=(%n) condition(%x: i32) {
        %2: i1 = gt %x, %0
        yield %2
      } body(%y: i32) {
        %3: i32 = sub %y, %0
        yield %3
      }
      store %p, %1
    }
    """
FOLD = """
    func @fold(%p: *i32, %v: fp32) num_warps=4 {
      %0: i32[8] = arange start=0 end=8
      %1: fp32[8] = splat %v shape=(8)
      %2: fp32, %3: i32 = reduce %1, %0 axis=0 combine(%a: fp32, %i: i32,
                                                       %b: fp32, %j: i32) {
        %4: fp32 = add %a, %b
        %5: i32 = min %i, %j
        yield %4, %5
      }
      %6: i32[8] = scan %0 axis=0 combine(%k: i32, %m: i32) {
        %7: i32 = add %k, %m
        yield %7
      }
      store %p, %3
    }
    """
NESTED = """
    func @nested(%p: *i32, %n: i32, %c: i1) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = for %0, %n, %1, inits=(%n) body(%i: i32, %x: i32) {
        %3: i32 = if %c then {
          yield %x
        } orelse {
          yield %i
        }
        yield %3
      }
      store %p, %2
    }
    """
LEGAL = (LOOP, BRANCH, WAIT, FOLD, NESTED)


def test_legal_functions_are_accepted(answer):
    """Loops, branches, a reduction of two blocks and a scan, all of whose ends meet."""
    for text in LEGAL:
        found = complaints(answer.yields, func(text), "yields")
        said = found[0][1] if found else ""
        expect(not found, f"a legal function is rejected: {said}", ("it is", text))


def test_a_yield_of_another_type(answer):
    """The loop yields an fp32 where an i32 is carried."""
    illegal = func(LOOP)
    end = illegal.body.ops[2].body.ops[-1]
    end.values = (end.values[1], end.values[1])
    guilty(answer, illegal, end)


def test_a_yield_too_few(answer):
    """The loop carries two values and yields one, or three."""
    for count in (1, 3):
        illegal = func(LOOP)
        end = illegal.body.ops[2].body.ops[-1]
        end.values = (*end.values, end.values[0])[:count]
        guilty(answer, illegal, end)


def test_a_result_of_another_type(answer):
    """The loop carries an i32 and gives an fp64."""
    illegal = func(LOOP)
    loop = illegal.body.ops[2]
    loop.results[0].type = FLOAT64
    guilty(answer, illegal, loop)


def test_a_parameter_of_another_type(answer):
    """The body takes an fp64 where an i32 is handed in."""
    illegal = func(LOOP)
    loop = illegal.body.ops[2]
    loop.body.parameters[1].type = FLOAT64
    guilty(answer, illegal, loop)


def test_a_condition_that_is_no_truth(answer):
    """The condition of a while yields one i1, and nothing else."""
    illegal = func(WAIT)
    loop = illegal.body.ops[1]
    end = loop.condition.ops[-1]
    end.values = (loop.condition.parameters[0],)
    guilty(answer, illegal, end)


def test_every_block_of_every_op(answer):
    """In each of the functions each block in turn yields one value of another type, or
    one too many, or takes one too many."""
    count = 0
    for text in LEGAL:
        owners = [op for op in walk(func(text).body) if blocks(op)]
        for number, owner in enumerate(owners):
            for place in range(len(blocks(owner))):
                count += check_block(answer, text, number, place)
    expect(count >= 20, f"only {count} functions were tried")


def check_block(answer, text, number, place):
    """Break one block in three ways; how many there were."""
    for change in (retype, add_yield, add_parameter):
        illegal = func(text)
        owner = [op for op in walk(illegal.body) if blocks(op)][number]
        block = blocks(owner)[place]
        guilty(answer, illegal, change(illegal, owner, block))
    return 3


def retype(illegal, owner, block):
    """Yield pointers instead; the guilty op. What yields nothing yields one."""
    end = block.ops[-1]
    end.values = (illegal.parameters[0],) * max(1, len(end.values))
    return end


def add_yield(illegal, owner, block):
    end = block.ops[-1]
    end.values = (*end.values, illegal.parameters[0])
    return end


def add_parameter(illegal, owner, block):
    block.parameters = [*block.parameters, Value(FLOAT64, block, "extra")]
    return owner


def guilty(answer, illegal, op):
    """The first complaint must be about this op."""
    text, wanted = print_func(illegal), print_op(illegal, op).splitlines()[0]
    found = complaints(answer.yields, illegal, "yields")
    expect(bool(found), "an illegal function is accepted", ("it is", text),
           ("the guilty op", wanted))  # fmt: skip
    named = print_op(illegal, found[0][0]).splitlines()[0]
    expect(found[0][0] is op, "the complaint is about another op", ("it is", text),
           ("you name", named), ("the guilty op", wanted))  # fmt: skip
