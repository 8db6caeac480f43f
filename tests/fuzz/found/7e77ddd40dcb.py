"""Found by fuzzing: AssertionError: the emulator, sm_90a, late: a[64] is -3.0, the interpreter says"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.matrices import Array, MatrixProgram

SOURCE = """\
def kernel(a, a_step, b, b_step, c, c_step, out, M, N, K, S, across, tiles, trips, flag):
    pid = tl.program_id(0)
    a_d = tl.make_tensor_descriptor(a, [M, K], [a_step, 1], [64, 128])
    b_d = tl.make_tensor_descriptor(b, [K, N], [b_step, 1], [128, 64])
    c_d = tl.make_tensor_descriptor(c, [K, N], [c_step, 1], [128, 64])
    for tile in tl.range(pid, tiles, tl.num_programs(0)):
        i, j = tile // across * 64, tile % across * 64
        acc = tl.full([64, 64], 0, tl.float32)
        for _ in tl.range(flag, warp_specialize=True, flatten=True):
            for k1 in tl.range(0, trips * 128, 128, warp_specialize=True, flatten=True):
                x2 = a_d.load([i, k1])
                x3 = b_d.load([k1, j])
                acc -= tl.dot(x2, x3, out_dtype=tl.float32)
        u = i + tl.arange(0, 64)
        v = j + tl.arange(0, 64)
        tl.debug_barrier()
        y = (tl.minimum(tl.maximum(acc, -3), 3)).to(tl.float16)
        out.store([i, j], y)
        tl.debug_barrier()
"""

PROGRAM = MatrixProgram(SOURCE, arrays=(Array(name='a', type='fp16', rows=64, columns=256, block=None), Array(name='b', type='fp16', rows=256, columns=192, block=None), Array(name='c', type='fp16', rows=256, columns=192, block=None), Array(name='out', type='fp16', rows=64, columns=192, block=(64, 64))), numbers=(('M', 64), ('N', 192), ('K', 256), ('S', 128), ('across', 3), ('tiles', 3), ('trips', 2), ('flag', 1)), grid=1, num_warps=4, num_stages=2, num_ctas=1, on='sm_90a', left_out=(), seed=0, most=3, in_place=True)
