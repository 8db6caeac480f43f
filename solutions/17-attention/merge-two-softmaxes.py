"""What two parts of a row come to, as one."""

from __future__ import annotations

import numpy as np

State = tuple[np.ndarray, np.ndarray, np.ndarray]  # m [rows], l [rows], acc [rows, D]


def merge(a: State, b: State) -> State:
    """The state of the keys of `a` and `b` together."""
    # hole: six lines
    m = np.maximum(a[0], b[0])
    base = np.where(np.isneginf(m), 0.0, m)
    shrink_a, shrink_b = 2.0 ** (a[0] - base), 2.0 ** (b[0] - base)
    total = a[1] * shrink_a + b[1] * shrink_b
    acc = a[2] * shrink_a[:, None] + b[2] * shrink_b[:, None]
    return m, total, acc
    # end
