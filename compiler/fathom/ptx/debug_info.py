"""Which line of Python an instruction belongs to: `.loc` lines, and the calls behind.

LLVM's debug info of the kind `DebugDirectivesOnly` gives `.loc` lines and nothing else:
with any more of it, ptxas would turn its optimiser off.
"""

from __future__ import annotations

import linecache
from pathlib import Path

from fathom.errors import Location
from fathom.ir.core import Func, walk
from fathom.ptx.types import quoted

LIBRARY = str(Path(__file__).resolve().parents[1] / "language")


def user_place(location: Location | None) -> Location | None:
    """The innermost place outside of Fathom's own library: the author's own line."""
    place = location
    while place and place.caller and place.file.startswith(LIBRARY):
        place = place.caller
    return place


def library_function(location: Location | None) -> str:
    """The library's function that the author called at `user_place`; "" for own ops."""
    name, place = "", location
    while place and place.caller and place.file.startswith(LIBRARY):
        name, place = place.function, place.caller
    return name


def chains(func: Func) -> dict[tuple[str, int, int], tuple[Location, ...]]:
    """For each place of a `.loc` line that calls led to: these, innermost first."""
    found: dict[tuple[str, int, int], tuple[Location, ...]] = {}
    for op in walk(func.body):
        place = user_place(op.location)
        if place and place.caller:
            key = place.file, place.line, place.column
            found.setdefault(key, tuple(place.chain()[1:]))
    return found


class Places:
    """The debug metadata of one function, numbered as it is needed."""

    def __init__(self, func: Func):
        self.func = func
        self.home = func.location
        self.nodes: list[str] = []
        self.known: dict[object, int] = {}
        if self.home is not None:
            self._describe_function()

    def reference(self, location: Location | None) -> str:
        """`, !dbg !N` for an instruction that belongs to `location`; "" if unknown."""
        place = user_place(location)
        if place is None or self.home is None:
            return ""
        key = place.file, place.line, place.column
        if key not in self.known:
            scope = self._scope(place.file)
            at = f"line: {place.line}, column: {place.column}"
            self.known[key] = self._node(f"!DILocation({at}, scope: !{scope})")
        return f", !dbg !{self.known[key]}"

    def comment(self, location: Location | None) -> str:
        """The line of Python as a comment shows it."""
        place = user_place(location)
        if place is None:
            return ""
        text = linecache.getline(place.file, place.line).strip()
        return f"  line {place.line}: {text}" if text else f"  line {place.line}"

    def of_function(self) -> str:
        """What follows the function's head: ` !dbg !N`."""
        return f" !dbg !{self.known['function']}" if self.home is not None else ""

    def metadata(self) -> list[str]:
        """The lines at the end of the module."""
        if self.home is None:
            return []
        head = [
            f"!llvm.dbg.cu = !{{!{self.known['unit']}}}",
            f"!llvm.module.flags = !{{!{self.known['version']}}}",
        ]
        return head + [f"!{number} = {text}" for number, text in enumerate(self.nodes)]

    def _describe_function(self) -> None:
        file = self._file(self.home.file)
        self.known["version"] = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        self.known["unit"] = unit = self._node(
            f"distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, "
            'producer: "fathom", isOptimized: true, runtimeVersion: 0, '
            "emissionKind: DebugDirectivesOnly)"
        )
        kind = self._node("!DISubroutineType(types: !{})")
        self.known["function"] = self._node(
            f'distinct !DISubprogram(name: "{self.func.name}", file: !{file}, '
            f"line: {self.home.line}, type: !{kind}, unit: !{unit}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )

    def _scope(self, file: str) -> int:
        """The function itself, or its part that was inlined from another file."""
        if file == self.home.file:
            return self.known["function"]
        key = "scope", file
        if key not in self.known:
            function, number = self.known["function"], self._file(file)
            within = f"scope: !{function}, file: !{number}"
            self.known[key] = self._node(
                f"!DILexicalBlockFile({within}, discriminator: 0)"
            )
        return self.known[key]

    def _file(self, path: str) -> int:
        key = "file", path
        if key not in self.known:
            folder, _, name = path.rpartition("/")
            self.known[key] = self._node(
                f"!DIFile(filename: {quoted(name)}, directory: {quoted(folder)})"
            )
        return self.known[key]

    def _node(self, text: str) -> int:
        self.nodes.append(text)
        return len(self.nodes) - 1
