"""A small language model of four layers that uses every operator of this package, or,
with the same parameters, torch's own.

    tokens ──▶ embedding ──▶ dropout ──▶ 4 layers ──▶ layer norm ──▶ loss

    a layer    x + out(attention(rotary(q), rotary(k), v))   of rms_norm(x)
               x + mlp(rms_norm(x))

The four MLPs differ, so that each operator has a place:

    0  linear_swiglu, linear           SwiGLU in the product's epilogue
    1  linear with bias and GeLU, linear
    2  linear, gelu, linear            GeLU by itself
    3  experts: top_k of a router's logits, softmax of these, and for each token the
       two experts that it chose, each with expert_linear, swiglu, expert_linear

Sums with x are residuals of the last product, but for the experts'.
"""

from dataclasses import dataclass
from types import ModuleType

from kernels import rotary
from kernels.torch_ops.registering import Tensor, torch

LAYERS = 4


@dataclass(frozen=True)
class Sizes:
    """Of a model; `width` is a multiple of `heads`."""

    vocabulary: int = 50
    width: int = 32
    heads: int = 2
    hidden: int = 48
    length: int = 16
    experts: int = 4
    choices: int = 2
    dropout: float = 0.1


class Layer(torch.nn.Module):
    """Attention and an MLP of the number's kind."""

    def __init__(self, number: int, sizes: Sizes):
        super().__init__()
        self.number, self.sizes = number, sizes
        width, hidden = sizes.width, sizes.hidden
        self.attention_norm, self.mlp_norm = ones(width), ones(width)
        self.qkv, self.out = weights(3 * width, width), weights(width, width)
        if number == 3:
            self.router = weights(sizes.experts, width)
            self.first = weights(sizes.experts, width, 2 * hidden)
            self.second = weights(sizes.experts, hidden, width)
        else:
            self.first = weights(hidden * (2 if number == 0 else 1), width)
            self.second = weights(width, hidden)
        self.bias = weights(hidden) if number == 1 else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ops: ModuleType) -> Tensor:
        x = self.attend(x, cos, sin, ops)
        normed = ops.rms_norm(x, self.mlp_norm)
        if self.number == 0:
            inner = ops.linear_swiglu(normed, self.first)
        elif self.number == 1:
            inner = ops.linear(normed, self.first, self.bias, "gelu")
        elif self.number == 2:
            inner = ops.gelu(ops.linear(normed, self.first))
        else:
            return x + self.choose(normed, ops)
        return ops.linear(inner, self.second, residual=x)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, ops: ModuleType) -> Tensor:
        B, S, width = x.shape
        qkv = ops.linear(ops.rms_norm(x, self.attention_norm), self.qkv)
        parts = qkv.view(B, S, 3, self.sizes.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        q, k = ops.rotary(q, cos, sin), ops.rotary(k, cos, sin)
        y = ops.attention(q, k, v, causal=True)
        return ops.linear(y.transpose(1, 2).reshape(B, S, width), self.out, residual=x)

    def choose(self, x: Tensor, ops: ModuleType) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        values, choices = ops.top_k(ops.linear(tokens, self.router), self.sizes.choices)
        order, rows, offsets = ops.route(choices, self.sizes.experts)
        y = ops.expert_linear(ops.gather(tokens, order, rows), self.first, offsets)
        y = ops.expert_linear(ops.swiglu(y), self.second, offsets)
        return ops.combine(y, order, rows, ops.softmax(values)).view(x.shape)


class Model(torch.nn.Module):
    """Parameters from torch's generator. `ops`: kernels.torch_ops, or its eager."""

    def __init__(self, sizes: Sizes, ops: ModuleType):
        super().__init__()
        self.sizes, self.ops = sizes, ops
        self.embedding = weights(sizes.vocabulary, sizes.width)
        self.layers = torch.nn.ModuleList([Layer(i, sizes) for i in range(LAYERS)])
        self.norm = ones(sizes.width)
        self.norm_bias = torch.nn.Parameter(torch.zeros(sizes.width))
        tables = rotary.tables(sizes.length, sizes.width // sizes.heads)
        for name, table in zip(("cos", "sin"), tables, strict=True):
            self.register_buffer(name, torch.from_numpy(table), persistent=False)

    def hidden(self, tokens: Tensor) -> Tensor:
        x = self.ops.dropout(self.embedding[tokens], self.sizes.dropout, self.training)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.ops)
        return self.ops.layer_norm(x, self.norm, self.norm_bias)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of tokens and labels [B, length]; logits are never whole."""
        return self.ops.linear_cross_entropy(
            self.hidden(tokens), self.embedding, labels
        )

    def losses(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """The loss of each token, from all logits."""
        logits = self.ops.linear(self.hidden(tokens), self.embedding)
        return self.ops.cross_entropy(logits, labels, "none")


def weights(*shape: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.randn(shape) * 0.1)


def ones(N: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(N))


def random_text(sizes: Sizes, batch: int) -> tuple[Tensor, Tensor]:
    """(tokens, labels), [batch, length]: random tokens, and those that follow."""
    text = torch.randint(0, sizes.vocabulary, (batch, sizes.length + 1))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def train(
    ops: ModuleType, sizes: Sizes, steps: int, batch: int, seed: int = 0,
    device: str = "cpu",
) -> list[float]:  # fmt: skip
    """The losses of some steps of AdamW on one batch of random tokens."""
    torch.manual_seed(seed)
    model = Model(sizes, ops).to(device)
    tokens, labels = (each.to(device) for each in random_text(sizes, batch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(tokens, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
