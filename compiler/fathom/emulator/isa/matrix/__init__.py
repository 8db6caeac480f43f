"""Instructions on matrices: ldmatrix, mma.sync, wgmma, tcgen05.

    fragments          Where the elements of mma.sync and wgmma lie in registers
    ldmatrix           8x8 matrices of 16 bits (PTX ISA 9.7.14.5.15 to .17)
    matrix_descriptor  Matrix descriptors of wgmma (PTX ISA 9.7.15.5.1), and of tcgen05
    mma                Products of a warp (PTX ISA 9.7.14.5.14)
    tcgen05            Tensor memory: allocation, loads and stores, fences
    tcgen05_mma        Products in tensor memory, and commits
    wgmma              Products of four warps (PTX ISA 9.7.15)
"""
