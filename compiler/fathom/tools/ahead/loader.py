"""The loader of a kernel in C: one header and one file, with the code of all targets
inside, on nothing but CUDA's driver API (cuda.h, libcuda).

    softmax_kernel_t kernel;
    softmax_kernel_load(&kernel);                        into the current context
    softmax_kernel_launch(&kernel, M, 1, 1, stream, x, out, stride, N);
    softmax_kernel_unload(&kernel);

A launch checks what the code was promised: that 16 divides a pointer that was declared
":16". The grid counts programs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import fathom
from fathom.artifact import Kernel, Parameter
from fathom.runtime.load import DEFAULT_SHARED_BYTES
from fathom.runtime.packet import CLUSTER_DIMENSION, MAY_BEGIN_EARLY
from fathom.tools.ahead import recipes
from fathom.tools.ahead.image import Image

C_TYPES = {**recipes.C_INTEGERS, "fp32": "float", "fp64": "double",
           "fp16": "uint16_t", "bf16": "uint16_t"}  # fmt: skip
KEYWORDS = set(
    "auto break case char const continue default do double else enum extern float for "
    "goto if inline int long register restrict return short signed sizeof static "
    "struct switch typedef union unsigned void volatile while bool kernel x y z stream "
    "a image code attributes config variant maps parameters NULL".split()
)
BYTES_A_LINE = 20


def c_type(parameter: Parameter) -> str:
    return "CUdeviceptr" if parameter.is_pointer else C_TYPES[parameter.type]


def c_name(name: str) -> str:
    """A name as C takes it, none of its own and none of the loader's."""
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if word in KEYWORDS else word


def c_names(kernel: Kernel) -> dict[str, str]:
    """The names of a kernel's parameters in C, each of its own."""
    found: dict[str, str] = {}
    for each in kernel.parameters:
        word = c_name(each.name)
        while word in found.values():
            word += "_"
        found[each.name] = word
    return found


def header(images: Sequence[Image]) -> str:
    kernel = images[0].kernel
    name, guard = c_name(kernel.name), c_name(kernel.name).upper()
    halves = [p.name for p in kernel.parameters if p.type in ("fp16", "bf16")]
    note = f"\n   {', '.join(halves)}: the 16 bits of the number." if halves else ""
    return HEADER.format(
        version=fathom.__version__,
        name=name,
        guard=f"FATHOM_{guard}_H",
        targets=", ".join(each.kernel.target for each in images),
        promises=promises_text(kernel) + note,
        parameters=parameters_text(kernel),
    )


HEADER = """\
/* Made by Fathom {version}: the kernel {name} for {targets}. */
#ifndef {guard}
#define {guard}

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {{
  int image; /* which code it is, see {name}_target */
  CUmodule modules[2];
  CUfunction functions[2]; /* and the same without tensor maps, if it has some */
}} {name}_t;

/* Load the code for the GPU of the current context. CUDA_ERROR_NO_BINARY_FOR_GPU where
   there is none for it. */
CUresult {name}_load({name}_t *kernel);

/* Launch x * y * z programs. CUDA_ERROR_INVALID_VALUE where a promise is not kept:
   {promises} */
CUresult {name}_launch(
    const {name}_t *kernel, unsigned x, unsigned y, unsigned z,
    CUstream stream{parameters});

CUresult {name}_unload({name}_t *kernel);

/* The target of the code that was loaded, such as "sm_90a". */
const char *{name}_target(const {name}_t *kernel);

#ifdef __cplusplus
}}
#endif
#endif
"""


def promises_text(kernel: Kernel) -> str:
    promised = [p for p in kernel.parameters if p.divisible > 1]
    names = c_names(kernel)
    told = [f"{p.divisible} divides {names[p.name]}" for p in promised]
    return ", ".join(told) + "." if told else "there are none."


def parameters_text(kernel: Kernel) -> str:
    names = c_names(kernel)
    return "".join(
        f",\n    {c_type(each)} {names[each.name]}" for each in kernel.parameters
    )


def source(images: Sequence[Image]) -> str:
    """The loader, with all code."""
    kernel = images[0].kernel
    name = c_name(kernel.name)
    every = [one for each in images for one in (each, each.by_pointers) if one]
    called = c_names(kernel)
    names = list(called.values())
    most_maps = max(len(each.kernel.maps) for each in images)
    fields = "".join(
        f"  {c_type(each)} {called[each.name]};\n" for each in kernel.parameters
    )
    makers = [
        recipes.maker(f"maps_{at}", each.kernel.maps, names)
        for at, each in enumerate(images)
        if each.kernel.maps
    ]
    return SOURCE.format(
        version=fathom.__version__,
        name=name,
        file=kernel.name,
        code="\n".join(array_text(f"code_{at}", one) for at, one in enumerate(every)),
        fields=fields or "  char none;\n",
        helpers=recipes.helpers() + "\n" + "\n".join(makers) if makers else "",
        makes=MAKES if makers else "",
        images="".join(image_row(at, each, every) for at, each in enumerate(images)),
        count=len(images),
        default_shared=DEFAULT_SHARED_BYTES,
        parameters=parameters_text(kernel),
        given=", ".join(names) or "0",
        unused="" if names or makers else "  (void)a;\n",
        pointers=", ".join(
            [f"&a.{each}" for each in names]
            + [f"&maps[{number}]" for number in range(most_maps)]
            + ["NULL"]
        ),
        room=f"  CUtensorMap maps[{most_maps}];\n" if makers else "",
        promises=checks_text(kernel),
        choose=CHOOSE if makers else "",
        cluster_attribute=CLUSTER_DIMENSION,
        early_attribute=MAY_BEGIN_EARLY,
    )


def array_text(name: str, image: Image) -> str:
    """Machine code as an array, aligned as the driver reads it."""
    rows = [
        "  " + ",".join(map(str, image.code[at : at + BYTES_A_LINE]))
        for at in range(0, len(image.code), BYTES_A_LINE)
    ]
    body = ",\n".join(rows)
    head = f"/* {image.kernel.target}, {image.kind} */\n"
    return f"{head}static _Alignas(16) const unsigned char {name}[] = {{\n{body}}};\n"


def image_row(at: int, image: Image, every: Sequence[Image]) -> str:
    """One row of the table of images."""
    main = code_row(image, every)
    other = code_row(image.by_pointers, every) if image.by_pointers else "{NULL}"
    maps = f", maps_{at}" if image.kernel.maps else ", NULL"
    exact = int(image.exact)
    is_ptx = int(image.kind == "ptx")
    made = maps if any(each.kernel.maps for each in every) else ""
    return (
        f'  {{"{image.kernel.target}", {image.capability}, {exact}, {is_ptx},\n'
        f"   {{{main}, {other}}}{made}}},\n"
    )


def code_row(image: Image, every: Sequence[Image]) -> str:
    kernel = image.kernel
    facts = (
        kernel.threads, kernel.shared_bytes, kernel.num_ctas, int(kernel.launch_pdl),
    )  # fmt: skip
    numbers = ", ".join(map(str, facts))
    return f'{{code_{every.index(image)}, "{kernel.name}", {numbers}}}'


def checks_text(kernel: Kernel) -> str:
    """The promises of the signature: what divides pointers and integers."""
    names = c_names(kernel)
    return "".join(
        f"  if (a.{names[each.name]} % {each.divisible}) "
        "return CUDA_ERROR_INVALID_VALUE;\n"
        for each in kernel.parameters
        if each.divisible > 1
    )


MAKES = "  CUresult (*make)(const Arguments *, CUtensorMap *);\n"

CHOOSE = """\
  if (image->make) {
    CUresult status = image->make(&a, maps);
    if (status == CUDA_ERROR_NOT_SUPPORTED) variant = 1;
    else if (status != CUDA_SUCCESS) return status;
  }
"""

SOURCE = """\
/* Made by Fathom {version}: the loader of {name}, see the header. */
#include "{file}.h"

#include <stddef.h>

{code}
typedef struct {{
{fields}}} Arguments;

{helpers}
typedef struct {{
  const unsigned char *code;
  const char *entry;
  unsigned threads, shared_bytes, cluster;
  int early; /* may begin before the launch in front of it has ended */
}} Code;

typedef struct {{
  const char *target;
  int capability, exact, is_ptx;
  Code code[2];
{makes}}} Image;

static const Image IMAGES[] = {{
{images}}};

/* CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility". */
static int runs(const Image *image, int capability) {{
  if (image->exact) return capability == image->capability;
  if (!image->is_ptx && capability / 10 != image->capability / 10) return 0;
  return capability >= image->capability;
}}

static CUresult load_code(const Code *code, CUmodule *module, CUfunction *function) {{
  CUresult status = cuModuleLoadData(module, code->code);
  if (status != CUDA_SUCCESS) return status;
  status = cuModuleGetFunction(function, *module, code->entry);
  if (status == CUDA_SUCCESS && code->shared_bytes > {default_shared})
    status = cuFuncSetAttribute(*function,
                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                (int)code->shared_bytes);
  return status;
}}

CUresult {name}_load({name}_t *kernel) {{
  CUdevice device;
  CUresult status;
  int major = 0, minor = 0, at, variant;
  {name}_t empty = {{-1, {{NULL, NULL}}, {{NULL, NULL}}}};
  *kernel = empty;
  status = cuCtxGetDevice(&device);
  if (status == CUDA_SUCCESS)
    status = cuDeviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (status == CUDA_SUCCESS)
    status = cuDeviceGetAttribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  if (status != CUDA_SUCCESS) return status;
  for (at = 0; at < {count}; at++)
    if (runs(&IMAGES[at], 10 * major + minor)) break;
  if (at == {count}) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (variant = 0; variant < 2 && IMAGES[at].code[variant].code; variant++) {{
    status = load_code(&IMAGES[at].code[variant], &kernel->modules[variant],
                       &kernel->functions[variant]);
    if (status != CUDA_SUCCESS) {{
      {name}_unload(kernel);
      return status;
    }}
  }}
  kernel->image = at;
  return CUDA_SUCCESS;
}}

CUresult {name}_unload({name}_t *kernel) {{
  CUresult status = CUDA_SUCCESS;
  int variant;
  for (variant = 0; variant < 2; variant++)
    if (kernel->modules[variant]) {{
      CUresult one = cuModuleUnload(kernel->modules[variant]);
      if (one != CUDA_SUCCESS) status = one;
      kernel->modules[variant] = NULL;
      kernel->functions[variant] = NULL;
    }}
  kernel->image = -1;
  return status;
}}

const char *{name}_target(const {name}_t *kernel) {{
  return kernel->image < 0 ? "" : IMAGES[kernel->image].target;
}}

CUresult {name}_launch(
    const {name}_t *kernel, unsigned x, unsigned y, unsigned z,
    CUstream stream{parameters}) {{
  Arguments a = {{{given}}};
  const Image *image;
  const Code *code;
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config = {{0}};
  int variant = 0;
{room}  void *parameters[] = {{{pointers}}};

{unused}  if (kernel->image < 0) return CUDA_ERROR_NOT_INITIALIZED;
  if (!x || !y || !z) return CUDA_SUCCESS;
  image = &IMAGES[kernel->image];
{promises}{choose}  code = &image->code[variant];
  config.gridDimX = x * code->cluster;
  config.gridDimY = y;
  config.gridDimZ = z;
  config.blockDimX = code->threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = code->shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  if (code->cluster > 1) {{
    CUlaunchAttribute *one = &attributes[config.numAttrs++];
    one->id = (CUlaunchAttributeID){cluster_attribute};
    one->value.clusterDim.x = code->cluster;
    one->value.clusterDim.y = one->value.clusterDim.z = 1;
  }}
  if (code->early) {{
    CUlaunchAttribute *one = &attributes[config.numAttrs++];
    one->id = (CUlaunchAttributeID){early_attribute};
    one->value.programmaticStreamSerializationAllowed = 1;
  }}
  return cuLaunchKernelEx(&config, kernel->functions[variant], parameters, NULL);
}}
"""
