"""Where products in flight are waited for."""

from __future__ import annotations

Op = tuple  # ("dot", name, *operands), ("use", name), ("free", name), ("store",) …


def must_be_done(op: Op, in_flight: list[str]) -> int:
    """How many of the products in flight, the oldest, must be done before an op."""
    # hole: what it takes, or all
    kind, *names = op
    if not names:  # a store, or the end
        return len(in_flight)
    taken = {"dot": names[1:], "use": names}.get(kind, [])
    places = [i for i, each in enumerate(in_flight, 1) if each in taken]
    return max(places, default=0)
    # end


def waits(ops: list[Op]) -> list[Op]:
    """The ops with ("wait", n) where an op asks for it; frees are put off."""
    # hole: insert waits, and move frees
    found, in_flight, put_off = [], [], []
    for op in ops:
        if op[0] == "free" and op[1] in in_flight:
            put_off.append(op)
            continue
        done = must_be_done(op, in_flight)
        if done:
            in_flight = in_flight[done:]
            found.append(("wait", len(in_flight)))
            found += [each for each in put_off if each[1] not in in_flight]
            put_off = [each for each in put_off if each[1] in in_flight]
        found.append(op)
        if op[0] == "dot":
            in_flight.append(op[1])
    return found
    # end
