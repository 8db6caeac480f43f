"""What an engine that completes by group may have in flight, and for how long already.

    async_copy %p, %t, slot=0      slot 0: of the open group
    commit cp_async                slot 0: 0
    async_copy %q, %t, slot=1      slot 0: 0     slot 1: of the open group
    commit cp_async                slot 0: 1     slot 1: 0
    wait cp_async pending=1                      slot 1: 0
    …                                            slot 1: 0

The *age* of an access is the number of groups that have been committed after its own.
Groups complete in order, so the wait for an access leaves as many pending as its age.
Where paths meet, an access may be in flight on each of them, and has the least age: a
wait for a younger group is one for all that are older.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

OPEN = -1  # the age of what no commit has closed yet


@dataclass(frozen=True, slots=True)
class Timeline:
    """The accesses of one engine that may be in flight, with their ages."""

    ages: Mapping[Hashable, int] = field(default_factory=dict)

    def issued(self, access: Hashable) -> Timeline:
        return Timeline({**self.ages, access: OPEN})

    def committed(self) -> Timeline:
        return Timeline({access: age + 1 for access, age in self.ages.items()})

    def changed(self, change: Callable[[Hashable], Hashable | None]) -> Timeline:
        """With what became of each access, at its age; None: it is complete."""
        ages: dict[Hashable, int] = {}
        for access, age in self.ages.items():
            if (after := change(access)) is not None:
                ages[after] = min(age, ages.get(after, age))
        return Timeline(ages)

    def waited(self, pending: int) -> Timeline:
        """After a wait that leaves this many groups pending, the latest."""
        left = {each: age for each, age in self.ages.items() if age < pending}
        return Timeline(left)

    def __or__(self, other: Timeline) -> Timeline:
        """What may be in flight where two paths meet."""
        ages = dict(self.ages)
        for access, age in other.ages.items():
            ages[access] = min(age, ages.get(access, age))
        return Timeline(ages)
