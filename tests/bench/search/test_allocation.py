"""Where a search's seconds go: the equations of its page, written out, and what follows from them."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from gamlp.bench.search import RESERVE, Purse, Standing, Tried, next_cells


def tried(number: int, *scores: float, seconds: float = 1.0, loss: float = 0.5) -> Tried:
    return Tried(number, dict(enumerate(scores)), dict.fromkeys(range(len(scores)), loss), seconds)


def test_a_trial_that_ran_on_easy_splits_alone_is_not_better_for_it() -> None:
    # Split 0 gives everyone 0.10 more than split 1.
    standing = Standing([tried(0, 0.90, 0.80), tried(1, 0.88, 0.78), tried(2, 0.89)])
    means = standing.means
    assert means[0] - means[1] == pytest.approx(0.02, abs=1e-6)
    assert means[0] - means[2] == pytest.approx(0.01, abs=1e-6)
    assert standing.leader is not None and standing.leader.number == 0
    assert [one.number for one in standing.ranked()] == [0, 2, 1]


def test_the_means_are_the_least_squares_fit_of_trial_plus_replicate() -> None:
    generator = np.random.default_rng(0)
    runs = [(trial, replicate) for trial in range(5) for replicate in range(1 + trial % 4)]
    scores = {run: float(generator.normal(0.8, 0.02)) for run in runs}
    # Columns: a trial each, and replicates 1.. against replicate 0.
    design = np.array([[*(t == k for k in range(5)), *(r == k for k in range(1, 4))] for t, r in runs], float)
    solution = np.linalg.lstsq(design, np.array([scores[run] for run in runs]), rcond=None)[0]
    standing = Standing([tried(t, *(scores[run] for run in runs if run[0] == t)) for t in range(5)])
    for trial in range(1, 5):
        assert standing.means[trial] - standing.means[0] == pytest.approx(solution[trial] - solution[0], abs=1e-3)


def test_one_lucky_run_leads_only_after_it_was_repeated() -> None:
    steady = tried(0, *[0.800, 0.806, 0.794, 0.803, 0.797])
    assert Standing([steady, tried(1, 0.802)]).leader == steady
    repeated = tried(1, *[0.813, 0.819, 0.807, 0.816, 0.810])
    assert Standing([steady, repeated]).leader == repeated


def test_equal_scores_are_told_apart_by_the_loss() -> None:
    assert Standing([tried(0, 0.8, loss=0.9), tried(1, 0.8, loss=0.6)]).leader == tried(1, 0.8, loss=0.6)


def test_the_gain_of_a_run_is_what_it_is_expected_to_change() -> None:
    standing = Standing([tried(0, 0.80, 0.81, 0.80), tried(1, 0.79, 0.80, 0.81)])
    moved = standing.deviation * math.sqrt(1 / 3 - 1 / 4)
    gap = standing.means[0] - standing.means[1]
    drawn = np.random.default_rng(0).normal(0, moved, 200_000)  # how far one more run may move the mean of trial 1
    gain = {act.trial: act.gain for act in standing.acts(10)}
    assert gain[1] == pytest.approx(float(np.maximum(drawn - gap, 0).mean()), rel=0.03)


def test_runs_go_to_close_contenders_and_not_to_what_is_clearly_behind() -> None:
    leader, close, behind = tried(0, *[0.80] * 5), tried(1, 0.799), tried(2, 0.70)
    gain = {act.trial: act.gain for act in Standing([leader, close, behind]).acts(10)}
    assert gain[1] > gain[0] > gain[2]
    assert gain[2] < 1e-9
    assert gain[None] > 0, "a new recipe is always worth something"


def test_gain_is_counted_by_the_second_and_a_trial_is_not_run_for_ever() -> None:
    cheap, dear = tried(0, 0.80, seconds=1.0), tried(1, 0.80, seconds=50.0)
    replicates = [act.trial for act in Standing([cheap, dear]).acts(10) if act.trial is not None]
    assert replicates == [0, 1]
    assert [act.trial for act in Standing([tried(0, 0.8, 0.8), tried(1, 0.8, 0.8)]).acts(2)] == [None]
    assert [act.trial for act in Standing([]).acts(2)] == [None]


def test_new_recipes_are_worth_less_the_more_there_are() -> None:
    few = Standing([tried(number, 0.8 - 0.01 * number) for number in range(4)])
    many = Standing([tried(number, 0.8 - 0.01 * (number % 4)) for number in range(40)])
    gains = [next(act.gain for act in one.acts(1) if act.trial is None) for one in (few, many)]
    assert gains[0] > 5 * gains[1]


def test_seconds_are_equal_but_for_the_reserve_which_goes_where_it_is_worth_most() -> None:
    """Three cells of unequal cost and worth, as a search would be run over them."""
    cost, value = {"a": 1.0, "b": 7.0, "c": 20.0}, {"a": 0.1, "b": 5.0, "c": 0.2}
    purses = dict.fromkeys(cost, Purse())
    for _ in range(2000):
        name, reserve = next_cells(purses, value)[0]
        old = purses[name]
        purses[name] = (
            Purse(old.equal, old.reserve + cost[name]) if reserve else Purse(old.equal + cost[name], old.reserve)
        )
    equal = [purse.equal for purse in purses.values()]
    assert max(equal) - min(equal) <= max(cost.values()), "equal to within one run"
    spent = sum(purse.equal + purse.reserve for purse in purses.values())
    assert sum(purse.reserve for purse in purses.values()) == pytest.approx(RESERVE * spent, rel=0.02)
    assert purses["b"].reserve == max(purse.reserve for purse in purses.values()), "a second is worth most there"
    assert all(purse.reserve <= purse.equal + max(cost.values()) for purse in purses.values())


def test_a_cell_that_comes_later_catches_up() -> None:
    assert next_cells({"old": Purse(100.0, 50.0), "new": Purse()}, {"old": 9.0, "new": 0.0})[0] == ("new", False)


def test_the_deviation_is_pooled_over_trials() -> None:
    generator = np.random.default_rng(1)
    trials = [tried(number, *generator.normal(0.8 - 0.1 * number, 0.02, 8).tolist()) for number in range(6)]
    assert Standing(trials).deviation == pytest.approx(0.02, rel=0.25)
    assert 0 < Standing([tried(0, 0.8)]).deviation < 0.01
    assert fmean(Standing(trials).means.values()) == pytest.approx(0.55, abs=0.02)
