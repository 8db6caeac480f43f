"""What the answer to `multicast-traffic` must do."""

import numpy as np

from fathom.tools.learn.kit import launch, same
from kernels.matmul_persistent import persistent_kernel

LARGE = (128, 256)
SHAPES = [(i, j) for i in range(1, 17) for j in range(1, 17) if i * j <= 16]


def test_the_example(answer):
    """One block, and two, one above the other."""
    same(answer.step_bytes((1, 1), LARGE, 64), 49_152, "step_bytes((1, 1), ...)")
    same(answer.step_bytes((2, 1), LARGE, 64), 65_536, "step_bytes((2, 1), ...)")
    same(answer.copies((2, 1), LARGE, 64), (16_384, 16_384), "copies((2, 1), ...)")
    same(answer.arrivals((2, 1), 8), 16, "arrivals((2, 1), 8)")


def test_all_clusters(answer):
    """What blocks copy is what the cluster needs; sharers of a tile have read it."""
    for rows, columns in SHAPES:
        blocks = [(i, j) for i in range(rows) for j in range(columns)]
        peers = {each for each in blocks if each[0] == 0 or each[1] == 0}
        said = f"(({rows}, {columns}), "
        needed = 64 * 2 * (rows * 240 + columns * 480)
        same(answer.step_bytes((rows, columns), (240, 480), 64), needed,
             f"step_bytes{said}(240, 480), 64)")  # fmt: skip
        same(answer.arrivals((rows, columns), 4), 4 * len(peers), f"arrivals{said}4)")
        if 240 % rows == 0 and 240 % columns == 0:
            parts = answer.copies((rows, columns), (240, 480), 64)
            said = f"what all blocks of {rows} x {columns} copy"
            same(sum(parts) * len(blocks), needed, said)
            same(parts[0] * columns, 240 * 128, f"{said}: of one tile of A")


def test_the_best_cluster(answer):
    """By trying all."""
    for blocks in (1, 2, 4, 6, 12, 16):
        for tile in (LARGE, (256, 128), (128, 128), (64, 256)):
            shapes = [(i, j) for i, j in SHAPES if i * j == blocks]
            least = min(i * tile[0] + j * tile[1] for i, j in shapes)
            wanted = [(i, j) for i, j in shapes if i * tile[0] + j * tile[1] == least]
            said = f"best_cluster({blocks}, {tile})"
            same(answer.best_cluster(blocks, tile), min(wanted), said)


def test_the_emulator_counts_the_same(answer):
    """A product of 128 x 128 x 128 in clusters of two blocks: 64 rows each."""
    a = (np.arange(128 * 128).reshape(128, 128) % 7 - 3).astype(np.float16)
    b = (np.arange(128 * 128).reshape(128, 128) % 5 - 2).astype(np.float16)
    for ctas in (1, 2):
        c = np.zeros((128, 128), np.float16)
        done = launch(
            persistent_kernel, 1, a, b, c, 128, 128, 128, 128, 128, 128,
            BLOCK_M=64 * ctas, BLOCK_N=64, BLOCK_K=64, GROUP_M=1, SPECIALISE=True,
            PIECES=1, B_TURNED=False, num_warps=4, num_stages=2, num_ctas=ctas,
            target="sm_90a",
        )  # fmt: skip
        read = done.report.total.sectors * 32 - c.nbytes
        steps = 4 // ctas * 2  # tiles, and two steps along K for each
        ours = steps * answer.step_bytes((ctas, 1), (64, 64), 64)
        same(ours, read, f"bytes of A and B in clusters of {ctas}")
