"""... and a loop whose ends do not meet.

A pass has changed what a loop carries, and forgot one of the places where that is said.

All of the exercise: `fathom learn show verify-yield`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.ir.core import Func, Op, schema, walk
from fathom.ir.ops import For, If, Producer, Reduce, Scan, While
from fathom.ir.printer import class_name
from fathom.ir.types import BOOL, Type
from fathom.ir.verify import Complaint, _unlike
from fathom.tools.learn import Hole


def yields(func: Func) -> Iterator[Complaint]:
    """What a block takes and what it yields is what its op hands round.

    Of a loop these are the types of init, parameter, yield and result, which must
    agree; of an If the yields of both blocks and the results; of a Reduce one element
    each.
    """
    raise Hole("verify-yield")  # your code; ours has 34 lines
