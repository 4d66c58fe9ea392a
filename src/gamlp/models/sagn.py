"""SAGN (Sun et al., 2021): logits = MLP(σ(Σ_k a_k H_k + X^(0) W_r)) + β MLP(Y^(L)), H_k = X^(k) W_k."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models.attention import LEAK
from gamlp.models.mlp import MLP, dropout, relu_dropout
from gamlp.models.shape import Branches, HopWeights, Model, Shape, one_channel


class SAGN(Model):
    """Scalable and adaptive graph network: attention over hops with several heads, each hop compared with hop 0.

        a_k = softmax_k(leaky_relu(s_1·H_k + s_2·H_0)), head by head; heads side by side.

    With β > 0 a label model reads the last hop of labels (the paper's SLE in its stage 0).

    >>> model = SAGN(Shape(features=4, classes=3, hops=2), hidden=8, heads=2, beta=0)
    >>> model(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    reads_labels = True

    def __init__(
        self,
        shape: Shape,
        *,
        hidden: int = 256,
        heads: int = 1,
        layers: int = 2,
        input_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        dropout: float = 0.5,
        batch_norm: bool = False,
        beta: float = 1.0,
        label_layers: int = 2,
    ) -> None:
        super().__init__()
        one_channel(shape, "SAGN")
        if heads < 1:
            raise ValueError(f"SAGN has at least one head, not {heads}")
        self.heads, self.hidden, self.beta = heads, hidden, beta
        self.input_dropout, self.attention_dropout, self.dropout = input_dropout, attention_dropout, dropout
        width = heads * hidden
        bound = max(1, shape.features) ** -0.5
        self.maps = nn.Parameter(torch.empty(shape.hops + 1, shape.features, width).uniform_(-bound, bound))
        bound = (2 * hidden) ** -0.5
        self.own = nn.Parameter(torch.empty(heads, hidden).uniform_(-bound, bound))
        self.origin = nn.Parameter(torch.empty(heads, hidden).uniform_(-bound, bound))
        self.residual = nn.Linear(shape.features, width, bias=False)
        self.norm = nn.BatchNorm1d(width) if batch_norm else None
        self.mlp = MLP(width, hidden, shape.classes, layers, dropout=dropout, batch_norm=batch_norm)
        self.label_mlp = (
            MLP(shape.classes, hidden, shape.classes, label_layers, dropout=dropout, batch_norm=batch_norm)
            if beta > 0
            else None
        )

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]` of hops x `[b, 1, hops + 1, features]` and y `[b, 1, label_hops + 1, classes]`."""
        hops = dropout(x[:, 0], self.input_dropout, self.training)
        mapped = self._mapped(hops)
        weights = functional.dropout(self._weights(mapped), self.attention_dropout, self.training)
        mixed = torch.einsum("bkh,bkhd->bhd", weights, mapped).flatten(1)
        logits = self._read(mixed + self.residual(hops[:, 0]))
        return logits if self.label_mlp is None else logits + self._heard(y)

    def _read(self, mixed: Tensor) -> Tensor:
        """MLP(σ(·)) of a mixture `[b, heads · hidden]`."""
        if self.norm is not None:
            mixed = self.norm(mixed)
        logits: Tensor = self.mlp(relu_dropout(mixed, self.dropout, self.training))
        return logits

    def _heard(self, y: Tensor | None) -> Tensor:
        """β MLP(Y^(L))."""
        if y is None:
            raise ValueError("this model listens to hops of labels, and none were given: beta=0 is without them")
        assert self.label_mlp is not None
        heard: Tensor = self.label_mlp(y[:, 0, -1])
        return self.beta * heard

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """Both branches, whose sum are the logits, and what features say for a_k = 1 in every head, hop by hop."""
        mapped, own = self._mapped(x[:, 0]), self.residual(x[:, 0, 0])
        mixed = torch.einsum("bkh,bkhd->bhd", self._weights(mapped), mapped).flatten(1)
        alone = self._read((mapped.flatten(2) + own.unsqueeze(1)).flatten(0, 1)).view(*mapped.shape[:2], -1)
        return Branches(self._read(mixed + own), None if self.label_mlp is None else self._heard(y), alone)

    @torch.no_grad()
    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """Every node's weights over hops of features, the mean over heads; of labels the last hop alone is read."""
        labels = None
        if self.label_mlp is not None and y is not None:
            labels = y.new_zeros(y.shape[0], y.shape[2])
            labels[:, -1] = 1
        return HopWeights(self._weights(self._mapped(x[:, 0])).mean(2), labels, 0)

    def _mapped(self, hops: Tensor) -> Tensor:
        """H `[b, hops, heads, hidden]`."""
        mapped = torch.bmm(hops.transpose(0, 1), self.maps).transpose(0, 1)
        return mapped.view(*mapped.shape[:2], self.heads, self.hidden)

    def _weights(self, mapped: Tensor) -> Tensor:
        """a `[b, hops, heads]`, summing to one over hops."""
        scores = (mapped * self.own).sum(3) + (mapped[:, :1] * self.origin).sum(3)
        return torch.softmax(functional.leaky_relu(scores, LEAK), 1)
