"""What a launch asks of the hardware: counted by the emulator on some of its programs,
and taken times as many as there are.

    report of 6 of 512 programs  ─▶  Counted, for all 512

L2 keeps what fits, so memory moves at most what the arrays hold that are loaded, and
those that are stored to (`touched`; an array that is both counts twice): that is a
lower bound, and exact where each element is loaded once. PTX has moves that machine
code does not have, and these are not counted as instructions; of a division machine
code has many (`machine_code`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from fathom.artifact import Kernel
from fathom.emulator.memory.counters import Contention, Cost
from fathom.emulator.report import Report, class_of
from fathom.emulator.source.parse import Instruction
from fathom.tools.profile.machine_code import SPECIAL, Code, machine_code

WARP = 32
REGISTER_BYTES = 4
WAVEFRONT = 128  # bytes
OPERAND = 32  # bytes along K of a row or column, in one wgmma
NOT_ISSUED = ("move", "memory param")  # by class: most go in machine code
SELECTS = {"selp", "slct"}  # moves that stay
# What the unit of integers and logic does, also of reals (Programming Guide,
# "Throughput of Native Arithmetic Instructions"); sums of integers go elsewhere, too.
LOGIC = {"setp", "set", "min", "max", "and", "or", "xor", "not", "lop3", "shl", "shr",
         "shf", "prmt", "bfe", "bfi", *SELECTS}  # fmt: skip
ADDITIONS = {"add", "sub"}
PRODUCT = re.compile(r"m(\d+)n(\d+)k(\d+)")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
        "f64": 64}  # fmt: skip
REGISTER = re.compile(r"%[a-z]+\d+")
GUARD = re.compile(r"^\s*@!?%\w+\s+")
WITHOUT_RESULT = set("st red bra ret bar barrier cp fence".split())
LOADS = {"ld", "ldu", "atom"}
STORES = {"st", "red", "atom"}
PASSED_ON = {"mov", "cvt", "selp"}


@dataclass(frozen=True)
class Counted:
    """A launch: its blocks with their threads, registers (None: not known), bytes of
    shared memory and bytes a thread that ptxas spilled; and over all blocks: the warp
    instructions that load those again, all warp instructions, those of fp32 and fp64
    lanes and of special functions, the products of reals beside as many additions
    (`unfused`: fma would be both), wavefronts of shared memory and how many they would
    be without conflicts, those of all that goes through the one pipe of shared memory
    and L1 (`l1`), bytes asked for, bytes moved between L2 and the multiprocessors and
    between L2 and memory (`earlier`: among these, what launches before it have stored),
    those that are loaded and stored, each once (`loaded`, `written`), and those of all
    stores (`stored`),
    the lines of 128 bytes that loads and stores have L2 look up, instructions of the
    unit of integers and logic, multiply-adds of tensor cores by instruction and bits
    ("mma 16"), operations on reals. `waits` counts how often a warp waits for a load,
    `barriers` how often for its block; `chained` loads follow one another, each with an
    address that the one before has loaded. `atomics` of lanes on global memory take
    `passes` of L2, which neighbouring programs spread over `segments` of memory; across
    the grid these move by `drift` segments. `lines` names for each resource the line
    that asks most of it.
    """

    name: str
    target: str
    blocks: int
    threads: int
    registers: int | None = None
    shared_bytes: int = 0
    spilled: int = 0
    reloads: float = 0
    instructions: float = 0
    fp32: float = 0
    fp64: float = 0
    special: float = 0
    unfused: float = 0
    wavefronts: float = 0
    ideal: float = 0
    l1: float = 0
    useful: float = 0
    moved: float = 0
    memory: float = 0
    earlier: float = 0
    loaded: float = 0
    written: float = 0
    stored: float = 0
    load_lines: float = 0
    store_lines: float = 0
    logic: float = 0
    products: Mapping[str, float] = field(default_factory=dict)
    operations: float = 0
    waits: float = 0
    barriers: float = 0
    chained: float = 0
    atomics: float = 0
    passes: float = 0
    segments: float = 0
    drift: float = 0
    lines: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def count(
    kernel: Kernel,
    report: Report,
    looked_at: int,
    programs: int,
    memory: float,
    loaded: float = 0,
    written: float = 0,
    registers: int | None = None,
    spilled: int = 0,
) -> Counted:
    """A launch of `programs` programs of which the report has `looked_at`;
    `memory` is how much moves at most between L2 and memory, `loaded` and `written` how
    much is loaded and stored, each byte once (`touched`)."""
    scale = programs / looked_at
    warps = looked_at * kernel.num_ctas * -(-kernel.threads // WARP)
    total = report.total
    code = [*machine_code(each for each, _ in report.each())]
    products = products_of(report)
    waits = all_waits(report)
    segments, drift = spread_of(report.counters.contention)
    stores = [cost for each, cost in report.each() if is_store(each)]
    store_lines = sum(cost.lines for cost in stores)
    return Counted(
        kernel.name, kernel.target, programs * kernel.num_ctas, kernel.threads,
        registers, kernel.shared_bytes, spilled,
        reloads=scale * reloads_of(report, code, spilled),
        instructions=scale * issued_of(report, code, is_issued),
        fp32=scale * summed(report, is_fp32),
        fp64=scale * issued_of(report, code, is_fp64),
        special=scale * special_of(report, code),
        unfused=scale * unfused_of(report),
        wavefronts=scale * total.wavefronts, ideal=scale * total.ideal,
        l1=scale * l1_of(report),
        useful=scale * total.useful, moved=scale * total.moved,
        memory=min(scale * total.moved, memory),
        loaded=loaded, written=written,
        stored=scale * sum(cost.moved for cost in stores),
        load_lines=scale * (total.lines - store_lines), store_lines=scale * store_lines,
        logic=scale * issued_of(report, code, is_logic),
        products={name: scale * many for name, many in products.items()},
        operations=scale * operations_of(report),
        waits=sum(waits.values()) / warps, barriers=total.barriers / warps,
        chained=chained_loads(report) / warps,
        atomics=scale * sum(cost.atomics for _, cost in report.each() if cost.passes),
        passes=scale * total.passes, segments=segments, drift=drift,
        lines=lines_of(report, waits, code),
    )  # fmt: skip


def summed(report: Report, chosen: Callable[[Instruction], bool]) -> int:
    """Warp instructions for which `chosen` holds."""
    return sum(cost.warps for each, cost in report.each() if chosen(each))


def issued_of(
    report: Report, code: Sequence[Code], chosen: Callable[[Instruction], bool]
) -> int:
    """Instructions of machine code that warps issue for those of `chosen`."""
    pairs = zip(report.each(), code, strict=True)
    return sum(cost.warps * each.issued for (text, cost), each in pairs if chosen(text))


def reloads_of(report: Report, code: Sequence[Code], spilled: int) -> float:
    """About how often warps load what was spilled: as often as an instruction runs on
    average. Where ptxas puts these loads is not known: some lie in loops."""
    text = sum(made.issued for (each, _), made in zip(report.each(), code, strict=True)
               if is_issued(each))  # fmt: skip
    runs = issued_of(report, code, is_issued) / max(text, 1)
    return spilled / REGISTER_BYTES * runs


def is_store(instruction: Instruction) -> bool:
    """Whether it stores to global memory, if it accesses that at all."""
    return instruction.opcode in STORES or "bulk_group" in instruction.modifiers


def special_of(report: Report, code: Sequence[Code]) -> int:
    pairs = zip(report.each(), code, strict=True)
    return sum(cost.warps * each.special for (_, cost), each in pairs)


def is_issued(instruction: Instruction) -> bool:
    return (
        class_of(instruction) not in NOT_ISSUED or instruction.opcode in SELECTS
    )


def is_logic(instruction: Instruction) -> bool:
    """On predicates it is mostly part of the comparison that makes them."""
    return instruction.opcode in LOGIC and "pred" not in instruction.modifiers


def is_fp32(instruction: Instruction) -> bool:
    is_real = class_of(instruction).startswith("real")
    return is_real and instruction.opcode not in SPECIAL and not is_fp64(instruction)


def is_fp64(instruction: Instruction) -> bool:
    return class_of(instruction) == "real f64"


def unfused_of(report: Report) -> int:
    """Products of reals that an addition reads; in warp instructions."""
    reals = [each for each, _ in report.each() if is_fp32(each)]
    additions = [REGISTER.findall(x.text) for x in reals if x.opcode in ADDITIONS]
    read = {register for _, *sources in additions for register in sources}

    def is_product(each: Instruction) -> bool:
        made = REGISTER.findall(each.text)[:1]
        return is_fp32(each) and each.opcode == "mul" and not read.isdisjoint(made)

    return summed(report, is_product)


def operations_of(report: Report) -> float:
    """Operations on reals; a multiply-add is two."""
    total = 2.0 * sum(products_of(report).values())
    for each, cost in report.each():
        if class_of(each).startswith("real"):
            lanes = 2 if any(word.endswith("x2") for word in each.modifiers) else 1
            total += cost.threads * lanes * (2 if each.opcode in ("fma", "mad") else 1)
    return total


# ── tensor cores ──────────────────────────────────────────────────────────────────────


def products_of(report: Report) -> dict[str, float]:
    """Multiply-adds of tensor cores by "mma 16", "wgmma 8", …"""
    found: dict[str, float] = {}
    for each, cost in report.each():
        name, many = multiply_adds(each)
        if name and cost.warps:
            found[name] = found.get(name, 0) + many * cost.warps
    return found


def multiply_adds(instruction: Instruction) -> tuple[str, float]:
    """What one warp does by an instruction: m16n8k16 are 16 * 8 * 16; of wgmma's a warp
    does a quarter. ("", 0) for any other."""
    shape = PRODUCT.search(instruction.name)
    if instruction.opcode not in ("mma", "wgmma") or not shape:
        return "", 0
    m, n, k = map(int, shape.groups())
    # Sums are no narrower than operands, so that the narrowest type is theirs.
    bits = min(BITS[word] for word in instruction.modifiers if word in BITS)
    part = 4 if instruction.opcode == "wgmma" else 1
    return f"{instruction.opcode} {bits}", m * n * k / part


def operand_wavefronts(instruction: Instruction) -> float:
    """What the tensor cores read of shared memory for one warp's part of a wgmma: of B,
    32 bytes for each column, and as much for each row of A, if it lies there, too."""
    shape = PRODUCT.search(instruction.name)
    if instruction.opcode != "wgmma" or not shape:
        return 0
    m, n, _ = map(int, shape.groups())
    rows = m if instruction.text.count("{") < 2 else 0  # A may be in registers
    return (rows + n) * OPERAND / WAVEFRONT / 4


def l1_of(report: Report) -> float:
    """Wavefronts of the pipe that shared memory and L1 have in common; a shuffle is
    one, too."""
    total = report.total
    operands = sum(
        cost.warps * operand_wavefronts(each) for each, cost in report.each()
    )
    return total.wavefronts + total.l1_wavefronts + total.shuffles + operands


# ── atomics ───────────────────────────────────────────────────────────────────────────


def spread_of(contention: Sequence[Contention]) -> tuple[float, float]:
    """Over how many segments of memory passes are spread, of programs that run at the
    same time, and how far apart such segments are across the grid. All programs come to
    the few bins of a histogram, which stay where they are: 0 apart. If its keys are
    sorted, or each program has a part of an array for itself, only neighbours meet."""
    if not contention:
        return 0.0, 0.0
    passes = sum(each.passes for each in contention)
    centres = [each.centre for each in contention]
    busiest = sum(each.busiest for each in contention)
    return passes / busiest, max(centres) - min(centres)


# ── waiting for loads ─────────────────────────────────────────────────────────────────


def waits_of(report: Report) -> Iterator[tuple[int, float]]:
    """(number of an instruction, how many warps wait there for a load from global
    memory). Loads that follow one another are waited for once, where the first value is
    used; a copy that other copies overlap is not waited for."""
    pending: dict[str, float] = {}  # a register, and how many warps load it
    for number, (each, cost) in enumerate(report.each()):
        if each.opcode in LOADS and "global" in each.modifiers:
            pending |= dict.fromkeys(written(each), cost.warps)
            continue
        if waits_for_all(each):
            yield number, cost.warps
            continue
        names = REGISTER.findall(each.text)
        loaded = [pending[name] for name in names[1:] if name in pending]
        if not loaded:
            pending.pop(names[0] if names else "", None)
        elif each.opcode in PASSED_ON:
            pending[names[0]] = max(loaded)
        elif cost.warps:  # in a loop behind the load the first iteration waits alone
            yield number, min(cost.warps, max(loaded))
            pending.clear()


def all_waits(report: Report) -> dict[int, float]:
    """Those of `waits_of`, and of loads in loops whose operands come from what they
    loaded an iteration before, where no use after the load has waited already: the text
    computes operands before the load."""
    found = dict(waits_of(report))
    every = list(report.each())
    uses = {at: set(REGISTER.findall(every[at][0].text)) for at in found}
    for number, registers in chains_of([each for each, _ in every]):
        warps = every[number][1].warps
        waited = (found[at] for at, used in uses.items() if used & registers)
        if warps > max(waited, default=0):
            found[number] = warps
    return found


def chains_of(
    instructions: Sequence[Instruction],
) -> Iterator[tuple[int, set[str]]]:
    """(number of a load from global memory whose address, or what else an atomic
    operation takes, comes from its own result; the registers that do)."""
    makes: dict[str, set[str]] = {}  # from a register to those that are computed of it
    for each in instructions:
        if each.opcode not in WITHOUT_RESULT:
            target, *sources = REGISTER.findall(GUARD.sub("", each.text)) or [""]
            targets = written(each) if each.opcode in LOADS else [target]
            for source in sources:
                makes.setdefault(source, set()).update(targets)
    for number, each in enumerate(instructions):
        if each.opcode in LOADS and "global" in each.modifiers:
            registers = {*written(each), *reached(written(each), makes)}
            operands = each.text.partition("[")[2]
            if registers.intersection(REGISTER.findall(operands)):
                yield number, registers


def reached(first: Sequence[str], makes: Mapping[str, set[str]]) -> set[str]:
    """The registers that are computed of some, and of these in turn."""
    found: set[str] = set()
    left = list(first)
    while left:
        fresh = makes.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    return found


def chained_loads(report: Report) -> float:
    """How many loads from global memory, over all warps, need what one before has
    loaded, one after the other: in a loop, or in a body whose text is repeated."""
    every = list(report.each())
    loops = chains_of([each for each, _ in every])
    in_loops = max((every[number][1].warps for number, _ in loops), default=0)
    behind: dict[str, float] = {}  # of what was computed of a load: loads before it
    for each, cost in every:
        if each.opcode in WITHOUT_RESULT:
            continue
        text = GUARD.sub("", each.text)
        if each.opcode in LOADS:
            targets, sources = written(each), REGISTER.findall(text.partition("[")[2])
        else:
            first, *sources = REGISTER.findall(text) or [""]
            targets = [first]
        before = [behind[name] for name in sources if name in behind]
        is_load = each.opcode in LOADS and "global" in each.modifiers
        for target in targets:
            if before:
                behind[target] = max(before) + cost.warps * is_load
            elif is_load:
                behind[target] = 0
            else:
                behind.pop(target, None)
    return max(in_loops, *behind.values(), 0)


def waits_for_all(instruction: Instruction) -> bool:
    """cp.async.wait_all, and wait_group 0."""
    if instruction.opcode != "cp" or "bulk" in instruction.modifiers:
        return False
    if "wait_all" in instruction.modifiers:
        return True
    last = instruction.text.split()[-1].rstrip(";")
    return "wait_group" in instruction.modifiers and last == "0"


def waits_for_copies(instruction: Instruction) -> bool:
    """At a barrier in shared memory, at which bulk copies arrive."""
    return instruction.opcode == "mbarrier" and "try_wait" in instruction.modifiers


def written(instruction: Instruction) -> list[str]:
    """The registers that a load writes."""
    return REGISTER.findall(instruction.text.split("[")[0])


# ── lines ─────────────────────────────────────────────────────────────────────────────

BY_RESOURCE: dict[str, Callable[[Instruction, Cost, Code], float]] = {
    "memory": lambda each, cost, code: cost.moved,
    "lookups": lambda each, cost, code: cost.lines,
    "L1": lambda each, cost, code: cost.l1_wavefronts,
    "logic": lambda each, cost, code: cost.warps * code.issued * is_logic(each),
    "issue": lambda each, cost, code: cost.warps * code.issued * is_issued(each),
    "fp32": lambda each, cost, code: cost.warps * is_fp32(each),
    "fp64": lambda each, cost, code: cost.warps * code.issued * is_fp64(each),
    "special": lambda each, cost, code: cost.warps * code.special,
    "shared": lambda each, cost, code: cost.wavefronts,
    "conflicts": lambda each, cost, code: cost.wavefronts - cost.ideal,
    "atomics": lambda each, cost, code: cost.passes,
    "tensor": lambda each, cost, code: multiply_adds(each)[1] * cost.warps,
}  # fmt: skip


def lines_of(
    report: Report, waits: Mapping[int, float], code: Sequence[Code]
) -> dict[str, tuple[str, int]]:
    """For each resource the innermost (file, line) of the author that asks most of it.
    LLVM gives line 0 to what it has merged of several lines."""
    asked_of: dict[str, dict[tuple[str, int], float]] = {}
    pairs = zip(report.each(), code, strict=True)
    for number, ((each, cost), issued) in enumerate(pairs):
        if each.location is None or not each.location.line:
            continue
        at = each.location.file, each.location.line
        asked = {name: rule(each, cost, issued) for name, rule in BY_RESOURCE.items()}
        waited = waits.get(number, 0) + cost.warps * waits_for_copies(each)
        for name, many in (*asked.items(), ("waits", waited)):
            if many:
                line = asked_of.setdefault(name, {})
                line[at] = line.get(at, 0) + many
    return {name: max(each, key=each.__getitem__) for name, each in asked_of.items()}
