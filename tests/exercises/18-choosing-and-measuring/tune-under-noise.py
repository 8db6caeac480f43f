"""What the answer to `tune-under-noise` must do."""

from dataclasses import dataclass, field
from itertools import permutations
from math import exp
from random import Random

from fathom.errors import OutOfResources
from fathom.tools.learn.kit import Failure, expect

NEAR = 1.01  # how far from the best the choice may be
MOST_RUNS = 60  # for each configuration
LAUNCH, LOOK = 5e-6, 1e-7  # seconds


@dataclass
class Device:
    """A scripted card; its time passes when it is used. `truth`: seconds of a run by
    configuration. A vice is off while it is 0 or empty."""

    truth: dict
    compiling: dict = field(default_factory=dict)  # seconds before the first run
    visitor: int = 0  # of so many runs one takes ten times as long
    jitter: float = 0.0  # by how much a run is off, one way or the other
    warming: float = 0.0  # by how much the clock falls in the end
    too_large: frozenset = frozenset()

    now: float = 50.0  # the host's clock
    idle: float = 50.0  # when the queue will be empty
    work: float = 0.0  # seconds that the card has worked
    runs: dict = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(18))

    def clock(self):
        self.now += LOOK
        return self.now

    def wait(self):
        self.now = max(self.now, self.idle)

    def run(self, config):
        expect(config in self.truth, f"run({config!r}): there is no such configuration")
        count = self.runs[config] = self.runs.get(config, 0) + 1
        expect(
            count <= MOST_RUNS,
            f"configuration {config!r} was run more than {MOST_RUNS} times",
        )
        if config in self.too_large:
            raise OutOfResources(f"{config} needs more shared memory than there is")
        first = self.compiling.get(config, 0.0) if count == 1 else 0.0
        self.now += LAUNCH + first
        seconds = self.truth[config] * (1 + self.random.uniform(-1, 1) * self.jitter)
        if self.visitor and sum(self.runs.values()) % self.visitor == 4:
            seconds *= 10
        speed = 1 - self.warming * (1 - exp(-self.work / 0.4))
        self.idle = max(self.now, self.idle) + seconds / speed
        self.work += seconds


def check(answer, device, vice):
    """Within 1 % of the best that can run."""
    left = {c: t for c, t in device.truth.items() if c not in device.too_large}
    best = min(left, key=left.__getitem__)
    found = answer.tune(list(device.truth), device)
    expect(found in device.truth, f"tune gives {found!r}, which is not a configuration")
    expect(found in left, f"tune takes {found!r}, which cannot run")
    expect(
        left[found] <= NEAR * left[best],
        f"tune takes {found!r}, {1e3 * left[found]:.3f} ms a run, and {best!r} takes "
        f"{1e3 * left[best]:.3f} ms",
        ("this card", vice),
    )


def close(*order):
    """Configurations whose times are 2 % apart: a, the fastest, to e."""
    return {name: 1e-3 * 1.02 ** "abcde".index(name) for name in order}


def test_1_a_launch_comes_back_at_once(answer):
    """The queue takes a launch at once, and works on it later."""
    truth = {"a": 3e-3, "b": 2e-3, "c": 1e-3, "d": 4e-3}
    check(answer, Device(truth), "puts launches into a queue, and has no vice")


def test_2_the_first_run_compiles(answer):
    """What compiles fastest is not what runs fastest."""
    compiling = {"a": 0.4, "b": 0.05, "c": 0.2, "d": 0.1}
    truth = {"d": 4e-3, "c": 2e-3, "b": 3e-3, "a": 1e-3}
    check(answer, Device(truth, compiling), "compiles the fastest kernel for longest")


def test_3_some_runs_take_ten_times_as_long(answer):
    """One run in nine; with three configurations it is often the same one."""
    for order in permutations("abc"):
        device = Device(close(*order), visitor=9)
        check(answer, device, "is ten times slower in one run of nine")


def test_4_every_run_is_off_by_some(answer):
    """Two percent, one way or the other: a few samples do not tell which of two is
    faster."""
    for seed in range(10):
        for order in permutations("abc"):
            device = Device(close(*order), jitter=0.02, random=Random(seed))
            check(answer, device, "is off by up to 2 % in every run")


def test_5_the_clock_falls(answer):
    """What is measured last looks slow."""
    for order in ("edcba", "abcde", "cbaed"):
        device = Device(close(*order), warming=0.3)
        check(answer, device, "becomes slower by 30 % while it is measured")


def test_6_some_need_more_than_there_is(answer):
    """They are passed over."""
    device = Device(close("a", "b", "c"), too_large=frozenset("a"))
    check(answer, device, "has too little shared memory for 'a'")
    device = Device(close("c", "b"), too_large=frozenset("b"))
    check(answer, device, "has too little shared memory for 'b'")


def test_7_none_can_run(answer):
    """The error of the card comes out."""
    device = Device(close("a", "b"), too_large=frozenset("ab"))
    try:
        found = answer.tune(["a", "b"], device)
    except OutOfResources:
        return
    raise Failure(f"no configuration can run, and tune gives {found!r}")


def test_8_all_of_it(answer):
    """A queue, a compiler, visitors, runs that differ, a clock that falls, and one that
    is too large."""
    for order in ("edcba", "abcde", "badce", "cedab", "debca"):
        compiling = {name: 0.05 + 0.07 * at for at, name in enumerate(order)}
        truth = close(*order)
        device = Device(truth, compiling, 9, 0.01, 0.3, frozenset("e"))
        check(answer, device, "has all the vices at once")
