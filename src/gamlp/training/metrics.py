"""What validation goes by: scikit-learn's measures, quick enough for every epoch; which of two results is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from gamlp.arrays import Array
from gamlp.recipe import TrainingSettings
from gamlp.training.counts import ScoreCounts
from gamlp.training.label_counts import LabelCounts
from gamlp.training.levels import Levels

Measure = Callable[[Array, Array], float]  # of probabilities and labels

RARE = 0.1  # the rarer of two classes has less than this share: accuracy tells nothing
_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "log_loss": "log-loss",
}
_SCORES = ("auto", "accuracy", "micro_f1")  # what `score` is, where there is no other number


def metric_words(name: str) -> str:
    """A metric as people call it.

    >>> metric_words("roc_auc")
    'ROC-AUC'
    """
    return _WORDS[name]


def metric_value(name: str, probabilities: Array, targets: Array, positive: int | None = None) -> float:
    """A metric of probabilities `[b, c]` and labels `[b]` or, of many labels a node, `[b, c]`; NaN where undefined.

    ROC-AUC and average precision are means over the classes that some rows have and some have not; of two classes,
    ROC-AUC is that of the second, average precision that of `positive`, by default the rarer. Higher is better, but for
    log_loss.

    >>> metric_value("average_precision", np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 0]))
    1.0
    """
    if not len(targets):
        return math.nan
    if name in ("roc_auc", "average_precision"):
        return _ranking(name, probabilities, targets, positive)
    many = targets.ndim == 2
    if name == "accuracy" and many:  # all labels of a row
        return float(((probabilities > 0.5) == (targets > 0.5)).all(1).mean())
    counts = ScoreCounts(many, probabilities.shape[1])
    counts.add(probabilities, targets)
    read = {"accuracy": "score", "micro_f1": "score", "log_loss": "loss"}.get(name, name)
    return float(getattr(counts, read))


def roc_auc(scores: Array, true: Array) -> float:
    """P(score of a positive > score of a negative), a tie counts half; NaN without both."""
    return Levels.of(scores, true, ~true).roc_auc


def average_precision(scores: Array, true: Array) -> float:
    """Σ (recall_k - recall_(k-1)) precision_k over thresholds; NaN without both."""
    return Levels.of(scores, true, ~true).average_precision


def best_threshold(scores: Array, true: Array) -> float:
    """The t of most right answers where "score ≥ t" is said: half-way between two scores, of equals nearest to 0.5.

    Scores are probabilities of rows that may choose; to say it of all and of none are among the choices.

    >>> best_threshold(np.array([0.1, 0.2, 0.3, 0.5]), np.array([False, False, True, True]))
    0.25
    """
    found = Levels.of(scores, true, ~true)
    right = np.r_[0, found.hits - found.falls]  # beside all negatives, at cut k: the k highest scores are said
    levels = np.r_[1, found.values, 0].astype(scores.dtype)
    above, below = levels[:-1], levels[1:]
    middle = (above + below) / 2
    cuts = np.where(middle > below, middle, above)  # between neighbouring floats there is nothing
    if below[0] >= 1:  # a row that is certain is said at every threshold: there is no cut above it
        right, cuts = right[1:], cuts[1:]
    best = cuts[right == right.max()]
    return float(best[np.argmin(np.abs(best - 0.5))])


def mean_over_classes(measure: Measure, probabilities: Array, targets: Array) -> float:
    """Of one class against the rest, the mean over classes that some rows have and some have not; NaN without any."""
    columns = probabilities.shape[1]
    true = targets > 0.5 if targets.ndim == 2 else targets[:, None] == np.arange(columns)
    found = [measure(probabilities[:, column], true[:, column]) for column in range(columns)]
    return mean_of_known(found)


def mean_of_known(values: Sequence[float]) -> float:
    """Of those that are defined; NaN without any."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def rarer_class(targets: Array) -> int:
    """Of two classes the one with fewer rows, the second where they are equal."""
    return 0 if (targets == 0).sum() < (targets == 1).sum() else 1


def resolve_metric(settings: TrainingSettings, targets: Array, valid: Array | None = None) -> tuple[str, str | None]:
    """The metric that validation goes by, and a sentence where a person would not expect it.

    `targets` are labels of training rows, `valid` of validation rows: a metric that these leave undefined gives way.
    """
    return metric_by_counts(settings, LabelCounts.of(targets), None if valid is None else LabelCounts.of(valid))


def metric_by_counts(
    settings: TrainingSettings, train: LabelCounts, valid: LabelCounts | None = None
) -> tuple[str, str | None]:
    """The same where labels were counted."""
    multi_label = train.multi_label
    found = np.array([]) if multi_label else train.of_class[train.present]
    rare = len(found) == 2 and found.min() < RARE * found.sum()
    name = settings.metric
    if name == "auto":
        if not rare:
            return ("micro_f1" if multi_label else "accuracy"), None
        if valid is not None and _undefined("average_precision", valid):
            return "accuracy", "validation rows are all of one class: they tell little of how good a model is"
        share = f"{100 * found.min() / found.sum():.1f} %"
        return "average_precision", (
            f"the rarer of the two classes has {share} of the training rows: validation goes by its average precision, "
            "since accuracy would reward never finding it (training.metric chooses)"
        )
    if valid is not None and _undefined(name, valid):
        why = "no class is on some validation rows and not on others" if multi_label else "they are all of one class"
        return "log_loss", f"{metric_words(name)} of the validation rows is undefined ({why}): log-loss decides instead"
    return name, None


def measure_of(settings: TrainingSettings, targets: Array, multi_label: bool, valid: Array) -> Measure | None:
    """What is measured on validation rows beside score and loss; None where one of these is it."""
    name, _ = resolve_metric(settings, targets, valid)
    if name == ("micro_f1" if multi_label else "accuracy") or (name == "micro_f1" and not multi_label):
        return None
    if name == "log_loss" and settings.metric != "log_loss":  # in the place of one that is undefined
        return None
    return partial(metric_value, name, positive=None if multi_label else rarer_class(targets))


def judged(valid: Mapping[str, float], settings: TrainingSettings) -> float:
    """The metric of a result on validation rows `{"loss", "score", "metric"?}`, such that higher is better."""
    if settings.metric == "log_loss":
        return -valid["loss"]
    if "metric" in valid:
        return valid["metric"]
    return valid["score"] if settings.metric in _SCORES else -valid["loss"]


def ranked(valid: Mapping[str, float], settings: TrainingSettings) -> tuple[float, float]:
    """What results on validation rows are ordered by: higher is better. The metric, then the loss; or the loss."""
    return (-valid["loss"], 0.0) if settings.monitor == "loss" else (judged(valid, settings), -valid["loss"])


def better(now: Mapping[str, float], best: Mapping[str, float], settings: TrainingSettings) -> bool:
    """Whether validation went better; with monitor `both`, no worse in the metric nor in the loss."""
    if settings.monitor == "both":
        return all(one >= other for one, other in zip(ranked(now, settings), ranked(best, settings)))
    return ranked(now, settings) > ranked(best, settings)


def best_of(valid: Mapping[int, Mapping[str, float]], settings: TrainingSettings) -> int:
    """The best seed by its results on validation rows alone; the first where there are none."""
    return max(valid, key=lambda seed: ranked(valid[seed], settings) if valid[seed] else (0.0, 0.0))


def _undefined(name: str, labels: LabelCounts) -> bool:
    """Whether no row, or rows of one kind alone, leave nothing to measure."""
    if labels.multi_label:
        return name in ("roc_auc", "average_precision", "balanced_accuracy") and not labels.varied
    return name in ("roc_auc", "average_precision") and len(labels.present) < 2


def _ranking(name: str, probabilities: Array, targets: Array, positive: int | None) -> float:
    measure = roc_auc if name == "roc_auc" else average_precision
    if targets.ndim == 2 or probabilities.shape[1] != 2:
        return mean_over_classes(measure, probabilities, targets)
    if name == "roc_auc":
        positive = 1
    elif positive is None:
        positive = rarer_class(targets)
    return measure(probabilities[:, positive], targets == positive)
