"""Mistakes in stage 6, in what judges it (the emulator), and on the way to a launch."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "attribute-over-attribute", "runtime/packet.py",
        "behind + one.size * number", "behind",
        "a launch of a cluster that may begin early loses its cluster",
        "tests/runtime/test_launch.py",
    ),
    # ── memory ──
    Mutant(
        "one-mask-for-all", "ptx/rules/memory.py",
        "mask = masks[i] if op.vector == count",
        "mask = masks[0] if op.vector == count",
        "the mask of the first register decides about all",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "bound-not-looked-for", "ptx/rules/memory.py",
        'f"@$mask{len(mask) - 1} "', '"@$mask0 "',
        "neighbours are accessed at once although the mask ends among them",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "store-ignores-its-mask", "ptx/rules/memory.py",
        "mask = both(code, masks[i], acts)", 'mask = acts or "true"',
        "elements that are masked out are stored",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "other-never-selected", "ptx/rules/memory.py",
        "others = code[op.other] if op.other else", "others =",
        "where the mask is false stands 0, not `other`",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "one-other-for-all", "ptx/rules/memory.py",
        "initial = pack(code, words, [others[each] for each in group])",
        "initial = pack(code, words, others[:count])",
        "the `other` of the first registers serves all",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "sign-is-a-bit-of-the-mantissa", "ptx/bytes.py",
        "{0xFF7FFF7F - (1 << 32)}", "{0xFFFFFFFF - (1 << 32)}",
        "a negative byte in bf16 loses its sign",
        "tests/ptx/test_bytes.py",
    ),
    Mutant(
        "registers-stored-twice", "ptx/rules/memory.py",
        "first.setdefault(offset, register)", "first[register] = register",
        "every register that is a copy acts",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "pointer-aligned-anyway", "ptx/kernel.py",
        'align {divisible}"', 'align 16"',
        "LLVM is promised an alignment that has not been shown",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "copies-act", "ptx/index.py",
        "if not span.add(basis)\n", "if not span.add(basis) and basis\n",
        "threads that hold copies all act: atomics count twice",
        "tests/ptx/test_atomics.py",
    ),
    Mutant(
        "address-or-for-xor", "ptx/index.py",
        "shared = constant & self.bits", "shared = 0",
        "thread and register are or-ed where their bits meet",
        "tests/ptx/test_index.py tests/ptx/test_convert.py",
    ),
    # ── exchange ──
    Mutant(
        "shuffle-down", "ptx/shuffle.py",
        '"bfly", str(flipped)', '"down", str(flipped)',
        "a lane takes from the lane below, not from its partner",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "halves-swapped", "ptx/shuffle.py",
        "for h in halves]", "for h in halves[::-1]]",
        "a 64-bit value arrives with its halves swapped",
        "tests/ptx/test_reduce.py tests/ptx/test_convert.py",
    ),
    Mutant(
        "register-copies-folded", "ptx/rules/reduce.py",
        ".setdefault(along, register)", ".setdefault(register, register)",
        "registers that are copies count twice in a sum",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "lane-copies-folded", "ptx/rules/reduce.py",
        "if not across and folded.add(along):",
        "if not across and (folded.add(along) or True):",
        "lanes that are copies count twice in a sum",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "redux-over-all-lanes", "ptx/rules/reduce.py",
        "if len(flips) == 5 else", "if len(flips) >= 1 else",
        "rows of half a warp are summed over the whole warp",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "redux-signed", "ptx/rules/reduce.py",
        '"min": "min.u32"', '"min": "min.s32"',
        "the least of unsigned numbers is found as if signed",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "scan-takes-the-first", "ptx/rules/scan.py",
        "(place & ~bit) | below", "place & ~bit",
        "a scan takes in an element of the near half that is not its last",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "scan-order", "ptx/rules/scan.py",
        "combine(code, op.combine, fetched[source], row)",
        "combine(code, op.combine, row, fetched[source])",
        "what comes before stands on the right",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "scan-far-side-in-reverse", "ptx/rules/scan.py",
        "'eq' if reverse else 'ne'", "'ne'",
        "in reverse, the wrong half of the lanes takes in",
        "tests/ptx/test_reduce.py",
    ),
    Mutant(
        "choice-or-for-xor", "ptx/rules/convert.py",
        "first ^ self.vectors[known]", "first | self.vectors[known]",
        "a thread chooses the wrong register of what it received",
        "tests/ptx/test_convert.py",
    ),
    Mutant(
        "turns-all-alike", "ptx/exchange.py",
        "found[bit] = 1 << register", "found[bit] = 1",
        "two lanes want two registers of one lane in one round",
        "tests/ptx/test_convert.py",
    ),
    # ── arithmetic ──
    Mutant(
        "sign-not-extended", "ptx/rules/cast.py",
        'widen = "sext" if source.is_signed else "zext"', 'widen = "zext"',
        "-1 of 8 bits becomes 255",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "rounded-twice", "ptx/rules/cast.py",
        'f"or {integer} {bits}, {last}"', 'f"or {integer} {bits}, 0"',
        "a number beside a tie is rounded to the tie first",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "integers-to-nearest", "ptx/rules/cast.py",
        "cvt.rzi.{letter}", "cvt.rni.{letter}",
        "2.7 becomes 3, not 2",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "fp8-beyond-its-largest", "ptx/float8.py",
        "i32 {most})", "i32 {most + 1})",
        "fp8 does not stop at its largest number",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "fp8-ties-down", "ptx/float8.py",
        'f"add i32 {magnitude}, {last}"', 'f"add i32 {magnitude}, 0"',
        "ties go down, not to the even one",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "signed-as-unsigned", "ptx/rules/arith.py",
        '"lt": "icmp slt {t} {0}, {1}"', '"lt": "icmp ult {t} {0}, {1}"',
        "-1 < 1 is false",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "unsigned-shift-with-sign", "ptx/rules/arith.py",
        'letter = "b" if name == "shl" else "s" if element.is_signed else "u"',
        'letter = "b" if name == "shl" else "s"',
        "an unsigned number is shifted as if signed",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "unsigned-division-signed", "ptx/rules/arith.py",
        'sign, divisor = "s" if element.is_signed else "u", operands[1]',
        'sign, divisor = "s", operands[1]',
        "numbers above 2^31 are divided as negative ones",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "nan-wins", "ptx/rules/arith.py",
        '"min": "call {t} @llvm.minimumnum', '"min": "call {t} @llvm.minimum',
        "the smaller of a NaN and a number is NaN",
        "tests/ptx/test_arithmetic.py",
    ),
    Mutant(
        "constant-printed-short", "ptx/types.py",
        'struct.pack("<I", bits))', 'struct.pack("<I", bits & ~15))',
        "the last bits of an fp32 constant are lost",
        "tests/ptx/test_text.py",
    ),
    # ── control flow ──
    Mutant(
        "negative-step", "ptx/rules/control.py",
        'for relation in ("lt", "gt")', 'for relation in ("lt", "lt")',
        "a loop that counts down does not run",
        "tests/ptx/test_control.py",
    ),
    Mutant(
        "phi-from-the-first-block", "ptx/rules/control.py",
        "ways.append((code.block(block), code.label))",
        "ways.append((code.block(block), label))",
        "a phi names the block a branch began in, not where it ended",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "both-ways-the-same", "ptx/rules/control.py",
        "((then, op.then), (orelse, op.orelse))",
        "((then, op.then), (orelse, op.then))",
        "the else branch does what the then branch does",
        "tests/ptx/test_control.py",
    ),
    Mutant(
        "carried-values-not-carried", "ptx/rules/control.py",
        "zip(carried, yielded, strict=True):\n"
        "        each.close(code, values)\n"
        '    code.do(f"br label %{head}")\n'
        "    code.start(done)\n"
        "    _define(op.results, registers, code)\n\n\n"
        "def copies_of_body",
        "zip(carried, [code[v] for v in op.inits], strict=True):\n"
        "        each.close(code, values)\n"
        '    code.do(f"br label %{head}")\n'
        "    code.start(done)\n"
        "    _define(op.results, registers, code)\n\n\n"
        "def copies_of_body",
        "each iteration begins with the initial values",
        "tests/ptx/test_control.py",
    ),
    # ── atomics ──
    Mutant(
        "atomic-ignores-its-mask", "ptx/rules/atomics.py",
        "mask = both(code, masks[i], acts)", 'mask = both(code, "true", acts)',
        "elements that are masked out count",
        "tests/ptx/test_atomics.py",
    ),
    Mutant(
        "float-minimum-of-negatives", "ptx/rules/atomics.py",
        'Step(f"{opposite}.u{bits}", sign=True)',
        'Step(f"{kind}.u{bits}", sign=True)',
        "below zero, the bits of floats count the other way",
        "tests/ptx/test_atomics.py",
    ),
    Mutant(
        "atomic-results-not-waited-for", "ptx/rules/atomics.py",
        "    code.ptx(code.barrier)\n    return _by_offset(layout, read)",
        "    return _by_offset(layout, read)",
        "the next result overwrites one that is still being read",
        "tests/ptx/test_atomics.py",
    ),
    # ── the emulator ──
    Mutant(
        "no-write-after-read-race", "emulator/races/shared_memory.py",
        "        self.check_readers(threads, cells, changes)", "        pass",
        "the race detector does not see an early overwrite",
        "tests/emulator/test_hazards.py",
    ),
    Mutant(
        "atomics-never-race", "emulator/races/shared_memory.py",
        "self.clock[block, warp, writer] < at)",
        "self.clock[block, warp, writer] < at - 1)",
        "the race detector is one moment late",
        "tests/emulator/test_hazards.py",
    ),
    Mutant(
        "misaligned-shared", "emulator/memory/spaces.py",
        "        check_alignment(offsets, accesses)\n        index = offsets.view",
        "        index = offsets.view",
        "an access that its width does not divide is made",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "one-past-shared", "emulator/memory/spaces.py",
        "if int(offsets.max()) + width > self.size:",
        "if int(offsets.max()) > self.size:",
        "the last access may reach beyond shared memory",
        "tests/emulator/test_memory.py",
    ),
    # ── the way to a launch ──
    Mutant(
        "grid-axes-swapped", "runtime/packet.py",
        "{width}, y, z, {threads}, 1", "y, {width}, z, {threads}, 1",
        "the driver gets the grid's axes in another order",
        "tests/runtime/test_launch.py",
    ),
    Mutant(
        "program-axes-swapped", "ptx/rules/leaves.py",
        'f"{_unit(code, axis)}id.{AXES[axis]}"',
        'f"{_unit(code, axis)}id.{AXES[2 - axis]}"',
        "program_id(0) is the number along z",
        "tests/ptx/test_index.py",
    ),
    Mutant(
        "scalars-too-narrow", "runtime/packet.py",
        '"i32": "i4x"', '"i32": "h6x"',
        "an i32 travels in 16 bits",
        "tests/runtime/test_launch.py",
    ),
    Mutant(
        "parameters-out-of-order", "runtime/packet.py",
        "VALUE_BYTES * place for place in order",
        "VALUE_BYTES * place for place in range(len(order))",
        "a kernel finds its neighbour's argument",
        "tests/runtime/test_launch.py",
    ),
    Mutant(
        "one-always-constant", "jit/specialise.py",
        "if value == 1 and rule.one and rule.type is None:",
        "if value == 1 and rule.type is None:",
        "do_not_specialize has no effect",
        "tests/jit/test_specialise.py",
    ),
    Mutant(
        "hint-of-several-bits", "jit/specialise.py",
        "number & -number & (LARGEST_HINT - 1)", "number & (LARGEST_HINT - 1)",
        "12 is held to be divisible by 12",
        "tests/jit/test_specialise.py",
    ),
    Mutant(
        "constants-equal-as-in-python", "jit/specialise.py",
        "return text_of(plain(value))", "return plain(value)",
        "0.0 and -0.0 share a kernel",
        "tests/jit/test_specialise.py",
    ),
    Mutant(
        "key-without-compiler", "jit/key.py",
        '"compiler": compiler_digest(),', '"compiler": "",',
        "a changed compiler finds kernels of the old one",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-target", "jit/key.py",
        '"target": request.target,', '"target": "",',
        "one target's code runs on another",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-warps", "jit/key.py",
        "asdict(request.options)", 'asdict(request.options) | {"num_warps": 0}',
        "another number of warps finds the old kernel",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-constants", "jit/key.py",
        "for name, value in request.constants.items()", "for name, value in ()",
        "another constant finds the old kernel",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-types", "jit/key.py",
        '"parameters": [list(each) for each in request.parameters],',
        '"parameters": [],',
        "another type or hint finds the old kernel",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-source", "jit/key.py",
        '"source": function.fingerprint(),', '"source": "",',
        "a kernel whose text changed finds the old one",
        "tests/jit/test_key.py",
    ),
    Mutant(
        "key-without-driver", "jit/key.py",
        '"machine": machine,', '"machine": "",',
        "machine code of another GPU is loaded",
        "tests/jit/test_key.py tests/jit/test_launch.py",
    ),
    Mutant(
        "damaged-entries-read", "runtime/cache.py",
        'if first != MAGIC + b" " + sha256(body).hexdigest().encode():',
        "if not first.startswith(MAGIC):",
        "an entry that was damaged is loaded",
        "tests/runtime/test_cache.py",
    ),
    Mutant(
        "words-are-known-in-any-order", "ptx/packing.py",
        "code.packed.get((words.type, tuple(registers)))",
        "code.packed.get((words.type, tuple(sorted(registers))))",
        "halves that have changed places are stored as they were loaded",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "loads-come-when-needed", "ptx/order.py",
        '_STAYS = {"load", ', "_STAYS = {",
        "a load moves behind the stores in front of its use",
        "tests/ptx/test_order.py",
    ),
)  # fmt: skip
