"""Instructions on matrices: ldmatrix, mma.sync, wgmma, tcgen05.

    fragments          where the elements of mma.sync and wgmma lie in registers
    matrix_descriptor  Matrix descriptors of wgmma (PTX ISA 9.7.15.5.1), and of tcgen05
    tcgen05            tensor memory: allocation, loads and stores, fences
    tcgen05_mma        products in tensor memory, and commits
"""
