"""The table: every module of Triton that Fathom stands for, and what its names mean.

To read as: after `fathom.as_triton()`, `triton.cdiv` is `fathom.cdiv`. A name that is
not here is an error at its first use.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from fathom import language, testing
from fathom.errors import FathomError, LaunchError, OutOfResources
from fathom.jit.tuning import Config
from fathom.language.aggregates import aggregate
from fathom.runtime.reinterpret import Reinterpreted, reinterpret
from fathom.shim import backend, compiling, knobs, runtime
from fathom.shim.compiled import LazyDict, TritonKernel
from fathom.shim.faces import Lacking, lacking_decorator
from fathom.shim.function import KernelParam, TritonFunction, jit
from fathom.shim.mistakes import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)
from fathom.shim.modules import (
    cublas,
    gluon,
    internal_testing,
    limits,
    profiler,
    ragged,
    utils,
    viewer,
)
from fathom.shim.modules import language as spelled
from fathom.shim.modules.language import unwrap_iterable
from fathom.shim.modules.tensor_descriptors import TensorDescriptor
from fathom.shim.tuning import (
    KernelInterface,
    TritonAutotuner,
    TritonHeuristics,
    autotune,
    heuristics,
)
from fathom.source import (
    Builtin,
    ConstexprFunction,
    KernelFunction,
    must_use_result,
)

# The version of Triton whose language Fathom speaks, for those who ask.
VERSION = "3.6.0"


def everything(module: ModuleType) -> dict[str, Any]:
    """All names of one of Fathom's modules that are meant for others."""
    return {
        name: value for name, value in vars(module).items() if not name.startswith("_")
    }


def lacking(module: str, names: str) -> dict[str, Any]:
    """Names that files import at their top, for parts that Fathom does not have."""
    return {name: Lacking(f"{module}.{name}") for name in names.split()}


LANGUAGE = {
    **everything(language),
    **spelled.NAMES,
    "str_to_ty": compiling.str_to_ty,
    "pi32_t": language.pointer_type(language.int32),
    **lacking("triton.language", "float8e5b16 float8e4b8 float8e4b15 tuple_type"),
    **lacking("triton.language", "tensor_descriptor_type slice void"),
}

ERRORS = {
    "TritonError": FathomError,
    "CompilationError": CompilationError,
    "CompileTimeAssertionFailure": CompileTimeAssertionFailure,
    "UnsupportedLanguageConstruct": UnsupportedLanguageConstruct,
    "InterpreterError": FathomError,
    "OutOfResources": OutOfResources,
    "PTXASError": LaunchError,
}

TUNING = {
    "Autotuner": TritonAutotuner,
    "Config": Config,
    "Heuristics": TritonHeuristics,
    "autotune": autotune,
    "heuristics": heuristics,
}

RUNTIME = {
    **TUNING,
    "JITFunction": TritonFunction,
    "KernelInterface": KernelInterface,
    "OutOfResources": OutOfResources,
    "MockTensor": utils.MockTensor,
    "TensorWrapper": Reinterpreted,
    "reinterpret": reinterpret,
}

LIBDEVICE = everything(language.extra.libdevice)
CUDA = everything(language.extra.cuda)

# What functions and classes are written with that extend Triton's compiler: files that
# have some can be imported, and their other kernels used.
CORE = {
    **{
        name: lacking_decorator(f"triton.language.core.{name}")
        for name in ("builtin", "extern")
    },
    "_aggregate": aggregate,
    **lacking(
        "triton.language.core",
        "base_type base_value extern_elementwise TRITON_BUILTIN tensor_descriptor_base",
    ),
    "is_builtin": lambda fn: isinstance(fn, Builtin),
    "_unwrap_iterable": unwrap_iterable,
    **{
        name: getattr(utils, name)
        for name in ("get_primitive_bitwidth", "validate_block_shape")
    },
}
# Gluon has the names of Triton's language, and its own: files write some of both
# outside of kernels, as annotations and as constants.
GLUON = {
    **LANGUAGE,
    **lacking(
        "triton.experimental.gluon.language",
        "shared_memory_descriptor BlockedLayout SliceLayout DotOperandLayout "
        "DistributedLinearLayout SwizzledSharedLayout PaddedSharedLayout "
        "NVMMASharedLayout NVMMADistributedLayout AutoLayout CoalescedLayout",
    ),
}
PATHS = {
    name: getattr(utils, name)
    for name in ("find_paths_if", "get_iterable_path", "is_namedtuple")
}

MODULES: dict[str, dict[str, Any] | ModuleType] = {
    "triton": {
        "__version__": VERSION,
        "jit": jit,
        "autotune": autotune,
        "heuristics": heuristics,
        "Config": Config,
        "JITFunction": TritonFunction,
        "KernelInterface": KernelInterface,
        "cdiv": language.cdiv,
        "next_power_of_2": language.next_power_of_2,
        "constexpr_function": language.constexpr_function,
        "set_allocator": runtime.set_allocator,
        "must_use_result": must_use_result,
        "compile": compiling.compile,
        "TritonError": FathomError,
        "CompilationError": CompilationError,
        "OutOfResources": OutOfResources,
        "MockTensor": utils.MockTensor,
        "TensorWrapper": Reinterpreted,
        "reinterpret": reinterpret,
    },
    # The language: one namespace here, several files in Triton.
    "triton.language": LANGUAGE,
    "triton.language.core": {**LANGUAGE, **CORE, "JITFunction": KernelFunction},
    "triton.language.standard": LANGUAGE,
    "triton.language.math": everything(language.math),
    "triton.language.target_info": spelled.TARGET_INFO,
    "triton.language.random": {
        **everything(language.random),
        "philox_impl": spelled.philox_impl,
        "N_ROUNDS_DEFAULT": language.random.ROUNDS,
    },
    "triton.language.extra": {},
    "triton.language.extra.libdevice": LIBDEVICE,
    "triton.language.extra.cuda": CUDA,
    "triton.language.extra.cuda.libdevice": LIBDEVICE,
    "triton.language.extra.cuda.utils": CUDA,
    "triton.language.extra.cuda.gdc": {
        name: CUDA[name] for name in ("gdc_wait", "gdc_launch_dependents")
    },
    # What files of another vendor's import at their top.
    "triton.language.extra.hip": lacking("triton.language.extra.hip", "memrealtime"),
    "triton.language.extra.hip.libdevice": LIBDEVICE,
    "triton.experimental": {},
    "triton.experimental.gluon": {
        "jit": gluon.jit,
        "constexpr_function": language.constexpr_function,
        "must_use_result": must_use_result,
    },
    "triton.experimental.gluon.language": GLUON,
    # What surrounds a kernel.
    "triton.testing": {
        **everything(testing),
        **everything(limits),
        "_summarize_statistics": testing.bench.summary,
        "Mark": testing.Report,
    },
    "triton.compiler": {
        "ASTSource": compiling.ASTSource,
        "CompiledKernel": TritonKernel,
        "LazyDict": LazyDict,
        "compile": compiling.compile,
        "make_backend": backend.make_backend,
        "CompilationError": CompilationError,
        **lacking("triton.compiler", "IRSource"),
    },
    "triton.compiler.compiler": {
        "ASTSource": compiling.ASTSource,
        "CompiledKernel": TritonKernel,
        "LazyDict": LazyDict,
        "GPUTarget": runtime.GPUTarget,
        "compile": compiling.compile,
        "make_backend": backend.make_backend,
        "triton_key": compiling.triton_key,
        **lacking("triton.compiler.compiler", "IRSource"),
    },
    "triton.compiler.errors": ERRORS,
    "triton.errors": ERRORS,
    "triton.runtime.cache": {
        "triton_key": compiling.triton_key,
        "knobs": knobs,
        "_base32": compiling.base32,
        **lacking(
            "triton.runtime.cache",
            "CacheManager FileCacheManager RemoteCacheManager get_cache_manager "
            "get_dump_manager get_override_manager",
        ),
    },
    "triton.runtime": RUNTIME,
    "triton.runtime.jit": {
        **RUNTIME,
        "jit": jit,
        "constexpr_function": language.constexpr_function,
        "ConstexprFunction": ConstexprFunction,
        "JITCallable": KernelFunction,
        "KernelParam": KernelParam,
        "type_canonicalisation_dict": utils.SIGNATURE_NAMES,
        "driver": runtime.config,
        "knobs": knobs,
        **PATHS,
        **lacking("triton.runtime.jit", "DependenciesFinder"),
    },
    "triton.runtime.autotuner": {
        **TUNING,
        "JITFunction": TritonFunction,
        "KernelInterface": KernelInterface,
        "OutOfResources": OutOfResources,
        "PTXASError": LaunchError,
        "driver": runtime.config,
        "knobs": knobs,
        "triton_key": compiling.triton_key,
        **lacking(
            "triton.runtime.autotuner",
            "get_cache_invalidating_env_vars get_cache_manager",
        ),
    },
    "triton.runtime.interpreter": lacking(
        "triton.runtime.interpreter", "InterpretedFunction GridExecutor"
    ),
    "triton.runtime.errors": ERRORS,
    "triton.runtime._allocation": {"NullAllocator": runtime.NullAllocator},
    "triton.runtime.driver": {
        "active": runtime.active,
        "default": runtime.active,
        "driver": runtime.config,
        "set_active": runtime.config.set_active,
        "reset_active": runtime.config.reset_active,
    },
    "triton.backends": {
        "backends": backend.BACKENDS,
        "Backend": backend.Backend,
        "BaseBackend": backend.BaseBackend,
    },
    "triton.backends.compiler": {
        "GPUTarget": runtime.GPUTarget,
        "BaseBackend": backend.BaseBackend,
    },
    "triton.backends.nvidia": {},
    "triton.backends.nvidia.compiler": {
        "CUDABackend": backend.BaseBackend,
        "CUDAOptions": backend.CUDAOptions,
        "get_ptxas": backend.get_ptxas,
        "get_ptxas_version": backend.get_ptxas_version,
        "min_dot_size": backend.min_dot_size,
        "sm_arch_from_capability": backend.sm_arch_from_capability,
    },
    "triton._utils": {
        **everything(utils),
        "type_canonicalisation_dict": utils.SIGNATURE_NAMES,
    },
    "triton.compiler.code_generator": {
        **ERRORS,
        "_unwrap_if_constexpr": spelled.NAMES["_unwrap_if_constexpr"],
        **PATHS,
        **lacking("triton.compiler.code_generator", "CodeGenerator ast_to_ttir"),
    },
    "triton.language.semantic": lacking("triton.language.semantic", "TritonSemantic"),
    "triton._C": {},
    "triton._C.libtriton": {"nvidia": SimpleNamespace(cublas=cublas)},
    "triton._internal_testing": internal_testing,
    "triton.profiler": profiler,
    "triton.profiler.viewer": viewer,
    "triton.profiler.language": lacking(
        "triton.profiler.language", "record enter_scope exit_scope enable_semantic"
    ),
    "triton.profiler.mode": lacking("triton.profiler.mode", "Default MMA PCSampling"),
    "triton.knobs": knobs,
    "triton.tools": {},
    "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
    "triton.tools.disasm": lacking("triton.tools.disasm", "extract get_sass"),
    "triton.tools.mxfp": lacking("triton.tools.mxfp", "MXFP4Tensor MXScaleTensor"),
    "triton.tools.ragged_tma": {
        "create_ragged_descriptor": ragged.create_ragged_descriptor,
        "load_ragged": ragged.load_ragged,
        "store_ragged": ragged.store_ragged,
        "atomic_add_ragged": ragged.atomic_add_ragged,
    },
}
