"""Logistic regression on hops: logits = [X^(0) ‖ … ‖ X^(K)] W + b, solved to the optimum for every strength of L2."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.arrays import Array
from gamlp.models.columns import HopColumns
from gamlp.models.shape import Branches, HopWeights, Model, Shape
from gamlp.models.solving import ToSolve, class_weights
from gamlp.recipe import TrainingSettings

STRENGTHS = tuple(10.0**power for power in range(-4, 4))  # C, ascending: the more, the less the weights are held back
_USUAL = 1.0  # C where no validation rows choose
# Length of the gradient, in units of the curvature: half its square is about how much the loss may still fall.
_LOOSE, _EXACT = 1e-2, {torch.float64: 1e-6, torch.float32: 1e-3}  # on the way, and of the weights that stay
_MOST_STEPS = 500
_CHOICES = ("hops", "columns")
_WORSE = 2  # strengths in a row that validation rows do not like better, before weaker ones are left out
_DOUBLE = 1 << 22  # numbers in a table that is solved in float64
_WIDEST = 3000  # columns of a problem whose curvature is factorised
_SAMPLE = 10_000  # rows that the curvature is estimated from
_CHEAP = 1 << 28  # products of a curvature that is taken anew for every C
_PIECE = 4096  # columns that are multiplied, or widened to float64, at a time


class Logistic(Model):
    """Softmax regression, or a sigmoid a class where a node has many labels, with L2 on W and none on b.

        min over W, b:  Σ_i loss(x_i W + b, y_i) + ‖W‖² / (2 C)

    `C` None: the best of 10^-4 … 10^3 on validation rows. `scale`: before that, every hop as a whole is brought to
    the same variance (`hops`: far hops are smaller, and would be held back more), or every column (`columns`), or they
    stay as they are (`none`); `auto`: hops or columns, as validation rows choose.

    >>> Logistic(Shape(features=4, classes=3, hops=2))(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    reads_operators = True
    _reads_labels = False

    def __init__(self, shape: Shape, *, C: float | None = None, scale: str = "auto") -> None:
        super().__init__()
        if C is not None and not (isinstance(C, int | float) and 0 < C < math.inf):
            raise ValueError(f"C of logistic regression is a number above 0, not {C!r}")
        if scale not in ("auto", "hops", "columns", "none"):
            raise ValueError(f"scale of logistic regression is auto, hops, columns or none, not {scale!r}")
        self.shape, self.strength, self.scale = shape, C, scale
        self.columns = HopColumns(shape, labels=self._reads_labels)
        self.linear = nn.Linear(self.columns.count, shape.classes)
        self.mean: Tensor
        self.register_buffer("mean", torch.zeros(self.columns.count))  # of training rows

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        logits: Tensor = self.linear(self.columns.of(x, y))
        return logits

    def solve(self, given: ToSolve) -> dict[str, float]:
        """The optimum of the best C (and scaling): one convex problem each, begun where the last one ended."""
        train, valid = given.train, given.valid
        table = self.columns.of(train.x, train.y)
        scales = _CHOICES if self.scale == "auto" else (self.scale,)
        strengths = STRENGTHS if self.strength is None else (self.strength,)
        if valid is None:
            scales, strengths = scales[-1:], strengths if len(strengths) == 1 else (_USUAL,)
        best: tuple[tuple[float, ...], str, float, Array] | None = None
        steps, all_of_them = 0, len(scales) * len(strengths)
        for scale in scales:
            own: tuple[float, ...] | None = None  # the best of this scale
            worse = 0
            problem = _Problem(table, train.target, given.settings, self.shape, self._blocks(scale))
            start: Array | None = None
            for strength in strengths:
                if start is not None and problem.small:
                    problem.look_around(start)
                start, took = problem.solved(strength, start, _LOOSE)
                steps += took
                self._take(problem, start)
                rank = () if valid is None or all_of_them == 1 else given.metric(self(valid.x, valid.y))
                worse += 1
                if own is None or rank > own:
                    own, worse = rank, 0
                if best is None or rank > best[0]:
                    best, kept = (rank, scale, strength, start), problem
                done = scales.index(scale) * len(strengths) + strengths.index(strength) + 1
                given.progress("solving", done, all_of_them, "problems", f"C {strength:g}")
                if worse > _WORSE:  # the weaker the penalty, the longer it takes
                    break
        assert best is not None
        _, scale, strength, start = best
        kept.look_around(start)
        found, took = kept.solved(strength, start, _EXACT[kept.z.dtype])
        self._take(kept, found)
        return {"C": strength, "scaled_columns": float(scale == "columns"), "steps": float(steps + took)}

    def _blocks(self, scale: str) -> Tensor | None:
        """Of every column the number of the block that is scaled as a whole; None: nothing is."""
        if scale == "none":
            return None
        return self.columns.block if scale == "hops" else torch.arange(self.columns.count)

    @torch.no_grad()
    def _take(self, problem: _Problem, found: Array) -> None:
        weight, bias = problem.weights(found)
        self.mean.copy_(problem.mean)
        self.linear.weight.copy_(weight.T)
        assert self.linear.bias is not None
        self.linear.bias.copy_(bias - problem.mean @ weight)

    @torch.no_grad()
    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """The logits, those of labels apart, and those of each hop alone: all other columns at their mean."""
        features, labels = self._parts(x, y)
        at_mean = self.linear(self.mean)
        heard = None if labels is None else labels.sum(1)
        return Branches(features.sum(1) + at_mean, heard, each_hop=features + at_mean)

    @torch.no_grad()
    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """How much of what moves a node's logits from the mean comes from each hop: shares of lengths of vectors."""
        features, labels = self._parts(x, y)
        return HopWeights(_shares_of(features), None if labels is None else _shares_of(labels), 1)

    def _parts(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(x_k - mean_k) W_k of every hop k, `[b, hops, classes]`, of features and of labels."""
        table = self.columns.of(x, y) - self.mean
        hop, label_hop = self.columns.hop.to(x.device), self.columns.label_hop.to(x.device)
        weight, first = self.linear.weight, self.columns.features

        def moved(own: Tensor, columns: slice) -> Tensor:
            return table[:, columns][:, own] @ weight[:, columns][:, own].T

        features = [moved(hop == number, slice(first)) for number in range(self.shape.hops + 1)]
        heard = range(1, self.shape.label_hops + 1) if self.columns.labels else ()
        labels = [moved(label_hop == number, slice(first, None)) for number in heard]
        return torch.stack(features, 1), torch.stack(labels, 1) if labels else None


class LogisticLabels(Logistic):
    """The same with hops of labels among its columns; those of training rows must be cross-fitted.

    >>> model = LogisticLabels(Shape(features=4, classes=3, hops=2, label_hops=1))
    >>> model(torch.zeros(5, 1, 3, 4), torch.zeros(5, 1, 2, 3)).shape
    torch.Size([5, 3])
    """

    reads_labels = True
    learns_labels_by_heart = True
    _reads_labels = True


def _shares_of(parts: Tensor) -> Tensor:
    """Shares `[b, hops]` of the lengths of parts `[b, hops, classes]`; even where nothing is moved."""
    sizes = (parts - parts.mean(2, keepdim=True)).norm(dim=2)
    total = sizes.sum(1, keepdim=True)
    even = torch.full_like(sizes, 1 / sizes.shape[1])
    return torch.where(total > 0, sizes / total.clamp_min(torch.finfo(sizes.dtype).tiny), even)


class _Problem:
    """One convex problem: a centred (and scaled) table, its labels, and what makes its curvature round.

    Of fewer rows than columns the weights lie in the span of the rows: the table is replaced by the Cholesky factor of
    its Gram matrix, rows × rows, which is exact. L-BFGS ends in some tens of steps in θ = Fᵀ W, where
    F Fᵀ = Zᵀ diag(κ) Z / n + I / (C n) is about the curvature.
    """

    def __init__(
        self, table: Tensor, target: Tensor, settings: TrainingSettings, shape: Shape, blocks: Tensor | None
    ) -> None:
        rows, columns = table.shape
        self.mean = table.sum(0, dtype=torch.float64) / rows
        wide = table.double() if table.numel() <= _DOUBLE else table
        self._table = wide - self.mean.to(wide.dtype)
        self._scale = torch.ones(columns, dtype=torch.float64)
        if blocks is not None and columns:
            size: Tensor = torch.linalg.vector_norm(self._table, dim=0, dtype=torch.float64)
            constant = size <= 1e-7 * math.sqrt(rows) * self.mean.abs() + 1e-30  # but for rounding
            count = int(blocks.max()) + 1
            variance = torch.zeros(count, dtype=torch.float64).index_add(0, blocks, (size.square() / rows) * ~constant)
            mean = (variance / torch.bincount(blocks, minlength=count))[blocks]
            self._scale = torch.where(mean > 0, mean.sqrt(), self._scale)
            self._table /= self._scale.to(wide.dtype)
        self._gram: Tensor | None = None  # its factor, where rows stand for columns
        self.z = self._table
        if columns > rows and rows <= _WIDEST:
            self._gram = self.z = _factor(_gram(self._table))
        self._two_classes = target.ndim == 1 and shape.classes == 2
        self.softmax = target.ndim == 1 and not self._two_classes
        self._outputs = 1 if self._two_classes else shape.classes
        self._label(target, settings, shape)
        share = 1 / shape.classes
        self._set_curvature(torch.full((rows,), share * (1 - share), dtype=self.z.dtype))  # where nothing is known yet

    def _label(self, target: Tensor, settings: TrainingSettings, shape: Shape) -> None:
        has, has_not = class_weights(target, shape.classes)
        even = settings.class_weights != "balanced"
        kind = self.z.dtype
        if self.softmax:
            self._true = functional.one_hot(target, shape.classes).to(kind)
            of_row = torch.ones(len(target), dtype=kind) if even else has.to(kind)[target]
            self._has, self._has_not = of_row[:, None], torch.zeros(1)
            return
        true = target if target.ndim == 2 else target[:, None]
        self._true = true.to(kind)
        if target.ndim == 1:  # of two classes the second is asked for
            has, has_not = has[1:], has[:1]
        one = torch.ones(1, dtype=kind)
        self._has, self._has_not = (one, one) if even else (has.to(kind), has_not.to(kind))

    @property
    def small(self) -> bool:
        """Whether the curvature costs less than the steps that it saves."""
        rows, width = self.z.shape
        return min(rows, _SAMPLE) * width**2 <= _CHEAP

    def _set_curvature(self, of_rows: Tensor) -> None:
        """Zᵀ diag(κ) Z / n, of a sample of rows where they are many; its diagonal alone where columns are too many."""
        rows, width = self.z.shape
        self._mean_curvature = float(of_rows.mean())
        if width > _WIDEST:
            size: Tensor = torch.linalg.vector_norm(self.z, dim=0, dtype=torch.float64)
            self._normal = self._mean_curvature / rows * size.square()
            return
        step = max(1, rows // _SAMPLE)
        some = self.z[::step] * of_rows[::step, None].sqrt()
        self._normal = (some.T @ some).double() / len(some)

    def look_around(self, found: Array) -> None:
        """Take the curvature where a solution is: of rows that are sure it is much less than at the start."""
        weight, bias = torch.from_numpy(found[:-1]), torch.from_numpy(found[-1])
        logits = functional.linear(self.z, weight.T.to(self.z.dtype).contiguous(), bias.to(self.z.dtype))
        chance = torch.softmax(logits, 1) if self.softmax else torch.sigmoid(logits)
        self._set_curvature((chance * (1 - chance)).mean(1).clamp_min(1e-6))

    def _factor_for(self, decay: float) -> Tensor:
        """F, lower triangular, or the diagonal of it."""
        if self._normal.ndim == 1:
            return (self._normal + decay).sqrt()
        return _factor(self._normal + decay * torch.eye(len(self._normal), dtype=torch.float64))

    def solved(self, strength: float, start: Array | None, tolerance: float) -> tuple[Array, int]:
        """The optimum `[width + 1, outputs]`, intercepts last, and how many steps it took."""
        from scipy.optimize import minimize

        rows, width = self.z.shape
        decay = 1 / (strength * rows)
        factor = self._factor_for(decay)
        begin = torch.zeros(width + 1, self._outputs, dtype=torch.float64)
        if start is not None:
            begin = torch.from_numpy(start)
        begin = torch.cat([_times(factor, begin[:-1]), begin[-1:] * math.sqrt(self._mean_curvature)])

        def value(flat: Array) -> tuple[float, Array]:
            theta = torch.from_numpy(flat).view(width + 1, self._outputs)
            weight = _over(factor, theta[:-1], transposed=True)
            loss, slope = self._loss(weight, theta[-1] / math.sqrt(self._mean_curvature))
            total = loss + 0.5 * decay * float(weight.square().sum())
            # (Sᵀ Z)ᵀ, and `linear` below: many times faster than Zᵀ S and Z W where S and W are narrow.
            down = _over(factor, (slope.T @ self.z).T.double() + decay * weight)
            intercept = slope.sum(0, dtype=torch.float64) / math.sqrt(self._mean_curvature)
            return total, torch.cat([down, intercept[None]]).flatten().numpy()

        largest = tolerance / math.sqrt(begin.numel())
        options = {
            "maxiter": _MOST_STEPS,
            "maxfun": 2 * _MOST_STEPS,
            "gtol": largest,
            "ftol": 0.0,
            "maxcor": 20,
            "maxls": 8,
        }
        found = minimize(value, begin.flatten().numpy(), jac=True, method="L-BFGS-B", options=options)
        theta = torch.from_numpy(np.asarray(found.x)).view(width + 1, self._outputs)
        weight = _over(factor, theta[:-1], transposed=True)
        return torch.cat([weight, theta[-1:] / math.sqrt(self._mean_curvature)]).numpy(), int(found.nit)

    def _loss(self, weight: Tensor, bias: Tensor) -> tuple[float, Tensor]:
        """Mean loss of rows, and its slope by their logits."""
        kind, rows = self.z.dtype, len(self.z)
        logits = functional.linear(self.z, weight.T.to(kind).contiguous(), bias.to(kind))
        if self.softmax:
            told = functional.log_softmax(logits, 1)
            loss = -(told * self._true * self._has).sum(dtype=torch.float64) / rows
            return float(loss), (told.exp() - self._true) * self._has / rows
        has, has_not = self._true * self._has, (1 - self._true) * self._has_not
        lost = has * functional.softplus(-logits) + has_not * functional.softplus(logits)
        chance = torch.sigmoid(logits)
        return float(lost.sum(dtype=torch.float64) / rows), (has_not * chance - has * (1 - chance)) / rows

    def weights(self, found: Array) -> tuple[Tensor, Tensor]:
        """W `[columns, classes]` for columns as they come less their mean, and b, in float64."""
        all_of_it = torch.from_numpy(found)
        weight, bias = all_of_it[:-1], all_of_it[-1]
        if self._gram is not None:  # W = Xᵀ G^-1 Z W_z, Z = F, G = F Fᵀ
            spread = _over(self._gram, weight, transposed=True)
            weight = torch.cat([part.double().T @ spread for part in torch.split(self._table, _PIECE, 1)])
        weight = weight / self._scale[:, None]
        if self._two_classes:  # one logit, half of it against the first class and half for the second
            weight, bias = torch.cat([-weight / 2, weight / 2], 1), torch.cat([-bias / 2, bias / 2])
        return weight, bias


def _gram(table: Tensor) -> Tensor:
    """Z Zᵀ, some columns at a time; their sums in float64."""
    found = torch.zeros(len(table), len(table), dtype=torch.float64)
    for part in torch.split(table, _PIECE, 1):
        found += part @ part.T
    return found


def _factor(matrix: Tensor) -> Tensor:
    """F of F Fᵀ = matrix + as little on the diagonal as makes it positive definite: rows may be alike."""
    size = max(float(matrix.diagonal().max()), 1e-300)
    for little in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        found: tuple[Tensor, Tensor] = torch.linalg.cholesky_ex(
            matrix + little * size * torch.eye(len(matrix), dtype=matrix.dtype)
        )
        if not found[1]:
            return found[0]
    raise ValueError("its features hold values that are no numbers, or too large")


def _times(factor: Tensor, weight: Tensor) -> Tensor:
    """Fᵀ W."""
    return factor[:, None] * weight if factor.ndim == 1 else factor.T @ weight


def _over(factor: Tensor, values: Tensor, *, transposed: bool = False) -> Tensor:
    """F^-1 V, or F^-T V."""
    if factor.ndim == 1:
        return values / factor[:, None]
    found: Tensor = torch.linalg.solve_triangular(factor.T if transposed else factor, values, upper=transposed)
    return found
