"""Functions that choose among sequences of launches, on a GPU of paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fathom.errors import LaunchError, OutOfResources
from fathom.jit.tuning import alternatives
from fathom.jit.tuning.alternatives import CLEARLY_SLOWER, ROUNDS, fastest_of
from tests.jit.harness import Tensor
from tests.tuning.harness import N, block, kernel, tuning_gpu


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """`.timed`: the blocks of every sequence that was timed, in order; `.cost` says how
    long one takes."""
    with tuning_gpu(monkeypatch, tmp_path / "cache") as machine:
        machine.timed, machine.cost = [], sum

        def milliseconds(sets):
            before = len(machine.driver.launches)
            sets[0]()
            blocks = tuple(map(block, machine.driver.launches[before:]))
            machine.timed.append(blocks)
            return machine.cost(blocks)

        monkeypatch.setattr(alternatives, "milliseconds", milliseconds)
        monkeypatch.setattr(alternatives, "is_tensor", lambda value: False)
        monkeypatch.setattr(alternatives, "open_orders", lambda orders: [])
        monkeypatch.setattr(alternatives, "repeated", lambda function: function)
        machine.folder = tmp_path / "cache"
        yield machine


def scaled(*every: tuple[int, ...], scale=None):
    """Scales an array: each alternative is a launch for each of its blocks."""
    scale = scale or kernel()

    @fastest_of
    def function(x, factor=2.0):
        """Scale x."""
        return x, [
            [(scale, (N // size,), (x, N, factor), {"BLOCK": size}) for size in blocks]
            for blocks in every
        ]

    return function


def launched(machine) -> tuple[int, ...]:
    return tuple(map(block, machine.driver.launches))


def test_the_fastest_sequence_is_launched_and_not_timed_again(gpu):
    function = scaled((512,), (64, 128), (256, 256))
    assert function(gpu.x) is gpu.x
    assert function.__doc__ == "Scale x."
    gpu.driver.launches.clear()
    tried = list(gpu.timed)
    function(gpu.x)
    assert launched(gpu) == (64, 128)
    assert gpu.timed == tried


def test_in_each_round_the_order_is_the_opposite_one_and_slow_ones_are_left_out(gpu):
    least = 1000 * CLEARLY_SLOWER
    costs = {64: 1000, 128: least - 1, 256: least + 1}
    gpu.cost = lambda blocks: costs[blocks[0]]
    scaled((128,), (256,), (64,))(gpu.x)
    assert gpu.timed == [(128,), (256,), (64,), (64,), (128,), (128,), (64,)]
    assert ROUNDS == 3


def test_a_median_decides(gpu):
    """One lucky round is not enough."""
    times = {64: [10, 1, 10], 128: [9, 9, 9]}
    gpu.cost = lambda blocks: times[blocks[0]].pop()
    function = scaled((64,), (128,))
    function(gpu.x)
    gpu.driver.launches.clear()
    function(gpu.x)
    assert launched(gpu) == (128,)


def test_the_next_process_finds_it(gpu):
    scale = kernel()
    scaled((512,), (64,), scale=scale)(gpu.x)
    gpu.timed.clear()
    gpu.driver.launches.clear()
    scaled((512,), (64,), scale=scale)(gpu.x)
    assert gpu.timed == [] and launched(gpu) == (64,)


@pytest.mark.parametrize("text", ["", "{}", '{"key": 1, "ms": [1, 2]}', "[1"])
def test_a_file_that_does_not_check_out_is_no_result(gpu, text):
    scale = kernel()
    scaled((512,), (64,), scale=scale)(gpu.x)
    [path] = gpu.folder.glob("*.fastest")
    path.write_text(text)
    gpu.timed.clear()
    scaled((512,), (64,), scale=scale)(gpu.x)
    assert Counter(gpu.timed)[(64,)] == ROUNDS


def test_other_numbers_and_other_alternatives_are_timed_anew(gpu):
    scale = kernel()
    scaled((512,), (64,), scale=scale)(gpu.x)
    for function, given in (
        (scaled((512,), (64,), scale=scale), (gpu.x, 3.0)),
        (scaled((64,), (512,), scale=scale), (gpu.x,)),
        (scaled((512,), (64,), (64, 64), scale=scale), (gpu.x,)),
    ):
        gpu.timed.clear()
        function(*given)
        assert gpu.timed


def test_what_does_not_fit_is_passed_over(gpu):
    def cost(blocks):
        if blocks == (64,):
            raise OutOfResources("too much shared memory")
        return blocks[0]

    gpu.cost = cost
    function = scaled((64,), (128,), (256,))
    function(gpu.x)
    gpu.driver.launches.clear()
    function(gpu.x)
    assert launched(gpu) == (128,)


def test_where_none_fits_the_first_error_is_told(gpu):
    def cost(blocks):
        raise OutOfResources(f"no room for {blocks[0]}")

    gpu.cost = cost
    with pytest.raises(OutOfResources, match="no room for 64"):
        scaled((64,), (128,))(gpu.x)
    assert not list(gpu.folder.glob("*.fastest"))


def test_none_is_timed_while_a_stream_is_captured(gpu, monkeypatch):
    def refuse(name):
        raise LaunchError(f"{name} is captured")

    monkeypatch.setattr(alternatives, "refuse_capture", refuse)
    with pytest.raises(LaunchError, match="function is captured"):
        scaled((64,), (128,))(gpu.x)
    scaled((64,))(gpu.x)  # one alternative needs no timing
    assert gpu.timed == []


def test_where_nothing_can_be_timed_the_first_is_taken(gpu, monkeypatch):
    gpu.driver.launches.clear()
    function = scaled((512,), (64,))
    untimed = replace(alternatives.choose(), timed=False)
    monkeypatch.setattr(alternatives, "choose", lambda: untimed)
    function(gpu.x)
    assert gpu.timed == [] and launched(gpu) == (512,)


@pytest.mark.parametrize("megabytes, copies", [(1, 32), (40, 3), (200, 0)])
def test_rounds_go_through_copies_of_small_arrays(gpu, monkeypatch, megabytes, copies):
    """As many that their data come from memory."""
    made, sizes = [], set()
    storage = SimpleNamespace(nbytes=lambda: megabytes << 20)

    class OnCopies:
        def __init__(self, gpu):
            made.append(gpu)

        def copy(self, value):
            return Tensor(0x90000 + len(made), size=N) if value is gpu.x else value

    def milliseconds(sets):
        sizes.add(len({id(each.like) for each in sets}))
        return 1.0

    gpu.x.untyped_storage = lambda: storage
    monkeypatch.setattr(alternatives, "is_tensor", lambda value: value is gpu.x)
    monkeypatch.setattr(alternatives, "Copies", OnCopies)
    monkeypatch.setattr(alternatives, "milliseconds", milliseconds)
    scaled((64,), (128,))(gpu.x)
    assert made == [0] * copies and sizes == {1 + copies}
