"""Which candidate is returned, and the sentence that says why: the simplest one, where nothing is surely better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gamlp.training import metric_words, told
from gamlp.tune.candidates import Candidate
from gamlp.tune.uncertainty import Validated

_AS_IT_IS = ("log_loss",)  # others are shares and areas, told in per cent as all scores are


@dataclass(frozen=True)
class Finalist:
    """A candidate that was trained, and what it says of validation rows."""

    candidate: Candidate
    validated: Validated


@dataclass(frozen=True)
class Ruling:
    """The candidate that is returned. `surely`: it is better than the simple answers beyond its uncertainty."""

    chosen: Candidate
    sentence: str
    surely: bool


def decide(finalists: Sequence[Finalist]) -> Ruling:
    """The best by validation; a simple answer in its place, the simplest, where the difference is within its error.

    Whether it is, is asked of single models: a blend was fitted to the rows that would have to judge it.
    """
    order = sorted(finalists, key=lambda one: one.candidate.order)
    single = [one for one in order if one.candidate.recipe.model.name != "blend"]
    best = max(single, key=lambda one: one.validated.rank)  # of equals the simplest
    simple = [one for one in order if one.candidate.role == "simple"]
    for one in simple:
        if one is best or _ahead(best, one) <= best.validated.error_against(one.validated):
            return Ruling(one.candidate, _simple_sentence(one, best, simple), surely=False)
    best = max(order, key=lambda one: one.validated.rank)
    return Ruling(best.candidate, _sentence(best, simple), surely=True)


def _ahead(one: Finalist, other: Finalist) -> float:
    return one.validated.gain - other.validated.gain


def _sentence(best: Finalist, simple: Sequence[Finalist]) -> str:
    text = f"{best.candidate.title} is the best of what was tried: {_value(best)}"
    if not simple:
        return f"{text}."
    rival = max(simple, key=lambda one: one.validated.gain)
    return f"{text}, {_difference(best, rival)} better than {_small(rival)} ({number(rival.validated)})."


def _simple_sentence(one: Finalist, best: Finalist, simple: Sequence[Finalist]) -> str:
    base = simple[0] is one and "majority" in one.candidate.name
    what = "Nothing that was tried is surely better than" if base else "Nothing more involved is surely better than"
    text = f"{what} {_small(one)}: {_value(one)}"
    if best is not one:
        text += (
            f"; {_small(best)} is ahead by {_difference(best, one)}, which may be chance, so the simpler one is kept"
        )
    return f"{text}. The features and the graph tell nothing of the labels that could be found." if base else f"{text}."


def _small(one: Finalist) -> str:
    """A title within a sentence: names in capitals stay."""
    title = one.candidate.title
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def _value(one: Finalist) -> str:
    validated = one.validated
    error = _scaled(validated.metric, validated.error)
    return f"{metric_words(validated.metric)} {number(validated)} ± {error} on validation rows"


def _difference(one: Finalist, other: Finalist) -> str:
    metric, error = one.validated.metric, one.validated.error_against(other.validated)
    unit = "" if metric in _AS_IT_IS else " points"
    return f"{_scaled(metric, abs(_ahead(one, other)))} ± {_scaled(metric, error)}{unit}"


def number(validated: Validated) -> str:
    """As people read it: in per cent, a loss as it is."""
    metric = validated.metric
    value = _scaled(metric, told(metric, validated.gain))
    return value if metric in _AS_IT_IS else f"{value} %"


def _scaled(metric: str, value: float) -> str:
    return f"{value:.3f}" if metric in _AS_IT_IS else f"{100 * value:.1f}"
