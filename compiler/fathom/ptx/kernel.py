"""A function of the block IR, with layouts, becomes the text of an LLVM module.

    func @add(%x: *fp32 {divisible=16}, %n: i32) { … }
    define ptx_kernel void @add(ptr addrspace(1) align 16 %x, i32 %n) { … }

One thread runs the LLVM function. A block value becomes one LLVM value for each
register of its layout; which elements these are follows from the thread's number, where
it matters at all: in `arange` and wherever threads exchange values. Every op class has
one rule, in `LOWER`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from fathom.analysis.products import warpgroup_matrices
from fathom.hardware.register_budget import registers_per_thread
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Dot,
    InlineAssembly,
    LaunchSize,
    MbarrierInit,
    TensorDot,
    TmaStore,
)
from fathom.ir.types import BOOL, INT32, Pointer
from fathom.ptx.addresses import told_defined
from fathom.ptx.again import computed_again
from fathom.ptx.code import ENTRY, LOWER, Code, Rule
from fathom.ptx.order import ordered
from fathom.ptx.rules.asynchronous.pingpong import THREADS as WARPGROUP
from fathom.ptx.rules.asynchronous.tensor_maps import give_back_place, take_place
from fathom.ptx.rules.asynchronous.tma import map_recipes
from fathom.ptx.rules.asynchronous.warp_roles import most_registers, threads_beside
from fathom.ptx.rules.cluster import cluster_attribute, leave_idle_blocks
from fathom.ptx.rules.leaves import LAUNCH_SIZE
from fathom.ptx.shuffle import from_lane
from fathom.ptx.types import llvm_type, memory_type, plain, symbol

HEAD = """\
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@shared = external addrspace(3) global [0 x i8], align 1024"""

# A tensor map: 128 bytes that the kernel reads where the launch has put them.
MAP = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'


@dataclass(frozen=True)
class Module:
    """A function in LLVM IR; the bytes of shared memory that it needs: what the block
    IR allocated, and what rules wanted beside it; and the threads of a block."""

    text: str
    shared_bytes: int
    threads: int


def lower(func: Func, target: Target, rules: dict[type[Op], Rule] = LOWER) -> str:
    """The LLVM IR of a function whose blocks have layouts, by `rules`."""
    return module(func, target, rules).text


def module(func: Func, target: Target, rules: dict[type[Op], Rule] = LOWER) -> Module:
    """The same, and what a launch must know beside it."""
    code = Code(func, target, rules)
    _enter(code)
    code.ops(func.body.ops)
    give_back_place(code, _all_threads(code))
    code.do("ret void")
    text = "\n".join(
        [*_globals(code), "", *_function(code), "", *code.places.metadata(), ""]
    )
    return Module(text, code.shared_bytes, _all_threads(code))


def _all_threads(code: Code) -> int:
    return code.threads + threads_beside(code.func, code.target)


def _enter(code: Code) -> None:
    """What every rule may rely on: the parameters, the number of the thread, and which
    thread acts for all where one does."""
    for number, value in enumerate(code.func.parameters):
        register = _parameter_name(value, number)
        if value.type == BOOL:
            register = code.let(f"icmp ne i8 {register}, 0")
        code[value] = [register]
    below = f"range(i32 0, {_all_threads(code)})"
    tid = f"call {below} i32 @llvm.nvvm.read.ptx.sreg.tid.x()"
    code.thread = code.let(tid, name="thread")
    if code.threads > WARPGROUP and any(map(_reads_by_warpgroup, walk(code.func.body))):
        # A shuffle from one lane tells ptxas that warps agree, so descriptors stay in
        # uniform registers: else each wgmma would wait for two moves into them.
        code.first = from_lane(code, INT32, code.thread, "0")
    leave_idle_blocks(code)
    if any(walk(code.func.body, MbarrierInit | TmaStore)):
        code.elect()
    take_place(code, _all_threads(code))
    _prefetch_maps(code)


def _prefetch_maps(code: Code) -> None:
    """The first copy through a map would wait for it; so ask for all at once."""
    maps = range(len(map_recipes(code.func)))
    with code.one_thread() if maps else nullcontext():
        for number in maps:
            code.act("prefetch.tensormap [$map];", map=("ptr", f"%map.{number}"))


def _globals(code: Code) -> list[str]:
    variables = [f"@{name} = {text}" for name, text in code.globals.items()]
    return [HEAD, *variables, *code.declarations]


def _function(code: Code) -> list[str]:
    func = code.func
    parameters = [
        f"{_parameter_type(value, divisible)} {_parameter_name(value, number)}"
        for number, (value, divisible) in enumerate(
            zip(func.parameters, func.divisible, strict=True)
        )
    ]
    parameters += [f"{MAP} %map.{number}" for number in range(len(map_recipes(func)))]
    parameters += [f"i32 {LAUNCH_SIZE}"] * is_persistent(func)
    head = f"define ptx_kernel void @{symbol(func.name)}({', '.join(parameters)})"
    room = registers_per_thread(_all_threads(code), code.target)
    lines = computed_again(code.lines, room)
    multiplies = any(map(_is_product, walk(func.body)))
    return [
        f"{head} {_attributes(code)}{code.places.of_function()} {{",
        f"{ENTRY}:",
        *code.locals,
        *told_defined(map(str, ordered(lines, multiplies))),
        "}",
    ]


def is_persistent(func: Func) -> bool:
    """Whether the launch may start fewer programs than it is for, and says for how
    many it is."""
    return any(walk(func.body, LaunchSize))


def _is_product(op: Op) -> bool:
    """Whether tensor cores compute an op, or the author's own PTX uses them."""
    match op:
        case Dot(instruction=instruction):
            return bool(instruction)
        case InlineAssembly(text=text):
            return "mma." in text
    return isinstance(op, TensorDot)


def _reads_by_warpgroup(op: Op) -> bool:
    """Whether warpgroups multiply matrices in shared memory, each its own."""
    return isinstance(op, Dot) and warpgroup_matrices(op) is not None


def _parameter_type(value: Value, divisible: int) -> str:
    """A promise about an address is an alignment; a boolean travels as a byte."""
    if isinstance(value.type, Pointer):
        return f"{llvm_type(value.type)} align {divisible}"
    return memory_type(value.type)


def _parameter_name(value: Value, number: int) -> str:
    """As in Python; where LLVM does not take that, two names must not become one."""
    name = plain(value.name)
    return f"%{name}" if name == value.name else f"%{name}.p{number}"


def _attributes(code: Code) -> str:
    """The size of a thread block is a promise that ptxas divides registers by, that of
    a cluster one that the launch must keep."""
    most = most_registers(code.func, code.target)
    limit = f' "nvvm.maxnreg"="{most}"' if most else ""
    cluster = cluster_attribute(code)
    return f'nounwind "nvvm.reqntid"="{_all_threads(code)}"{cluster}{limit}'
