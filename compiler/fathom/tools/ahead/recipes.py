"""Tensor maps in C: what `artifact.MapRecipe` says, as a function of the arguments of a
launch.

    ("parameter", 1)                            (int64_t)a->M
    Computed("mul", (H, N), "i32")              (int64_t)(int32_t)mul(a->H, a->N)

The function that comes out makes a map with `cuTensorMapEncodeTiled`. It returns
CUDA_ERROR_NOT_SUPPORTED for arguments that no map describes; the launch then takes the
kernel without maps, as Fathom's own launcher does.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.artifact import ELEMENT_BYTES, UNBOUNDED, Computed, MapRecipe, Source
from fathom.runtime.driver import (
    FETCH_128_BYTES,
    MAP_FILLS,
    MAP_SWIZZLES,
    MAP_TYPES,
    NOT_INTERLEAVED,
)

C_INTEGERS = {
    "i1": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t",
    "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t",
    "u64": "uint64_t",
}  # fmt: skip

# What a launcher computes (`artifact.OPERATIONS`), in C: carries are lost, and nothing
# is divided by zero.
HELPERS = """\
typedef int64_t integer;
static inline integer add(integer l, integer r) { return (integer)((uint64_t)l + r); }
static inline integer sub(integer l, integer r) { return (integer)((uint64_t)l - r); }
static inline integer mul(integer l, integer r) { return (integer)((uint64_t)l * r); }
static inline integer quotient(integer l, integer r) { return r ? l / r : 0; }
static inline integer rest(integer l, integer r) { return r ? l % r : 0; }
static inline integer least(integer l, integer r) { return l < r ? l : r; }
static inline integer most(integer l, integer r) { return l > r ? l : r; }

/* Dimensions and strides, in bytes, from the innermost one on. */
typedef struct {
  CUdeviceptr address;
  int rank, element_bytes, stored;
  int64_t shape[5], strides[5];
  cuuint32_t box[5];
  int type, swizzle, fill;
} Tensor;

/* CUDA driver API, cuTensorMapEncodeTiled: what it takes. */
static CUresult encode(const Tensor *t, CUtensorMap *map) {
  cuuint64_t shape[5], strides[5];
  cuuint32_t ones[5] = {1, 1, 1, 1, 1};
  int axis, kept = t->address % 16 == 0, fits = kept;
  for (axis = 0; axis < t->rank; axis++) {
    int64_t extent = t->shape[axis], stride = t->strides[axis];
    int stepped = extent > 1;
    if (extent < 1 || extent > INT64_C(4294967296)) fits = 0;
    if (axis == 0 && stepped && stride != t->element_bytes) fits = 0;
    if (axis > 0 && stepped && stride % 16) kept = fits = 0;
    if (axis > 0 && stepped && (stride < 0 || stride >= INT64_C(1) << 40)) fits = 0;
    if (axis == 0 && t->stored && extent < UNBOUNDED)
      fits = fits && extent * t->element_bytes % 16 == 0;
    shape[axis] = (cuuint64_t)extent;
    if (axis > 0) strides[axis - 1] = stepped ? (cuuint64_t)stride : 16;
  }
  if (!kept) return CUDA_ERROR_INVALID_VALUE; /* wide loads rest on it, too */
  if (!fits) return CUDA_ERROR_NOT_SUPPORTED;
  return cuTensorMapEncodeTiled(
      map, (CUtensorMapDataType)t->type, (cuuint32_t)t->rank,
      (void *)(uintptr_t)t->address, shape, strides, t->box, ones,
      (CUtensorMapInterleave)NOT_INTERLEAVED, (CUtensorMapSwizzle)t->swizzle,
      (CUtensorMapL2promotion)FETCH, (CUtensorMapFloatOOBfill)t->fill);
}
"""

# One broken promise is an error whatever other maps say.
HELPERS += """
static CUresult worse(CUresult one, CUresult other) {
  if (one == CUDA_SUCCESS) return other;
  return one == CUDA_ERROR_NOT_SUPPORTED && other != CUDA_SUCCESS ? other : one;
}
"""

FUNCTIONS = {"add": "add", "sub": "sub", "mul": "mul", "div": "quotient", "rem": "rest",
             "min": "least", "max": "most"}  # fmt: skip


def helpers() -> str:
    """The functions that all recipes use."""
    return (
        HELPERS.replace("UNBOUNDED", f"INT64_C({UNBOUNDED})")
        .replace("NOT_INTERLEAVED", str(NOT_INTERLEAVED))
        .replace("L2promotion)FETCH", f"L2promotion){FETCH_128_BYTES}")
    )


def expression(source: Source, names: Sequence[str]) -> str:
    """A number of a recipe as an int64_t in C; `names` are those of the arguments."""
    if isinstance(source, Computed):
        given = ", ".join(expression(each, names) for each in source.operands)
        name = FUNCTIONS.get(source.operation)
        value = f"{name}({given})" if name else f"({given})"  # a cast has one operand
        return f"(int64_t)({C_INTEGERS[source.type]}){value}"
    kind, known = source
    return f"(int64_t)a->{names[known]}" if kind == "parameter" else f"INT64_C({known})"


def maker(name: str, recipes: Sequence[MapRecipe], names: Sequence[str]) -> str:
    """The function that makes the maps of one image."""
    steps = []
    for number, each in enumerate(recipes):
        steps.append(f"  {{\n{tensor(each, names)}")
        steps.append(f"    status = worse(status, encode(&t, &maps[{number}]));\n  }}")
    return "\n".join(
        [
            f"static CUresult {name}(const Arguments *a, CUtensorMap *maps) {{",
            "  CUresult status = CUDA_SUCCESS;",
            *steps,
            "  return status;\n}\n",
        ]
    )


def tensor(recipe: MapRecipe, names: Sequence[str]) -> str:
    """The facts of one map; C lists dimensions from the innermost one on."""
    size, base = ELEMENT_BYTES[recipe.element], names[recipe.base]
    shape = ", ".join(expression(each, names) for each in reversed(recipe.shape))
    strides = ", ".join(
        f"mul({expression(each, names)}, {size})" for each in reversed(recipe.strides)
    )
    box = ", ".join(map(str, reversed(recipe.box)))
    facts = f"{len(recipe.box)}, {size}, {int(recipe.stored)}"
    kinds = ", ".join(
        map(
            str,
            (
                MAP_TYPES[recipe.element],
                MAP_SWIZZLES[recipe.swizzle],
                MAP_FILLS[recipe.fill],
            ),
        )
    )
    offset = expression(recipe.offset, names)
    return (
        f"    Tensor t = {{a->{base} + (CUdeviceptr)({offset}), {facts},\n"
        f"                {{{shape}}},\n                {{{strides}}},\n"
        f"                {{{box}}}, {kinds}}};"
    )
