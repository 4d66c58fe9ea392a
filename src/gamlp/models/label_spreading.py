"""Label spreading on hops of labels: P ∝ Σ_l (1-α) α^l Y^(l) (Zhou et al., 2004), α chosen by validation rows."""

from __future__ import annotations

import torch
from torch import Tensor

from gamlp.models.shape import HopWeights, Model, Shape
from gamlp.models.solving import KnownRows, ToSolve

ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)  # how far labels spread
PRIORS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # labels' worth of the classes' shares, in units of what a node hears on average
_USUAL = 0.9, 1e-2  # where no validation rows choose


class LabelSpreading(Model):
    """The known labels that reach a node, nearer ones for more, with a little of the classes' shares; no features.

        S = Σ_l (1-α) α^l Y^(l),  P = (S + ε m p) / (|S| + ε m)

    p are the shares of classes among training rows, m the mean of |S| = Σ_c S_c over them: a node that no label reaches
    has p. Where a node has many labels, q on average, P = (q S + ε m p) / (|S| + ε m) is a chance for every class.

    >>> model = LabelSpreading(Shape(features=4, classes=3, hops=0, label_hops=2))
    >>> model(torch.zeros(5, 1, 1, 4), torch.zeros(5, 1, 3, 3)).shape
    torch.Size([5, 3])
    """

    reads_labels = True
    reads_features = False

    def __init__(self, shape: Shape, *, beta: float = 1.0, alpha: float | None = None) -> None:
        super().__init__()
        if beta <= 0 or not shape.label_hops:
            raise ValueError("it reads hops of labels alone: set propagation.label_hops and model.beta above 0")
        if alpha is not None and not (isinstance(alpha, int | float) and 0 < alpha < 1):
            raise ValueError(f"alpha of label spreading is a share between 0 and 1, not {alpha!r}")
        self.shape, self.given = shape, alpha
        self.alpha: Tensor
        self.prior: Tensor
        self.shares: Tensor
        self.mass: Tensor
        self.register_buffer("alpha", torch.tensor(_USUAL[0] if alpha is None else float(alpha)))
        self.register_buffer("prior", torch.tensor(_USUAL[1]))
        self.register_buffer("shares", torch.full((shape.classes,), 1 / shape.classes))
        self.register_buffer("mass", torch.ones(()))  # m
        self.register_buffer("several", torch.zeros(()))  # q where a node has many labels, else 0
        self.several: Tensor

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`: log P, or log P / (1 - P) of every class where a node has many labels."""
        if y is None:
            raise ValueError("this model listens to hops of labels, and none were given")
        return self._logits(self._sums(y))

    def _sums(self, y: Tensor) -> Tensor:
        """S, the mean over views of labels."""
        return torch.einsum("bvlc,l->bc", y, self._weights(y)) / y.shape[1]

    def _weights(self, y: Tensor) -> Tensor:
        steps = torch.arange(y.shape[2], device=y.device)
        return ((1 - self.alpha) * self.alpha**steps).to(y.dtype)

    def _logits(self, sums: Tensor) -> Tensor:
        heard = sums.sum(1, keepdim=True)
        little = (self.prior * self.mass).to(sums.dtype)
        chance = (sums * torch.where(self.several > 0, self.several, 1.0) + little * self.shares) / (heard + little)
        # Both, and one is chosen: what is exported cannot branch by a number.
        return torch.where(self.several > 0, torch.logit(chance.clamp(1e-6, 1 - 1e-6)), torch.log(chance))

    def solve(self, given: ToSolve) -> dict[str, float]:
        """Count the classes, and choose α and ε by validation rows."""
        train, valid = given.train, given.valid
        assert train.y is not None
        if train.multi_label:
            self.several.fill_(float(train.target.sum(1).mean()))
            self.shares.copy_(train.target.mean(0))
        else:
            self.shares.copy_(torch.bincount(train.target, minlength=self.shape.classes) / len(train.target))
            # A class that no training row has is still possible.
            self.shares.clamp_min_(0.5 / len(train.target))
            self.shares /= self.shares.sum()
        best: tuple[tuple[float, ...], float, float] | None = None
        alphas = ALPHAS if self.given is None else (self.given,)
        if valid is None:
            alphas = (_USUAL[0] if self.given is None else self.given,)
        for number, alpha in enumerate(alphas):
            self._hear(train, alpha)
            sums = None if valid is None or valid.y is None else self._sums(valid.y)
            for prior in (_USUAL[1],) if sums is None else PRIORS:
                self.prior.fill_(prior)
                rank = () if sums is None else given.metric(self._logits(sums))
                if best is None or rank > best[0]:
                    best = rank, alpha, prior
            given.progress("solving", number + 1, len(alphas), "settings")
        assert best is not None
        _, alpha, prior = best
        self._hear(train, alpha)
        self.prior.fill_(prior)
        return {"alpha": alpha, "prior": prior}

    def _hear(self, train: KnownRows, alpha: float) -> None:
        """Take α over, and what rows hear of others on average with it: their own label is not heard."""
        assert train.y is not None
        self.alpha.fill_(alpha)
        others = train.y.clone()
        others[:, :, 0] = 0
        self.mass.copy_(self._sums(others).sum(1).mean().clamp_min(1e-12))

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """(1-α) α^l of one, the same for every node."""
        if y is None:
            return HopWeights(None)
        weights = self._weights(y)
        return HopWeights(None, (weights / weights.sum()).repeat(len(y), 1), 0)
