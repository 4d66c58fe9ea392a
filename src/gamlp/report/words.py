"""Sentences that say whether to trust a result: what was predicted, against what, and what to doubt.

Everything here is made of plain numbers, so that each sentence can be asked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SURE = 2.0  # standard errors: a difference that is smaller may be chance
FEW_ROWS = 100  # scored: their score says little
HARDLY = 0.1  # of a class's rows: where fewer are found, it is hardly found
_CLASS_ROWS = 5  # of a class with fewer nothing is said
_RISE = 5.0  # of the validation loss above its least
_BURST = 10.0  # of the training loss above its first
_AGREES = 0.1  # of the way from chance to neighbours that all agree
_EDGES = 100  # between training nodes: of fewer nothing is said
_OFF = 0.1  # between how sure the model is and how often it is right
_GAP = 0.03  # between validation and test, beyond what chance explains
_NAMED = 3  # classes or columns by name; the others are counted


@dataclass(frozen=True)
class Words:
    """`said`: what was predicted and how good it is; `doubts`: what speaks against trusting it.

    `better`: whether it beats the same answer for every node beyond chance; None where nobody knows.
    """

    said: tuple[str, ...]
    doubts: tuple[str, ...]
    better: bool | None = None

    @property
    def sentences(self) -> list[str]:
        return [*self.said, *self.doubts]


@dataclass(frozen=True)
class Score:
    """Of `rows` that were scored; `error` is the standard error of `value`, None where it is not known."""

    part: str
    rows: int
    name: str
    value: float
    error: float | None = None
    seeds: int = 1


@dataclass(frozen=True)
class Constant:
    """The best that the same answer for every node can do: its score, and how far the model is ahead of it."""

    answer: str
    value: float
    ahead: float
    error: float | None = None

    @property
    def beaten(self) -> bool:
        return self.ahead > SURE * (self.error or 0.0)


@dataclass(frozen=True)
class Ranked:
    """Of two classes: how well rows are ordered by the probability of the rarer one, which `share` of them have."""

    positive: str
    share: float
    rows: int
    roc_auc: float
    average_precision: float

    @property
    def error(self) -> float:
        """Standard error of ROC-AUC (Hanley and McNeil, 1982)."""
        area, ones = self.roc_auc, max(1.0, self.share * self.rows)
        zeros = max(1.0, self.rows - ones)
        first, second = area / (2 - area), 2 * area**2 / (1 + area)
        spread = area * (1 - area) + (ones - 1) * (first - area**2) + (zeros - 1) * (second - area**2)
        return math.sqrt(max(0.0, spread) / (ones * zeros))

    @property
    def informative(self) -> bool:
        return self.roc_auc - SURE * self.error > 0.5


@dataclass(frozen=True)
class ClassFound:
    """How many of a class's scored rows were found, and whether training had any."""

    name: str
    rows: int
    found: int
    trained: bool = True


@dataclass(frozen=True)
class Facts:
    """All that sentences are made of; what is not known is left at its default."""

    classes: int
    multi_label: bool = False
    nodes: int | None = None  # that were predicted
    unlabelled: int | None = None  # of them
    levels: Mapping[str, int] = field(default_factory=dict)  # of the unlabelled: how many have which probability
    score: Score | None = None
    constant: Constant | None = None
    ranked: Ranked | None = None
    board: Mapping[str, Any] | None = None  # leaderboard.json
    valid: Score | None = None
    sure: float | None = None  # mean probability of the answers that `score` counts
    found: Sequence[ClassFound] = ()
    stopped: Mapping[int, str] = field(default_factory=dict)  # by seed: why its loss ended training
    lines: Sequence[Mapping[str, Any]] = ()  # epochs of the seed that is kept
    epoch: int = 0  # whose weights are kept
    flat: Sequence[str] = ()  # what is said of weights over hops that are all alike
    silent_labels: int | None = None  # nodes that were asked, of a label branch that changes none
    dropped: Sequence[tuple[str, str]] = ()  # columns that are no features, and why
    agreement: tuple[float, float, int] | None = None  # of neighbours; by chance; edges that were looked at
    sampled: bool = False  # edges
    read_unlabelled: int = 0  # rows without labels that training read too


def words_of(facts: Facts) -> Words:
    """All sentences that these facts ask for, the weightiest first."""
    better = None if facts.constant is None else facts.constant.beaten
    if better is False and facts.ranked is not None:
        better = facts.ranked.informative
    said = [_predicted(facts), _scored(facts), _against_constant(facts), _ordered(facts), *_simple(facts)]
    doubts = [
        _no_better(facts), *loss_doubts(facts.lines, facts.epoch, facts.stopped), _few(facts), _promised(facts),
        class_doubt(facts.found), _untrained(facts.found), _sureness(facts), *(titled(one) + "." for one in facts.flat),
        _silent(facts), _disagree(facts), _dropped(facts), _read(facts),
    ]  # fmt: skip
    return Words(tuple(one for one in said if one), tuple(one for one in doubts if one), better)


def percent(value: float, digits: int = 1) -> str:
    """A score just below one is not 100 %, and one just above zero is not 0 %.

    >>> percent(0.8125), percent(0.9999), percent(1.0), percent(0.0001)
    ('81.2 %', '99.99 %', '100.0 %', '0.01 %')
    """
    digits += digits < 2 and (0.9995 <= value < 1 or 0 < value < 0.0005)
    return f"{100 * value:.{digits}f} %"


def score_name(multi_label: bool) -> str:
    return "micro-F1" if multi_label else "accuracy"


def titled(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def counted(number: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """
    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def _rows(part: str) -> str:
    return {"valid": "validation rows", "labelled": "labelled rows"}.get(part, f"{part} rows")


def _predicted(facts: Facts) -> str:
    if facts.nodes is None:
        return ""
    what = (
        f"Labels out of {facts.classes:,} classes were"
        if facts.multi_label
        else f"One of {facts.classes:,} classes was"
    )
    first = f"{what} predicted for {counted(facts.nodes, 'node')}"
    if not facts.unlabelled:
        return first + "."
    sure = [f"{percent(count / facts.unlabelled, 0)} of those {name}" for name, count in facts.levels.items() if count]
    return f"{first}; {facts.unlabelled:,} of them have no known label{''.join(f', {one}' for one in sure)}."


def _scored(facts: Facts) -> str:
    score = facts.score
    if score is None:
        return "No row with a known label was left to score: how good the predictions are is not known."
    spread = "" if score.error is None else f" (standard error {100 * score.error:.1f})"
    seeds = f", mean of {score.seeds} seeds" if score.seeds > 1 else ""
    where = f"of {counted(score.rows, _rows(score.part)[:-1])}"
    chose = " They also chose the epoch, so this flatters." if score.part == "valid" else ""
    return f"{titled(score.name)} {where} is {percent(score.value)}{spread}{seeds}.{chose}"


def _against_constant(facts: Facts) -> str:
    constant = facts.constant
    if constant is None or not constant.beaten:
        return ""
    apart = "" if constant.error is None else f" (± {100 * constant.error:.1f})"
    points = f"{100 * constant.ahead:.1f} points{apart} better"
    return f"{titled(constant.answer)} for every node would have {percent(constant.value)}: the model is {points}."


def _no_better(facts: Facts) -> str:
    constant = facts.constant
    if constant is None or constant.beaten:
        return ""
    apart = "" if constant.error is None else f" (± {100 * constant.error:.1f})"
    where = f"{100 * abs(constant.ahead):.1f} points{apart} {'ahead' if constant.ahead >= 0 else 'behind'}"
    first = f"No better than {constant.answer} for every node, which has {percent(constant.value)}: it is {where}"
    if facts.ranked is not None and facts.ranked.informative:
        return f"{first}; the order by probability is informative all the same: gamlp predict --threshold."
    return f"{first}; the labels should not be trusted."


def _ordered(facts: Facts) -> str:
    ranked = facts.ranked
    if ranked is None:
        return ""
    chance = f"chance has 50.0 % and {percent(ranked.share)}"
    return (
        f"Sorted by the probability of '{ranked.positive}' ({percent(ranked.share)} of rows), ROC-AUC is "
        f"{percent(ranked.roc_auc)} and average precision {percent(ranked.average_precision)}; {chance}."
    )


def _simple(facts: Facts) -> list[str]:
    """The chosen model beside the simple answers, and what was said of the choice."""
    board = facts.board
    if board is None:
        return []
    part = "test" if all(row["test"] is not None for row in board["rows"] if row["simple"]) else "valid"
    named = {row["name"]: row for row in board["rows"] if row[part] is not None}
    simple = [row for row in named.values() if row["simple"] and row["name"] != board["chosen"]]
    found = []
    if simple and board["chosen"] in named:
        chosen = named[board["chosen"]]
        others = ", ".join(f"{_inside(row['title'])} {measured(board['metric'], row[part])}" for row in simple)
        own = f"{chosen['title']} {measured(board['metric'], chosen[part])}"
        found.append(f"{titled(board['title'])} on {_rows(part)}: {own}; simple answers: {others}.")
    sentence = str(board.get("sentence") or "").strip()
    return [*found, titled(sentence).rstrip(".") + "."] if sentence else found


def _inside(title: str) -> str:
    """A title within a sentence: 'Logistic regression' is a word, 'LightGBM' a name."""
    word = title.split(" ")[0]
    return title[:1].lower() + title[1:] if word[1:].islower() else title


def measured(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "log_loss" else percent(value)


def loss_doubts(lines: Sequence[Mapping[str, Any]], epoch: int, stopped: Mapping[int, str]) -> list[str]:
    """What the losses of training say: one that broke off, one that burst, a validation loss that rose fivefold."""
    found = [f"Training of seed {seed} broke off: {why}." for seed, why in stopped.items()]
    losses = _finite(lines, "loss")
    if losses:
        first, (worst, when) = losses[0][0], max(losses)
        if worst > _BURST * max(first, 1e-9) and worst > 1:
            found.append(
                f"The training loss burst from {first:.3g} to {worst:.3g} in epoch {when}: "
                "a lower training.learning_rate may help."
            )
    valid = _finite(lines, "valid_loss")
    if valid:
        least, at = min(valid)
        most, when = max((value, when) for value, when in valid if when >= at)
        if most > _RISE * max(least, 1e-3):
            kept = next((value for value, when in valid if when == epoch), None)
            own = "" if kept is None or kept < 2 * least else f", where it is {kept:.3g}"
            found.append(
                f"The validation loss rose from {least:.3g} (epoch {at}) to {most:.3g} (epoch {when}), "
                f"{most / max(least, 1e-9):.0f}-fold: the model learned training rows by heart; "
                f"the weights of epoch {epoch} are kept{own}."
            )
    return found


def _finite(lines: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, int]]:
    return [(float(line[name]), int(line["epoch"])) for line in lines if line.get(name) is not None]


def _few(facts: Facts) -> str:
    score = facts.score
    if score is None or score.rows >= FEW_ROWS:
        return ""
    off = "" if score.error is None else f": the score may be off by {200 * score.error:.0f} points"
    return f"Only {counted(score.rows, _rows(score.part)[:-1])} with known labels{off}."


def _promised(facts: Facts) -> str:
    valid, score = facts.valid, facts.score
    if valid is None or score is None or score.part == "valid" or None in (valid.error, score.error):
        return ""
    gap, chance = valid.value - score.value, math.hypot(valid.error or 0.0, score.error or 0.0)
    if gap < _GAP + SURE * chance:
        return ""
    return (
        f"Validation promised more: {percent(valid.value)} of {counted(valid.rows, 'row')}, where {_rows(score.part)} "
        f"have {percent(score.value)}."
    )


def class_doubt(found: Sequence[ClassFound]) -> str:
    """Classes of which hardly a row is found, the largest first."""
    missed = [one for one in found if one.trained and one.rows >= _CLASS_ROWS and one.found < HARDLY * one.rows]
    if not missed:
        return ""
    missed = sorted(missed, key=lambda one: -one.rows)
    names = [f"'{one.name}' ({one.found:,} of {counted(one.rows, 'row')})" for one in missed]
    total = sum(one.rows > 0 for one in found)
    return f"Hardly found: {listed(names)}; {counted(len(missed), 'class', 'classes')} of {total:,}."


def _untrained(found: Sequence[ClassFound]) -> str:
    names = [f"'{one.name}'" for one in found if not one.trained and one.rows]
    if not names:
        return ""
    return f"No training row has the {'class' if len(names) == 1 else 'classes'} {listed(names)}: never learned."


def _sureness(facts: Facts) -> str:
    score, sure = facts.score, facts.sure
    if score is None or sure is None or score.rows < FEW_ROWS or abs(sure - score.value) < _OFF:
        return ""
    how = "too sure of themselves" if sure > score.value else "too modest"
    return (
        f"Probabilities are {how}: {percent(sure)} in the mean, where {percent(score.value)} of the answers are right."
    )


def _silent(facts: Facts) -> str:
    if facts.silent_labels is None:
        return ""
    return (
        f"The label branch is dead: without it none of {counted(facts.silent_labels, 'node')} would get another answer,"
        " so known labels of neighbours are not used."
    )


def _disagree(facts: Facts) -> str:
    if facts.agreement is None:
        return ""
    agree, chance, edges = facts.agreement
    if edges < _EDGES or (agree - chance) > _AGREES * (1 - chance):
        return ""
    drawn = " (rows drawn at random)" if facts.sampled else ""
    first, how = "Labels of neighbours tell little", "hardly more often than"
    if agree < chance - 0.02:
        first, how = "Neighbours disagree", "less often than"
    what = (
        f"of a training node's labels {percent(agree)} are its neighbour's too"
        if facts.multi_label
        else f"{percent(agree)} of edges between training nodes join equal labels"
    )
    return (
        f"{first}: {what}{drawn}, {how} by chance ({percent(chance)}); "
        "a node's own features, and hops kept apart, may tell more than means of neighbours."
    )


def _dropped(facts: Facts) -> str:
    if not facts.dropped:
        return ""
    names = [f"{column} ({why})" for column, why in facts.dropped]
    return f"Not used as features: {listed(names)}."


def _read(facts: Facts) -> str:
    if not facts.read_unlabelled:
        return ""
    rows = counted(facts.read_unlabelled, "row")
    return (
        f"Training read {rows} without labels too, those that validate or test among them: their features and "
        "neighbours, never their labels; on nodes that come later it may do worse."
    )
