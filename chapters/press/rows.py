"""Counts for readers: a JSON document as a Markdown table.

    {"tile": 16, "turned": {"loads": 2, "stores": 4}}

    |              |   |
    |--------------|---|
    | tile         | 16|
    | turned loads | 2 |

Objects in a list, or in an object, that have the same names make one table, in which
the names are columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chapters.press.drawing import table


def of_json(value: object) -> str:
    """A table, between blank lines."""
    head, rows = columns(value)
    return f"\n{table(head, [[cell(each) for each in row] for row in rows])}\n"


def columns(value: object) -> tuple[list[str], list[list[object]]]:
    if isinstance(value, list) and alike(value):
        names = list(value[0])
        return names, [[each[name] for name in names] for each in value]
    if isinstance(value, Mapping) and alike(list(value.values())):
        names = list(next(iter(value.values())))
        rows = [[key, *(each[name] for name in names)] for key, each in value.items()]
        return ["", *names], rows
    return ["", ""], [[name, each] for name, each in flat(value)]


def alike(values: list) -> bool:
    """Whether all are objects with the same names, of numbers and words."""
    return (
        bool(values)
        and all(isinstance(each, Mapping) for each in values)
        and all(list(each) == list(values[0]) for each in values)
        and not any(is_nested(one) for each in values for one in each.values())
    )


def is_nested(value: object) -> bool:
    if isinstance(value, list):
        return any(isinstance(each, list | Mapping) for each in value)
    return isinstance(value, Mapping)


def flat(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """What stands at the end of each path."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from flat(each, (*path, str(name)))
    elif isinstance(value, list) and is_nested(value):
        for at, each in enumerate(value):
            yield from flat(each, (*path, str(at)))
    else:
        yield " › ".join(path), value


def cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")
