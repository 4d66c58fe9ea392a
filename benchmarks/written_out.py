"""What training is compared with: the equations as written, hops in lists, a plain loop, the products alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from gamlp.models.gamlp import residual_shares

Work = Callable[[], object]


class PlainRecursive(nn.Module):
    """Concatenated vectors, and for every hop the softmax and the weighted sum over all hops before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Σ_l w_l x_l `[b, d]` of x `[b, hops, d]`."""
        return self.of_list([x[:, hop] for hop in range(x.shape[1])])

    def of_list(self, hops: list[Tensor]) -> Tensor:
        """The same of `[b, d]` each."""
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
    """Every hop's vector concatenated with the reference MLP(X^(1) ‖ … ‖ X^(K)); of labels hop 0 is not there."""

    def __init__(self, width: int, hops: int, hidden: int, dropout: float, first: int = 1) -> None:
        super().__init__()
        self.first = first
        self.reference = plain_mlp(hops * width, hidden, hidden, 2, dropout)
        self.score = nn.Linear(width + hidden, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Σ_l w_l x_l `[b, d]` of x `[b, hops, d]`."""
        return self.of_list([x[:, hop] for hop in range(x.shape[1])])

    def of_list(self, hops: list[Tensor]) -> Tensor:
        """The same of `[b, d]` each."""
        reference = self.reference(torch.cat(hops[self.first :], 1))
        scores = [functional.leaky_relu(self.score(torch.cat([hop, reference], 1)), 0.2) for hop in hops]
        return _mixed(scores, hops)


class InLists(nn.Module):
    """GAMLP with the label branch, laid out as public code has it: lists of hops, a tensor `[b, d]` for each.

    `published` adds what that code runs ogbn-products with: a linear map with batch norm for each hop, dropout at the
    input, a residual from hop 0, batch norm in the MLPs and the initial residual of 0.5 in the output's.
    """

    def __init__(self, sizes: Sizes, attention: str, dropout: float = 0.5, *, published: bool = False) -> None:
        super().__init__()
        features, classes, hidden = sizes.features, sizes.classes, sizes.hidden
        width = hidden if published else features
        self.input = nn.Dropout(0.2 if published else 0.0)
        self.maps = nn.ModuleList(plain_block(features, hidden, dropout) for _ in range(sizes.hops + 1))
        self.residual = nn.Linear(features, hidden, bias=False)
        self.published = published
        self.attention: PlainRecursive | PlainJK = PlainRecursive(width)
        self.label_attention: PlainRecursive | PlainJK = PlainRecursive(classes)
        if attention == "jk":
            self.attention = PlainJK(width, sizes.hops, hidden, dropout)
            self.label_attention = PlainJK(classes, sizes.label_hops, hidden, dropout, first=0)
        self.mlp = Stack(width, hidden, classes, sizes.layers, dropout, published, 0.5 if published else 0.0)
        self.label_mlp = Stack(classes, hidden, classes, sizes.label_layers, dropout, published)
        self.shares = residual_shares("cosine", sizes.label_hops)

    def forward(self, x: list[Tensor], y: list[Tensor]) -> Tensor:
        """Logits of hops 0..K and of label hops 0..L."""
        hops = [self.input(hop) for hop in x]
        own = hops[0]
        if self.published:
            hops = [each(hop) for each, hop in zip(self.maps, hops)]
        mixed = self.attention.of_list(hops)
        if self.published:
            mixed = mixed + self.residual(own)
        labels = [self.input((1 - share) * hop + share * y[-1]) for share, hop in zip(self.shares, y[1:])]
        logits: Tensor = self.mlp(mixed) + self.label_mlp(self.label_attention.of_list(labels))
        return logits


@dataclass(frozen=True)
class Sizes:
    """Of the model that lists of hops are read by."""

    features: int
    classes: int
    hops: int
    label_hops: int
    hidden: int
    layers: int
    label_layers: int


class Stack(nn.Module):
    """An MLP layer by layer: nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout; (1 - α) h + α h_1 from the third on."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, layers: int, dropout: float, norm: bool, alpha: float = 0.0
    ) -> None:
        super().__init__()
        widths = [inputs, *([hidden] * (layers - 1))]
        self.blocks = nn.ModuleList(plain_block(a, b, dropout, norm=norm) for a, b in itertools.pairwise(widths))
        self.last = nn.Linear(hidden, outputs)
        self.alpha = alpha

    def forward(self, h: Tensor) -> Tensor:
        first: Tensor | None = None
        for block in self.blocks:
            h = block(self._read(h, first))
            first = h if first is None else first
        logits: Tensor = self.last(self._read(h, first))
        return logits

    def _read(self, h: Tensor, first: Tensor | None) -> Tensor:
        return h if first is None or first is h or not self.alpha else (1 - self.alpha) * h + self.alpha * first


def plain_block(inputs: int, outputs: int, dropout: float, *, norm: bool = True) -> nn.Sequential:
    """nn.Linear, nn.BatchNorm1d where asked for, nn.ReLU, nn.Dropout."""
    parts: list[nn.Module] = [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts[:1], *([nn.BatchNorm1d(outputs)] if norm else []), *parts[1:])


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


def list_epoch(model: InLists, x: Tensor, y: Tensor, target: Tensor, batch: int) -> Work:
    """An epoch over lists: a loader gives numbers of rows, which every hop's tensor is indexed with in its turn."""
    features = [x[:, hop].contiguous() for hop in range(x.shape[1])]
    labels = [y[:, hop].contiguous() for hop in range(y.shape[1])]
    loader = DataLoader(torch.arange(len(target)), batch_size=batch, shuffle=True)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch() -> None:
        model.train()
        for rows in loader:
            logits = model([hop[rows] for hop in features], [hop[rows] for hop in labels])
            optimizer.zero_grad()
            functional.cross_entropy(logits, target[rows]).backward()
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
