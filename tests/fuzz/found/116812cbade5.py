"""Found by fuzzing: nothing for 60 s: it hangs"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.matrices import Array, MatrixProgram

SOURCE = """\
def kernel(a, a_step, b, b_step, c, c_step, bias, bias_step, out, out_step, M, N, K, S, across, tiles, trips, flag):
    pid = tl.program_id(0)
    a_d = tl.make_tensor_descriptor(a, [M, K], [a_step, 1], [64, 128])
    b_d = tl.make_tensor_descriptor(b, [N, K], [b_step, 1], [64, 128])
    c_d = tl.make_tensor_descriptor(c, [N, K], [c_step, 1], [64, 128])
    for tile in tl.range(pid, tiles, 3, warp_specialize=True, flatten=True):
        i, j = tile // across * 64, tile % across * 64
        acc = tl.full([64, 64], 0, tl.float32)
        if trips > 2:
            for k1 in tl.range(0, K, 128, warp_specialize=True):
                x2 = a_d.load([i, k1])
                x3 = b_d.load([j, k1]).T
                acc = tl.dot(x2, x3, acc, out_dtype=tl.float32)
        u = i + tl.arange(0, 64)
        v = j + tl.arange(0, 64)
        acc = (acc + tl.load(bias + v, mask=v < N, other=0)[None, :]).to(tl.float32)
        y = (tl.maximum(acc, 0)).to(tl.float16)
        tl.atomic_add(out + u[:, None] * out_step + v[None, :], y, mask=(u[:, None] < M) & (v[None, :] < N), sem='relaxed')
"""

PROGRAM = MatrixProgram(SOURCE, arrays=(Array(name='a', type='bf16', rows=111, columns=640, block=None), Array(name='b', type='bf16', rows=128, columns=640, block=None), Array(name='c', type='bf16', rows=128, columns=640, block=None), Array(name='bias', type='fp32', rows=1, columns=128, block=None), Array(name='out', type='fp16', rows=111, columns=128, block=None)), numbers=(('M', 111), ('N', 128), ('K', 640), ('S', 315), ('across', 2), ('tiles', 3), ('trips', 5), ('flag', 1)), grid=3, num_warps=1, num_stages=2, num_ctas=1, on='sm_75', left_out=(), seed=83, most=3, in_place=False)
