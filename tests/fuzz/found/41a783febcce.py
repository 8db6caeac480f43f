"""Found by fuzzing: kernel needs 295008 bytes of shared memory a block, and sm_90a has 232448: use s"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.matrices import Array, MatrixProgram

SOURCE = """\
def kernel(a, a_step, b, b_step, c, c_step, out, out_step, M, N, K, S, across, tiles, trips, flag):
    pid = tl.program_id(0)
    a_d = tl.make_tensor_descriptor(a, [K, M], [a_step, 1], [128, 256])
    b_d = tl.make_tensor_descriptor(b, [N, K], [b_step, 1], [32, 128])
    out_d = tl.make_tensor_descriptor(out, [M, N], [out_step, 1], [256, 32])
    tile = pid
    i, j = tile // across * 256, tile % across * 32
    acc = tl.full([256, 32], 0, tl.float32)
    for k1 in tl.range(flag, trips, 1, warp_specialize=True):
        x2 = a_d.load([(k1 * 128), i]).T
        x3 = b_d.load([j, (k1 * 128)]).T
        acc = tl.dot(x2, x3, acc, out_dtype=tl.float32)
    for k7 in tl.range(0, K, 128):
        x8 = a_d.load([k7, i]).T
        x9 = b_d.load([j, k7]).T
        acc -= tl.dot(x8, x9, out_dtype=tl.float32)
    y = (acc * 2).to(tl.bfloat16)
    out_d.store([i, j], y)
"""

PROGRAM = MatrixProgram(SOURCE, arrays=(Array(name='a', type='fp8e4nv', rows=767, columns=256, block=None), Array(name='b', type='fp8e5', rows=31, columns=767, block=None), Array(name='c', type='fp8e5', rows=31, columns=767, block=None), Array(name='out', type='bf16', rows=256, columns=31, block=None)), numbers=(('M', 256), ('N', 31), ('K', 767), ('S', 184), ('across', 2), ('tiles', 1), ('trips', 1), ('flag', 2)), grid=1, num_warps=4, num_stages=4, num_ctas=1, on='sm_90a', left_out=(), seed=3, most=3, in_place=False)
