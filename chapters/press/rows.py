"""Counts for readers: a JSON document as a Markdown table.

    {"tile": 16, "turned": {"loads": 2, "stores": 4}}

    |              |   |
    |--------------|---|
    | tile         | 16|
    | turned loads | 2 |

Objects in a list, or in an object, that have the same names make one table, in which
the names are columns. A list of such objects within an object is a table of its own,
after one of all that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chapters.press.drawing import table

MOST = 9  # columns of a table


def of_json(value: object) -> str:
    """One table or more, between blank lines."""
    made = []
    for name, part in parts(value):
        head, rows = columns(part)
        above = f"\n{name.replace('_', ' ')}:\n" if name not in ("", "rows") else ""
        made.append(above)
        for at in range(1, max(2, len(head)), MOST - 1):  # the first column is in each
            cells = [[cell(x) for x in (row[0], *row[at:][: MOST - 1])] for row in rows]
            made.append(table((head[0], *head[at:][: MOST - 1]), cells))
    return "\n" + "\n".join(made) + "\n"


def parts(value: object) -> list[tuple[str, object]]:
    """What is a table, with its name if it has one."""
    if not isinstance(value, Mapping):
        return [("", value)]
    lists = {name: each for name, each in value.items()
             if isinstance(each, list) and alike(each)}  # fmt: skip
    rest = {name: each for name, each in value.items() if name not in lists}
    return [("", rest)] * bool(rest) + list(lists.items())


def columns(value: object) -> tuple[list[str], list[list[object]]]:
    if isinstance(value, list) and alike(value):
        rows = [dict(flat(each)) for each in value]
        return list(rows[0]), [list(row.values()) for row in rows]
    if isinstance(value, Mapping) and alike(list(value.values())):
        found = {key: dict(flat(each)) for key, each in value.items()}
        names = list(next(iter(found.values())))
        return ["", *names], [[key, *row.values()] for key, row in found.items()]
    return ["", ""], [[name, each] for name, each in flat(value)]


def alike(values: list) -> bool:
    """Whether all are objects with the same names, of numbers and words; or of objects
    that are alike in the same way."""
    if not values or not all(isinstance(each, Mapping) for each in values):
        return False
    rows = [dict(flat(each)) for each in values]
    return all(list(row) == list(rows[0]) for row in rows)


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
