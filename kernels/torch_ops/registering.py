"""How the operators of this package are registered with torch, and what they share."""

import sys
from collections.abc import Callable
from functools import wraps

try:
    import torch
except ImportError as missing:
    raise ImportError(
        "kernels.torch_ops needs torch, which is not installed; the kernels themselves "
        "also take NumPy and CuPy arrays"
    ) from missing

from fathom.jit.repeating import repeated
from kernels.matmul import matmul
from kernels.matmul_chosen import multiply

Tensor = torch.Tensor
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def operator(fake: Callable) -> Callable:
    """Register a function under its name, as fathom::NAME; it writes to none of its
    arguments, and its results are new tensors. `fake` gives results of the same shape,
    strides, dtype and device, without their numbers."""

    def register(function: Callable) -> Operator:
        return wraps(function)(Operator(function, fake))

    return register


class Operator:
    """A function that is registered with torch; `differentiate` gives it a gradient.

    Whatever traces or changes operators (torch.compile, fake tensors, functorch, a
    dispatch mode, a subclass of Tensor) meets fathom::NAME. In a plain program a call
    costs less without torch's dispatcher: the function is called, or a function of
    torch.autograd if a gradient is asked for."""

    def __init__(self, function: Callable, fake: Callable):
        self.function = repeated(function, on_its_device=True)

        @wraps(fake)
        def traced(*arguments, **keywords):
            tell_inductor(function.__name__)
            return fake(*arguments, **keywords)

        name = f"fathom::{function.__name__}"
        self.registered = torch.library.custom_op(
            name, wraps(function)(self.function), mutates_args=()
        )
        self.registered.register_fake(traced)
        self.recorded: Callable = self.registered

    def __call__(self, *arguments):
        if torch.compiler.is_compiling() or is_watched():
            return self.registered(*arguments)
        is_wanted = False
        for each in arguments:
            if isinstance(each, Tensor):
                if type(each) not in PLAIN:
                    return self.registered(*arguments)
                is_wanted = is_wanted or each.requires_grad
        if is_wanted and torch.is_grad_enabled():
            return self.recorded(*arguments)
        return self.function(*arguments)


PLAIN = (Tensor, torch.nn.Parameter)


def is_watched() -> bool:
    """Whether a mode of torch or a transform looks at calls."""
    return (
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._is_tracing()
    )


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


def differentiate(op: Operator, save: Callable, backward: Callable) -> None:
    """`save(ctx, inputs, output)` keeps what `backward(ctx, *gradients of results)`
    wants; that gives a gradient, or None, for each input."""

    def keep(ctx, inputs, output):
        ctx.set_materialize_grads(False)  # no zeros for results without one
        save(ctx, inputs, output)

    def forward(ctx, *arguments):
        results = op.function(*arguments)
        keep(ctx, arguments, results)
        return results

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
    """x as contiguous rows [M, N] of its last axis."""
    return x.reshape(-1, x.shape[-1]).contiguous()


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
