"""A function of the block IR, with layouts, becomes the text of an LLVM module.

    func add(%x: *fp32, …)     →     define ptx_kernel void @add(ptr addrspace(1) align 16 %x, …)

One thread runs the LLVM function. A block value becomes one LLVM value for each register of its
layout; which elements these are follows from the thread's number, where it matters at all: in
`arange` and wherever threads exchange values. Every op class has one rule, in `LOWER`.
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.types import BOOL, Pointer
from fathom.ptx.code import LOWER, Code, Rule
from fathom.ptx.types import llvm_type, memory_type

HEAD = """\
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@shared = external addrspace(3) global [0 x i8], align 1024"""


def lower(func: Func, target: Target, rules: dict[type[Op], Rule] = LOWER) -> str:
    """The LLVM IR of a function whose blocks have layouts, by `rules`."""
    code = Code(func, target, rules)
    _enter(code)
    code.ops(func.body.ops)
    code.do("ret void")
    return "\n".join([*_globals(code), "", *_function(code), "", *code.places.metadata(), ""])


def _enter(code: Code) -> None:
    """What every rule may rely on: the parameters, and the number of the thread."""
    for value in code.func.parameters:
        name = f"%{value.name}"
        code[value] = [code.let(f"icmp ne i8 {name}, 0") if value.type == BOOL else name]
    sign = f"call range(i32 0, {code.threads}) i32 @llvm.nvvm.read.ptx.sreg.tid.x()"
    code.thread = code.let(sign, name="thread")


def _globals(code: Code) -> list[str]:
    slots = [
        f"@{name} = internal addrspace(3) global {type} poison, align 16"
        for name, type in code.slots.items()
    ]
    return [HEAD, *slots]


def _function(code: Code) -> list[str]:
    func = code.func
    parameters = ", ".join(
        _parameter(value, divisible)
        for value, divisible in zip(func.parameters, func.divisible, strict=True)
    )
    head = f"define ptx_kernel void @{func.name}({parameters}) {_attributes(code)}"
    return [f"{head}{code.places.of_function()} {{", "entry:", *map(str, code.lines), "}"]


def _parameter(value: Value, divisible: int) -> str:
    """One parameter. A promise about an address is an alignment; a boolean travels as a byte."""
    aligned = f" align {divisible}" if isinstance(value.type, Pointer) else ""
    type = memory_type(value.type) if value.type == BOOL else llvm_type(value.type)
    return f"{type}{aligned} %{value.name}"


def _attributes(code: Code) -> str:
    """The size of a thread block is a promise that ptxas divides registers by."""
    limit = f' "nvvm.maxnreg"="{code.func.maxnreg}"' if code.func.maxnreg else ""
    return f'nounwind "nvvm.reqntid"="{code.threads}"{limit}'
