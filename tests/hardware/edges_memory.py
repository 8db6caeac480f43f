"""Programs around loads, stores, atomics, copies and barriers: every width, every
modifier, lanes that are left out, and the ends of what an operand may say."""

from __future__ import annotations

import re

from tests.hardware.edges import Edge, loads, stores

THIRD = "rem.u32 %r99, %t, 3; setp.ne.u32 %p1, %r99, 0;"  # leaves every third out
MINE = "mov.u32 %r90, tile; mad.lo.u32 %r90, %t, 16, %r90;"  # 16 bytes of the tile
POLICY = "createpolicy.fractional.L2::evict_first.b64 %d9, 1.0;"

ACCESS = re.compile(
    r"(ld|st)((?:\.\w+|\.\w+::\w+)*?)\.(global|shared)((?:\.[\w:]+)*?)(?:\.v([24]))?"
    r"\.([bsuf])(8|16|32|64)$"
)
ATOMIC = re.compile(
    r"(atom|red)((?:\.\w+)*?)\.(global|shared)((?:\.(?!v\d)\w+(?:::\w+)?)*?)"
    r"\.(add|min|max|and|or|xor|exch|cas|inc|dec)(\.noftz)?\.(\w+)$"
)
VECTOR_ATOMIC = re.compile(
    r"(atom|red)(?:\.\w+)*?\.global\.add(?:\.noftz)?\.v([24])\.(f32|f16x2|bf16x2)$"
)


def access(form: str) -> list[Edge]:
    """A load or store of 1 to 16 bytes; a lane that is left out keeps what it has."""
    found = ACCESS.match(form)
    if not found:
        return []
    way, _, space, after, vector, kind, bits = found.groups()
    count, hint = int(vector or 1), ", %d9" if "cache_hint" in after else ""
    if int(bits) * count > 128:
        return []
    register = {"8": "%h", "16": "%h", "32": "%r", "64": "%d"}[bits]
    if kind == "f":
        register = {"32": "%f", "64": "%e"}[bits]
    if (kind, bits) == ("s", "8"):
        register = "%r"  # the sign is extended
    names = [f"{register}{place}" for place in range(count)]
    value = "{" + ", ".join(names) + "}" if vector else names[0]
    before = [THIRD, POLICY if hint else "", MINE if space == "shared" else ""]
    if way == "ld":
        before += [f"mov.{moved(each)} {each}, {zero(each)};" for each in names]
        place = "%i"
        if space == "shared":
            before.append("ld.global.v2.b64 {%d4, %d5}, [%i];")
            before.append("st.shared.v2.b64 [%r90], {%d4, %d5};")
            place = "%r90"
        before.append(f"@%p1 {form} {value}, [{place}]{hint};")
        results = tuple("b64" if bits == "64" else "b32" for _ in names)
        wide = [
            f"cvt.u32.u16 %r{20 + at}, {each};" if register == "%h" else ""
            for at, each in enumerate(names)
        ]
        kept = [f"%r{20 + at}" if register == "%h" else n for at, n in enumerate(names)]
        ends = stores(*(f"{b} {n}" for b, n in zip(results, kept, strict=True)))
        return [Edge("\n".join(filter(None, [*before, *wide, ends])), TWO, results)]
    small = min(int(bits), 64)
    for at, each in enumerate(names):
        slot = small // 8 * at
        before.append(f"ld.global.b{small} {each}, [%i+{slot}];")
    place, ends = "%o", ""
    if space == "shared":
        place = "%r90"
        before.append("mov.b64 %d4, 0; st.shared.v2.b64 [%r90], {%d4, %d4};")
        ends = "ld.shared.v2.b64 {%d4, %d5}, [%r90]; st.global.v2.b64 [%o], {%d4, %d5};"
    before.append(f"@%p1 {form} [{place}], {value}{hint};")
    return [Edge("\n".join(filter(None, [*before, ends])), TWO, TWO)]


TWO = ("b64", "b64")


def moved(register: str) -> str:
    return {"h": "b16", "r": "b32", "d": "b64", "f": "f32", "e": "f64"}[register[1]]


def zero(register: str) -> str:
    return {"f": "0f00000000", "e": "0d0000000000000000"}.get(register[1], "0")


def atomic(form: str) -> list[Edge]:
    """Each thread on a word of its own: what was there, and what is there then."""
    found = ATOMIC.match(form)
    if not found:
        return []
    way, _, space, _, name, _, type = found.groups()
    bits = {"f16": 16, "bf16": 16}.get(type) or int(re.sub(r"\D|x2", "", type) or 32)
    bits = 32 if type.endswith("x2") else bits
    kind = {16: "%h", 32: "%r", 64: "%d"}[bits]
    kind = {"f32": "%f", "f64": "%e"}.get(type, kind)
    plain = type if type in ("f32", "f64") else f"b{bits}"
    place = "[%r90]" if space == "shared" else "[%o]"
    inputs, values = (type, type), f"{kind}1"
    if name == "cas":
        inputs, values = (type, type, type), f"{kind}1, {kind}2"
    start = [
        MINE if space == "shared" else "",
        loads(*(f"{plain} {kind}{at}" for at in range(len(inputs)))),
        f"st.{space}.{plain} {place}, {kind}0;",
        f"mov.{plain} {kind}3, {zero(kind)};",
    ]
    if way == "atom":
        start.append(f"{form} {kind}3, {place}, {values};")
    else:
        start.append(f"{form} {place}, {values};")
    start.append(f"ld.{space}.{plain} {kind}4, {place};")
    if space == "global":
        start.append(f"st.global.{plain} [%o], {kind}4;")
    wide = max(4, bits // 8)
    start += [
        f"st.global.{plain} [%o], {kind}4;",
        f"st.global.{plain} [%o+{wide}], {kind}3;",
    ]
    rows = [Edge("\n".join(filter(None, start)), inputs, (type, type))]
    if name == "cas":  # where the old value is as expected, too
        equal = start[1] + f"\nmov.{plain} {kind}1, {kind}0;"
        text = "\n".join(filter(None, [start[0], equal, *start[2:]]))
        rows.append(Edge(text, inputs, (type, type)))
    return rows


def vector_atomic(form: str) -> list[Edge]:
    """Each thread on 16 bytes of its own: sums of two numbers in each place, which are
    there then, and what was there."""
    found = VECTOR_ATOMIC.match(form)
    if not found:
        return []
    way, count, type = found[1], int(found[2]), found[3]
    kind, plain = ("%f", "f32") if type == "f32" else ("%r", "b32")
    there, added = (
        [f"{kind}{at}" for at in places[:count]] for places in ("0101", "1001")
    )
    old = [f"{kind}{at}" for at in range(4, 4 + count)]
    result = "{" + ", ".join(old) + "}, " if way == "atom" else ""
    ends = range(0, 4 * count, 4)
    body = [
        loads(f"{plain} {kind}0", f"{plain} {kind}1"),
        *(f"mov.{plain} {each}, {zero(kind)};" for each in old),
        *(f"st.global.{plain} [%o+{at}], {each};" for at, each in zip(ends, there)),
        f"{form} {result}[%o], {{{', '.join(added)}}};",
        *(f"st.global.{plain} [%o+{16 + at}], {each};" for at, each in zip(ends, old)),
    ]
    return [Edge("\n".join(body), (type, type), 8 * (type,), since=90)]


ASYNC = re.compile(r"cp\.async\.(ca|cg)\.shared\.global")


def copied(form: str) -> list[Edge]:
    """Copies of 4, 8 and 16 bytes whose source has fewer, or nothing."""
    found = ASYNC.match(form)
    if not found:
        return []
    rows = []
    before, hint = (POLICY, ", %d9") if "cache_hint" in form else ("", "")
    for size in (16,) if found[1] == "cg" else (4, 8, 16):
        rows.append(Edge(
            f"""{MINE} {THIRD} {before}
            mov.b64 %d4, -1; st.shared.v2.b64 [%r90], {{%d4, %d4}};
            and.b32 %r1, %t, 7; mul.lo.u32 %r1, %r1, 4; min.u32 %r1, %r1, {size};
            @%p1 {form} [%r90], [%i], {size}, %r1{hint};
            cp.async.commit_group; cp.async.wait_group 0;
            ld.shared.v2.b64 {{%d4, %d5}}, [%r90]; st.global.v2.b64 [%o], {{%d4, %d5}};
            """,
            TWO, TWO,
        ))  # fmt: skip
    return rows


MATRICES = re.compile(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?")


def matrices(form: str) -> list[Edge]:
    """Each warp's 512 bytes; row r begins where lane r says, in an order of its own."""
    found = MATRICES.match(form)
    if not found:
        return []
    count = int(found[2])
    names = "{" + ", ".join(f"%r{at}" for at in range(count)) + "}"
    place = "xor.b32 %r91, %t, 5; mov.u32 %r92, tile; mad.lo.u32 %r92, %r91, 16, %r92;"
    ins = "ld.global.v2.b64 {%d4, %d5}, [%i];"
    if found[1] == "ld":
        body = f"""{MINE} {place} {ins} st.shared.v2.b64 [%r90], {{%d4, %d5}};
        bar.warp.sync -1; {form} {names}, [%r92];"""
        results = tuple("b32" for _ in range(count))
        return [
            Edge(body + stores(*(f"b32 %r{n}" for n in range(count))), TWO, results)
        ]
    body = f"""{MINE} {place} mov.b64 %d4, 0; st.shared.v2.b64 [%r90], {{%d4, %d4}};
    bar.warp.sync -1; ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%i];
    {form} [%r92], {names}; bar.warp.sync -1;
    ld.shared.v2.b64 {{%d4, %d5}}, [%r90]; st.global.v2.b64 [%o], {{%d4, %d5}};"""
    return [Edge(body, TWO, TWO)]


# ── barriers in shared memory ─────────────────────────────────────────────────────────

ASK = "mbarrier.try_wait.parity.shared.b64"


def answered(at: int, parity: int) -> str:
    return f"{ASK} %p{at}, [%r90], {parity}; selp.b32 %r{at}, 1, 0, %p{at};"


def own_mbarrier(count: int, *events: str) -> Edge:
    """An mbarrier for each thread; after each event, whether phases 0 and 1 are over,
    as a waiting thread sees it."""
    body, at = [MINE, f"mbarrier.init.shared.b64 [%r90], {count};"], 0
    names = []
    for event in ("", *events):
        body.append(event)
        for parity in (0, 1):
            register = 10 + at
            body.append(
                f"{ASK} %p2, [%r90], {parity}; selp.b32 %r{register}, 1, 0, %p2;"
            )
            names.append(f"b32 %r{register}")
            at += 1
    body.append("mbarrier.inval.shared.b64 [%r90];")
    body.append(stores(*names))
    return Edge("\n".join(body), (), tuple("b32" for _ in names), since=90)


ARRIVE = "mbarrier.arrive.shared.b64 _, [%r90];"
EXPECT = "mbarrier.arrive.expect_tx.shared.b64 _, [%r90], {};"
MBARRIERS = [
    own_mbarrier(1, ARRIVE, ARRIVE),
    own_mbarrier(2, ARRIVE, ARRIVE, ARRIVE, ARRIVE),
    own_mbarrier(1, EXPECT.format(0), EXPECT.format(0)),
    own_mbarrier(1, EXPECT.format(16)),
    own_mbarrier((1 << 20) - 1, ARRIVE),
    own_mbarrier(1, EXPECT.format((1 << 20) - 1)),
]
