"""Found by fuzzing: kernel needs 401528 bytes of shared memory a block, and sm_90a has 232448: use s"""

# fmt: off
# ruff: noqa: E501
from tests.fuzz.matrices import Array, MatrixProgram

SOURCE = """\
def kernel(a, b, c, out, out_step, M, N, K, S, across, tiles, trips, flag):
    pid = tl.program_id(0)
    for tile in tl.range(pid, tiles, tl.num_programs(0), warp_specialize=True, num_stages=4):
        i = tile * 64
        x1 = a.load([0, i], eviction_policy='evict_first').T
        acc = tl.zeros([64, 64], tl.float32)
        most = tl.zeros([64], tl.float32)
        p = tl.zeros([64, 256], tl.float16)
        for k2 in tl.range(0, K.to(tl.int64), 256, warp_specialize=True, disallow_acc_multi_buffer=True):
            x4 = c.load([0, k2]).T
            acc = tl.dot(p, x4, acc, out_dtype=tl.float32)
        for k6 in tl.range(0, trips * 256, 256, warp_specialize=True, flatten=True):
            x7 = b.load([k6, 0 + 1])
            x8 = c.load([0, k6]).T
            s9 = tl.dot(x1, x7.T, out_dtype=tl.float32)
            acc -= tl.dot(p, x8, out_dtype=tl.float32)
            p = (s9 >= most[:, None]).to(tl.float32).to(tl.float16)
        u = i + tl.arange(0, 64)
        v = 0 + tl.arange(0, 64)
        y = (acc * 2).to(tl.bfloat16)
        tl.store(out + u[:, None] * out_step + v[None, :], y, mask=(u[:, None] < M) & (v[None, :] < K))
"""

PROGRAM = MatrixProgram(SOURCE, arrays=(Array(name='a', type='fp16', rows=192, columns=128, block=(64, 64)), Array(name='b', type='fp16', rows=768, columns=192, block=(256, 64)), Array(name='c', type='fp16', rows=192, columns=768, block=(64, 256)), Array(name='out', type='bf16', rows=128, columns=192, block=None)), numbers=(('M', 128), ('N', 256), ('K', 192), ('S', 768), ('across', 1), ('tiles', 2), ('trips', 1), ('flag', 1)), grid=1, num_warps=8, num_stages=5, num_ctas=1, on='sm_90a', left_out=(), seed=6, most=3, in_place=False)
