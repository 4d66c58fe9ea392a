"""Everything that is told of test rows: score, loss, macro-F1 and ROC-AUC, in memory that does not grow with them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.arrays import Array
from gamlp.io import State, keep_freed_memory, named_under, part_under
from gamlp.models import class_weights
from gamlp.training.batches import Batch, Passes, target_tensor
from gamlp.training.counts import ScoreCounts, score_of
from gamlp.training.levels import RankedScores, levels_for, merge_ranked, state_of_ranked
from gamlp.training.metrics import Measure, mean_of_known
from gamlp.training.ranks.world import ALONE, World
from gamlp.training.reliability import calibration_error, reliability_of_levels, said_and_true


class Loss(Protocol):
    """Of rows: their mean, or with `share` Σ share · loss of a row."""

    def __call__(self, logits: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor: ...


def loss_of(targets: Array, classes: int, weights: str, device: torch.device) -> Loss:
    """Mean cross-entropy (many labels: binary cross-entropy); `balanced` weighs by n / (classes · count).

    Classes are those that occur. The mean is over rows, not over weights: those of a whole epoch have mean one, and
    a row's share does not change with the batch it falls into.
    """
    multi_label = targets.ndim == 2
    weight: Tensor | None = None
    if weights == "balanced":
        weight = class_weights(target_tensor(targets), classes)[0].to(device, torch.float32)

    def loss(logits: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
        how = "none" if share is not None else "mean" if multi_label or weight is None else "sum"
        weighed = None if weight is None else weight.to(logits.dtype)  # a model of one's own may be in double
        if multi_label:
            target = target.to(logits.dtype)
            found = functional.binary_cross_entropy_with_logits(logits, target, pos_weight=weighed, reduction=how)
        else:
            found = functional.cross_entropy(logits, target, weighed, reduction=how)
        if share is not None:
            return ((found.mean(1) if multi_label else found) * share.to(found.dtype)).sum()
        return found / len(target) if how == "sum" else found

    return loss


def to_probabilities(logits: Tensor, multi_label: bool) -> Tensor:
    """Softmax, or a sigmoid a class where a node has many labels."""
    return torch.sigmoid(logits) if multi_label else torch.softmax(logits, 1)


# Batches whose sums are fetched together, so that a device is seldom waited for. On a processor nobody waits, and a
# small tensor that is kept takes its place in the midst of memory that the next batch would fill.
_FETCHED = 64


@torch.no_grad()
def logits_of(model: nn.Module, batches: Passes) -> Iterator[tuple[Batch, Tensor]]:
    """Every batch in order with its logits, the model in evaluation mode; memory does not grow with the rows."""
    model.eval()
    with keep_freed_memory():
        for batch in batches.epoch():
            yield batch, model(batch.x, batch.y)
            del batch  # before the next is made: it is as large


def evaluate(
    model: nn.Module,
    batches: Passes,
    loss: Loss | None = None,
    world: World = ALONE,
    measure: Measure | None = None,
) -> dict[str, float]:
    """Mean loss and score: accuracy, or micro-F1 where a node has many labels; over the batches of all ranks.

    With `measure` also `metric`: it holds the probabilities of all rows.
    """
    multi_label = batches.target.ndim == 2
    loss = loss or loss_of(batches.target.cpu().numpy(), 0, "none", batches.device)
    sums = np.zeros(3)  # loss, right, wrong
    found: list[Tensor] = []  # the same of batches that were not fetched yet
    fetched_together = 1 if batches.device.type == "cpu" else _FETCHED
    kept: list[Tensor] = []
    for batch, logits in logits_of(model, batches) if len(batches.target) else ():
        lost = loss(logits, batch.target) * len(logits)
        if multi_label:
            chosen, true = logits > 0, batch.target > 0.5
            counts = [(chosen & true).sum(), (chosen ^ true).sum()]
        else:
            counts = [(logits.argmax(1) == batch.target).sum(), torch.zeros_like(lost)]
        found.append(torch.stack([lost, *counts]))
        if len(found) == fetched_together:
            sums += np.sum([values.tolist() for values in found], axis=0)
            found.clear()
        if measure is not None:  # in float32 what is surest would become 1, and equal
            kept.append(to_probabilities(logits.double(), multi_label))
        del batch, logits
    sums += np.sum([values.tolist() for values in found], axis=0) if found else 0.0
    own = torch.tensor(
        [*sums, len(batches.target)], dtype=torch.float64, device=batches.device if world.size > 1 else "cpu"
    )
    total, right, wrong, rows = world.total(own).tolist()
    scores = {"loss": float(total / max(1, rows)), "score": score_of(right, wrong, rows, multi_label)}
    if measure is not None:
        scores["metric"] = _measured(measure, kept, batches, world)
    return scores


def _measured(measure: Measure, kept: list[Tensor], batches: Passes, world: World) -> float:
    """Of the rows of all ranks; rank 0 measures, so that no rank decides otherwise for a last bit."""
    empty = torch.zeros(0, 0, dtype=torch.float64, device=batches.device)
    probabilities = world.all_rows(torch.cat(kept) if kept else empty)
    target = world.all_rows(batches.target.to(batches.device))
    value = torch.zeros(1, dtype=torch.float64, device=batches.device)
    if world.rank == 0:
        value.fill_(measure(probabilities.cpu().numpy(), target.cpu().numpy()))
    world.follow([value])
    return float(value)


MOST_KEPT = 10_000_000  # probabilities that are held at once where somebody needs all of them


Watch = Callable[[Array, Array, Array], None]  # rows, probabilities, labels of a batch


def full_report(
    model: nn.Module, batches: Passes, watch: Watch | None = None, positive: int | None = None
) -> dict[str, float]:
    """Score, loss and every other metric that validation may go by, calibration error; `watch` sees batches.

    ROC-AUC and average precision are means over classes; of two classes, ROC-AUC is of the second, average precision of
    `positive`, by default the rarer. They and the expected calibration error need every probability: of more than
    MOST_EXACT, each is taken for the middle of a fine bin of log-odds.
    """
    target = batches.target.cpu().numpy()

    def parts() -> Iterator[tuple[Array, Array]]:
        for batch, logits in logits_of(model, batches):
            probabilities, true_labels = (
                to_probabilities(logits, target.ndim == 2).cpu().numpy(),
                batch.target.cpu().numpy(),
            )
            if watch is not None:
                watch(batch.rows, probabilities, true_labels)
            del batch, logits
            yield probabilities, true_labels

    found = RowScores(len(target), target.ndim == 2, positive)
    for probabilities, true_labels in parts():
        found.add(probabilities, true_labels)
    return found.report()


def report_of(probabilities: Array, target: Array) -> dict[str, float]:
    """The same of probabilities `[b, c]` that are at hand."""
    found = RowScores(len(target), target.ndim == 2)
    found.add(probabilities, target)
    return found.report()


class RowScores:
    """What `full_report` tells, of `rows` that come batch by batch, or counted apart, part by part."""

    def __init__(self, rows: int, multi_label: bool, positive: int | None = None) -> None:
        self.rows, self.positive = rows, positive
        self.counts = ScoreCounts(multi_label)
        self._said, self._ranked = RankedScores(), list[RankedScores]()

    def add(self, probabilities: Array, target: Array) -> None:
        """A batch: probabilities `[b, c]`, labels `[b]` or `[b, c]`."""
        self.counts.add(probabilities, target)
        first = 1 if probabilities.shape[1] == 2 and target.ndim == 1 else 0  # of two classes the second tells all
        columns = range(first, probabilities.shape[1])
        self._begin(len(columns))
        self._said.add(*said_and_true(probabilities, target))
        for one, column in zip(self._ranked, columns):
            true = target[:, column] > 0.5 if target.ndim == 2 else target == column
            one.add(probabilities[:, column], true)

    def _begin(self, columns: int) -> None:
        """Room for so many classes that rows are ranked by, unless it is there."""
        if not self._ranked:
            self._said = RankedScores(levels_for(self.rows * (columns if self.counts.multi_label else 1)))
            self._ranked = [RankedScores(levels_for(self.rows * columns, columns)) for _ in range(columns)]

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        return {
            **named_under("counts", self.counts.state()),
            **named_under("said", state_of_ranked([self._said])),
            **named_under("ranked", state_of_ranked(self._ranked)),
        }

    def merge(self, state: State) -> None:
        """Add what was counted of other rows."""
        self.counts.merge(part_under(state, "counts"))
        ranked = part_under(state, "ranked")
        if len(ranked["ends"]):  # there were rows
            self._begin(len(ranked["ends"]))
            merge_ranked([self._said], part_under(state, "said"))
            merge_ranked(self._ranked, ranked)

    def report(self) -> dict[str, float]:
        """Every metric by its name; those that these rows leave undefined are left out."""
        counts = self.counts
        if not counts.rows:  # nothing was measured, and no score is 0, or 1, by itself
            return {}
        report = {"score": counts.score, "loss": counts.loss, "macro_f1": counts.macro_f1}
        report["balanced_accuracy"] = counts.balanced_accuracy
        if self._ranked:
            report |= self._rankings()
        report = {name: value for name, value in report.items() if not math.isnan(value)}
        if len(self._said):
            report["ece"] = calibration_error(reliability_of_levels(self._said.levels()))
        return report

    def _rankings(self) -> dict[str, float]:
        """Means over classes; where the second of two classes' column stands alone, its own. NaN: no class has both."""
        if self.counts.multi_label or len(self._ranked) > 1:
            found = [(one.roc_auc, one.average_precision) for one in map(RankedScores.levels, self._ranked)]
            areas, precisions = zip(*found)
            return {"roc_auc": mean_of_known(areas), "average_precision": mean_of_known(precisions)}
        occurs, positive = self.counts.right + self.counts.missed, self.positive
        if positive is None:
            positive = 0 if occurs[0] < occurs[-1] else 1
        second = self._ranked[0].levels()
        precision = (second if positive else second.turned()).average_precision
        return {"roc_auc": second.roc_auc, "average_precision": precision}


def summary(reports: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and sample deviation of every metric that all reports have."""
    names = [name for name in reports[0] if all(name in report for report in reports)]
    columns = {name: [report[name] for report in reports] for name in names}
    return {
        "mean": {name: statistics.fmean(values) for name, values in columns.items()},
        "deviation": {name: statistics.stdev(values) if len(values) > 1 else 0.0 for name, values in columns.items()},
    }
