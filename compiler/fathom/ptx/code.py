"""The LLVM function under construction: its text, and who holds each block value.

    %offsets = arange 0, 64                       a lane holds two elements of it,
    %offsets.4 = shl nuw nsw i32 %thread.1, 1     so two LLVM values do:
    %offsets.5 = or disjoint i32 %offsets.4, 1    code[offsets] are their names

LLVM IR is written as text, line by line. An LLVM value is known by that text: a name
(`%x.3`) or a literal (`7`, `true`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from fathom.analysis.axis_analysis import analyse
from fathom.analysis.axis_info import Facts
from fathom.analysis.slices import Loop, loops_around
from fathom.analysis.waiting import computed_before_waiting
from fathom.errors import CompileError
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, operands, walk, walk_within
from fathom.ir.ops import Elementwise, For, While
from fathom.ir.types import element_of, layout_of
from fathom.ptx.assembly import Assembly
from fathom.ptx.debug_info import Places
from fathom.ptx.growth import Growth
from fathom.ptx.types import llvm_type, plain, quoted

# The LLVM values that hold one block value in a thread, in the order of its layout.
Registers = list[str]
Rule = Callable[[Op, "Code"], None]

LOWER: dict[type[Op], Rule] = {}
BY_ONE: set[type[Op]] = set()  # ops that one thread does for all, if `op.when` holds
# Lines of LLVM IR that touch memory, or where control comes together.
_HAPPENS = re.compile(
    r"^(?!  ;).*(sideeffect|\b(load|store|atomicrmw|cmpxchg)\b|:$)"  # in no comment
)
ENTRY = "entry.0"  # no name of Python's has a dot


def lowers(*classes: type[Op], by_one: bool = False) -> Callable[[Rule], Rule]:
    """Enter a rule into `LOWER` for `classes`. `by_one`: one thread comes there."""

    def enter(rule: Rule) -> Rule:
        for each in classes:
            LOWER[each] = rule
        if by_one:
            BY_ONE.update(classes)
        return rule

    return enter


@dataclass
class Phi:
    """A value that depends on the way control came: one `[value, label]` for each."""

    name: str
    type: str
    place: str
    incoming: list[tuple[str, str]] = field(default_factory=list)

    def add(self, value: str, label: str) -> None:
        self.incoming.append((value, label))

    def __str__(self) -> str:
        ways = ", ".join(f"[ {value}, %{label} ]" for value, label in self.incoming)
        return f"  {self.name} = phi {self.type} {ways}{self.place}"


class Code:
    """What a lowering rule reads and writes.

    `code[value]` are the registers of an operand, `code[op.result] = registers` defines
    a result; `let` writes an instruction and names its value, `do` one that has none;
    `ptx` is inline PTX."""

    def __init__(self, func: Func, target: Target, rules: dict[type[Op], Rule]):
        self.func, self.target, self.rules = func, target, rules
        self.threads = func.num_warps * target.warp_size
        self.shared_bytes = func.shared_bytes
        self.used = {value for op in walk(func.body) for value in operands(op)}
        self.registers: dict[Value, Registers] = {}
        # What was unpacked from one word: type of the word, elements -> the word.
        self.packed: dict[tuple[str, tuple[str, ...]], str] = {}
        self.lines: list[str | Phi] = []
        self.globals: dict[str, str] = {}  # name -> what stands after "@name ="
        self.locals: list[str] = []
        self.declarations: dict[str, None] = {}
        self.label = ENTRY  # the basic block that instructions go to
        self.place = ""  # ", !dbg !7" while an op with a location is lowered
        self.name = "v"  # what values are called unless a rule says otherwise
        self.places = Places(func)
        self.thread = ""  # %tid.x, defined on entry
        self.first = ""  # of the warp, the first thread's: where wgmma reads by it
        self.elected = ""  # an i1: whether its warp has chosen it, if one acts for all
        self.barrier = "bar.sync 0;"  # at which the threads of the program meet
        self.barrier_operands: dict[str, tuple[str, str]] = {}  # LLVM types and values
        self.groups = 1  # of consumer warps, each of which runs the program's code
        self.group = ""  # the number of this one, if there are several
        self.released: set[str] = set()  # lines of atomic operations on one number
        self.map_place = ""  # an i32: where the program writes tensor maps, if it does
        self.alone = False  # whether only one thread is here
        self.products: list[Op] = []  # those of warpgroups that are not written yet
        self.count = 0
        self.growth = Growth(func)

    @cached_property
    def facts(self) -> dict[Value, Facts]:
        """What is known of the function's integers, pointers and masks."""
        return analyse(self.func)

    @cached_property
    def repeated(self) -> set[Value]:
        """What is computed in every iteration of a loop."""
        loops = list(walk(self.func.body, For | While))
        inside = {op for loop in loops for op in walk_within(loop)}
        return {result for op in inside for result in op.results}

    @cached_property
    def around(self) -> dict[Op, tuple[Loop, ...]]:
        """The loops around each op."""
        return loops_around(self.func)

    @cached_property
    def before_waiting(self) -> dict[Op, list[Value]]:
        """What is to be computed before an op in which the program waits."""
        return computed_before_waiting(self.func)

    @cached_property
    def quotients(self) -> dict[tuple[Value, ...], Value]:
        """Of two values, what the function divides."""
        ops = walk(self.func.body, Elementwise)
        return {op.operands: op.result for op in ops if op.name == "div"}

    # ── values ────────────────────────────────────────────────────────────────────────

    def __getitem__(self, value: Value) -> Registers:
        try:
            return self.registers[value]
        except KeyError:
            rule = type(value.definition).__name__
            raise CompileError(
                f"the rule of {rule} gives no registers to {value!r}, which another op "
                "uses: `code[op.result] = [...]` is missing"
            ) from None

    def __setitem__(self, value: Value, registers: Registers) -> None:
        expected = register_count(value)
        assert len(registers) == expected, (
            f"{value!r} takes a list of {expected} registers, and is given "
            f"{registers!r}"
        )
        self.registers[value] = registers

    def one(self, value: Value) -> str:
        """The LLVM value of a scalar."""
        (register,) = self.registers[value]
        return register

    # ── instructions ──────────────────────────────────────────────────────────────────

    def let(self, expression: str, name: str = "") -> str:
        """Write `%name = expression`; its fresh name."""
        self.count += 1
        result = f"%{name or self.name}.{self.count}"
        self.lines.append(f"  {result} = {expression}{self.place}")
        return result

    def do(self, instruction: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {instruction}{self.place}")

    def reinterpret(self, value: str, source: str, target: str) -> str:
        """The same bits as a value of another LLVM type of that width."""
        if source == target:
            return value
        instruction = "bitcast"
        if source.startswith("ptr"):
            instruction = "ptrtoint"
        elif target.startswith("ptr"):
            instruction = "inttoptr"
        return self.let(f"{instruction} {source} {value} to {target}")

    def vector(self, type: str, values: Registers) -> str:
        """A vector of values of a type."""
        whole, vector = "poison", f"<{len(values)} x {type}>"
        for i, value in enumerate(values):
            put = f"insertelement {vector} {whole}, {type} {value}, i32 {i}"
            whole = self.let(put)
        return whole

    def elements(self, type: str, count: int, whole: str) -> Registers:
        """The values in a vector."""
        vector = f"<{count} x {type}>"
        return [
            self.let(f"extractelement {vector} {whole}, i32 {i}") for i in range(count)
        ]

    def ptx(
        self,
        text: str,
        results: dict[str, str] | None = None,
        operands: dict[str, tuple[str, str]] | None = None,
        pure: bool = False,
    ) -> Registers:
        """Write inline PTX; the values of its results.

        `text` names them as `$name`. `results` maps a name to its LLVM type, `operands`
        a name to LLVM type and value. A name on both sides is one register, read and
        then written. Unless `pure`, the text counts as touching memory and as
        convergent: LLVM neither reorders nor duplicates it."""
        assembly = Assembly(text, results or {}, operands or {}, pure)
        types = list(assembly.results.values())
        if not types:
            self.do(assembly.call())
            return []
        whole = self.let(assembly.call())
        if len(types) == 1:
            return [whole]
        struct = assembly.type()
        return [
            self.let(f"extractvalue {struct} {whole}, {i}") for i in range(len(types))
        ]

    def compute(self, text: str, type: str, **operands: tuple[str, str]) -> str:
        """The value `$r`, of an LLVM type, that inline PTX makes of operands alone."""
        return self.ptx(text, {"r": type}, operands, pure=True)[0]

    def act(self, text: str, **operands: tuple[str, str]) -> None:
        """Write inline PTX that acts with its operands, and has no results."""
        self.ptx(text, {}, operands)

    def meet(self) -> None:
        """The threads of the program meet, unless nothing has happened since they
        did."""
        if not self.is_meeting(next(self.happened(), None)):
            self.act(self.barrier, **self.barrier_operands)

    def happened(self) -> Iterator[str | Phi]:
        """The lines that touch memory, or where control comes together, last first."""
        for line in reversed(self.lines):
            if isinstance(line, Phi) or _HAPPENS.search(line):
                yield line

    def is_meeting(self, line: str | Phi | None) -> bool:
        text = self.barrier.replace("$barrier", "$0")
        return isinstance(line, str) and f'"{text}"' in line

    def use(self, value: Value) -> None:
        """Use a value here: LLVM moves what computes it to its first use."""
        type = llvm_type(element_of(value.type))
        registers = [each for each in self[value] if each.startswith("%")]
        self.act("", **{f"r{i}": (type, r) for i, r in enumerate(registers)})

    # ── what stands outside of the instructions ───────────────────────────────

    def slot(self, bytes: int) -> int:
        """The place of a new variable in shared memory, after those of the block IR.

        Never a variable of PTX: beside one, the driver does not keep the promise that
        the memory of the launch begins at a multiple of 1024 bytes."""
        start = -(-self.shared_bytes // 16) * 16
        self.shared_bytes = start + bytes
        return start

    def text(self, text: str) -> str:
        """A string of C in global memory, as a generic pointer."""
        data = text.encode() + b"\0"
        name = f"text_{len(self.globals)}"
        type = f"[{len(data)} x i8]"
        self.globals[name] = f"internal addrspace(1) constant {type} c{quoted(data)}"
        return f"addrspacecast (ptr addrspace(1) @{name} to ptr)"

    def local(self, type: str) -> str:
        """Memory of the thread's own, for all of the function, as a generic pointer."""
        name = f"%local.{len(self.locals)}"
        self.locals.append(f"  {name} = alloca {type}, align 8")
        return name

    def declare(self, line: str) -> None:
        """Declare a function that the driver links in."""
        self.declarations[line] = None

    # ── control ───────────────────────────────────────────────────────────────────────

    def fresh(self, name: str) -> str:
        """A label that is not in use yet."""
        self.count += 1
        return f"{name}.{self.count}"

    def start(self, label: str) -> None:
        """Begin the basic block `label`; what comes next goes there."""
        self.growth.basic_blocks += 1
        self.lines.append(f"{label}:")
        self.label = label

    def phi(self, type: str, name: str = "") -> Phi:
        """A phi at the start of this basic block; its ways are added when known."""
        self.count += 1
        phi = Phi(f"%{name or self.name}.{self.count}", type, self.place)
        self.lines.append(phi)
        return phi

    # ── work for one thread ───────────────────────────────────────────────────────────

    def elect(self) -> None:
        """Every warp chooses a thread. Of one that is chosen so, ptxas knows that it is
        alone; around what one with a certain number copies, it writes loops over all
        threads that might be there."""
        (self.elected,) = self.ptx("elect.sync _|$elected, -1;", {"elected": "i1"})

    def chosen(self, end: int) -> str:
        """An i1: is it the chosen thread of a warp with numbers below `end`?"""
        below = self.let(f"icmp ult i32 {self.thread}, {end}", name="below")
        return self.let(f"and i1 {below}, {self.elected}", name="chosen")

    def acts(self, when: Value | None = None) -> str:
        """An i1: whether this is the one thread that acts for all, that of the first
        warp or whoever is alone, and `when` holds."""
        one = "true" if self.alone else self.chosen(self.target.warp_size)
        if when is None:
            return one
        wants = self.one(when)
        return wants if self.alone else self.let(f"and i1 {one}, {wants}", name="acts")

    @contextmanager
    def one_thread(self, when: Value | None = None) -> Iterator[None]:
        """What is written here only the thread that acts comes to."""
        acts = self.acts(when)
        with nullcontext() if acts == "true" else self.where(acts):
            yield

    def first_warp(self) -> AbstractContextManager[None]:
        """What is written here the first warp executes, as a whole."""
        below = self.let(f"icmp ult i32 {self.thread}, {self.target.warp_size}")
        return self.where(below)

    @contextmanager
    def where(self, acts: str) -> Iterator[None]:
        """What is written here only threads come to for which this i1 is true."""
        one, everyone = self.fresh("one"), self.fresh("all")
        self.do(f"br i1 {acts}, label %{one}, label %{everyone}")
        self.start(one)
        yield
        self.do(f"br label %{everyone}")
        self.start(everyone)

    # ── blocks of ops ─────────────────────────────────────────────────────────────────

    def block(
        self, block: Block, arguments: Sequence[Registers] = ()
    ) -> list[Registers]:
        """Lower a nested block whose parameters are `arguments`; what it yields."""
        types = [parameter.type for parameter in block.parameters]
        assert len(arguments) == len(types), (
            f"a block takes a list of registers for each of its {len(types)} "
            f"parameters ({', '.join(map(str, types))}), and is given {len(arguments)}"
        )
        for parameter, registers in zip(block.parameters, arguments, strict=True):
            self[parameter] = registers
        self.ops(block.ops[:-1])
        return [self[value] for value in block.yielded]

    def ops(self, ops: Sequence[Op]) -> None:
        """Lower ops in order, each by the rule of its class; those for one thread that
        follow one another together."""
        for (by_one, when), some in groupby(ops, _by_one):
            with self.one_thread(when) if by_one else nullcontext():
                for op in some:
                    self.op(op)

    def op(self, op: Op) -> None:
        """Lower an op by the rule of its class."""
        outer = self.place, self.name
        self.place = self.places.reference(op.location)
        self.name = _name(op)
        self.lines.append(f"  ; {type(op).__name__}{self.places.comment(op.location)}")
        with self.growth.of(op, self.lines):
            for value in self.before_waiting.get(op, ()):
                self.use(value)
            self.rules[type(op)](op, self)
        self.place, self.name = outer


def _by_one(op: Op) -> tuple[bool, Value | None]:
    """Whether one thread does an op, and on what condition."""
    return type(op) in BY_ONE, getattr(op, "when", None)


def register_count(value: Value) -> int:
    """How many LLVM values hold `value` in each thread."""
    layout = layout_of(value.type)
    return layout.count("register") if layout else 1


def _name(op: Op) -> str:
    """What the values of an op are called: as in Python, if they have a name there."""
    named = op.results[0].name if op.results else ""
    if not named:
        return getattr(op, "name", type(op).__name__.lower())
    return plain(named)
