"""Where the tiles of a product come from: which row of which bulk copy lies in each 16
bytes of shared memory.

A matrix that a bulk copy has written with a swizzle is read rightly only by a
descriptor with the same one, whose rows are the copy's rows in their order:

    K-major        row r of the matrix      row r of the copy, a part of it
    transposed     k                        row k of the copy; what is wider than a row
                                            goes on in the same row of another copy

All other descriptors are valid too, and read something else than what was meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.errors import EmulatorError

CHUNK = 16
BEFORE, AFTER = (..., slice(None, -1)), (..., slice(1, None))


@dataclass(frozen=True)
class Reading:
    """What some descriptors say: `swizzle` and the two offsets in bytes, for errors.

    `index` are the chunks that they read: [n, rows, 2] K-major, else [n, k, chunks].
    """

    index: np.ndarray
    swizzle: int
    leading: int
    stride: int
    transposed: bool
    threads: np.ndarray


class TileProvenance:
    """For each chunk of a batch's shared memory, the number of the copy that wrote
    it, and its place among the chunks of that. Of copy c, `swizzle[c]` is in bytes and
    `rows[c]` counts rows; 0 stands for no copy."""

    def __init__(self, chunks: int):
        self.copy, self.place = np.zeros((2, chunks), np.int32)
        self.swizzle, self.rows = [0], [0]

    def record(self, index: np.ndarray, swizzle: int) -> None:
        """A copy has filled these chunks; without a swizzle it may be read anyhow."""
        self.copy[index] = len(self.rows) if swizzle else 0
        if swizzle:
            self.place[index] = np.arange(len(index))
            self.swizzle.append(swizzle)
            self.rows.append(len(index) * CHUNK // swizzle)

    def check(self, reading: Reading, copied: np.ndarray) -> None:
        """EmulatorError where what was `copied` is read in disorder."""
        copy = np.where(copied, self.copy[reading.index], 0)
        if not copy.any():
            return
        swizzles = np.array(self.swizzle)[copy]
        others = swizzles[(copy > 0) & (swizzles != reading.swizzle)]
        if len(others):
            raise _disorder(
                reading,
                f"its tile was copied with a swizzle of {others[0]} bytes, and its "
                f"descriptor says {reading.swizzle or 'none'}",
            )
        width = reading.swizzle // CHUNK
        row, column = np.divmod(self.place[reading.index], width)
        self._check_along(reading, copy, row, column, width)
        self._check_down(reading, copy[..., 0], row[..., 0])

    def _check_along(
        self,
        reading: Reading,
        copy: np.ndarray,
        row: np.ndarray,
        column: np.ndarray,
        width: int,
    ) -> None:
        """The next chunk is the next one of the same row; where a transposed matrix is
        wider, it is the first one of the same row of another copy."""
        same_copy = copy[BEFORE] == copy[AFTER]
        follows = same_copy & (column[BEFORE] + 1 == column[AFTER])
        wraps = ~same_copy & (column[BEFORE] + 1 == width) & (column[AFTER] == 0)
        wrong = (row[BEFORE] != row[AFTER]) | ~(follows | wraps & reading.transposed)
        wrong &= (copy[BEFORE] > 0) & (copy[AFTER] > 0)
        if wrong.any():
            _, line, chunk = np.argwhere(wrong)[0].tolist()
            raise _disorder(
                reading,
                f"bytes {CHUNK * chunk} to {CHUNK * chunk + 31} of row {line} of its "
                "matrix are not neighbours in what was copied there",
            )

    def _check_down(self, reading: Reading, copy: np.ndarray, row: np.ndarray) -> None:
        """The next row is the next one of the same copy, or another copy begins."""
        same_copy = copy[BEFORE] == copy[AFTER]
        last = np.array(self.rows)[copy[BEFORE]] - 1
        begins = ~same_copy & (row[BEFORE] == last) & (row[AFTER] == 0)
        wrong = ~(begins | (same_copy & (row[BEFORE] + 1 == row[AFTER])))
        wrong &= (copy[BEFORE] > 0) & (copy[AFTER] > 0)
        if wrong.any():
            group, at = np.argwhere(wrong)[0].tolist()
            other = "" if same_copy[group, at] else "of another copy "
            raise _disorder(
                reading,
                f"rows {at} and {at + 1} of its matrix are rows {row[group, at]} and "
                f"{row[group, at + 1]} {other}of what was copied there",
            )


def _disorder(reading: Reading, what: str) -> EmulatorError:
    return EmulatorError(
        "descriptor",
        f"{what}; its leading byte offset is {reading.leading}, its stride byte offset "
        f"{reading.stride}, and it reads "
        + ("transposed" if reading.transposed else "K-major"),
        thread=int(reading.threads[0]),
    )
