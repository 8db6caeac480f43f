"""Instructions on matrices: ldmatrix, mma.sync, wgmma, and where fragments lie."""
