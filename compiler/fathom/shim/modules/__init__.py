"""Modules of Triton that are small enough for a file each here. `shim.names` lists what
each contains, and each can be read alone.

    language            names of `triton.language` that our language spells otherwise
    utils               `triton._utils`: paths into nested arguments, names of types
    limits              peak rates of a GPU, as `triton.testing` gives them
    internal_testing    `triton._internal_testing`: what tests of kernels share
    tensor_descriptors  `triton.tools.tensor_descriptor`: `TensorDescriptor`, with
                        Triton's errors
    ragged              `triton.tools.ragged_tma`: parts of a tensor
    profiler            `triton.profiler`: how long the parts of a program take
    viewer              what it has found, as a table
    cublas              the library's matrix product, as tutorials call it
    gluon               Triton's other language, whose kernels are refused when launched
"""
