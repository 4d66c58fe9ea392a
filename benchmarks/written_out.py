"""What training is compared with: the equations as written, a plain PyTorch loop, and the matrix products alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Work = Callable[[], object]


class PlainRecursive(nn.Module):
    """Concatenated vectors, and for every hop the softmax and the weighted sum over all hops before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Σ_l w_l x_l `[b, d]` of x `[b, hops, d]`."""
        hops = [x[:, hop] for hop in range(x.shape[1])]
        scores = [self._score(hops[0], hops[0])]
        for hop in range(1, len(hops)):
            weights = torch.softmax(torch.cat(scores, 1), 1)
            history = weights[:, :1] * hops[0]
            for before in range(1, hop):
                history = history + weights[:, before : before + 1] * hops[before]
            scores.append(self._score(hops[hop], history))
        return _mixed(scores, hops)

    def _score(self, own: Tensor, reference: Tensor) -> Tensor:
        return functional.leaky_relu(self.score(torch.cat([own, reference], 1)), 0.2)


class PlainJK(nn.Module):
    """Every hop's vector concatenated with the reference MLP(X^(1) ‖ … ‖ X^(K))."""

    def __init__(self, width: int, hops: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.reference = plain_mlp(hops * width, hidden, hidden, 2, dropout)
        self.score = nn.Linear(width + hidden, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Σ_l w_l x_l `[b, d]` of x `[b, hops, d]`."""
        hops = [x[:, hop] for hop in range(x.shape[1])]
        reference = self.reference(torch.cat(hops[1:], 1))
        scores = [functional.leaky_relu(self.score(torch.cat([hop, reference], 1)), 0.2) for hop in hops]
        return _mixed(scores, hops)


class LastHop(nn.Module):
    """What SGC reads."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


def _mixed(scores: list[Tensor], hops: list[Tensor]) -> Tensor:
    weights = torch.softmax(torch.cat(scores, 1), 1)
    total = weights[:, :1] * hops[0]
    for index in range(1, len(hops)):
        total = total + weights[:, index : index + 1] * hops[index]
    return total


def plain_mlp(inputs: int, hidden: int, outputs: int, layers: int, dropout: float) -> nn.Sequential:
    """nn.Linear, nn.ReLU, nn.Dropout."""
    widths = [inputs, *([hidden] * (layers - 1))]
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts, nn.Linear(hidden, outputs))


def plain_epoch(model: nn.Module, x: Tensor, target: Tensor, batch: int) -> Work:
    """An epoch as most write it: permuted numbers index the tensor of all rows; Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch() -> None:
        model.train()
        for rows in torch.split(torch.randperm(len(x)), batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[rows]), target[rows]).backward()
            optimizer.step()

    return epoch


def products(rows: int, inputs: int, hidden: int, outputs: int, layers: int, batches: int) -> Work:
    """The matrix products of an MLP's epoch and nothing else, into memory that is there already.

    Forwards, gradients of all weights, and gradients of all inputs but the first layer's, which nobody needs.
    """
    widths = [inputs, *([hidden] * (layers - 1)), outputs]
    values = [torch.randn(rows, width) for width in widths]
    weights = [torch.randn(b, a) for a, b in itertools.pairwise(widths)]  # as nn.Linear holds them
    results, grads = [torch.empty_like(value) for value in values], [torch.empty_like(weight) for weight in weights]

    def epoch() -> None:
        for _ in range(batches):
            for layer, weight in enumerate(weights):
                torch.mm(values[layer], weight.t(), out=results[layer + 1])
            for layer in range(layers - 1, -1, -1):
                torch.mm(values[layer + 1].t(), values[layer], out=grads[layer])
                if layer:
                    torch.mm(values[layer + 1], weights[layer], out=results[layer])

    return epoch
