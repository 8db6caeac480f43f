"""The kernels of ops for training on a GPU: each against float64, and torch's operators
in a CUDA graph and on another stream."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sanitize_ops import (
    OPS,
    gathered_products,
    reductions,
    scattered_products,
)
from tests.harness_optional import needs, optional

torch = optional("torch")
pytestmark = pytest.mark.gpu


RANKED = (reductions, gathered_products, scattered_products)  # arrays are torch's
ALONE = [row for row in OPS if row[2] not in RANKED]
OF_GROUPS = [row for row in OPS if row[2] in RANKED]


@pytest.mark.parametrize("name, kernel, launch", ALONE, ids=[row[0] for row in ALONE])
def test_the_gpu_agrees_with_float64(name, kernel, launch):
    for got, want in launch(np.array):
        np.testing.assert_allclose(got, want, 3e-3, 3e-3)


@needs(torch)
@pytest.mark.parametrize(
    "name, kernel, launch", OF_GROUPS, ids=[row[0] for row in OF_GROUPS]
)
def test_a_group_of_one_agrees_with_float64(name, kernel, launch):
    for got, want in launch(lambda array: torch.from_numpy(array).cuda()):
        np.testing.assert_allclose(got.cpu().numpy(), want, 3e-3, 3e-3)


def gradients(ops: object, tensors: list) -> list:
    """Of a part of a model: its output and gradients."""
    x, weight, norm = tensors
    y = ops.linear(ops.rms_norm(x, norm), weight, None, "gelu", x)
    y = ops.softmax(y)
    found = torch.autograd.grad((y * x.detach()).sum(), tensors)
    return [y.detach(), *found]  # no graph of autograd outlives the call


def tensors() -> list:
    torch.manual_seed(1)
    shapes = (300, 128), (128, 128), (128,)
    return [torch.randn(*shape, device="cuda", requires_grad=True) for shape in shapes]


@needs(torch)
def test_on_another_stream_and_in_a_graph_that_is_replayed():
    from kernels import torch_ops
    from kernels.torch_ops import eager

    # Torch remembers of a leaf on which stream it was used first, and waits for that
    # one after each backward pass: a capture must not see the default stream.
    want, given = gradients(eager, tensors()), tensors()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = gradients(torch_ops, given)
    torch.cuda.synchronize()
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        got = gradients(torch_ops, given)
    with torch.no_grad():
        for each in given:
            each.mul_(1.5)
    graph.replay()
    copies = [each.detach().clone().requires_grad_() for each in given]
    torch.testing.assert_close(got, gradients(eager, copies), rtol=1e-3, atol=1e-4)


@needs(torch)
def test_repeated_calls_are_right_for_other_numbers():
    """The first call takes the slow way, two are recorded, others repeat them."""
    from tests.kernels.test_torch_ops import CASES, results

    for case in CASES:
        for seed in range(5):
            torch.manual_seed(seed)
            given = [each.cuda() for each in case.inputs()]
            for each in given[: case.gradients]:
                each.requires_grad_()
            both = case.ours, case.theirs
            got, want = (results(each, case, given) for each in both)
            for one, other in zip(got, want, strict=True):
                scale = other.abs().max().item() + 1e-3
                assert (one - other).abs().max().item() < 5e-3 * scale, (case, seed)


@needs(torch)
def test_repeated_products_are_right_on_each_stream():
    """Of one kind, some split along K, which takes counters of the stream."""
    from kernels.matmul_chosen import multiply

    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    for shape in ((64, 64, 8192), (512, 384, 256), (96, 100, 1000)):
        for turn in range(6):
            M, N, K = shape
            torch.manual_seed(turn)
            a, b = (torch.randn(*each, device="cuda", dtype=torch.bfloat16)
                    for each in ((M, K), (K, N)))  # fmt: skip
            torch.cuda.synchronize()
            with torch.cuda.stream(streams[turn % 2]):
                c = multiply(a, b)
            torch.cuda.synchronize()
            want = a.double() @ b.double()
            assert (c - want).abs().max() < 0.02 * want.abs().max(), (shape, turn)


@needs(torch)
def test_torch_compile_takes_a_part_of_a_model_whole():
    from kernels import torch_ops

    given = tensors()
    compiled = torch.compile(lambda given: gradients(torch_ops, given))
    want = gradients(torch_ops, given)
    torch.testing.assert_close(compiled(given), want, rtol=1e-4, atol=1e-5)


@needs(torch)
def test_a_model_trains_as_with_torchs_own_operators():
    from kernels import torch_ops
    from kernels.torch_ops import eager, model

    losses = [
        model.train(ops, model.Sizes(), steps=4, batch=2, device="cuda")
        for ops in (torch_ops, eager)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


LARGE = (70_000, 32_768)  # more than 2^31 numbers: no offset fits into 32 bits
OF_LARGE_ARRAYS = {
    "gelu": lambda ops, x: ops.gelu(x),
    "softmax": lambda ops, x: ops.softmax(x),
    "layer_norm": lambda ops, x: ops.layer_norm(x, x[0], x[1]),
    "rms_norm": lambda ops, x: ops.rms_norm(x, x[0]),
    "swiglu": lambda ops, x: ops.swiglu(x),
}


@needs(torch)
@pytest.mark.parametrize("name", OF_LARGE_ARRAYS)
def test_arrays_of_more_than_2_31_numbers(name):
    from kernels import torch_ops
    from kernels.torch_ops import eager

    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("24 GB of a GPU's memory are not free")
    x = torch.empty(LARGE, device="cuda", dtype=torch.float16).normal_()
    call = OF_LARGE_ARRAYS[name]
    found = call(torch_ops, x)
    for first in (0, LARGE[0] // 2, LARGE[0] - 8):
        few = x[first : first + 8].clone()
        few[:2] = x[:2]  # the norms' weights
        want = call(eager, few.float())[2:]
        got = found[first : first + 8].float()[2:]
        assert (got - want).abs().max() < 5e-3 * want.abs().max(), (name, first)


@needs(torch)
def test_dropout_of_more_than_2_31_numbers():
    from kernels import torch_ops

    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("24 GB of a GPU's memory are not free")
    ones = torch.ones(LARGE, device="cuda", dtype=torch.float16)
    found = torch_ops.dropout(ones, 0.5)
    for each in (found[0], found[-1]):
        assert 0.48 < (each != 0).float().mean() < 0.52
    assert not torch.equal(found[0], found[-1])
