"""Trained models blended into one: how much each weighs is picked by what validation rows say of their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.training.batches import Batches, HopRows
from gamlp.training.bundle import Bundle, make_model
from gamlp.training.checkpoint import Weights
from gamlp.training.loop import Fitted
from gamlp.training.metrics import measure_of, metric_value
from gamlp.training.rows import Prepared
from gamlp.training.scores import evaluate, logits_of, to_probabilities

MOST_HELD_ROWS = 100_000  # of validation whose probabilities are held, of every model that may be blended
_ROUNDS = 25  # of greedy selection
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Said:
    """What a model said of the validation rows of one split: nodes `[b]`, probabilities `[b, c]`, targets."""

    rows: Array
    probabilities: Array
    targets: Array


@dataclass(frozen=True)
class Answers:
    """What a model said of one split or several, measured. Higher is better: of the log-loss, minus it."""

    metric: str
    said: tuple[Said, ...]
    positive: int | None = None  # of two classes, the one whose average precision is asked for

    @cached_property
    def gain(self) -> float:
        """The mean over splits."""
        return float(np.mean([self.gain_of(one.probabilities, one.targets) for one in self.said]))

    @cached_property
    def rank(self) -> tuple[float, float]:
        """What models are ordered by: higher is better. Where gains are equal, the log-loss tells."""
        losses = [metric_value("log_loss", one.probabilities, one.targets) for one in self.said]
        return self.gain, -float(np.mean(losses))

    @property
    def value(self) -> float:
        """As people read it."""
        return told(self.metric, self.gain)

    def gain_of(self, probabilities: Array, targets: Array) -> float:
        """By the same metric, of some rows."""
        return told(self.metric, metric_value(self.metric, probabilities, targets, self.positive))


Some = TypeVar("Some", bound=Answers)


def told(metric: str, gain: float) -> float:
    """A gain as people read it."""
    return -gain if metric == "log_loss" else gain


def picks(measured: Sequence[Answers]) -> list[int]:
    """Greedy selection with replacement, begun with the best: numbers of members, as far as the mean grew better."""
    found = [max(range(len(measured)), key=lambda index: measured[index].rank)]
    so_far: Answers = measured[found[0]]
    best, length = so_far.rank, 1
    for count in range(1, _ROUNDS):
        shares = (count / (count + 1), 1 / (count + 1))
        tried = [mixed((so_far, other), shares) for other in measured]
        found.append(max(range(len(tried)), key=lambda index: tried[index].rank))
        so_far = tried[found[-1]]
        if so_far.rank > best:
            best, length = so_far.rank, len(found)
    return found[:length]


def mixed(measured: Sequence[Some], shares: Sequence[float]) -> Some:
    """What the mean of several models says of the same rows, by their shares."""
    said = []
    for same in zip(*(one.said for one in measured)):
        probabilities = sum(share * one.probabilities for share, one in zip(shares, same))
        said.append(Said(same[0].rows, np.asarray(probabilities, np.float32), same[0].targets))
    return replace(measured[0], said=tuple(said))


def shares_of(
    bundles: Sequence[Bundle], valid: HopRows | None, metric: str, positive: int | None = None
) -> list[float]:
    """Weights from 0 that sum to one: how often each is picked. Without validation rows all weigh the same."""
    if valid is None or not len(valid):
        return [1 / len(bundles)] * len(bundles)
    rows = some_rows(valid)
    measured = [
        Answers(metric, (Said(rows.rows, probabilities_of(one, rows, _CPU), rows.targets),), positive)
        for one in bundles
    ]
    picked = picks(measured)
    return [picked.count(index) / len(picked) for index in range(len(bundles))]


def some_rows(rows: HopRows) -> HopRows:
    """All, or as many as are held, evenly among them: the same for every model."""
    if len(rows) <= MOST_HELD_ROWS:
        return rows
    picked = np.linspace(0, len(rows) - 1, MOST_HELD_ROWS).astype(np.int64)
    return replace(rows, rows=rows.rows[picked])


def probabilities_of(bundle: Bundle, rows: HopRows, device: torch.device, memory: int | None = None) -> Array:
    """`[rows, classes]`, float32."""
    batches = Batches(rows, bundle.recipe.training.batch_size, device, memory)
    found = [
        to_probabilities(logits, bundle.multi_label) for _, logits in logits_of(bundle.model().to(device), batches)
    ]
    return torch.cat(found).cpu().numpy().astype(np.float32)


def fitted_of(prepared: Prepared, facts: dict[str, Any], weights: Weights) -> Fitted:
    """A model that was trained elsewhere or before, as its training would have given it."""
    with torch.random.fork_rng(devices=[]):
        model = make_model(prepared.recipe, prepared.shape)
    model.load_state_dict(weights)
    return Fitted(model.eval(), weights, **facts)


def blended(prepared: Prepared, members: Sequence[Bundle]) -> Fitted:
    """The blend of `blend_recipe`, which `prepared` is of, with the weights that its members learned."""
    weights: Weights = {}
    for index, one in enumerate(members):
        weights |= {f"members.{index}.{name}": value for name, value in one.weights.items()}
    fitted = fitted_of(prepared, {"epoch": 0, "epochs": 0, "valid": {}}, weights)
    return replace(fitted, valid=_validated(fitted, prepared))


def _validated(fitted: Fitted, prepared: Prepared) -> dict[str, float]:
    """As an epoch of training is validated."""
    train, valid, settings = prepared.train.targets, prepared.valid, prepared.recipe.training
    if valid is None or not len(valid):
        return {}
    measure = measure_of(settings, train, prepared.multi_label, valid.targets)
    return evaluate(fitted.model, valid.batches(settings.batch_size, _CPU, None), measure=measure)


def blend_words(report: dict[str, Any]) -> str | None:
    """What a bundle's report says of its members, as a sentence without its end; None where it has none.

    >>> blend_words({"members": [{"weight": 0.75}, {"weight": 0.0}, {"weight": 0.25}]})
    'a blend of 2 models, of 3 that were trained (weights 0.75, 0.25)'
    """
    weights = [float(one["weight"]) for one in report.get("members", ())]
    used = [one for one in weights if one > 0]
    if not weights:
        return None
    if len(used) == 1:
        return f"one model of {len(weights)} that were trained: no blend with the others validates better"
    of = "" if len(used) == len(weights) else f", of {len(weights)} that were trained"
    told_weights = ", ".join(f"{one:.2f}" for one in used)
    return f"a blend of {len(used)} models{of} (weights {told_weights})"
