"""GAMLP: H̃ = MLP(H_X) + β MLP(H_Y), each H a node's own mixture of its hops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gamlp.models.attention import HopAttention, JKAttention, RecursiveAttention
from gamlp.models.mlp import MLP, HopMLP, InputNorm, dropout
from gamlp.models.relations import SubsetMixing, mixing_of_features, mixing_of_labels, one_signal, with_differences
from gamlp.models.shape import Branches, HopWeights, Model, Shape, channels_of, one_channel

FIXED = 0.7


def residual_shares(kind: str, hops: int) -> list[float]:
    """α_l for l = 1..L: cosine cos(πl / 2L), linear (L - l)/L, fixed 0.7, none 0; uniform has cosine's."""
    steps = range(1, hops + 1)
    if kind == "linear":
        return [(hops - step) / hops for step in steps]
    if kind in ("cosine", "uniform"):
        return [math.cos(math.pi * step / (2 * hops)) for step in steps]
    return [FIXED if kind == "fixed" else 0.0 for _ in steps]


def smooth(y: Tensor, kind: str, *, own: bool) -> Tensor:
    """Ŷ^(l) = (1 - α_l) Y^(l) + α_l Y^(L), l = 1..L, from y `[b, L + 1, c]`; with `own`, Y^(0) comes first.

    `uniform` puts the uniform distribution 1/c in the place of Y^(L).
    """
    hops = y.shape[1] - 1
    walked = y[:, 1:]
    if hops and kind != "none":
        shares = torch.tensor(residual_shares(kind, hops), dtype=y.dtype, device=y.device)[:, None]
        last = torch.full_like(y[:, -1:], 1 / y.shape[2]) if kind == "uniform" else y[:, -1:]
        walked = torch.lerp(walked, last, shares)
    return torch.cat([y[:, :1], walked], 1) if own else walked


def shares(y: Tensor) -> Tensor:
    """Each row of each label hop over its sum; where few rows are labelled sums are tiny, and scores with them."""
    total = y.sum(-1, keepdim=True)
    return y / torch.where(total > 0, total, torch.ones_like(total))


class GAMLP(Model):
    """Graph Attention Multi-Layer Perceptron (Zhang et al., KDD 2022).

    >>> model = GAMLP(Shape(features=4, classes=3, hops=2), attention="jk", hidden=8, beta=0)
    >>> model(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    reads_labels = True

    def __init__(
        self,
        shape: Shape,
        *,
        attention: str = "recursive",
        hidden: int = 256,
        layers: int = 3,
        jk_layers: int = 2,
        activation: str = "leaky_relu",
        reference: str = "jk",
        input_dropout: float = 0.0,
        attention_start: str = "random",
        input_norm: bool = False,
        attention_dropout: float = 0.0,
        mixed_dropout: float = 0.0,
        dropout: float = 0.5,
        batch_norm: bool = False,
        hop_mlp: bool = False,
        residual: bool = False,
        initial_residual: float = 0.0,
        beta: float = 1.0,
        label_attention: str | None = None,
        label_layers: int = 2,
        last_residual: str = "cosine",
        label_zero: bool = False,
        label_scale: str = "none",
        high_pass: bool = False,
    ) -> None:
        super().__init__()
        if not shape.parts:
            one_channel(shape, "GAMLP")
        if beta > 0 and not (shape.label_hops or label_zero):
            raise ValueError("a label branch needs hops of labels to read: give label_hops, label_zero or beta=0")
        self.shape, self.beta, self.input_dropout = shape, beta, input_dropout
        self.last_residual, self.label_zero, self.label_scale = last_residual, label_zero, label_scale
        self.mixed_dropout, self.high_pass = mixed_dropout, high_pass
        self.mixing = mixing_of_features(shape, hidden, high_pass=high_pass)
        features = shape.features if self.mixing is None else self.mixing.width
        width = hidden if hop_mlp else features

        def attend(kind: str, width: int, hops: int, first: int) -> HopAttention:
            if kind == "recursive":
                return RecursiveAttention(width, activation, attention_dropout)
            return JKAttention(
                width,
                hops,
                activation,
                attention_dropout,
                reference="none" if reference == "jk" and hops == first else reference,
                first=first,
                hidden=hidden,
                layers=jk_layers,
                mlp_dropout=dropout,
                batch_norm=batch_norm,
            )

        self.norm = InputNorm(shape.hops + 1, features) if input_norm else None
        self.hop_mlp = (
            HopMLP(shape.hops + 1, features, hidden, dropout=dropout, batch_norm=batch_norm) if hop_mlp else None
        )
        self.attention = attend(attention, width, shape.hops + 1, 1)
        self.residual = nn.Linear(features, width, bias=False) if residual else None
        self.mlp = MLP(
            width,
            hidden,
            shape.classes,
            layers,
            dropout=dropout,
            batch_norm=batch_norm,
            initial_residual=initial_residual,
        )
        self.label_attention: HopAttention | None = None
        self.label_mixing: SubsetMixing | None = None
        if beta > 0:
            self.label_mixing = mixing_of_labels(shape)
            label_count = shape.label_hops + int(label_zero)
            self.label_attention = attend(
                label_attention or attention, shape.classes, label_count, 1 if label_zero and shape.label_hops else 0
            )
            self.label_mlp = MLP(
                shape.classes, hidden, shape.classes, label_layers, dropout=dropout, batch_norm=batch_norm
            )
        if attention_start == "uniform":  # after all is drawn, so that other weights are those of a random start
            for attending in self._attentions():
                attending.start_uniform()

    def forward(self, x: Tensor, y: Tensor | None = None, views: Sequence[int] | None = None) -> Tensor:
        """Logits `[b, classes]` of hops x `[b, C, hops + 1, features]` and y `[b, S, label_hops + 1, classes]`.

        One channel and view, unless the shape has parts; with `views`, x and y are of these alone and stand for all.
        """
        channels = None if views is None else channels_of(self.shape, views)
        own, hops = self._features(x, channels)
        mixed = self.attention(hops)
        if self.residual is not None:
            mixed = mixed + self.residual(own[:, 0])
        logits: Tensor = self.mlp(dropout(mixed, self.mixed_dropout, self.training))
        if self.label_attention is not None:
            logits = logits + self.beta * self.label_mlp(self.label_attention(self._labels(y, views)))
        return logits

    @torch.no_grad()
    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """Every node's weights over hops, of features and labels."""
        was, _ = self.training, self.eval()
        try:
            labels = None
            if self.label_attention is not None:
                labels = self.label_attention.weights(self._labels(y))
            _, hops = self._features(x)
            return HopWeights(self.attention.weights(hops), labels, 0 if self.label_zero else 1)
        finally:
            self.train(was)

    @torch.no_grad()
    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """MLP(H_X) and β MLP(H_Y), whose sum are the logits, and MLP(H_X) for H_X = X^(k), hop by hop."""
        was, _ = self.training, self.eval()
        try:
            first, hops = self._features(x)
            # The residual of a node's own features is no hop's: every hop is read with it, as the mixture is.
            own = hops.new_zeros(1) if self.residual is None else self.residual(first[:, 0])
            alone = self.mlp.each_hop(hops + own.unsqueeze(-2))
            labels = None
            if self.label_attention is not None:
                labels = self.beta * self.label_mlp(self.label_attention(self._labels(y)))
            return Branches(self.mlp(self.attention(hops) + own), labels, alone)
        finally:
            self.train(was)

    def attention_vectors(self) -> list[nn.Parameter]:
        """Those that a recipe may give a learning rate and a decay of their own."""
        return [vector for attending in self._attentions() for vector in attending.own_vectors()]

    def _attentions(self) -> list[HopAttention]:
        return [one for one in (self.attention, self.label_attention) if one is not None]

    def subset_sizes(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """How much each channel says at each hop, `[C, hops]`, of features and of labels; None where there is one."""
        mixing = None if one_signal(self.shape) else self.mixing
        features = None if mixing is None else mixing.sizes(self._channels(x))
        labels = None if self.label_mixing is None or y is None else self.label_mixing.sizes(y)
        return features, labels

    def _features(self, x: Tensor, channels: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Hops `[b, hops + 1, features]` of all channels together, as they are and as attention reads them."""
        x = self._channels(x)
        if one_signal(self.shape):
            own = self._normal(x[:, 0] if self.mixing is None else self.mixing(x))
            hops = dropout(own, self.input_dropout, self.training)
        else:
            assert self.mixing is not None
            own = hops = self._normal(self.mixing(dropout(x, self.input_dropout, self.training), channels))
        return own, hops if self.hop_mlp is None else self.hop_mlp(hops)

    def _channels(self, x: Tensor) -> Tensor:
        """With `high_pass`, differences of hops beside them: taken before dropout, which would tear both ends apart."""
        return with_differences(x) if self.high_pass else x

    def _normal(self, hops: Tensor) -> Tensor:
        return hops if self.norm is None else self.norm(hops)

    def _labels(self, y: Tensor | None, views: Sequence[int] | None = None) -> Tensor:
        if y is None:
            raise ValueError("this model listens to hops of labels, and none were given: beta=0 is without them")
        if self.label_scale == "hop":
            y = shares(y)
        hops = y[:, 0] if self.label_mixing is None else self.label_mixing(y, views)
        smoothed = smooth(hops, self.last_residual, own=self.label_zero)
        return dropout(smoothed, self.input_dropout, self.training)
