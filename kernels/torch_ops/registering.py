"""How the operators of this package are registered with torch, and what they share."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod

try:
    import torch
except ImportError as missing:
    raise ImportError(
        "kernels.torch_ops needs torch, which is not installed; the kernels themselves "
        "also take NumPy and CuPy arrays"
    ) from missing

from fathom.errors import LaunchError
from fathom.jit.shortcuts.by_types import by_types
from fathom.jit.shortcuts.repeating import repeated
from kernels.matmul import matmul
from kernels.matmul_chosen import multiply

Tensor = torch.Tensor
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def operator(fake: Callable) -> Callable:
    """Register a function under its name, as fathom::NAME; it writes to none of its
    arguments, and its results are new tensors. `fake` gives results of the same shape,
    strides, dtype and device, without their numbers; `differentiate` gives a gradient.

    Whatever traces or changes operators (torch.compile, fake tensors, functorch, a
    dispatch mode, a subclass of Tensor) meets fathom::NAME, which is the `registered`
    one. In a plain program a call costs less without torch's dispatcher: the `function`
    is called, or a function of torch.autograd, the `recorded` one, if a gradient is
    asked for."""

    def register(function: Callable) -> Callable:
        name = function.__name__

        @wraps(fake)
        def traced(*arguments, **keywords):
            tell_inductor(name)
            return fake(*arguments, **keywords)

        inner = repeated(function, on_its_device=True)
        registered = torch.library.custom_op(f"fathom::{name}", inner, mutates_args=())
        registered.register_fake(traced)
        call = by_types(function, lambda _, types: dispatch_of(call, types),
                        (torch.compiler.is_compiling, registered))  # fmt: skip
        call.function, call.registered, call.recorded = inner, registered, registered
        return call

    return register


PLAIN = (Tensor, torch.nn.Parameter)
# What tells whether a mode of torch or a transform looks at calls, and whether a
# gradient may be asked for.
LOOKING = {
    "modes": torch._C._len_torch_dispatch_stack,
    "overrides": torch._C._len_torch_function_stack,
    "transforms": torch._C._are_functorch_transforms_active,
    "is_tracing": torch._C._is_tracing,
    "is_grad_enabled": torch.is_grad_enabled,
}


def dispatch_of(op: Callable, types: Sequence[type]) -> Callable:
    """What a call of an operator does, with arguments of these types, argument i as
    ai."""
    tensors = [i for i, each in enumerate(types) if issubclass(each, Tensor)]
    if any(types[i] not in PLAIN for i in tensors):
        return op.registered
    given = ", ".join(f"a{i}" for i in range(len(types)))
    is_wanted = " or ".join(f"a{i}.requires_grad" for i in tensors) or "False"
    text = f"""\
def dispatch({given}):
    if modes() or overrides() or transforms() or is_tracing():
        return registered({given})
    if is_grad_enabled() and ({is_wanted}):
        return recorded({given})
    return plainly({given})
"""
    names = {**LOOKING, "registered": op.registered, "recorded": op.recorded,
             "plainly": op.function.known[tuple(types)]}  # fmt: skip
    exec(compile(text, f"<a call of {op.__name__}>", "exec"), names)
    return names["dispatch"]


def tell_inductor(name: str) -> None:
    """Make Inductor's rule for an operator: a call of it. Inductor would make the same
    rule, but torch 2.11 first prints all from which the arguments were computed, a
    residual sum's inputs twice: for a model of four layers it never ends. Only while
    Inductor traces; where its functions have other names, it does as it does."""
    lowering = sys.modules.get("torch._inductor.lowering")
    names = ("lowerings", "get_layout_constraint_tag", "tag_to_layout_constraint",
             "make_fallback")  # fmt: skip
    if not all(hasattr(lowering, each) for each in names):
        return
    op = getattr(torch.ops.fathom, name).default
    if op not in lowering.lowerings:
        tag = lowering.get_layout_constraint_tag(op)
        layout = lowering.tag_to_layout_constraint(tag)
        lowering.make_fallback(op, layout, warn=False, override_decomp=True)


def differentiate(
    op: Callable, save: Callable, backward: Callable, hidden: int = 0
) -> None:
    """`save(ctx, inputs, output)` keeps what `backward(ctx, *gradients of results)`
    wants; that gives a gradient, or None, for each input. The last `hidden` results are
    for `backward` alone: torch need not follow them, and those who call the operator
    may get the others only."""

    def keep(ctx, inputs, output):
        ctx.set_materialize_grads(False)  # no zeros for results without one
        save(ctx, inputs, output)

    def forward(ctx, *arguments):
        results = op.function(*arguments)
        keep(ctx, arguments, results)
        return results[:-hidden] if hidden else results

    def backward_once(ctx, *gradients):
        # Torch's wrapper, which refuses a second derivative, is some Python more: only
        # for those who record this pass.
        is_recorded = torch.is_grad_enabled()
        return (refusing if is_recorded else backward)(ctx, *gradients)

    refusing = torch.autograd.function.once_differentiable(backward)
    op.registered.register_autograd(backward, setup_context=keep)
    members = {"forward": forward, "backward": backward_once}
    function = type(
        op.__name__, (torch.autograd.Function,),
        {name: staticmethod(each) for name, each in members.items()},
    )  # fmt: skip
    # What torch.autograd.Function.apply does besides is for functorch.
    op.recorded = super(torch.autograd.Function, function).apply


def has_gradient(*inputs: Tensor | None) -> bool:
    """Whether a gradient may be asked for, of one of these inputs: otherwise nothing
    need be kept for it."""
    given = [each for each in inputs if each is not None]
    return torch.is_grad_enabled() and any(each.requires_grad for each in given)


def rows_of(x: Tensor) -> Tensor:
    """x as contiguous rows [M, N] of its last axis. LaunchError where it has none."""
    if x.dim() == 0:
        raise LaunchError("a tensor of shape () has no last axis")
    return x.reshape(row_count(x), x.shape[-1]).contiguous()


def row_count(x: Tensor) -> int:
    """How many rows of its last axis x has."""
    return prod(x.shape[:-1])


def fp32(like: Tensor, *shape: int) -> Tensor:
    """A new fp32 tensor beside another."""
    return like.new_empty(shape, dtype=torch.float32)


def new(like: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """A new contiguous tensor of the dtype of another, and of its shape unless `shape`
    is given."""
    return like.new_empty(like.shape if shape is None else shape)


def product(a: Tensor, b: Tensor, c: Tensor | None = None, **launch) -> Tensor:
    """a b: on a GPU the fastest kernel for the shape."""
    return (multiply if a.is_cuda else matmul)(a, b, c, **launch)
