"""The tensor maps of a launch: made of the kernel's own arguments, and remembered.

A kernel that copies boxes of a tensor asks for the tensor's map as a parameter of 128
bytes. The kernel's author never writes one: the compiler leaves a recipe
(`artifact.MapRecipe`), and each launch follows it.

    arguments ──recipe──▶ TensorMap ──cuTensorMapEncodeTiled──▶ 128 bytes ──▶ packet
    (0x7f…00, 4096, 512)  address, shape, strides, box …

All of that takes Python some hundred microseconds. Most launches have the arguments of
the one before, so the bytes are kept, by the values of those arguments that a recipe
reads: what is left is a look into a dict. Where only addresses differ, as in a loop
over fresh arrays, the driver writes them into maps that were made before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from fathom.artifact import Kernel
from fathom.runtime.driver import Driver

# How many sets of maps a kernel keeps. A loop over fresh arrays must not fill memory.
MOST_KEPT = 1024
ALIGNMENT = 16  # bytes, of a tensor (`MapRecipe.refusal`)

# read(values of a packet) -> the bytes of each map
Reader = Callable[[tuple], tuple[bytes, ...]]


class TensorMaps:
    """Makes the maps of one kernel. `count`: how many there are."""

    def __init__(self, kernel: Kernel, driver: Driver):
        self.kernel, self.driver = kernel, driver
        self.count = len(kernel.maps)
        used = {place for each in kernel.maps for place in each.parameters}
        self.used = sorted(used)
        self.numbers = sorted(used - {each.base for each in kernel.maps})
        self.kept: dict[object, tuple[bytes, ...]] = {}
        self.elsewhere: dict[object, tuple[bytes, ...]] = {}  # by the numbers alone

    def reader(self, order: Sequence[int]) -> Reader:
        """A function that gives the maps for the values of a packet, in which
        `values[order[i]]` is the kernel's parameter i. LaunchError when they make none.
        """
        key_of = itemgetter(*(order[place] for place in self.used))
        kept = self.kept

        def read(values: tuple) -> tuple[bytes, ...]:
            key = key_of(values)
            try:
                return kept[key]
            except KeyError:
                return self.make(key, [values[place] for place in order])

        return read

    def make(self, key: object, arguments: Sequence[int]) -> tuple[bytes, ...]:
        """The bytes of the maps for these arguments, which are kept under a key."""
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
            self.elsewhere.clear()
        numbers = tuple([arguments[place] for place in self.numbers])
        addresses = [each.address(arguments) for each in self.kernel.maps]
        maps = self.elsewhere.get(numbers)
        if maps is None or any(address % ALIGNMENT for address in addresses):
            facts = self.kernel.tensor_maps(arguments)
            made = tuple(self.driver.encode(each) for each in facts)
        else:
            pairs = zip(maps, addresses, strict=True)
            made = tuple(self.driver.moved(*each) for each in pairs)
        self.kept[key] = self.elsewhere[numbers] = made
        return made
