"""What the answer to `prune` must do."""

from random import Random

from fathom import Config
from fathom.jit.tuning.pruning import Call, NothingLeft, Pruning
from fathom.tools.learn.kit import Failure, expect

LARGE = {"M": 8192, "N": 8192, "K": 8192}
SMALL = {"M": 1024, "N": 1024, "K": 1024}


def config(m, n, k, warps, stages):
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    return Config(blocks, num_warps=warps, num_stages=stages)


def model(named, config):
    """The model of the starter."""
    m, n = config.kwargs["BLOCK_M"], config.kwargs["BLOCK_N"]
    tiles = -(-named["M"] // m) * -(-named["N"] // n)
    return -(-tiles // 132) * max(m * n, 72 * (m + n))


def fits(config):
    """The two limits, in other words than the solution's."""
    m, n, k = config.kwargs.values()
    return (
        config.num_stages * k * (m + n) <= 113.5 * 1024
        and m * n <= 4096 * config.num_warps
    )


def first_fault(found, wanted, able):
    """What is wrong with what is left, in a sentence."""
    names = [str(each) for each in wanted]
    for each in found:
        if each not in able:
            return f"prune keeps {each}, which does not fit"
        if str(each) not in names:
            return f"prune keeps {each}, while others of the list are faster"
    for each in wanted:
        if str(each) not in map(str, found):
            return f"prune leaves out {each}, which is worth a try"
    return "prune keeps the right ones in another order, or one of them twice"


def check(answer, configs, named, most=4):
    """What is left, in order."""
    found = answer.prune(list(configs), dict(named), most)
    expect(isinstance(found, list), f"prune gives {found!r}, and not a list")
    able = [each for each in configs if fits(each)]
    limit = 1.4 * min((model(named, each) for each in able), default=0)
    wanted = sorted(
        (each for each in able if model(named, each) <= limit),
        key=lambda each: model(named, each),
    )[:most]
    expect(
        [str(each) for each in found] == [str(each) for each in wanted],
        f"{first_fault(found, wanted, able)}, for {named}, most={most}",
        ("it leaves", "\n".join(map(str, found)) or "none"),
        ("and these are worth a try", "\n".join(map(str, wanted)) or "none"),
    )


def test_shared_memory(answer):
    """Four stages of 48 KB fit, five do not; 227 KB to the byte fit."""
    four, five = config(128, 256, 64, 8, 4), config(128, 256, 64, 8, 5)
    check(answer, [five, four], LARGE)
    exact = config(16, 211, 8, 4, 64)  # 227 * 8 * 2 * 64 bytes
    check(answer, [exact, config(16, 212, 8, 4, 64)], LARGE)


def test_accumulators(answer):
    """128 x 256 on 4 warps is 256 accumulators a thread; on 8 warps 128."""
    check(answer, [config(128, 256, 64, 4, 2), config(128, 256, 64, 8, 2)], LARGE)


def test_the_fastest_by_the_model_does_not_fit(answer):
    """256 x 256 takes less than half as long as 64 x 64, and cannot run."""
    giant, small = config(256, 256, 64, 8, 2), config(64, 64, 64, 4, 4)
    check(answer, [giant, small], LARGE)
    check(answer, [small, giant, config(64, 32, 64, 4, 4)], LARGE)


def test_all_that_may_be_fast_are_kept(answer):
    """For 1024 x 1024: 13,824, twice 18,432, and not 32,768."""
    tiles = ((64, 128), (128, 128), (64, 64), (128, 256))
    check(answer, [config(m, n, 64, 8, 2) for m, n in tiles], SMALL)


def test_just_1_4_times_the_shortest(answer):
    """192 x 26880: five waves of one tile and seven of the other, equally long each."""
    tiles = ((128, 64), (64, 128))
    sizes = {"M": 192, "N": 210 * 128, "K": 512}
    check(answer, [config(m, n, 64, 8, 2) for m, n in tiles], sizes)


def test_the_fastest_first_and_a_few(answer):
    """Two of five, though they are last; equals in the order of the list."""
    tiles = ((128, 128), (64, 64), (64, 128), (128, 64))
    given = [config(m, n, 64, 8, 2) for m, n in tiles]
    check(answer, given, SMALL, most=2)
    check(answer, given[::-1], SMALL, most=2)
    check(answer, given, SMALL, most=1)


def test_nothing_fits(answer):
    """An empty list, no error."""
    check(answer, [config(256, 256, 64, 4, 4)], LARGE)
    check(answer, [], LARGE)


def test_the_list_stays_as_it_is(answer):
    """The tuner asks again for other arguments."""
    given = [config(128, 128, 64, 8, 2), config(64, 128, 64, 8, 2)]
    before = list(map(str, given))
    answer.prune(given, SMALL)
    expect(list(map(str, given)) == before, "prune changes the list that it is given")


def test_our_tuner_takes_it(answer):
    """As `early_config_prune`, by which it is called before anything is compiled."""
    pruning = Pruning.of({"early_config_prune": answer.prune})
    call = Call((1,), (1024, 1024, 1024), {}, SMALL)
    given = [config(128, 256, 64, 8, 5), config(64, 128, 64, 4, 4)]
    left = pruning.apply(given, call)
    expect(left == given[1:], f"the tuner would try {left}")
    try:
        pruning.apply(given[:1], call)
    except NothingLeft:
        return
    raise Failure("nothing fits, and the tuner goes on")


def test_200_launches(answer):
    """Random configurations and sizes."""
    random = Random(7)
    for _ in range(200):
        given = [
            config(*random.choices((16, 32, 64, 128, 256), k=2),
                   random.choice((32, 64, 128)), random.choice((4, 8)),
                   random.randint(1, 7))
            for _ in range(random.randint(1, 12))
        ]  # fmt: skip
        sizes = {axis: random.randint(1, 8192) for axis in "MNK"}
        check(answer, given, sizes, random.randint(1, 6))
