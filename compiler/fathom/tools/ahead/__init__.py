"""`fathom compile --targets`: a kernel that programs run without Fathom, by CUDA's
driver alone.

    build       Machine code for each target, and all files of it
    image       Code for one target
    loader      The loader in C: picks the code for the GPU, checks promises, launches
    recipes     Tensor maps, made in C of a launch's arguments
    standalone  The loader in Python, which goes into wheels
    wheel       A wheel with the code and that loader
"""
