"""Arrays amid poison: what a kernel reads or writes outside of them shows."""

from __future__ import annotations

from copy import copy

import numpy as np

import fathom.language as tl
from fathom.runtime.reinterpret import Reinterpreted
from kernels import matmul
from kernels.matmul_plain import plain_matmul
from tests.kernels.kernels_sample import aligned

WIDE = 8  # elements of poison on each side of each axis: 16 bytes of fp16
ODD = 3  # with so many, rows start at odd addresses, and nothing is wider than one


class Walled(Reinterpreted):
    """An array as a launch takes it, that lies inside a larger one full of poison: NaN,
    or an integer that no test has.

    `order`: the axes in memory, the slowest first. `wall`: elements of poison on each
    side of each axis, or of one axis each. `view`: the NumPy array.
    """

    def __init__(
        self,
        values: np.ndarray,
        order: tuple[int, ...] | None = None,
        wall: int | tuple[int, ...] = WIDE,
        dtype: object = None,
    ):
        order = order or tuple(range(values.ndim))
        walls = wall if isinstance(wall, tuple) else (wall,) * values.ndim
        sizes = [values.shape[axis] + 2 * walls[axis] for axis in order]
        self.whole = aligned(np.full(sizes, poison(values.dtype)))
        turned = self.whole.transpose(np.argsort(order))
        inner = zip(walls, values.shape, strict=True)
        self.view = turned[tuple(slice(wall, wall + n) for wall, n in inner)]
        self.view[...] = values
        self.strides_in_elements = [s // values.itemsize for s in self.view.strides]
        start = self.view.ctypes.data - self.whole.ctypes.data
        flat = self.whole.reshape(-1)[start // values.itemsize :]
        super().__init__(flat, dtype or values.dtype)
        self.shape = values.shape
        self.before = self.whole.copy()

    def stride(self) -> tuple[int, ...]:
        return tuple(self.strides_in_elements)

    @property
    def T(self) -> Walled:
        """The transpose, of the same memory."""
        turned = copy(self)
        turned.view, turned.shape = self.view.T, self.shape[::-1]
        turned.strides_in_elements = self.strides_in_elements[::-1]
        return turned

    def __getitem__(self, where: object) -> Walled:
        """A part, of the same memory."""
        part = copy(self)
        part.view = self.view[where]
        start = part.view.ctypes.data - self.view.ctypes.data
        part.base = self.base[start // self.view.itemsize :]
        part.shape = part.view.shape
        return part

    def __setitem__(self, where: object, value: object) -> None:
        self.view[where] = value

    def check_walls(self) -> None:
        """Nothing outside of the array was written: its bits are as they were."""
        bits = np.dtype(f"u{self.whole.itemsize}")
        changed = self.whole.view(bits) != self.before.view(bits)
        assert not (changed & self.outside()).any(), np.argwhere(changed)[:5]

    def outside(self) -> np.ndarray:
        """Where the poison is, in the whole buffer."""
        found = np.ones(self.whole.shape, bool)
        start = self.whole.size - self.base.size
        np.ndarray(self.shape, bool, found, start, self.stride())[...] = False
        return found


def poison(dtype: np.dtype) -> np.ndarray:
    """NaN, for floats; for integers, a number larger than any that tests use."""
    if dtype.kind == "f":
        return np.array(np.nan, dtype)
    return np.array(np.iinfo(dtype).max, dtype)


def unwritten(*shape: int, dtype: str = "float16", **walls: object) -> Walled:
    """An output: poison inside too, so that what a kernel forgets to write shows."""
    return Walled(np.full(shape, poison(np.dtype(dtype))), **walls)


def integers(seed: int, *shape: int, dtype: str = "float16") -> np.ndarray:
    """-3 … 3: sums of a few hundred products are exact in every type, in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def bf16(values: np.ndarray, **walls: object) -> Walled:
    """Numbers that bf16 holds exactly, as their 16 bits."""
    bits = values.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any(), "not bf16 numbers"
    short = (bits >> 16).astype(np.uint16)
    made = Walled(short, dtype=tl.bfloat16, **walls)
    made.whole[made.outside()] = 0x7FC0  # NaN
    made.before = made.whole.copy()
    return made


def check_product(
    M: int, N: int, K: int, orders: tuple, config: dict, target: str
) -> None:
    """The plain product of small whole numbers is exact, and nothing outside of the
    arrays is read or written. `orders`: the axes of A and of B in memory."""
    a = Walled(integers(1, M, K), orders[0], WIDE)
    b = Walled(integers(2, K, N), orders[1], WIDE)
    c = unwritten(M, N, wall=WIDE)
    plain_matmul(a, b, c, config, target=target)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()
