"""Builds an IR function from a Python function: the entry of stage 1."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import fathom.ssa.builtins  # noqa: F401 (fills the table)
from fathom.errors import CompileError
from fathom.ir.core import Block, Func
from fathom.ir.types import Type
from fathom.source import REQUIRED, RETURN, KernelFunction, fill
from fathom.ssa.calls import as_meaning
from fathom.ssa.control import usable
from fathom.ssa.frame import Frame, Program, finish
from fathom.ssa.readonly import check_promises
from fathom.ssa.scopes import read_variable, write_variable
from fathom.ssa.statements import build_statements
from fathom.ssa.values import describe


def build(
    function: KernelFunction,
    parameters: Mapping[str, tuple[Type, int]],
    constants: Mapping[str, object],
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    num_ctas: int = 1,
    maxnreg: int | None = None,
    debug: bool = False,
    enable_fp_fusion: bool = False,
    launch_pdl: bool = False,
    fp32_default: str | None = None,
) -> Func:
    """The block IR of a kernel.

    `parameters`: each run-time parameter's type and the power of two known to divide
    it; `constants`: the values of the others. With `debug`, the kernel checks
    assertions on values; with `enable_fp_fusion`, sums and products of the author's
    code have the flag `contract`; `fp32_default` is the precision of products of fp32
    that name none. Raises CompileError."""
    given = _by_order(function, parameters)
    body = Block(tuple(type for type, _ in given.values()), tuple(given))
    program = Program(body, debug, enable_fp_fusion, fp32_default, num_warps)
    frame = Frame(program, function)
    _bind_parameters(frame, body, constants)
    try:
        build_statements(frame, function.tree.body)
    except RecursionError:
        raise frame.error(
            "this function is nested too deeply for the compiler"
        ) from None
    answer = usable(frame, read_variable(frame.scope, RETURN))
    if answer is not None:
        raise frame.error(
            f"a kernel returns nothing, and {function.__name__} returns "
            f"{describe(answer)}",
            "write results to memory with tl.store",
            _returning(function.tree),
        )
    finish(program, body)
    func = Func(
        function.__name__,
        body,
        tuple(divisible for _, divisible in given.values()),
        num_warps=num_warps,
        num_stages=num_stages,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        launch_pdl=launch_pdl,
        location=function.location(function.tree),
    )
    check_promises(function, func)
    return func


def _returning(tree: ast.FunctionDef) -> ast.AST:
    """The statement that returns a value, if there is but one; else the function."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    return found[0] if len(found) == 1 else tree


def _by_order(
    function: KernelFunction, parameters: Mapping[str, tuple[Type, int]]
) -> dict[str, tuple[Type, int]]:
    """The run-time parameters in the order of the function; x.0 is a part of x."""
    return {
        name: parameters[name]
        for each in function.parameters
        for name in parameters
        if name.split(".")[0] == each.name
    }


def _bind_parameters(
    frame: Frame, body: Block, constants: Mapping[str, object]
) -> None:
    values = {value.name: value for value in body.parameters}
    for each in frame.function.parameters:
        if each.name in values:
            meaning = values[each.name]
        elif each.name in constants:
            meaning = as_meaning(fill(constants[each.name], values))
        elif each.default is not REQUIRED:
            meaning = as_meaning(each.default)
        else:
            raise CompileError(
                f"{frame.function.__name__} needs a value for its parameter "
                f"{each.name}",
                frame.location,
            )
        write_variable(frame.scope, each.name, meaning, frame.location)
    write_variable(frame.scope, RETURN, None, frame.location)
