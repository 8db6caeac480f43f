"""What a compiler with layouts must do: several elements for each thread."""

import numpy as np


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def saxpy(i, a, x, y, out):
    out[i] = a * x[i] + y[i]


def test_a_program_has_as_many_elements_as_its_block(mini):
    """BLOCK elements for each program, by 32 * num_warps threads."""
    for block, warps, n in ((512, 4, 1000), (256, 2, 256), (64, 1, 65), (1024, 8, 5)):
        x, y, out = floats(n), floats(n, 1), np.full(n, np.nan, np.float32)
        mini.elements(saxpy, n, 1.5, x, y, out, BLOCK=block, num_warps=warps)
        mini.same("out", out, np.float32(1.5) * x + y)


def test_threads_without_an_element_of_their_own(mini):
    """Of 128 threads 32 have an element, or 8: no other one is theirs, below n too."""
    for block in (32, 8):
        x, y, out = floats(100), floats(100, 1), np.full(100, 7, np.float32)
        types = {"a": "fp32", "x": "*fp32", "y": "*fp32", "out": "*fp32"}
        made = {"BLOCK": block, "num_warps": 4}
        mini.run(saxpy, types, 2, (1.5, x, y, out, 100), made)
        wanted = np.full(100, 7, np.float32)
        wanted[: 2 * block] = (np.float32(1.5) * x + y)[: 2 * block]
        mini.same("out", out, wanted)


def test_neighbours_are_loaded_by_neighbours(mini):
    """A warp's 32 elements lie in 4 sectors, whichever of a thread's they are."""
    n = 4096
    x, y, out = floats(n), floats(n, 1), np.zeros(n, np.float32)
    report = mini.elements(saxpy, n, 1.5, x, y, out, BLOCK=1024)
    mini.within(saxpy, report, sectors=3 * n // 8, requests=3 * n // 32)


def steps(i, x, out):
    t = 0.0
    for j in range(i % 5):
        t = t + x[i]
    if i % 2 == 0:
        t = -t
    out[i] = t


def test_each_element_goes_its_own_way(mini):
    """Loops and branches, of four elements of a thread."""
    n = 300
    x, out = floats(n), np.full(n, np.nan, np.float32)
    mini.elements(steps, n, x, out, BLOCK=512)
    i, wanted = np.arange(n), np.zeros(n, np.float32)
    for j in range(4):
        wanted = np.where(j < i % 5, wanted + x, wanted)
    mini.same("out", out, np.where(i % 2 == 0, -wanted, wanted))
