"""Attention over hops, node by node: `recursive` and `jk` (docs/method.md, section 3)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models.mlp import MLP

LEAK = 0.2
GROUP = 64  # rows


def squash(scores: Tensor, activation: str) -> Tensor:
    """δ: sigmoid, relu or leaky_relu (0.2)."""
    if activation == "sigmoid":
        return torch.sigmoid(scores)
    return functional.relu(scores) if activation == "relu" else functional.leaky_relu(scores, LEAK)


def _slope(squashed: Tensor, activation: str) -> Tensor:
    """δ' where δ(z) = squashed."""
    if activation == "sigmoid":
        return squashed * (1 - squashed)
    low = squashed.new_tensor(0.0 if activation == "relu" else LEAK)  # a float32 0.2 would be 3e-9 off in float64
    return torch.where(squashed > 0, squashed.new_tensor(1.0), low)


class RecursiveScores(torch.autograd.Function):
    """score_0 = δ(p_0 + q_0); score_l = δ(p_l + h_l), h_l = Σ_{k<l} softmax(score_{<l})_k q_k; p, q `[hops, b]`.

    With the running log-sum Z of the scores and u_l = sigmoid(score_l - Z_l), the newest score's share of the softmax,

        h_{l+1} = h_l + u_l (q_l - h_l),    Z_{l+1} = log(e^Z_l + e^score_l),

    and backwards, with A_k = g_{k+1} + (1 - u_{k+1}) A_{k+1} over the gradients g of h, and B_k the same over g h,

        dq_k = u_k A_k,    dscore_k = u_k (q_k A_k - B_k).

    O(hops) on numbers, no exponent above zero, and no graph of small operations for autograd to walk. A second
    derivative is asked for seldom: it goes through the recursion as autograd walks it.
    """

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, activation: str) -> Tensor:
        scores, shares, history = torch.empty_like(p), torch.ones_like(p), torch.empty_like(p)
        history[0] = q[0]  # hop 0 is its own reference
        scores[0] = squash(p[0] + q[0], activation)
        log_sum, before = scores[0], q[0]
        for hop in range(1, len(p)):
            history[hop] = before
            scores[hop] = squash(p[hop] + before, activation)
            torch.sigmoid(scores[hop] - log_sum, out=shares[hop])
            before = torch.lerp(before, q[hop], shares[hop])
            log_sum = torch.logaddexp(log_sum, scores[hop])
        ctx.save_for_backward(p, q, scores, shares, history)
        ctx.activation = activation
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        p, q, scores, shares, history = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph: what is returned must depend on p and q, not on numbers kept
            return *_gradients_with_graph(p, q, ctx.activation, grad), None
        slopes = _slope(scores, ctx.activation)
        grad_p, grad_q = torch.empty_like(q), torch.empty_like(q)
        a, b = torch.zeros_like(q[0]), torch.zeros_like(q[0])
        for hop in range(len(q) - 1, -1, -1):
            grad_q[hop] = shares[hop] * a
            # dscore_k = dloss_k + u_k (q_k A_k - B_k), through δ into p_k and h_k.
            inner = torch.addcmul(grad[hop], shares[hop], torch.addcmul(b, q[hop], a, value=-1), value=-1)
            torch.mul(inner, slopes[hop], out=grad_p[hop])
            rest = 1 - shares[hop]
            a = torch.addcmul(grad_p[hop], rest, a)
            b = torch.addcmul(grad_p[hop] * history[hop], rest, b)
        grad_q[0] += grad_p[0]
        return grad_p, grad_q, None


def plain_scores(p: Tensor, q: Tensor, activation: str) -> Tensor:
    """The same scores, for autograd to walk."""
    before, log_sum = q[0], squash(p[0] + q[0], activation)
    scores = [log_sum]
    for hop in range(1, len(p)):
        scores.append(squash(p[hop] + before, activation))
        before = torch.lerp(before, q[hop], torch.sigmoid(scores[hop] - log_sum))
        log_sum = _log_sum(log_sum, scores[hop])
    return torch.stack(scores)


def written_down() -> bool:
    """Whether torch writes operations down (jit.trace, export): then they must be its own, with names of their own."""
    return bool(torch._C._get_tracing_state()) or torch.compiler.is_compiling()


def _log_sum(one: Tensor, other: Tensor) -> Tensor:
    """log(e^one + e^other). ONNX has no logaddexp, and what is made of it there has exponents that overflow."""
    return one + functional.softplus(other - one) if written_down() else torch.logaddexp(one, other)


def _gradients_with_graph(p: Tensor, q: Tensor, activation: str, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the scores by p and q that can be differentiated again, by p, q and grad."""
    # Of views, so that the gradient ends here and does not go on into what made p and q.
    own_p, own_q = (each.view_as(each) if each.requires_grad else each.detach().requires_grad_() for each in (p, q))
    scores = plain_scores(own_p, own_q, activation)
    grad_p, grad_q = torch.autograd.grad(scores, (own_p, own_q), grad, create_graph=True)
    return grad_p, grad_q


class HopProducts(torch.autograd.Function):
    """Dot products `[k, b, hops]` of x `[b, hops, d]` with vectors `[k, d]`.

    Autograd's own matrix products have the skinny factor the wrong way round for x by rows; these are several times
    faster, forwards and backwards.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(x, vectors)
        return _plain_products(x, vectors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, vectors = ctx.saved_tensors
        grad_x = torch.einsum("kbh,kd->bhd", grad, vectors) if ctx.needs_input_grad[0] else None
        grad_vectors = _sum_of_products(grad, x) if ctx.needs_input_grad[1] else None
        return grad_x, grad_vectors


def _plain_products(x: Tensor, vectors: Tensor) -> Tensor:
    return (x.flatten(0, 1) @ vectors.t()).view(*x.shape[:2], len(vectors)).permute(2, 0, 1)


def _sum_of_products(grad: Tensor, x: Tensor) -> Tensor:
    """Σ grad x over rows and hops, `[k, d]`, by groups of rows: these are independent, so that all cores take part."""
    groups = len(x) // GROUP
    whole = groups * GROUP
    parts = grad[:, :whole].reshape(len(grad), groups, GROUP * x.shape[1]).transpose(0, 1)
    rest = grad[:, whole:].flatten(1) @ x[whole:].flatten(0, 1)
    return torch.bmm(parts, x[:whole].reshape(groups, GROUP * x.shape[1], x.shape[2])).sum(0).add_(rest)


class Mixture(torch.autograd.Function):
    """Σ_l w_l x_l `[b, d]` of weights `[b, hops]` and x `[b, hops, d]`."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weights, x)
        return _plain_mixture(weights, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weights, x = ctx.saved_tensors
        grad_weights = torch.bmm(grad.unsqueeze(1), x.transpose(1, 2)).squeeze(1) if ctx.needs_input_grad[0] else None
        grad_x = weights.unsqueeze(2) * grad.unsqueeze(1) if ctx.needs_input_grad[1] else None
        return grad_weights, grad_x


def _plain_mixture(weights: Tensor, x: Tensor) -> Tensor:
    return torch.bmm(weights.unsqueeze(1), x).squeeze(1)


class HopAttention(nn.Module, ABC):
    """Weights over hops from x `[b, hops, d]`; `forward` gives Σ_l w_l x_l `[b, d]`."""

    def __init__(self, activation: str, dropout: float) -> None:
        super().__init__()
        self.activation = activation
        self.dropout = dropout

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """`[b, hops]`, before the softmax."""

    def own_vectors(self) -> list[nn.Parameter]:
        """What scores are dot products with: not the parameters of a reference's MLP."""
        return list(self.parameters(recurse=False))

    @torch.no_grad()
    def start_uniform(self) -> None:
        """All vectors zero: every score is δ(0), every weight 1 / hops."""
        for vector in self.own_vectors():
            vector.zero_()

    def weights(self, x: Tensor) -> Tensor:
        """`[b, hops]`, rows summing to one."""
        return torch.softmax(self.scores(x), dim=1)

    def forward(self, x: Tensor) -> Tensor:
        weights = functional.dropout(self.weights(x), self.dropout, self.training).to(x.dtype)
        if written_down():
            return _plain_mixture(weights, x)
        with torch.autocast(x.device.type, enabled=False):
            mixed: Tensor = Mixture.apply(weights, x)  # type: ignore[no-untyped-call]
        return mixed


class RecursiveAttention(HopAttention):
    """Each hop is compared with the weighted sum of those before it."""

    def __init__(self, width: int, activation: str, dropout: float) -> None:
        super().__init__(activation, dropout)
        self.vectors = nn.Parameter(_vectors(width, 2, 2 * width))

    def scores(self, x: Tensor) -> Tensor:
        # s·[a ‖ b] = s₁·a + s₂·b: two dot products a hop, and the recursion runs on numbers.
        p, q = _products(x, self.vectors.t()).transpose(1, 2).contiguous()
        if written_down():
            return plain_scores(p, q, self.activation).t()
        with torch.autocast(x.device.type, enabled=False):
            scores: Tensor = RecursiveScores.apply(p, q, self.activation)  # type: ignore[no-untyped-call]
        return scores.t()


class JKAttention(HopAttention):
    """Each hop is compared with one reference: `jk` MLP(x_first ‖ … ‖ x_last), `origin` x_0, `noise`, `none`."""

    def __init__(
        self,
        width: int,
        hops: int,
        activation: str,
        dropout: float,
        *,
        reference: str,
        first: int,
        hidden: int,
        layers: int,
        mlp_dropout: float,
        batch_norm: bool,
    ) -> None:
        super().__init__(activation, dropout)
        self.reference = reference
        self.first = first  # of the concatenated hops: 1 where hop 0 is there, so that it is left out
        size = {"jk": hidden, "origin": width, "noise": width, "none": 0}[reference]
        self.vector = nn.Parameter(_vectors(width, 1, width + size)[:, 0])
        if reference == "jk":
            inputs = (hops - first) * width
            self.mlp = MLP(inputs, hidden, hidden, layers, dropout=mlp_dropout, batch_norm=batch_norm)
        if size:
            self.reference_vector = nn.Parameter(_vectors(size, 1, width + size)[:, 0])
        if reference == "noise":
            self.noise: Tensor
            self.register_buffer("noise", torch.randn(width))

    def scores(self, x: Tensor) -> Tensor:
        own = _products(x, self.vector.unsqueeze(0))[0]
        if self.reference == "none":
            return squash(own, self.activation)
        return squash(own + self._reference(x).unsqueeze(1), self.activation)

    def _reference(self, x: Tensor) -> Tensor:
        """s₂·reference `[b]`."""
        if self.reference == "jk":
            return self.mlp.dot(x.flatten(1)[:, self.first * x.shape[2] :], self.reference_vector)  # a view, no copy
        if self.reference == "origin":
            return x[:, 0] @ self.reference_vector
        # Afresh each training step; at inference one vector for all nodes, so that batches do not matter.
        noise = torch.randn_like(x[:, 0]) if self.training else self.noise.expand(x.shape[0], -1)
        return noise @ self.reference_vector


def _products(x: Tensor, vectors: Tensor) -> Tensor:
    """Under autocast too in the type of x, which may be a half type: gradients have the types of what was given.

    What follows, scores and their softmax, is float32 then: it is K + 1 numbers a node.
    """
    if written_down():
        return _plain_products(x, vectors)
    with torch.autocast(x.device.type, enabled=False):
        products: Tensor = HopProducts.apply(x, vectors.to(x.dtype).contiguous())  # type: ignore[no-untyped-call]
    return products.float() if products.dtype in (torch.float16, torch.bfloat16) else products


def _vectors(width: int, count: int, inputs: int) -> Tensor:
    bound = 1 / math.sqrt(max(1, inputs))
    return torch.empty(width, count).uniform_(-bound, bound)
