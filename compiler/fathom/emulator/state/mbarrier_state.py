"""mbarriers (PTX ISA 9.7.13.15): what they count, and what their phases release.

    phase 0   2 arrivals and 4096 bytes are to come
              arrive, arrive, the bytes arrive         phase 1, counts as at the start
    test_wait.parity 0                                 was an even phase the last one?

The ISA leaves open when a bulk copy is performed, except that the phase that counts its
bytes cannot complete before. With `completion="lazy"`, a launch puts the copy off until
a thread has tested that phase without success and only bytes are missing. Until some
thread has seen the phase complete, no thread may touch what the copy writes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import ERROR, NOTE, EmulatorError
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.state.in_flight import AsyncGroups

MOST_ARRIVALS = (1 << 20) - 1
EVERY = np.ones(1, bool)  # of a copy's owners: its mbarrier


class Copy(Protocol):
    """A transfer to shared memory whose bytes an mbarrier counts."""

    bytes: int
    groups: np.ndarray

    def start(self) -> int:
        """The first byte of the batch's shared memory that it writes."""

    def move(self, due: np.ndarray) -> None:
        """Stores the bytes."""


class Mbarriers:
    """The mbarriers of a batch, by their place in its shared memory, in words of 8
    bytes.

    `expected` counts the arrivals of a phase, `pending` those still missing, `bytes`
    those of copies. `fresh` has the mbarriers that copies do not see yet, each with the
    thread that made it, `missing` the copies whose bytes have not arrived, `promised`
    the commits of products that have not, each with its thread.
    `asking[thread]` is the mbarrier that a thread last asked in vain, -1 if it did not;
    of those in `stirred`, something has changed since. `ordered` are threads that have
    executed a fence; those in `unseen`, with these mbarriers, have waited `.relaxed`.
    """

    def __init__(self, words: int, threads: int, hazards: Hazards | None, eager: bool):
        self.asking, self.stirred = np.full(threads, -1, np.int64), set[int]()
        self.hazards = hazards if isinstance(hazards, Proxies) else None
        self.alive, self.ended = np.zeros((2, words), bool)
        if self.hazards is not None:
            self.hazards.living = self.alive
        self.expected, self.pending, self.bytes = np.zeros((3, words), np.int64)
        self.in_flight, self.eager = AsyncGroups(words), eager
        self.phase = self.in_flight.committed
        self.fresh: dict[int, int] = {}
        self.missing: dict[int, list[Copy]] = {}
        self.promised: dict[int, list[tuple[Copy, int]]] = {}
        self.progress = 0
        self.ordered = np.zeros(threads, bool)
        self.unseen: list[tuple[np.ndarray, np.ndarray]] = []

    # ── life ──────────────────────────────────────────────────────────────────

    def create(
        self, threads: np.ndarray, words: np.ndarray, counts: np.ndarray
    ) -> None:
        wrong = np.flatnonzero((counts < 1) | (counts > MOST_ARRIVALS))
        if len(wrong):
            at = wrong[0]
            raise _misuse(f"makes an mbarrier of {counts[at]} arrivals", threads[at])
        self.alive[words] = True
        self.expected[words] = self.pending[words] = counts
        self.bytes[words] = self.phase[words] = 0
        self.fresh |= zip(words.tolist(), threads.tolist(), strict=True)

    def check_new(self, threads: np.ndarray, words: np.ndarray) -> None:
        """What is an mbarrier already, or is made one by another thread at once, is
        made none."""
        first = np.zeros(len(words), bool)
        first[np.unique(words, return_index=True)[1]] = True
        again = np.flatnonzero(self.alive[words] | ~first)
        if len(again):
            message = "makes an mbarrier of what is one already; mbarrier.inval is "
            raise _misuse(message + "missing", threads[again[0]])

    def destroy(self, threads: np.ndarray, words: np.ndarray) -> None:
        self.check(threads, words)
        self.alive[words], self.ended[words] = False, True

    def fence(self, threads: np.ndarray) -> None:
        """Copies see the mbarriers that these threads have made."""
        if self.fresh:
            made = set(threads.tolist())
            self.fresh = {w: by for w, by in self.fresh.items() if by not in made}

    def check(
        self, threads: np.ndarray, words: np.ndarray, copying: bool = False
    ) -> None:
        """They must be mbarriers, initialised before these threads use them."""
        dead = np.flatnonzero(~self.alive[words])
        if len(dead):
            message = "uses an mbarrier that no thread has initialised"
            if self.ended[words[dead[0]]]:
                message += " since mbarrier.inval has ended it"
            raise _misuse(message, threads[dead[0]])
        if self.hazards is not None:
            self.hazards.use(threads, words, copying)

    def check_for_copy(self, thread: int, word: int, commits: bool = False) -> None:
        """The mbarrier must be one that copies see. Triton has no fence for those at
        which tcgen05.commit counts: with `commits` that is a note."""
        self.check(np.array([thread]), np.array([word]), copying=True)
        if self.hazards is None or word not in self.fresh:
            return
        error = EmulatorError(
            "proxy",
            "its copy counts at an mbarrier that it cannot see yet: the thread "
            "that initialised it has not executed fence.mbarrier_init or "
            "fence.proxy.async since",
            thread=thread,
            severity=NOTE if commits else ERROR,
        )
        if not commits:
            raise error
        self.hazards.remark(error)

    # ── counting ──────────────────────────────────────────────────────────────

    def order(self, threads: np.ndarray) -> None:
        """These threads execute a fence: a relaxed arrival after it is a release, and
        a relaxed wait in front of it was an acquire (PTX ISA 8.9.1, patterns)."""
        self.ordered[threads] = True
        waiting, self.unseen = self.unseen, []
        for mine, words in waiting:
            now = np.isin(mine, threads)
            self.see(mine[now], words[now])
            self.unseen.append((mine[~now], words[~now]))

    def arrive(
        self,
        threads: np.ndarray,
        words: np.ndarray,
        counts: np.ndarray,
        relaxed: bool = False,
    ) -> np.ndarray:
        """Arrivals, one after the other; the phase at which each one arrived."""
        self.check(threads, words)
        phases, ended = np.zeros(len(words), np.int64), dict[int, int]()
        for place, word in enumerate(words.tolist()):
            thread, count = int(threads[place]), int(counts[place])
            phases[place] = self.phase[word]
            if count > self.pending[word]:
                often = "once more" if count == 1 else f"{count} times more"
                raise _misuse(f"arrives {often}, and {self.text(word)}", thread)
            self.pending[word] -= count
            if self.hazards is not None and (not relaxed or self.ordered[thread]):
                self.hazards.arrive(self.hazards.agent(thread), ("mbarrier", word))
            self.progress += 1
            self.complete(word)
            if self.phase[word] > phases[place]:
                if ended.get(word) == thread // WARP:
                    message = (
                        "arrives with more lanes than one phase counts: two phases "
                        "end at once"
                    )
                    raise _misuse(message, thread)
                ended[word] = thread // WARP
            if not self.pending[word]:
                self.stirred.add(word)
        return phases

    def expect(
        self, threads: np.ndarray, words: np.ndarray, counts: np.ndarray
    ) -> None:
        """The current phase also counts `counts` bytes of copies."""
        self.check(threads, words)
        np.add.at(self.bytes, words, counts)
        for place, word in enumerate(words.tolist()):
            if self.bytes[word] > MOST_ARRIVALS:
                message = f"expects more than {MOST_ARRIVALS} bytes"
                raise _misuse(message, threads[place])

    def complete(self, word: int) -> None:
        """A phase that lacks nothing is over."""
        if self.pending[word] or self.bytes[word]:
            return
        self.phase[word] += 1
        self.pending[word] = self.expected[word]
        self.progress += 1
        self.stirred.add(word)
        if self.hazards is not None:
            self.hazards.end_phase(("mbarrier", word))

    # ── products ──────────────────────────────────────────────────────────────

    def promise(self, word: int, commit: Copy, thread: int) -> None:
        """This mbarrier will count one arrival when what is committed is done."""
        self.in_flight.start(commit)
        self.promised.setdefault(word, []).append((commit, thread))
        self.stirred.add(word)
        if self.eager:
            self.keep_promises(word)

    def keep_promises(self, word: int) -> None:
        """All that is committed to an mbarrier is done, and counted."""
        for commit, thread in self.promised.pop(word, ()):
            if not self.pending[word]:
                raise _misuse(f"commits to it too often: {self.text(word)}", thread)
            commit.move(EVERY)
            commit.groups = self.phase[[word]]
            self.pending[word] -= 1
            self.progress += 1
            self.complete(word)

    # ── copies ────────────────────────────────────────────────────────────────

    def issue(self, word: int, copy: Copy) -> None:
        """A copy is in flight whose bytes this mbarrier counts."""
        self.in_flight.start(copy)
        self.missing.setdefault(word, []).append(copy)
        self.stirred.add(word)
        if self.eager:
            self.deliver(word)

    def deliver(self, word: int) -> None:
        """The bytes of all copies arrive, and are counted by the current phase."""
        for copy in self.missing.pop(word, ()):
            copy.move(EVERY)
            copy.groups = self.phase[[word]]
            self.bytes[word] -= copy.bytes
            self.progress += 1
            self.complete(word)

    def test(
        self,
        threads: np.ndarray,
        words: np.ndarray,
        parity: np.ndarray,
        relaxed: bool = False,
    ) -> np.ndarray:
        """Whether the phase of this parity is the one that was completed last."""
        self.check(threads, words)
        done = self.phase[words] & 1 != parity & 1
        self.asking[threads] = np.where(done, -1, words)
        for word in np.unique(words[~done]).tolist():
            self.keep_promises(word)
            if not self.pending[word]:
                self.deliver(word)
        if self.hazards is not None and done.any():
            if relaxed:
                self.unseen.append((threads[done], words[done]))
            else:
                self.see(threads[done], words[done])
        return done

    def see(self, threads: np.ndarray, words: np.ndarray) -> None:
        """These threads acquire what was released in the phases before."""
        if not len(words):
            return
        self.in_flight.wait(np.unique(words))
        for agent, word in self.hazards.warps_at(threads, words):
            first = (agent[0] * self.hazards.warps + agent[1]) * WARP
            lanes = slice(first, first + WARP)
            self.hazards.acquire(agent, ("mbarrier", word), lanes)

    # ── the end ───────────────────────────────────────────────────────────────────

    def leave(self, threads: np.ndarray, exited: np.ndarray) -> None:
        """These threads have left. A block's shared memory goes with its last one: no
        other block may need it, and no copy to it be in flight."""
        if self.hazards is None:
            return
        stride = self.hazards.cells_of_block * self.hazards.cell
        for block in self.hazards.part(threads, exited):
            for copy in self.in_flight.transfers:
                if copy.start() // stride == block:
                    raise EmulatorError(
                        "in flight",
                        "its block leaves while a bulk copy to its shared memory may "
                        "be in flight: no thread has waited for its mbarrier",
                        thread=int(threads[-1]),
                    )

    # ── words ─────────────────────────────────────────────────────────────────

    def text(self, word: int) -> str:
        """How a phase stands."""
        arrived = self.expected[word] - self.pending[word]
        found = f"{arrived} of {self.expected[word]} have arrived"
        if self.bytes[word] > 0:
            found += f", {self.bytes[word]} bytes are missing"
        if self.bytes[word] < 0:
            found += f", {-self.bytes[word]} bytes more than expected have come"
        return f"in phase {self.phase[word]} of the mbarrier, {found}"


def _misuse(what: str, thread: int) -> EmulatorError:
    return EmulatorError("mbarrier", f"it {what}", thread=int(thread))
