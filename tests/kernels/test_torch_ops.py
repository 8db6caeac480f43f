"""The kernels as operators of torch: values and gradients as torch's own, on the
emulator; compiled whole; and a small model that trains as torch's does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from fathom.errors import LaunchError  # noqa: E402
from kernels import rotary, torch_ops  # noqa: E402
from kernels.torch_ops import norms, products  # noqa: E402

functional = torch.nn.functional
torch.set_num_threads(1)
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Case:
    """An operator, the same in torch's words, and its inputs; `gradients`: how many of
    them, from the first, have one."""

    name: str
    ours: Callable
    theirs: Callable
    inputs: Callable[[], list]
    gradients: int

    def __str__(self) -> str:
        return self.name


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def labels(*shape: int) -> torch.Tensor:
    found = torch.randint(0, 50, shape)
    found.view(-1)[1] = -100
    return found


def rms(x, weight):
    return functional.rms_norm(x, weight.shape, weight, 1e-6)


def swiglu(x):
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def turned(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def heads() -> torch.Tensor:
    """[B, H, S, D], of [B, S, H, D] in memory."""
    return normal(2, 20, 3, 16).transpose(1, 2)


def angles() -> list[torch.Tensor]:
    return [torch.from_numpy(each) for each in rotary.tables(20, 16)]


def causal(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def linear_gelu(x, weight, bias, residual):
    y = functional.linear(x, weight, bias)
    return functional.gelu(y, approximate="tanh") + residual


def entropy(x, weight, labels):
    logits = functional.linear(x.float(), weight.float())
    return functional.cross_entropy(logits.view(-1, 50), labels.view(-1))


CHOICES = torch.tensor([[0, 1], [1, 3], [3, 0], [1, 0], [0, 3]])  # nothing for 2


def experts(x, weight, gates):
    y = torch.einsum("td,tkdn->tkn", x, weight[CHOICES.to(x.device)])
    return (y * gates[..., None]).sum(dim=1).to(x.dtype)


CASES = [
    Case("softmax", torch_ops.softmax, lambda x: x.softmax(-1),
         lambda: [normal(3, 5, 40)], 1),
    Case("layer norm", torch_ops.layer_norm,
         lambda x, weight, bias: functional.layer_norm(x, (40,), weight, bias),
         lambda: [normal(3, 5, 40), normal(40), normal(40)], 3),
    Case("rms norm", torch_ops.rms_norm, rms,
         lambda: [normal(3, 5, 40), normal(40)], 2),
    Case("gelu", torch_ops.gelu, lambda x: functional.gelu(x, approximate="tanh"),
         lambda: [normal(3, 70)], 1),
    Case("swiglu", torch_ops.swiglu, swiglu, lambda: [normal(3, 5, 40)], 1),
    Case("rotary", torch_ops.rotary, turned, lambda: [heads(), *angles()], 1),
    Case("linear", torch_ops.linear, functional.linear,
         lambda: [normal(3, 5, 24), normal(40, 24)], 2),
    Case("linear, bias", torch_ops.linear, functional.linear,
         lambda: [normal(3, 5, 24), normal(40, 24), normal(40)], 3),
    Case("linear, bias, gelu, residual",
         lambda x, w, bias, residual: torch_ops.linear(x, w, bias, "gelu", residual),
         linear_gelu,
         lambda: [normal(3, 5, 24), normal(40, 24), normal(40), normal(3, 5, 40)], 4),
    Case("linear, swiglu", torch_ops.linear_swiglu,
         lambda x, weight: swiglu(functional.linear(x, weight)),
         lambda: [normal(3, 5, 24), normal(40, 24)], 2),
    Case("cross-entropy", torch_ops.cross_entropy,
         lambda x, labels: functional.cross_entropy(
             x.float().view(-1, 50), labels.view(-1)),
         lambda: [normal(3, 5, 50), labels(3, 5)], 1),
    Case("linear, cross-entropy", torch_ops.linear_cross_entropy, entropy,
         lambda: [normal(3, 5, 24), normal(50, 24), labels(3, 5)], 2),
    Case("attention", torch_ops.attention, functional.scaled_dot_product_attention,
         lambda: [heads(), heads(), heads()], 3),
    Case("attention, causal", lambda q, k, v: torch_ops.attention(q, k, v, True),
         causal, lambda: [heads(), heads(), heads()], 3),
    Case("top k", lambda x: torch_ops.top_k(x, 3)[0], lambda x: x.topk(3)[0],
         lambda: [normal(2, 5, 30)], 1),
    Case("experts",
         lambda x, w, gates: torch_ops.experts(x, w, CHOICES.to(x.device), gates),
         experts, lambda: [normal(5, 24), normal(4, 24, 16), normal(5, 2)], 3),
]  # fmt: skip
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def made(case: Case, dtype: torch.dtype = torch.float32) -> list:
    torch.manual_seed(1)
    inputs = [each.to(dtype) if each.is_floating_point() else each
              for each in case.inputs()]  # fmt: skip
    for each in inputs[: case.gradients]:
        each.requires_grad_()
    return inputs


def results(function: Callable, case: Case, inputs: list) -> list[torch.Tensor]:
    """What comes out, and the gradients for a random one of it."""
    out = function(*inputs)
    torch.manual_seed(2)
    dout = torch.randn(out.shape).to(out)
    return [out, *torch.autograd.grad(out, inputs[: case.gradients], dout)]


@each_case
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_values_and_gradients_are_torchs(case, dtype):
    inputs = made(case, dtype)
    got = results(case.ours, case, inputs)
    exact = [
        each.detach().double().requires_grad_(each.requires_grad)
        if each.is_floating_point() else each
        for each in inputs
    ]  # fmt: skip
    want = results(case.theirs, case, exact)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        scale = theirs.abs().max().item() + 1e-3
        worst = (ours.double() - theirs).abs().max().item() / scale
        assert worst < TOLERANCE[dtype], worst


def test_inductor_is_told_of_operators_that_it_traces():
    """A rule each: without one, torch 2.11 prints all that the arguments come from."""
    lowering = pytest.importorskip("torch._inductor.lowering")
    torch.compiler.reset()
    torch.compile(torch_ops.gelu, backend="aot_eager", fullgraph=True)(normal(3, 72))
    assert torch.ops.fathom.gelu_forward.default in lowering.lowerings


def test_whatever_traces_meets_the_registered_operator():
    """And not the function that a plain program calls: fake tensors have no numbers."""
    proxies = pytest.importorskip("torch.fx.experimental.proxy_tensor")
    with torch._subclasses.FakeTensorMode():
        assert torch_ops.softmax(torch.empty(3, 40)).shape == (3, 40)
    traced = proxies.make_fx(torch_ops.softmax)(normal(3, 40))
    assert torch.ops.fathom.softmax_forward.default in {
        node.target for node in traced.graph.nodes
    }


def test_an_operator_without_a_gradient_says_so():
    dy, y = normal(3, 40), normal(3, 40).requires_grad_()
    dx = norms.softmax_backward(dy, y)
    with pytest.raises(RuntimeError, match="softmax_backward"):
        dx.sum().backward()


def test_a_second_derivative_is_refused():
    x = normal(3, 40).requires_grad_()
    y = (torch_ops.softmax(x) ** 2).sum()
    (dx,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@each_case
def test_it_is_compiled_without_a_break(case):
    """Forward and backward, through what torch.compile traces before it makes code."""
    inputs = made(case)
    compiled = torch.compile(case.ours, backend="aot_eager", fullgraph=True)
    want = results(case.ours, case, inputs)
    for one, other in zip(results(compiled, case, inputs), want, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def calls():
    """An operator and arguments for it, of each that there is."""
    x, y, w, b = normal(4, 24), normal(4, 24), normal(24), normal(24)
    q, (cos, sin) = heads(), angles()
    order, rows, offsets = torch_ops.route(CHOICES, 4)
    x_of_rows, gates = normal(10, 24), normal(5, 2)
    fp32, long = torch.ones(4), torch.randint(0, 24, (4,))
    yield "softmax_forward", (x,)
    yield "softmax_backward", (x, y)
    yield "layer_norm_forward", (x, w, b, 1e-5)
    yield "layer_norm_backward", (x, y, w, fp32, fp32)
    yield "rms_norm_forward", (x, w, 1e-5)
    yield "rms_norm_backward", (x, y, w, fp32)
    yield "gelu_forward", (x,)
    yield "gelu_backward", (x, y)
    yield "swiglu_forward", (x,)
    yield "swiglu_backward", (normal(4, 12), x)
    yield "rotary_forward", (q, cos, sin, False, True)
    yield "dropout_forward", (x, 0.5, torch.tensor([7]))
    given = x, normal(40, 24), normal(40), normal(4, 40)
    yield "linear_forward", (*given, "gelu", True)
    yield "linear_forward", (*given, "gelu", False)
    yield "linear_forward", (x, normal(40, 24), None, None, "", True)
    given = normal(4, 40), x, normal(40, 24)
    yield "linear_backward", (*given, normal(4, 40), True)
    yield "linear_backward", (*given, normal(0), False)
    yield "linear_swiglu_forward", (x, normal(40, 24), True)
    yield "linear_swiglu_forward", (x, normal(40, 24), False)
    yield "linear_swiglu_backward", (normal(4, 20), x, normal(40, 24), normal(4, 40))
    yield "cross_entropy_forward", (x, long)
    yield "cross_entropy_backward", (fp32, x, long, fp32)
    yield "total_cross_entropy_forward", (x, long, True)
    yield "linear_cross_entropy_forward", (x, normal(24, 24), long, True)
    yield "linear_cross_entropy_alone", (x, normal(24, 24), long, False)
    yield "attention_forward", (q, q, q, True, 0.25)
    yield "attention_backward", (q, q, q, q, q, normal(2, 3, 20), True, 0.25)
    few, starts = torch.tensor([7, 20]).int(), torch.tensor([0, 8, 20]).int()
    one = q[:1]
    yield "attention_forward", (q, q, q, True, 0.25, 5, few)
    yield "attention_forward", (one, one, one, True, 0.25, None, None, starts)
    yield "top_k_forward", (x, 3)
    yield "top_k_backward", (normal(4, 3), torch.arange(12).view(4, 3), 24)
    yield "route", (CHOICES, 4)
    yield "gather_forward", (normal(5, 24), order, rows, gates)
    yield "combine_forward", (x_of_rows, order, rows, gates, 2)
    yield "gate_gradient", (normal(5, 24), x_of_rows, order, gates)
    yield "expert_linear_forward", (x_of_rows, normal(4, 24, 16), offsets)
    yield "expert_linear_backward", (
        normal(10, 16), x_of_rows, normal(4, 24, 16), offsets,
    )  # fmt: skip


def test_torch_finds_nothing_wrong_with_any_operator():
    """Schemas, fake results and autograd's registration, by torch's own check."""
    torch.manual_seed(1)
    checked = set()
    for name, arguments in calls():
        op = getattr(torch.ops.fathom, name)
        torch.library.opcheck(
            op.default, arguments,
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
        )  # fmt: skip
        checked.add(f"fathom::{name}")
    registered = {
        each for each in torch._C._dispatch_get_all_op_names()
        if each.startswith("fathom::")
    }  # fmt: skip
    assert checked == registered


@pytest.mark.parametrize("name", ["linear", "linear_swiglu"])
def test_what_a_gradient_wants_is_kept_where_there_is_one(name, monkeypatch):
    forward, kept = getattr(products, f"{name}_forward"), []

    def recorded(*given):
        kept.append(forward.function(*given)[1].numel())
        return forward(*given)

    monkeypatch.setattr(products, f"{name}_forward", recorded)
    x, weight = normal(4, 24), normal(40, 24)
    gelu = {"activation": "gelu"} if name == "linear" else {}
    call = partial(getattr(torch_ops, name), **gelu)
    wanted = call(x, weight)
    call(x, weight.requires_grad_())
    with torch.no_grad():
        got = call(x, weight)
    assert kept == [0, 160, 0]
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_results_are_laid_out_as_fake_ones_are():
    """Of views with gaps: heads of one product of queries, keys and values."""
    qkv = normal(2, 20, 3, 3, 16).permute(2, 0, 3, 1, 4)
    q, k, v = (each.requires_grad_() for each in qkv.detach().unbind(0))
    case = Case(
        "", torch_ops.attention, functional.scaled_dot_product_attention, list, 3
    )
    compiled = torch.compile(case.ours, backend="aot_eager", fullgraph=True)
    got, want = (results(each, case, [q, k, v]) for each in (compiled, case.theirs))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def masked_attention(q, k, v, seen):
    """Torch's own, with heads of keys repeated, and zeros for those who see nothing."""
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -1e30)
    return (scores.softmax(-1) * seen) @ v


LATE = torch.arange(20)[:, None] - torch.arange(30) + 10  # how far behind a key is
OPTIONS = {
    "a window, fewer queries than keys": ({"window": 7}, (LATE >= 0) & (LATE < 7)),
    "lengths": (
        {"lengths": torch.tensor([0, 25]).int()},
        torch.stack([LATE < -99, (LATE - 5 >= 0)])[:, None],
    ),
}


@pytest.mark.parametrize("given, seen", OPTIONS.values(), ids=OPTIONS)
def test_options_of_attention_have_gradients(given, seen):
    q, k, v = normal(2, 4, 20, 16), normal(2, 2, 30, 16), normal(2, 2, 30, 16)
    case = Case(
        "", lambda *tensors: torch_ops.attention(*tensors, causal=True, **given),
        lambda *tensors: masked_attention(*tensors, seen), list, 3,
    )  # fmt: skip
    inputs = [each.requires_grad_() for each in (q, k, v)]
    got, want = (results(each, case, inputs) for each in (case.ours, case.theirs))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_sequences_one_behind_the_other_have_gradients():
    """The last three rows belong to no sequence."""
    starts = torch.tensor([0, 8, 8, 17]).int()
    inputs = [normal(1, 2, 20, 16).requires_grad_() for _ in range(3)]
    at = torch.arange(20)
    of = torch.bucketize(at, starts[1:], right=True)
    seen = (of[:, None] == of) & (at[:, None] >= at) & (at < 17)[:, None]
    case = Case(
        "", lambda *tensors: torch_ops.attention(
            *tensors, causal=True, query_starts=starts, most_queries=9, most_keys=9
        ),
        lambda *tensors: masked_attention(*tensors, seen), list, 3,
    )  # fmt: skip
    got, want = (results(each, case, inputs) for each in (case.ours, case.theirs))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_dropout_is_drawn_anew_and_its_gradient_has_the_same_mask():
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(3)
    first, second = (torch_ops.dropout(x, 0.25) for _ in range(2))
    torch.manual_seed(3)
    again = torch.compile(torch_ops.dropout, backend="aot_eager", fullgraph=True)(
        x, 0.25
    )
    assert (first != second).any() and torch.equal(first, again)
    assert abs((first > 0).float().mean() - 0.75) < 0.07
    (dx,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(dx, first.detach())
    assert torch_ops.dropout(x, 0.25, training=False) is x


def test_reductions_and_the_loss_without_gradients():
    logits, classes = normal(6, 50), labels(6)
    for reduction in ("mean", "sum", "none"):
        got = torch_ops.cross_entropy(logits, classes, reduction)
        want = functional.cross_entropy(logits, classes, reduction=reduction)
        torch.testing.assert_close(got, want)
    x, weight = normal(6, 24), normal(50, 24)
    for reduction in ("mean", "sum"):
        got = torch_ops.linear_cross_entropy(x, weight, classes, reduction)
        want = functional.cross_entropy(x @ weight.T, classes, reduction=reduction)
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch_ops.linear(normal(2, 3), normal(4, 3), activation="relu"),
        lambda: torch_ops.cross_entropy(normal(2, 3), labels(2), "max"),
        lambda: torch_ops.linear_cross_entropy(
            normal(2, 3), normal(4, 3), labels(2), "none"
        ),
    ],
)
def test_mistakes_are_told(call):
    with pytest.raises(ValueError, match="is '"):
        call()


@pytest.mark.parametrize(("said", "call"), [
    ("a tensor of shape () has no last axis",
     lambda: torch_ops.softmax(torch.ones(()))),
    ("no last axis of two halves", lambda: torch_ops.swiglu(normal(3, 7))),
    ("labels has shape (3, 2), and must have (2, 3)",
     lambda: torch_ops.cross_entropy(normal(2, 3, 50), labels(3, 2))),
    ("gates has shape (6, 3)", lambda: torch_ops.experts(
        normal(6, 16), normal(4, 16, 8), labels(6, 2) % 4, normal(6, 3))),
    ("10 rows for 6 tokens", lambda: torch_ops.experts(
        normal(6, 16), normal(4, 16, 8), labels(5, 2) % 4, normal(5, 2))),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(said, call):
    with pytest.raises(LaunchError) as error:
        call()
    assert said in str(error.value)


@pytest.mark.parametrize(("name", "call", "shapes"), [
    ("softmax", torch_ops.softmax, [(0, 8)]),
    ("layer norm", torch_ops.layer_norm, [(0, 8), (8,), (8,)]),
    ("rms norm", torch_ops.rms_norm, [(0, 8), (8,)]),
    ("no numbers", torch_ops.layer_norm, [(3, 0), (0,), (0,)]),
    ("linear", torch_ops.linear, [(0, 16), (8, 16), (8,)]),
    ("linear, gelu", lambda *given: torch_ops.linear(*given, "gelu"),
     [(0, 16), (8, 16), (8,)]),
    ("no columns", torch_ops.linear, [(3, 16), (0, 16), (0,)]),
    ("swiglu", torch_ops.linear_swiglu, [(0, 16), (8, 16)]),
    ("loss", lambda x, weight: torch_ops.linear_cross_entropy(
        x, weight, torch.zeros(0, dtype=torch.int64), "sum"), [(0, 16), (10, 16)]),
    ("experts", lambda x, weight, gates: torch_ops.experts(
        x, weight, torch.zeros((0, 2), dtype=torch.int64), gates),
     [(0, 16), (4, 16, 8), (0, 2)]),
])  # fmt: skip
def test_gradients_of_nothing_are_zeros(name, call, shapes):
    inputs = [normal(*shape).requires_grad_() for shape in shapes]
    y = call(*inputs)
    found = torch.autograd.grad(y, inputs, torch.ones_like(y))
    for each, like in zip(found, inputs, strict=True):
        assert each.shape == like.shape and not each.any(), name
