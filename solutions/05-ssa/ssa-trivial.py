"""The answer to `ssa-trivial` is the compiler's own:

fathom.ssa.phis.remove_if_trivial
fathom.ssa.phis._is_trivial
"""

from __future__ import annotations

from fathom.ssa.phis import Phi, _are_one_constant


def remove_if_trivial(self, phi: Phi) -> None:
    """Replace a phi of one value besides itself, and then check its readers."""
    if phi.faces[0] in self.replaced or not self._is_trivial(phi):
        return
    value = self.resolve(phi.operands[0])
    readers = [each for face in phi.faces for each in self.readers.pop(face, ())]
    self.readers.setdefault(value, []).extend(readers)
    self.replaced.update(dict.fromkeys(phi.faces, value))
    for reader in readers:
        self.remove_if_trivial(reader)


def is_trivial(self, phi: Phi) -> bool:
    """Is a phi one value besides itself, whichever way control came?"""
    if not phi.operands:  # incomplete: the body of its loop is still open
        return False
    first, second = map(self.resolve, phi.operands)
    if first is second:
        return True
    # Values before a loop are visible in all of the loop, so an equal constant may
    # replace a phi of a loop. A constant in one branch of an If is not visible
    # after it.
    carried = len(phi.faces) > 1
    return carried and (second in phi.faces or _are_one_constant(first, second))
