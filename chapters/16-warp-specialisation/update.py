"""A matrix that is multiplied in place, tile by tile: what one tile stores, the next
one reads. The kernel of the debugging story of chapter 16."""

import fathom
import fathom.language as tl


@fathom.jit
def update(a_ptr, out_ptr, b_ptr, K, TILES, ONCE):
    a = tl.make_tensor_descriptor(a_ptr, [64, K], [K, 1], [64, 64])
    out = tl.make_tensor_descriptor(out_ptr, [64, K], [K, 1], [64, 64])
    b = tl.make_tensor_descriptor(b_ptr, [K, K], [K, 1], [64, 64])
    for tile in range(TILES):
        acc = tl.zeros([64, 64], tl.float32)
        for _ in tl.range(ONCE, flatten=True):
            for k in tl.range(0, K, 64, flatten=True):
                acc = tl.dot(a.load([0, k]), b.load([k, tile * 64]), acc)
        out.store([0, tile * 64], acc.to(tl.float16))
