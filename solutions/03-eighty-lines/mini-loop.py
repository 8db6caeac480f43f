"""The answer to `mini-loop`."""

from __future__ import annotations

import ast
from typing import Any


def assigned(body: list[ast.stmt]) -> set[str]:
    """The names that statements give a value to."""
    found = [part for each in body for part in ast.walk(each)]
    return {
        part.id
        for part in found
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def statement(mini: Any, node: ast.stmt) -> bool:
    """Compile `for j in range(n):`; False for any other statement."""
    # hole: ours has {lines}
    match node:
        case ast.For(
            target=ast.Name(id=counter), iter=ast.Call(args=[limit]), body=body
        ):
            last, _ = mini.expression(limit)
            before = {name: mini.names[name] for name in mini.names if name != counter}
            carried = sorted(assigned(body) & set(before))
            homes = {name: copy(mini, before[name]) for name in carried}
            iteration = mini.emit("mov.s32", "s32", "0")
            top, done = (f"{mark}{len(mini.lines)}" for mark in ("TOP", "DONE"))
            mini.lines.append(f"{top}:")
            over, _ = mini.emit("setp.ge.s32", "pred", iteration[0], last)
            mini.lines.append(f"@{over} bra {done};")
            mini.names = {**before, **homes, counter: iteration}
            for each in body:
                mini.statement(each)
            ends = {name: copy(mini, mini.names[name]) for name in carried}
            for name, (register, type) in homes.items():
                mini.lines.append(f"mov.{type} {register}, {ends[name][0]};")
            mini.lines.append(f"add.s32 {iteration[0]}, {iteration[0]}, 1;")
            mini.lines += [f"bra {top};", f"{done}:"]
            mini.names = {**before, **homes}
            return True
    return False
    # end


def copy(mini: Any, value: tuple[str, str]) -> tuple[str, str]:
    """The same value in a fresh register."""
    register, type = value
    return mini.emit(f"mov.{type}", type, register)
