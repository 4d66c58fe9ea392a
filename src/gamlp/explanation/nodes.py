"""Why a node got its label: weights of its hops, what each hop alone would say, and what the label branch added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation.weights import drawn
from gamlp.graph import ROLES, Ids
from gamlp.models import Branches, HopWeights
from gamlp.propagation import HopStore
from gamlp.training import Bundle, read_batches, rows_of, to_probabilities

TOP_CLASSES = 5
_BATCH = 256  # rows: of each the logits of every class for every hop are made
_SILENT = 0.01  # of all logits: a label branch that is smaller and changes no answer adds nothing


@dataclass(frozen=True)
class Answer:
    """Classes said, and the probability of the likeliest: one class, or with many labels all above one half."""

    classes: tuple[str, ...]
    probability: float

    @property
    def text(self) -> str:
        return " | ".join(self.classes) or "none"


@dataclass(frozen=True)
class HopPart:
    """One hop of a node. `weight` None: the model weighs no hops; `alone` None: it cannot read one hop alone."""

    hop: int
    weight: float | None
    alone: Answer | None


@dataclass(frozen=True)
class ClassPart:
    """One class for a node: logit = `from_features` + `from_labels`, and the probability with and without labels.

    `from_labels` and `without_labels` are None where the model has no label branch.
    """

    name: str
    probability: float
    logit: float
    from_features: float
    from_labels: float | None
    without_labels: float | None


@dataclass(frozen=True)
class NodeExplanation:
    """One node; `true` None: not known; `without_labels` None: there is no label branch. `role`: train, valid, test."""

    id: int | str
    row: int
    degree: int
    role: str
    true: tuple[str, ...] | None
    predicted: Answer
    hops: tuple[HopPart, ...]
    label_weights: tuple[float, ...] | None
    first_label_hop: int
    without_labels: Answer | None
    classes: tuple[ClassPart, ...]

    @property
    def feature_weights(self) -> tuple[float, ...] | None:
        weights = [part.weight for part in self.hops]
        return None if None in weights else tuple(cast("list[float]", weights))


@dataclass(frozen=True)
class LabelBranch:
    """Of `rows` nodes: how many would get another answer without the label branch, and how large its logits are.

    `size`: mean size of its logits over that of all logits, each without its mean over classes, which no answer of one
    label a node depends on.
    """

    rows: int
    changed: int
    size: float

    @property
    def silent(self) -> bool:
        return self.changed == 0 and self.size < _SILENT


def label_branch(
    bundle: Bundle,
    store: HopStore,
    rows: range | Array,
    *,
    most: int = 2000,
    seed: int = 0,
    device: torch.device | None = None,
) -> LabelBranch | None:
    """What known labels around nodes add to their predictions, of rows or `most` of them; None without such a branch.

    >>> LabelBranch(2000, 0, 0.0001).silent
    True
    """
    model = bundle.model().to(device or torch.device("cpu"))
    chosen = np.array([rows[place] for place in drawn(len(rows), most, seed)], np.int64)
    changed, sizes = 0, np.zeros(2)
    for _, x, y in read_batches(rows_of(store, bundle.recipe, chosen), size=_BATCH, device=device):
        parts = branches_of(model, x, y)
        if parts.labels is None:
            return None
        whole = parts.features + parts.labels
        if bundle.multi_label:
            changed += int(((whole > 0) != (parts.features > 0)).any(1).sum())
            sizes += [float(parts.labels.abs().sum()), float(whole.abs().sum())]
        else:
            changed += int((whole.argmax(1) != parts.features.argmax(1)).sum())
            sizes += [float((one - one.mean(1, keepdim=True)).abs().sum()) for one in (parts.labels, whole)]
    return LabelBranch(len(chosen), changed, float(sizes[0] / sizes[1]) if sizes[1] else 0.0) if len(chosen) else None


def explain_nodes(
    bundle: Bundle,
    store: HopStore,
    rows: Array,
    *,
    ids: Ids,
    degrees: Array,
    top: int = TOP_CLASSES,
    device: torch.device | None = None,
) -> list[NodeExplanation]:
    """Explain chosen rows of a store, in their order, with the `top` likeliest classes of each.

    `degrees[n]` and `ids` are those of all nodes. Hops are read as prediction reads them: from all training labels.
    """
    rows = np.asarray(rows, np.int64)
    check_kept(store, rows, ids)
    model = bundle.model().to(device or torch.device("cpu"))
    found: list[NodeExplanation] = []
    for part, x, y in read_batches(rows_of(store, bundle.recipe, rows), size=_BATCH, device=device):
        some = rows[part]
        known = [
            NodeFacts(name, int(row), int(degrees[row]), _role(store, int(row)), true_classes(store, int(row)))
            for name, row in zip(ids.take(some).to_pylist(), some)
        ]
        found += explain_hops(bundle, model, x, y, known, top)
    return found


def _role(store: HopStore, row: int) -> str:
    return ROLES[int(store.split.roles[row])] if store.split is not None else ""


def check_kept(store: HopStore, rows: Array, ids: Ids) -> None:
    """Refuse a node whose hops the store does not hold."""
    kept = store.kept
    gone = np.zeros(0, np.int64) if kept is None else rows[~np.isin(rows, kept)]
    if len(gone):
        raise GamlpError(
            f"the hops of node '{ids.take(gone[:1])[0].as_py()}' were not kept",
            file=store.folder,
            hint="give the graph, and they are made anew: --graph GRAPH",
        )


@torch.no_grad()
def branches_of(model: nn.Module, x: Tensor, y: Tensor | None, temperature: float = 1.0) -> Branches:
    """What a model tells of its prediction; of one that tells nothing, the logits, which have their temperature."""
    branches = getattr(model, "branches", None)
    if branches is None:
        return Branches(model(x, y))
    told = cast(Branches, branches(x, y))
    if temperature == 1.0:
        return told
    labels, each_hop = (None if part is None else part / temperature for part in (told.labels, told.each_hop))
    return Branches(told.features / temperature, labels, each_hop)


@dataclass(frozen=True)
class NodeFacts:
    """What is known of a node beside its hops; `true` None: its label is not known."""

    id: int | str
    row: int
    degree: int
    role: str
    true: tuple[str, ...] | None


@torch.no_grad()
def explain_hops(
    bundle: Bundle, model: nn.Module, x: Tensor, y: Tensor | None, known: Sequence[NodeFacts], top: int = TOP_CLASSES
) -> list[NodeExplanation]:
    """Explain nodes by their hops, as the model reads them, in the order of `known`."""
    weigh = getattr(model, "hop_weights", None)
    weights = HopWeights(None) if weigh is None else cast(HopWeights, weigh(x, y))
    branches = branches_of(model, x, y, bundle.temperature)
    logits = branches.features if branches.labels is None else branches.features + branches.labels
    probabilities, without = _probabilities(logits, bundle), _probabilities(branches.features, bundle)
    each = None if branches.each_hop is None else _probabilities(branches.each_hop, bundle)
    parts = [None if part is None else _numbers(part) for part in (logits, branches.features, branches.labels)]
    found = []
    for index, facts in enumerate(known):
        hops = _hops(bundle, weights.features, each, index, x.shape[2])
        found.append(
            NodeExplanation(
                id=facts.id,
                row=facts.row,
                degree=facts.degree,
                role=facts.role,
                true=facts.true,
                predicted=_answer(probabilities[index], bundle),
                hops=hops,
                label_weights=None if weights.labels is None else tuple(_numbers(weights.labels[index]).tolist()),
                first_label_hop=weights.first_label_hop,
                without_labels=None if branches.labels is None else _answer(without[index], bundle),
                classes=_classes(bundle, probabilities[index], without[index], parts, index, top),
            )
        )
    return found


def _hops(bundle: Bundle, weights: Tensor | None, each: Array | None, index: int, count: int) -> tuple[HopPart, ...]:
    shares = [None] * count if weights is None else _numbers(weights[index]).tolist()
    alone = [None] * count if each is None else [_answer(probabilities, bundle) for probabilities in each[index]]
    return tuple(HopPart(hop, weight, answer) for hop, (weight, answer) in enumerate(zip(shares, alone)))


def _classes(
    bundle: Bundle, probabilities: Array, without: Array, parts: list[Array | None], index: int, top: int
) -> tuple[ClassPart, ...]:
    """The likeliest classes, and the one that was likeliest before the label branch spoke."""
    logits, features, labels = parts
    assert logits is not None and features is not None
    order = np.argsort(-probabilities, kind="stable")[:top]
    if labels is not None and (before := int(without.argmax())) not in order:
        order = np.append(order, before)
    return tuple(
        ClassPart(
            name=bundle.classes[number],
            probability=float(probabilities[number]),
            logit=float(logits[index, number]),
            from_features=float(features[index, number]),
            from_labels=None if labels is None else float(labels[index, number]),
            without_labels=None if labels is None else float(without[number]),
        )
        for number in order
    )


def _answer(probabilities: Array, bundle: Bundle) -> Answer:
    best = int(probabilities.argmax())
    predicted = np.flatnonzero(probabilities > 0.5) if bundle.multi_label else [best]
    return Answer(tuple(bundle.classes[number] for number in predicted), float(probabilities[best]))


def true_classes(store: HopStore, row: int) -> tuple[str, ...] | None:
    """Known labels of a row; None: they are not known."""
    labels = store.labels
    if labels is None:
        return None
    value = labels.values[row]
    if labels.multi_label:
        return None if value[0] < 0 else tuple(labels.classes[number] for number in np.flatnonzero(value > 0))
    return None if value < 0 else (labels.classes[value],)


def _probabilities(logits: Tensor, bundle: Bundle) -> Array:
    probabilities = to_probabilities(logits.flatten(0, -2), bundle.multi_label)
    return _numbers(probabilities.view_as(logits))


def _numbers(values: Tensor) -> Array:
    return values.detach().cpu().double().numpy()
