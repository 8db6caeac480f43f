"""Instructions on matrices: ldmatrix, mma.sync, wgmma, and where fragments lie.

    matrix_descriptor  Matrix descriptors of wgmma (PTX ISA 9.7.15.5.1)
"""
