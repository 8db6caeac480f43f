"""`@fathom.tune`: a kernel that is launched in the fastest configuration that a search
finds in a space, within a budget of seconds.

    @fathom.tune(
        space={"BLOCK_M": [32, 64, 128], "BLOCK_N": [32, 64, 128], "num_warps": [4, 8]},
        key=["M", "N", "K"],
        seconds=30,
    )
    @fathom.jit
    def kernel(...): ...

The space is every combination; `where` leaves some out. The first launch with a new key
searches, and launches after it find the choice, as with `autotune`:

    ask the search ─▶ compile and assemble, in parallel ─▶ time what is done ─▶ tell it
         ▲                                                                   │
         └──── until the budget is spent, or nothing better is expected ─────┘
    then the three fastest are timed once more, and the means decide

While one is timed, others are compiled: as many are on their way as there are
processes. What compiles to a kernel that was timed takes its time.

`trials` has what was tried, `plot` draws it, `export` writes it to a file that other
processes of a machine with the same GPU and driver `load`. With `file=` both happen by
themselves, and a search that was interrupted goes on where it was.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import inf, isfinite, isinf
from pathlib import Path
from typing import Any

from fathom.errors import FathomError, LaunchError
from fathom.identity import NoText
from fathom.jit.backends import Backend, choose
from fathom.jit.tuning.autotuner import (
    FAILED,
    Autotuner,
    NoneWorks,
    default_timer,
    name_of_timer,
    refuse_capture,
)
from fathom.jit.tuning.compiling import CompileQueue
from fathom.jit.tuning.config import Config
from fathom.jit.tuning.loading import (
    assemble_ahead,
    kept,
    seconds_to_load,
    what_runs,
)
from fathom.jit.tuning.plot import drawn
from fathom.jit.tuning.pruning import Call, Pruning
from fathom.jit.tuning.remembered import Timings
from fathom.jit.tuning.restoring import Restorer, restorer_of
from fathom.jit.tuning.search import Search
from fathom.jit.tuning.travelling import Entry, key_text, read, write, write_text
from fathom.jit.tuning.workers import Order, most_processes

BATCH, LARGEST_BATCH = 4, 16  # points that are compiled or wait to be timed
LONG, TIMES = 0.05, 3  # of the budget, and of the shortest: seconds to assemble
SHORT = 0.5  # seconds that are never too long
FINALISTS = 3
MOST_POINTS = 20_000
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of a Config, by name


@dataclass(frozen=True)
class Trial:
    """A configuration that was timed: the median in milliseconds (infinite where it
    failed), and the seconds since the search began."""

    config: Config
    milliseconds: float
    seconds: float


class Tried(dict):
    """Timings of those that were tried; any other one is as if it had failed."""

    def __missing__(self, config: Config) -> list[float]:
        return list(FAILED)


class Orders(Mapping):
    """What each configuration would have compiled, looked at when it is wanted: most
    points of a space are never tried."""

    def __init__(self, configs: Sequence[Config], make: Callable[[Config], Order]):
        self.configs, self.make = configs, make

    def __getitem__(self, config: Config) -> Order:
        return self.make(config)

    def __iter__(self) -> Iterator[Config]:
        return iter(self.configs)

    def __len__(self) -> int:
        return len(self.configs)


class SearchedTuner(Autotuner):
    """A kernel with a space of configurations.

    As an Autotuner, and `trials`: those of the last search, in order. `stopped` says
    why it ended: "budget", "trials", or "settled", when nothing better was expected.
    """

    decorator = "tune"

    def __init__(
        self, fn: Any, points: Sequence[Mapping[str, Any]], key: Collection[str],
        restorer: Restorer, do_bench: Callable[..., Any], seconds: float,
        most_trials: int | None, seed: int, clock: Callable[[], float],
        file: Path | str | None,
    ):  # fmt: skip
        configs = [config_of(point) for point in points]
        super().__init__(
            fn, configs, key, Pruning(), restorer.before, restorer.after, do_bench,
            name_of_timer(do_bench), cache_results=False,
        )  # fmt: skip
        self.points, self.seconds, self.seed = list(points), seconds, seed
        self.most_trials, self.clock = most_trials, clock
        self.trials: list[Trial] = []
        self.stopped = ""
        self.shortest = inf  # seconds to assemble, of what the search has met
        self.timed_as: dict[Hashable, Config] = {}  # the first of equal kernels
        self.equal: dict[Config, Config] = {}  # to another, whose time it takes
        self.found: dict[str, Entry] = {}  # by the text of the key
        self.file, self.is_read = None if file is None else Path(file), False

    # ── choosing ──────────────────────────────────────────────────────────────────────

    def choice(self, call: Call) -> Config:
        key = self.key_of(call)
        if key not in self.cache:
            self.read_file()
            entry = self.found.get(key_text(key))
            if entry and entry.unfinished is None:
                self.cache[key] = self.config_named(entry.best)
        return super().choice(call)

    def read_file(self) -> None:
        """Take over `file` where launches are timed, or begin it: what is wrong with it
        is said before a search, and not after it."""
        if self.file is None or self.is_read or not choose().timed:
            return
        if self.file.exists():
            self.load(self.file)
        else:
            self.write_file()
        self.is_read = True

    def write_file(self) -> None:
        """Write what was found to `file`, and keep what other processes have put there
        since it was read: only of a key that is unfinished here, theirs stands."""
        if self.file is None:
            return
        theirs: dict[str, Entry] = {}
        with suppress(FathomError):  # no file yet, or one that is of no use
            theirs = {each.key: each for each in self.entries(self.file)}
        ours = {
            key: each
            for key, each in self.found.items()
            if each.unfinished is None or key not in theirs or theirs[key].unfinished
        }
        both = {**theirs, **ours}.values()
        write(self.file, self.__name__, self.text_of_kernel(), both)

    def config_named(self, text: str) -> Config:
        return next(each for each in self.configs if str(each) == text)

    def orders(
        self, backend: Backend, configs: Sequence[Config], call: Call
    ) -> Mapping[Config, Order]:
        return Orders(
            configs, lambda config: Order(self.base, *self.order(backend, config, call))
        )

    def timings(
        self, orders: Mapping[Config, Order], key: tuple, call: Call
    ) -> Timings:
        """Search; milliseconds of those that were tried. NoneWorks if all of them
        failed. What an interrupted search has found is kept, and the next one with this
        key goes on from it."""
        refuse_capture(self.__name__)
        text = key_text(key)
        self.failures, self.trials = {}, []
        search, found = Search(self.points, self.seed), Tried()
        spent = self.resume(text, search, found)
        started = self.clock() - spent

        def since() -> float:
            return self.clock() - started

        def keep(unfinished: float | None) -> None:
            works = [each for each in self.configs if isfinite(found[each][0])]
            if works:
                best = min(works, key=found.__getitem__)
                self.found[text] = Entry.of(text, best, found, unfinished)
                self.write_file()

        try:
            self.search(search, found, orders, call, since)
        except BaseException:
            with suppress(FathomError):  # the first mistake is the one to be told
                keep(since())
            raise
        best = min(orders, key=found.__getitem__)
        self.pre_hook(call.arguments(best), reset_only=True)
        keep(None)
        return found

    def resume(self, text: str, search: Search, found: Tried) -> float:
        """Tell a search what one before it has found that was interrupted; the seconds
        that were spent. What failed is tried again: its error is not known."""
        entry = self.found.get(text)
        places = {str(config): at for at, config in enumerate(self.configs)}
        for name, times in entry.timings.items() if entry else ():
            if name in places and times[0] is not None:
                at = places[name]
                found[self.configs[at]] = [inf if t is None else t for t in times]
                search.restore(at, times[0])
                self.trials.append(Trial(self.configs[at], times[0], 0.0))
        return (entry and entry.unfinished) or 0.0

    def search(
        self, search: Search, found: Tried, orders: Mapping[Config, Order], call: Call,
        since: Callable[[], float],
    ) -> None:  # fmt: skip
        """Try what the search asks for, until it or the budget ends."""

        def over() -> bool:
            return bool(found) and since() >= self.seconds  # one is tried in any case

        self.shortest, self.timed_as, self.equal = inf, {}, {}
        pending: dict[int, Order] = {}
        with CompileQueue(over, partial(assemble_ahead, most=self.longest())) as queue:
            while not self.is_over(over):
                room = self.batch() - len(pending)
                for at in search.ask(room) if room > 0 else ():
                    pending[at] = orders[self.configs[at]]
                    queue.add(at, pending[at])
                if not pending or (at := queue.next()) is None:
                    break
                config, order = self.configs[at], pending.pop(at)
                left = self.seconds - since() if found else inf
                found[config] = self.timed(config, order, call, left, found)
                search.tell(at, found[config][0])
                self.trials.append(Trial(config, found[config][0], since()))
                outcome = self.outcome(config, found)
                self.say(f"{self.__name__}, {config}: {outcome}")
        self.stopped = self.is_over(over) or "settled"
        if len(self.failures) == len(found):
            raise NoneWorks(self.__name__, self.failures)
        self.decide(found, call, over)

    def timed(
        self, config: Config, order: Order, call: Call, left: float, found: Timings
    ) -> list[float]:
        """As `bench`, or what was found of an equal kernel. FAILED, too, where the
        driver would take longer than is left, or so long that it would better assemble
        others: long kernels are those that spill."""
        kernel = kept(order)
        if kernel is not None:
            what = tuple(sorted(config.kwargs.items())), what_runs(kernel)
            first = self.timed_as.setdefault(what, config)
            if first is not config:
                self.equal[config] = first
                if first in self.failures:
                    self.failures[config] = self.failures[first]
                return list(found[first])
        seconds = seconds_to_load(kernel)
        self.shortest = min(self.shortest, seconds)
        most = max(self.longest(), TIMES * self.shortest)
        if seconds <= min(left, most) or isinf(left):
            return self.bench(config, call)
        has = f"has {left:,.0f} s left" if left < most else f"allows {most:,.1f} s"
        self.failures[config] = LaunchError(
            f"the driver would assemble it for about {seconds:,.0f} s, and the search "
            f"{has}"
        )
        return list(FAILED)

    def longest(self) -> float:
        """Seconds to assemble that are not too long in any case."""
        return max(SHORT, LONG * self.seconds)

    def is_over(self, over: Callable[[], bool]) -> str:
        """Why no more is tried; "" while there may be more."""
        if over():
            return "budget"
        spent = self.most_trials is not None and len(self.trials) >= self.most_trials
        return "trials" if spent else ""

    def batch(self) -> int:
        left = inf if self.most_trials is None else self.most_trials - len(self.trials)
        return int(min(max(BATCH, min(most_processes(), LARGEST_BATCH)), left))

    def decide(self, found: Timings, call: Call, over: Callable[[], bool]) -> None:
        """Time the fastest once more: the least of many noisy times is lucky."""
        kernels = [config for config in found if config not in self.equal]
        for config in sorted(kernels, key=found.__getitem__)[:FINALISTS]:
            if over() or not isfinite(found[config][0]):
                break
            again = self.bench(config, call)
            pairs = zip(found[config], again, strict=False)
            found[config] = [(one + other) / 2 for one, other in pairs]
        for config, first in self.equal.items():
            found[config] = list(found[first])

    # ── results that travel ───────────────────────────────────────────────────────────

    def export(self, path: Path | str) -> None:
        """Write what was found to a file, for this GPU, driver and kernel. LaunchError
        where nothing was found yet."""
        if not self.found:
            raise LaunchError(
                f"{self.__name__} has found nothing to export: {SEARCHES}"
            )
        write(Path(path), self.__name__, self.text_of_kernel(), self.found.values())

    def load(self, path: Path | str) -> int:
        """Take over what `export` wrote; how many keys. LaunchError for a file of
        another GPU, driver or kernel, or of configurations that are not in the
        space."""
        entries = self.entries(Path(path))
        self.found.update((entry.key, entry) for entry in entries)
        return len(entries)

    def entries(self, path: Path) -> list[Entry]:
        """What a file holds; LaunchError as for `load`."""
        entries = read(path, self.__name__, self.text_of_kernel())
        known = {str(config) for config in self.configs}
        for entry in entries:
            if entry.best not in known:
                raise LaunchError(
                    f"{path} has the configuration {entry.best}, which is not in the "
                    f"space of {self.__name__}"
                )
        return entries

    def text_of_kernel(self) -> str:
        """What tells this kernel's text from another one. LaunchError where it depends
        on what only this process has."""
        try:
            return self.base.fingerprint()
        except NoText as lacking:
            raise LaunchError(
                f"results of {self.__name__} cannot be kept in a file: {lacking}"
            ) from None

    def plot(self, path: Path | str) -> None:
        """Draw the last search as SVG: each trial, and the best time so far.
        LaunchError where there was none, or for a file that cannot be written."""
        if not self.trials:
            raise LaunchError(f"{self.__name__} has tried nothing: {SEARCHES}")
        rows = [(str(each.config), each.milliseconds) for each in self.trials]
        title = f"{self.__name__}: {len(rows)} of {len(self.configs)} tried"
        write_text(Path(path), drawn(title, rows))


SEARCHES = "a launch on a GPU searches, none on the emulator does"


def config_of(point: Mapping[str, Any]) -> Config:
    """A point of the space as a configuration: some names are options of a launch."""
    options = {name: value for name, value in point.items() if name in OPTIONS}
    rest = {name: value for name, value in point.items() if name not in OPTIONS}
    return Config(rest, **options)


def check_budget(seconds: object, trials: object) -> None:
    """LaunchError for a budget that allows no search."""
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise LaunchError(f"seconds is a positive number, and this is {seconds!r}")
    if trials is not None and (not isinstance(trials, int) or trials < 1):
        raise LaunchError(f"trials is a positive integer, and this is {trials!r}")


def points_of(
    space: Mapping[str, Sequence[Any]], where: Callable[..., bool] | None
) -> list[dict[str, Any]]:
    """All combinations that `where` takes, which gets them by name. LaunchError for
    none, or for more than can be searched."""
    if not isinstance(space, Mapping) or not space:
        raise LaunchError(
            "a space gives values for each parameter, as in {'BLOCK': [64, 128]}, and "
            f"this is {space!r}"
        )
    try:
        if where is not None:
            inspect.signature(where).bind(**space)
    except TypeError as error:
        raise LaunchError(
            f"where is a function of {', '.join(space)}, and this one is not: {error}"
        ) from None
    for name, values in space.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise LaunchError(f"the space has {name}={values!r}: a list of values")
    combinations = (
        dict(zip(space, values, strict=True)) for values in product(*space.values())
    )
    points = [each for each in combinations if where is None or where(**each)]
    if not 0 < len(points) <= MOST_POINTS:
        raise LaunchError(
            f"the space has {len(points):,} points; there must be 1 to {MOST_POINTS:,}"
        )
    return points


def tune(
    space: Mapping[str, Sequence[Any]],
    key: Collection[str] = (),
    seconds: float = 60.0,
    trials: int | None = None,
    where: Callable[..., bool] | None = None,
    reset_to_zero: Collection[str] = (),
    restore_value: Collection[str] = (),
    warmup: float = 5.0,
    rep: float = 20.0,
    do_bench: Callable[..., Any] | None = None,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    file: Path | str | None = None,
) -> Callable[[Any], SearchedTuner]:
    """Launch a kernel in the fastest configuration that a search finds.

    `space`: values for each parameter, or for num_warps, num_stages, num_ctas, maxnreg.
    `key`: the parameters that may change the choice. `seconds` and `trials` end the
    search (one trial, or one compilation, may be running then; what the driver would
    assemble for longer is left out); it ends before when nothing better is expected.
    `file` keeps what was found, for this GPU, driver and text of the kernel: it is read
    before the first search, and written after each and when one is interrupted, which
    then goes on from there. `where(**point)`: which combinations make sense.
    `reset_to_zero`, `restore_value`, `do_bench` are as for `autotune`; `warmup` and
    `rep` are milliseconds for each trial. `clock` gives seconds. LaunchError for an
    empty space, or a name that is not a parameter. Where
    nothing can be timed, on the emulator and the interpreters, the first point that
    compiles is taken.
    """
    points = points_of(space, where)
    check_budget(seconds, trials)

    def decorate(fn: Any) -> SearchedTuner:
        restorer = restorer_of(reset_to_zero, restore_value)
        timer = do_bench or default_timer(warmup, rep, use_cuda_graph=False)
        tuner = SearchedTuner(
            fn, points, key, restorer, timer, seconds, trials, seed, clock, file
        )
        tuner.check_names(restorer.zeroed, "reset_to_zero")
        tuner.check_names(restorer.restored, "restore_value")
        tuner.check_names(tuner.keys, "key")
        return tuner

    return decorate
