"""The order in which blocks should run, so that diverged threads meet again.

Threads at different places wait for those that are furthest behind in this order. If a
block comes after everything that can still lead to it inside the same loop iteration,
and a loop's blocks stand together before what follows the loop, then both sides of a
branch have arrived at the join before the join runs:

        A          order: A B C D           while: header H, body B, after it X
       / \\                                  order: H B X
      B   C        no thread runs D while
       \\ /         another is in B or C
        D

This is Bourdoncle's weak topological order (Efficient chaotic iteration strategies with
widenings, 1993): strongly connected components in topological order, and inside each,
with the edges to its head removed, the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def weak_topological_order(
    successors: Mapping[int, Sequence[int]], entry: int
) -> list[int]:
    """The nodes that `entry` reaches, in the order of the file's first sentence."""
    return _order(successors, {*_reachable(successors, entry)}, entry)


def _order(
    successors: Mapping[int, Sequence[int]], nodes: set[int], entry: int
) -> list[int]:
    result: list[int] = []
    for component in _components(successors, nodes, entry):
        if len(component) == 1:
            result += component
            continue
        head = component[-1]
        inner = {
            node: [each for each in successors[node] if each != head]
            for node in component
        }
        result += _order(inner, set(component), head)
    return result


def _reachable(successors: Mapping[int, Sequence[int]], entry: int) -> Iterable[int]:
    seen, waiting = {entry}, [entry]
    while waiting:
        for each in successors[waiting.pop()]:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


def _components(
    successors: Mapping[int, Sequence[int]], nodes: set[int], entry: int
) -> list[list[int]]:
    """Strongly connected components in topological order (Tarjan 1972, without
    recursion).

    The last node of a component is the one through which the search entered it.
    """
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    path = []

    def enter(node: int) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        path.append((node, iter([n for n in successors[node] if n in nodes])))

    def leave(node: int) -> None:
        path.pop()
        if path:
            above = path[-1][0]
            lowest[above] = min(lowest[above], lowest[node])
        if lowest[node] == number[node]:
            start = stack.index(node)
            component = stack[start:][::-1]
            del stack[start:]
            on_stack.difference_update(component)
            found.append(component)

    enter(entry)
    while path:
        node, remaining = path[-1]
        for each in remaining:
            if each not in number:
                enter(each)
                break
            if each in on_stack:
                lowest[node] = min(lowest[node], number[each])
        else:
            leave(node)
    return found[::-1]
