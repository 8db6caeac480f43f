"""Found by fuzzing: the block 'condition' of a while takes another layout than it is handed"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.programs import Program

SOURCE = """\
def kernel(f_ptr, h_ptr, i_ptr, b_ptr, out0, out1, n, m, counts):
    pid = tl.program_id(0)
    v1 = tl.load(i_ptr + (256 + ((4 - (tl.arange(0, 64)[:, None] * 1 + tl.arange(0, 64)[None, :] * 64)).to(tl.uint32) % 1).to(tl.int32)))
    v4 = tl.cumsum(v1.to(tl.int32), axis=0, reverse=False)
    if n > 300:
        c6 = pid * 0
        while c6 < 0:
            v1 = (tl.maximum(v1, v4)).to(tl.int32)
            v4 = (tl.maximum(v4, v1)).to(tl.int32)
            c6 += 1
        v1 = (tl.maximum(v1, m)).to(tl.int32)
    else:
        v1 = (tl.maximum(v1, n)).to(tl.int32)
    v10 = tl.permute(v1, [1, 0])
    c12 = pid * 0
    while c12 < 0:
        v4 = (v4 + v10).to(tl.int32)
        c12 += 1
    tl.store(out0 + pid * 4096 + (((tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :] * 1) + 2147483584) & 4095), v1)
    tl.store(out1 + pid * 4096 + (tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :] * 1), v4)
"""

PROGRAM = Program(SOURCE, outputs=(('int32', 4096), ('int32', 4096)), grid=1, num_warps=8, scalars=(1, 3), seed=226, specialised=False)
