"""Successive halving: all are trained a little, the better half further, until the rest can be trained to its end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gamlp.tune.contender import Contender
from gamlp.tune.effort import Clock

_FIRST = 3  # epochs at least, before anybody is compared


def halve(contenders: Sequence[Contender], expected: int, allowed: float, clock: Clock) -> list[Contender]:
    """Those that were trained to their end, or as far as it went; all others were behind and were dropped.

    expected: epochs that a whole training is thought to take, as the reference's did.
    allowed: seconds, counted and not measured, for all of it together: so the same contenders are dropped everywhere.
    clock: ends what takes longer than it should.
    """
    left, at, spent = list(contenders), 0, 0.0
    rung = first_rung(left, expected, allowed)
    while len(left) > 1 and not clock.over:
        whole = sum(one.epoch_seconds * max(0, _most(one, expected) - at) for one in left)
        if spent + whole <= allowed:
            break
        for one in left:
            one.train(rung)
            spent += one.epoch_seconds * max(0, min(rung, one.epochs) - at)
        left = sorted((one for one in left if not one.failed), key=lambda one: -one.standing(rung))  # stable
        left = left[: math.ceil(len(left) / 2)]
        while len(left) > 1 and spent + _least(left, rung, expected) > allowed:
            left.pop()  # so many cannot be compared once more and the best be trained to its end
        at, rung = rung, 2 * rung
    for one in left:
        if clock.over:
            break
        room = (allowed - spent) / max(1, len(left)) / one.epoch_seconds
        one.train(max(expected, at + int(room)))
    for one in left[:1] if clock.over else left:  # what was cut short is kept as it is; out of time, the best alone
        if one.epochs:
            one.settle()
    return [one for one in left if one.finished]


def first_rung(contenders: Sequence[Contender], expected: int, allowed: float) -> int:
    """Epochs before the first comparison, such that all rounds and one whole training fit into what is allowed.

    A round costs half of the first one, since half of the contenders train for as many epochs again.
    """
    if not contenders:
        return _FIRST
    each = sum(one.epoch_seconds for one in contenders)
    rounds = math.ceil(math.log2(max(2, len(contenders))))
    rest = allowed - expected * each / len(contenders)
    return max(_FIRST, min(expected, int(rest / (each * (1 + rounds / 2)))))


def _least(left: Sequence[Contender], rung: int, expected: int) -> float:
    """What another round of these takes, and then the rest of one whole training."""
    each = sum(one.epoch_seconds for one in left)
    return rung * each + max(0, expected - 2 * rung) * each / len(left)


def _most(one: Contender, expected: int) -> int:
    return min(expected, one.prepared.recipe.training.epochs)
