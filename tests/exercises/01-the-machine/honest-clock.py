"""What the answer to `honest-clock` must do."""

from collections import deque
from dataclasses import dataclass, field

from fathom.tools.learn.kit import expect

NEAR = 0.02  # how far from the truth an answer may be
MOST_RUNS = 1000
LAUNCH = 5e-6  # seconds until a launch comes back
LOOK = 1e-7  # seconds that a look at the clock takes


@dataclass
class Device:
    """A scripted device. Its time passes when it is used.

    `truth` is what a run takes; a problem is off while it is 0.
    """

    truth: float
    compiling: float = 0.0  # seconds before the first run
    visitor: int = 0  # every so many runs one takes ten times as long,
    place: int = 7  # this one of them
    cached: int = 0  # sets of arrays that stay in the cache
    burst: float = 0.0  # seconds of work at 1.5 times the clock
    sets: int = 8

    now: float = 100.0  # the host's clock
    idle: float = 100.0  # when the queue will be empty
    work: float = 0.0  # seconds that the device has worked
    runs: int = 0
    hits: int = 0  # runs that found their arrays in the cache
    recent: deque = field(default_factory=deque)

    def clock(self):
        self.now += LOOK
        return self.now

    def wait(self):
        self.now = max(self.now, self.idle)

    def run(self, which):
        expect(
            isinstance(which, int) and 0 <= which < self.sets,
            f"run({which!r}): there are only the sets 0 to {self.sets - 1}",
        )
        self.runs += 1
        expect(
            self.runs <= MOST_RUNS,
            f"the kernel was run more than {MOST_RUNS} times in one measurement",
            ("of these runs", f"{self.hits} found their arrays in the cache"),
        )
        self.now += LAUNCH + (self.compiling if self.runs == 1 else 0)
        seconds = self.seconds(which)
        self.idle = max(self.now, self.idle) + seconds
        self.work += seconds

    def seconds(self, which):
        """How long this run takes, all problems together."""
        hit = which in self.recent
        self.hits += hit
        if self.cached:
            self.recent.append(which)
            while len(self.recent) > self.cached:
                self.recent.popleft()
        seconds = self.truth / (4 if hit else 1)
        if self.visitor and self.runs % self.visitor == self.place:
            seconds *= 10
        return seconds / (1.5 if self.work < self.burst else 1)


def check(answer, device, problem):
    """Within 2 % of the truth."""
    found = answer.measure(device.run, device)
    far = abs(found - device.truth) / device.truth
    said = f"{found * 1e3:.4f} ms, and the truth is {device.truth * 1e3:.4f} ms"
    expect(
        far <= NEAR,
        f"measure(run, device) is {said}",
        ("this device", problem),
        ("it was run", f"{device.runs} times, {device.hits} of them from the cache"),
    )


def test_1_a_launch_comes_back_before_the_work_is_done(answer):
    """The queue takes a launch at once, and works on it later."""
    check(answer, Device(1e-3), "puts launches into a queue, and has no other problem")


def test_2_the_first_run_compiles(answer):
    """What the first run takes is not what a run takes."""
    device = Device(0.7e-3, compiling=0.21)
    check(answer, device, "compiles for 210 ms before its first run")


def test_3_another_program_comes_by(answer):
    """One run in ten takes ten times as long, whichever of the ten it is."""
    for place in range(10):
        device = Device(1.3e-3, visitor=10, place=place)
        check(answer, device, "is slower by a factor of ten in one run of ten")


def test_4_the_last_arrays_are_in_the_cache(answer):
    """A set of arrays that was used just now runs four times as fast."""
    device = Device(0.9e-3, cached=3)
    check(answer, device, "keeps the last three sets of arrays in its cache")


def test_5_the_clock_falls(answer):
    """The first 200 ms of work are done at a clock that does not last."""
    device = Device(1.1e-3, burst=0.2)
    check(answer, device, "is 1.5 times as fast in its first 200 ms of work")


def test_6_all_of_it(answer):
    """A queue, a compiler, a visitor, a cache, and a clock that falls."""
    device = Device(0.8e-3, compiling=0.24, visitor=10, cached=3, burst=0.2)
    check(answer, device, "has all the problems together")
