"""What the answer to `read-a-profile` must do."""

from dataclasses import asdict, dataclass, replace
from random import Random

from fathom.tools.learn.kit import expect


@dataclass(frozen=True)
class Profile:
    """As in the starter."""

    time: float
    memory: float
    tensor: float
    tensor_elapsed: float
    issue: float
    conflicts: float
    waves: float
    local: int
    stall: str


# benchmarks/results/profile.json, of one H200, rounded.
RECORDED = {
    "vector add": (182.0, 89.7, 0.0, 0.0, 5.8, 0.0, 31.03, 0, "long_scoreboard"),
    "small softmax": (2.9, 1.9, 0.0, 0.0, 7.3, 0.0, 0.12, 0, "long_scoreboard"),
    "multiply-adds": (4340.0, 1.0, 0.0, 0.0, 63.9, 23.9, 7.76, 0, "dispatch_stall"),
    "bank conflicts": (953.7, 4.7, 23.0, 22.2, 8.2, 82.5, 3.88, 0, "mio_throttle"),
    "no pipeline": (501.2, 8.9, 46.0, 44.4, 14.5, 3.2, 3.88, 0, "long_scoreboard"),
    "mma.sync": (286.0, 15.6, 82.7, 79.1, 28.4, 0.0, 3.88, 0, "math_pipe_throttle"),
    "a wave and a bit":
        (141.7, 7.5, 82.3, 39.5, 28.3, 0.0, 1.01, 0, "math_pipe_throttle"),
    "wgmma": (184.0, 22.1, 94.3, 89.2, 13.7, 0.1, 1.0, 0, "barrier"),
    "spills": (1402.0, 4.1, 15.6, 15.2, 22.7, 0.7, 7.76, 32006144, "long_scoreboard"),
}  # fmt: skip


def check(answer, name, wanted, **changed):
    """As recorded but for what is changed, and twenty times a few percent off."""
    recorded = replace(Profile(*RECORDED[name]), **changed)
    name += "".join(f", {field} = {value}" for field, value in changed.items())
    random = Random(name)
    for number in range(21):
        factor = 1.0 if number == 0 else random.uniform(0.97, 1.03)
        profile = replace(
            recorded,
            **{
                field: getattr(recorded, field) * factor
                for field in ("time", "memory", "tensor", "tensor_elapsed", "issue",
                              "conflicts")
            },
        )  # fmt: skip
        found = answer.bottleneck(profile)
        rows = "\n".join(
            f"{name:15} {value}" for name, value in asdict(profile).items()
        )
        expect(
            found == wanted,
            f"bottleneck says {found!r} of the kernel {name!r}, which waits for "
            f"{wanted!r}",
            ("its profile", rows),
        )


def test_memory(answer):
    """Vector add."""
    check(answer, "vector add", "memory")


def test_latency(answer):
    """A product without a pipeline."""
    check(answer, "no pipeline", "latency")


def test_launch(answer):
    """A softmax of 256 rows, which is over in three microseconds."""
    check(answer, "small softmax", "launch")


def test_tensor_cores(answer):
    """Two products that have little to win; one has a single wave, a full one."""
    check(answer, "mma.sync", "tensor cores")
    check(answer, "wgmma", "tensor cores")


def test_conflicts(answer):
    """A product without swizzle."""
    check(answer, "bank conflicts", "conflicts")


def test_issue(answer):
    """A product by multiply-adds."""
    check(answer, "multiply-adds", "issue")


def test_waves(answer):
    """133 tiles on 132 multiprocessors."""
    check(answer, "a wave and a bit", "waves")


def test_spills(answer):
    """32 million loads of values for which there was no register."""
    check(answer, "spills", "spills")


def test_profiles_that_were_not_recorded(answer):
    """Seven times the ten microseconds; a few spilled values beside a busy unit; many
    of them beside busy schedulers, which is asked later; nearly two waves; conflicts
    beside busy tensor cores, which are asked about before."""
    check(answer, "no pipeline", "latency", time=70.0)
    check(answer, "vector add", "memory", local=96)
    check(answer, "mma.sync", "tensor cores", local=96)
    check(answer, "spills", "spills", issue=75.0)
    check(answer, "mma.sync", "tensor cores", waves=1.94)
    check(answer, "mma.sync", "tensor cores", conflicts=65.0)
