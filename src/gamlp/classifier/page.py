"""A classifier as a notebook shows it: scores, the columns it reads, and how far it listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gamlp import markup
from gamlp.errors import GamlpError
from gamlp.explanation import flat_weights
from gamlp.graph import columns_html
from gamlp.training import blend_words

if TYPE_CHECKING:
    from gamlp.classifier.estimator import NodeClassifier

_MOST_ROWS = 20_000  # that are looked at while somebody waits for a cell


def classifier_html(model: NodeClassifier) -> str:
    """Self-contained; what was loaded has no rows of its own, and shows what its bundle says."""
    if not model.__sklearn_is_fitted__():
        return markup.page("NodeClassifier, not fitted yet", [markup.sentence(repr(model))])
    bundle, report = model.bundle_, model.bundle_.report
    many = f"{len(bundle.classes):,} classes, {bundle.shape.features:,} features"
    parts = [
        markup.table(["rows", "micro-F1" if bundle.multi_label else "accuracy", "count"], _scores(model)),
        markup.sentence(f"{_kept(report)}, seed {report.get('seed')}"),
        columns_html(bundle.columns),
        _hops(model),
    ]
    return markup.page(f"NodeClassifier: {bundle.recipe.model.name}, {many}", parts)


def _kept(report: dict[str, Any]) -> str:
    return blend_words(report) or f"epoch {report.get('epoch')} of {report.get('epochs')}"


def _scores(model: NodeClassifier) -> list[list[object]]:
    valid = model.bundle_.report.get("valid") or {}
    rows: list[list[object]] = []
    if "score" in valid:
        rows.append(["validation", float(valid["score"]), model.bundle_.report.get("valid_rows")])
    own = model._own
    if own is not None and own.split is not None and own.labels is not None:
        test = own.split.test[own.labels.known_at(own.split.test)]
        if 0 < len(test) <= _MOST_ROWS:
            rows.append(["test", model.score(rows=test), len(test)])
    return rows


def _hops(model: NodeClassifier) -> str:
    """The mean weight of every hop, of the first rows."""
    own = model._own
    if own is None:
        return ""
    try:
        weights = model.hop_weights(rows=range(min(own.count, _MOST_ROWS)))
    except GamlpError:  # a model that weighs no hops
        return ""
    if weights.features is None:
        return ""
    if (said := flat_weights("features", weights.features.double().cpu().numpy())) is not None:
        return markup.sentence(said)  # colours would make much of little
    means = weights.features.float().mean(0).tolist()
    return markup.heat(["", *(f"hop {hop}" for hop in range(len(means)))], ["features"], [means], "weights over hops")
