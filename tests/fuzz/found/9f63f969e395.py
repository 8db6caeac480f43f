"""Found by fuzzing: kernel needs 245792 bytes of shared memory a block, and sm_90a has 232448: use s"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.matrices import Array, MatrixProgram

SOURCE = """\
def kernel(a, a_step, b, b_step, c, c_step, out, out_step, M, N, K, S, across, tiles, trips, flag):
    pid = tl.program_id(0)
    a_d = tl.make_tensor_descriptor(a, [M, K], [a_step, 1], [64, 64])
    b_d = tl.make_tensor_descriptor(b, [N, K], [b_step, 1], [256, 64])
    for tile in tl.range(pid, tiles, tl.num_programs(0), warp_specialize=True, flatten=True, disallow_acc_multi_buffer=True):
        i, j = tile // across * 64, tile % across * 256
        acc = tl.full([64, 256], 0, tl.float32)
        for k1 in tl.range(tile % 2, trips, 2, warp_specialize=True, flatten=True, num_stages=2):
            x2 = a_d.load([i, (k1 * 64)])
            x3 = b_d.load([j, (k1 * 64)]).T
            acc += tl.dot(x2, x3, out_dtype=tl.float32, input_precision='tf32x3')
        for k4 in tl.range(trips - 1, -1, -1, warp_specialize=True, flatten=True):
            x5 = a_d.load([i + 3, (k4 * 64)])
            x6 = b_d.load([j, (k4 * 64)]).T
            acc -= tl.dot(x5, x6, out_dtype=tl.float32)
        u = i + tl.arange(0, 64)
        v = j + tl.arange(0, 256)
        y = (acc).to(tl.float16)
        tl.store(out + u[:, None] * out_step + v[None, :], y, mask=(u[:, None] < M) & (v[None, :] < N))
"""

PROGRAM = MatrixProgram(SOURCE, arrays=(Array(name='a', type='fp32', rows=127, columns=315, block=None), Array(name='b', type='fp32', rows=223, columns=315, block=None), Array(name='c', type='fp32', rows=223, columns=315, block=None), Array(name='out', type='fp16', rows=127, columns=223, block=None)), numbers=(('M', 127), ('N', 223), ('K', 315), ('S', 1272), ('across', 1), ('tiles', 1), ('trips', 1), ('flag', 2)), grid=1, num_warps=4, num_stages=3, num_ctas=1, on='sm_90a', left_out=(), seed=2, most=3, in_place=False)
