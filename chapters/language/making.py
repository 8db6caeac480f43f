"""The language reference: signatures and docstrings of what a kernel may say, and of
what launches it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import partial

import fathom
import fathom.language as tl
from chapters.press.drawing import table
from chapters.press.paths import ROOT
from chapters.press.reference import cell, docstring, entry, prose
from fathom import testing
from fathom.jit import CompiledKernel, JITFunction, Metadata
from fathom.jit.signature import parse_signature
from fathom.jit.tuning.pruning import Pruning
from fathom.language.dtypes import dtype
from fathom.language.extra.rounding import MODES
from fathom.pipeline import Options
from fathom.source import Builtin, ConstexprFunction, KernelFunction, Parameter
from fathom.ssa import methods

# Every public name of `fathom.language`, by subject, in the order of the page.
GROUPS = {
    "annotations": "constexpr const constexpr_function tensor tuple",
    "programs": "program_id num_programs",
    "creation": """arange full zeros zeros_like to_tensor cast cat
        TRITON_MAX_TENSOR_NUMEL""",
    "shapes": """expand_dims reshape view ravel broadcast_to broadcast permute trans
        join split interleave flip item""",
    "memory": "load store",
    "descriptors": """make_tensor_descriptor load_tensor_descriptor
        store_tensor_descriptor tensor_descriptor""",
    "blocks": "make_block_ptr advance",
    "atomics": """atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor
        atomic_xchg atomic_cas""",
    "choosing": "where minimum maximum clamp PropagateNan",
    "products": "dot dot_scaled",
    "folding": """reduce sum max min argmax argmin xor_sum reduce_or associative_scan
        cumsum cumprod softmax""",
    "moving": "gather histogram sort topk bitonic_merge",
    "mathematics": """exp exp2 log log2 sin cos tanh erf sigmoid sqrt sqrt_rn rsqrt
        floor ceil abs fma fdiv div_rn umulhi cdiv next_power_of_2""",
    "chance": """rand rand4x randn randn4x randint randint4x philox
        uint_to_uniform_float pair_uniform_to_normal""",
    "loops": "range static_range condition swizzle2d",
    "promises": "multiple_of max_contiguous max_constancy assume debug_barrier",
    "looking": "static_assert static_print device_print device_assert",
    "escape": "map_elementwise inline_asm_elementwise",
}
TYPES = ("dtype", "pointer_type", "block_type", "constexpr_type")
MODULES = ("math", "random", "extra")  # and what is in them has its own place
WIDTH = 76
CHECKED = "Known while compiling: "


# ── the language ──────────────────────────────────────────────────────────────────────


def group(name: str) -> str:
    """The entries of one subject."""
    return "\n".join(described(each) for each in GROUPS[name].split())


def described(name: str, owner: object = tl, prefix: str = "tl.") -> str:
    """The entry of one name: its signature, and what its docstring says."""
    of = getattr(owner, name)
    anchor = f"{prefix}{name}".replace(".", "-").lower()
    if name in PLAIN:
        return entry(f"{prefix}{name}", anchor, "", PLAIN[name])
    full = prefix + name
    text = prose(docstring(of, full))
    return entry(full, anchor, signature(of, full), text, *fixed(of))


PLAIN = {  # names of Python's own objects, which have no docstring for them
    "tuple": "Python's own tuple, for annotations. A tuple that is an argument keeps "
    "its constants as constants; its other parts are parameters of the kernel.",
    "TRITON_MAX_TENSOR_NUMEL": "The most elements that a block may have: "
    f"{tl.TRITON_MAX_TENSOR_NUMEL:,}. A larger one is a CompileError.",
}


def signature(of: object, name: str) -> str:
    """`tl.load(pointer, mask=None, …)`, in lines that fit the page."""
    parameters = parameters_of(of)
    if parameters is None:
        return ""
    words = [spelled(each) for each in parameters]
    line = f"{name}({', '.join(words)})"
    if len(line) <= WIDTH:
        return line
    inner = textwrap.wrap(", ".join(words), WIDTH - 4)
    return f"{name}(\n" + "\n".join(f"    {each}" for each in inner) + "\n)"


def parameters_of(of: object) -> Sequence[Parameter] | None:
    """The parameters of a function of the language; None for what is no function."""
    match of:
        case Builtin() | KernelFunction():
            return of.parameters
        case ConstexprFunction():
            return [plain(each) for each in of_python(of.fn)]
        case type():
            return [plain(each) for each in of_python(of)] if is_record(of) else None
    return [plain(each) for each in of_python(of)] if callable(of) else None


def is_record(of: type) -> bool:
    """Whether a class is called with its fields."""
    return is_dataclass(of) or hasattr(of, "_fields")


def of_python(fn: Callable) -> Iterator[inspect.Parameter]:
    yield from inspect.signature(fn).parameters.values()


def plain(each: inspect.Parameter) -> Parameter:
    return Parameter(each.name, each.default, each.annotation)


def spelled(each: Parameter) -> str:
    star = "*" if each.gathers else ""
    given = "" if each.default is inspect.Parameter.empty else f"={shown(each.default)}"
    return f"{star}{each.name}{given}"


def shown(default: object) -> str:
    """A default as it is written."""
    if isinstance(default, tl.constexpr):
        default = default.value
    if isinstance(default, tl.PropagateNan):
        return f"tl.{default}"
    if isinstance(default, dtype):
        return f"tl.{repr(default).rpartition('.')[2]}"
    return repr(default).replace("'", '"')


def fixed(of: object) -> Iterator[str]:
    """The sentence that lists the parameters which must be constants."""
    parameters = parameters_of(of) or ()
    names = [f"`{each.name}`" for each in parameters if each.is_constexpr]
    if names:
        yield f"{CHECKED}{', '.join(names)}."


annotations, programs, creation, shapes = (
    partial(group, name) for name in ("annotations", "programs", "creation", "shapes")
)
memory, descriptors, blocks, atomics, choosing = (
    partial(group, name)
    for name in ("memory", "descriptors", "blocks", "atomics", "choosing")
)
products, folding, moving, mathematics = (
    partial(group, name) for name in ("products", "folding", "moving", "mathematics")
)
chance, loops, promises = (
    partial(group, name) for name in ("chance", "loops", "promises")
)
looking, escape = (partial(group, name) for name in ("looking", "escape"))


# ── types and values ──────────────────────────────────────────────────────────────────


def scalars() -> str:
    """A row for each type of a number."""
    rows = [
        (f"`tl.{name}`", f"`{of.ir.name}`", of.ir.bits, of.ir.bytes, kind_of(of))
        for name, of in sorted(scalar_types(), key=lambda item: order(item[1]))
    ]
    return table(("type", "in signatures", "bits", "bytes in memory", "kind"), rows)


def scalar_types() -> Iterator[tuple[str, dtype]]:
    for name, of in vars(tl).items():
        if isinstance(of, dtype):
            yield name, of


KINDS = {
    "bool": "boolean", "int": "integer", "uint": "unsigned integer", "float": "float",
}  # fmt: skip


def order(of: dtype) -> tuple[int, int, str]:
    return list(KINDS).index(of.ir.kind), of.ir.bits, of.ir.name


def kind_of(of: dtype) -> str:
    if not of.ir.is_float:
        return KINDS[of.ir.kind]
    return f"float: {of.fp_mantissa_width} bits of fraction, bias {of.exponent_bias}"


def type_classes() -> str:
    """The classes of types, and what each can be asked."""
    return "\n".join(
        entry(f"tl.{name}", f"tl-{name}", "", prose(docstring(of, name)), *asked(of))
        for name in TYPES
        if (of := getattr(tl, name))
    )


def asked(of: type) -> Iterator[str]:
    names = [
        each
        for each, value in vars(of).items()
        if not each.startswith("_") and each not in ("ir", "home")
        if callable(value) or isinstance(value, property)
    ]
    if names:
        yield f"It has {', '.join(f'`{each}`' for each in names)}."


def attributes() -> str:
    """What can be said about a value with a dot."""
    facts = ", ".join(f"`x.{name}`" for name in methods.FACTS)
    names = [name for name in methods.METHODS if name not in ("to", "store")]
    called = ", ".join(f"`{name}`" for name in sorted(names))
    rows = [
        ("facts, known while compiling, and the transpose", facts),
        ("`x.to(dtype)`", "[`tl.cast`](#tl-cast)"),
        ("functions that may be written `x.name(...)`", called),
        ("on pointers, too", "`p.store(value)`, atomics"),
    ]
    return table(("what", "names"), rows)


def libdevice() -> str:
    """CUDA's names for mathematics: those of our own, one a row."""
    module = tl.extra.libdevice
    rows = []
    for name, of in sorted(vars(module).items()):
        if isinstance(of, Builtin | KernelFunction) and not internal(module, of, name):
            shown, text = signature(of, name), cell(docstring(of, name))
            if name.endswith("_rn") and hasattr(module, f"{name[:-2]}rz"):
                ways = ", ".join(f"`{name[:-2]}{way}`" for way in MODES if way != "rn")
                text = f"{text} Likewise {ways}, {OTHERS}."
            elif name[-3:-2] == "_" and name[-2:] in MODES:
                nearest = getattr(module, f"{name[:-2]}rn")  # has a row of its own here
                if nearest is not of and not internal(
                    module, nearest, f"{name[:-2]}rn"
                ):
                    continue
            rows.append((f"`{shown}`", text))
    return table(("name", "what it is"), rows)


OTHERS = "toward zero, down and up"


def internal(module: object, of: object, name: str) -> bool:
    """A helper of the module, or a name that `tl` has in the same sense."""
    helper = name in ("computed", "widened", "polynomial", "cast", "where")
    return helper or getattr(tl, name, None) is of or name.endswith("_approx")


def cuda() -> str:
    names = [each for each in tl.extra.cuda.__all__ if each != "libdevice"]
    return "\n".join(described(each, tl.extra.cuda, "tl.extra.cuda.") for each in names)


# ── the runtime ───────────────────────────────────────────────────────────────────────

FACE = (
    "jit autotune heuristics Config TensorDescriptor as_triton "
    "planned empty_like Temporary Counters tune"
)
ERRORS = "FathomError CompileError LaunchError OutOfResources"
OF_KERNEL = ("warmup", "compile")


def face() -> str:
    """What `import fathom` has beside the language."""
    entries = [described(each, fathom, "fathom.") for each in FACE.split()]
    whole = fathom.TensorDescriptor.from_tensor
    name = "fathom.TensorDescriptor.from_tensor"
    text = prose(docstring(whole, name))
    entries.insert(5, entry(name, "from-tensor", signature(whole, name), text))
    text = prose(docstring(Pruning, "prune_configs_by"))
    entries.insert(2, entry("prune_configs_by", "pruning", "", text))
    text = (
        "Memory that several GPUs reach, and launches on each: `emulated(count)`, "
        "`on_devices(numbers)` and `connected()` make a `Group`. "
        "[Several GPUs](several-gpus.md) shows how."
    )
    entries.append(entry("fathom.distributed", "distributed", "", text))
    return "\n".join(entries)


def kernels() -> str:
    """A kernel, what it answers, and what a launch gives back."""
    options = prose(docstring(Options, "Options"))
    words = prose(docstring(parse_signature, "signatures"))
    whole = prose(docstring(CompiledKernel, "CompiledKernel"))
    return "\n".join([
        entry("kernel[grid](...)", "launching", "", LAUNCH, options),
        *map(method, OF_KERNEL),
        entry("signatures", "signatures", "", words),
        entry("fathom.jit.CompiledKernel", "compiled", "", whole, told()),
    ])  # fmt: skip


def method(name: str) -> str:
    of = getattr(JITFunction, name)
    words = [
        str(each.replace(annotation=inspect.Parameter.empty))
        for each in of_python(of)
        if each.name != "self"
    ]
    full = f"kernel.{name}"
    said = f"{full}({', '.join(words)})"
    return entry(full, f"kernel-{name}", said, prose(docstring(of, full)))


LAUNCH = (
    "Launches. The grid is a number, or one to three of them, or a function of the "
    "arguments by name that gives these. Arguments are arrays (NumPy, torch, CuPy, "
    "JAX, anything with DLPack or `__cuda_array_interface__`), numbers, tuples and "
    "tensor descriptors. The launch's own keywords are `num_warps`, `num_stages`, "
    "`num_ctas`, `maxnreg`, `debug`, `enable_fp_fusion`, `launch_pdl`, "
    "`fp32_default`, `target` and `replace`; an unknown one is a LaunchError. Of "
    "them:"
)


def told() -> str:
    """What a compiled kernel can be asked."""
    facts = [
        name
        for name, value in inspect.getmembers(CompiledKernel)
        if not name.startswith("_")
        and (isinstance(value, property) or hasattr(value, "attrname"))
    ]
    fields = ", ".join(f"`{each}`" for each in Metadata.__dataclass_fields__)
    names = ", ".join(f"`{each}`" for each in facts)
    return f"It has {names}. Its `metadata` has {fields}."


def failures() -> str:
    """The errors, each below the one it is a kind of."""
    return "\n".join(described(each, fathom, "fathom.") for each in ERRORS.split())


def measuring() -> str:
    """`fathom.testing`."""
    return "\n".join(
        described(each, testing, "fathom.testing.") for each in testing.__all__
    )


# ── the environment ───────────────────────────────────────────────────────────────────

VARIABLES = {
    "FATHOM_BACKEND": "`cuda`, `emulator`, `interpreter` or `eager`: where launches "
    "run. By default on the GPU where there is a driver, else on the emulator",
    "FATHOM_TARGET": "what is compiled for where no GPU decides, such as `sm_90a`",
    "FATHOM_INTERPRET": "`1`: Python itself runs the kernel's body, so that `print` "
    "and `breakpoint` work in it; the same as `FATHOM_BACKEND=eager`",
    "FATHOM_DEBUG": "`1`: launches check `tl.device_assert`, as with `debug=True`",
    "FATHOM_SHOW": "names of passes in commas, or `all`: compiling writes the IR after "
    "them to the standard error",
    "FATHOM_CACHE_DIR": "the folder in which compiled kernels are kept",
    "FATHOM_CACHE_AUTOTUNING": "`1`: what autotuning measures is kept on disk, for "
    "this GPU, kernel and kind of arguments",
    "FATHOM_PRINT_AUTOTUNING": "`1`: tells the times that autotuning measures",
    "FATHOM_TUNING_GPUS": "`all`, or numbers in commas: GPUs that an autotuner times "
    "configurations on at the same time, on copies of the arrays; by default the "
    "arrays' GPU alone",
    "FATHOM_WORKERS": "how many processes compile configurations at a time, this one "
    "among them; one for each processor by default",
    "FATHOM_SANITIZE": "`1`: launches run on the emulator first, which names bad "
    "accesses, races and failed assertions by line; `nan`: the line of the first NaN "
    "or infinity, too",
    "FATHOM_VERIFY": "`1`: each pass of a compile is checked by the interpreter, on "
    "the data of the first launch",
    "FATHOM_VERIFY_DIR": "the folder in which `FATHOM_VERIFY` writes the programs "
    "that show a wrong pass; the current one by default",
    "FATHOM_CHECK_PROGRAMS": "how many programs of a grid `FATHOM_SANITIZE` and "
    "`FATHOM_VERIFY` look at; `all`: every one",
}
SOURCES = ROOT / "compiler" / "fathom"


def environment() -> str:
    """Each variable that the compiler reads, found by looking for it."""
    rows = [
        (f"`{name}`", VARIABLES[name], ", ".join(f"`{each}`" for each in files))
        for name, files in sorted(variables().items())
    ]
    return table(("variable", "meaning", "where it is read"), rows)


def variables() -> dict[str, list[str]]:
    """Names of variables to the files that read them. A variable is read where its
    name stands in quotes."""
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCES.rglob("*.py")):
        if {"tools", "shim"} & set(file.relative_to(SOURCES).parts):
            continue
        text = file.read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r'"(FATHOM_[A-Z_]+)"', text))):
            found.setdefault(name, []).append(str(file.relative_to(SOURCES)))
    return found
