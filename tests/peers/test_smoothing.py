"""Label propagation and Correct & Smooth, against dense algebra written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, Split
from gamlp.graph.datasets.loading import load
from gamlp.peers.smoothing import check_room, correct, correct_and_smooth, label_propagation, smooth, spread
from gamlp.propagation import Operator
from gamlp.recipe import Recipe, SmoothingSettings, described

COUNT, CLASSES, ALONE = 40, 3, 39
TRAIN, VALID, TEST = np.arange(0, 10), np.arange(10, 20), np.arange(20, 40)


def graph_of(seed: int = 0, *, multi_label: bool = False, directed: bool = False, weighted: bool = False) -> Graph:
    """A random graph whose last node stands alone."""
    random = np.random.default_rng(seed)
    edges = random.integers(0, ALONE, (2, 110))
    labels: Any = random.integers(0, CLASSES, COUNT)
    labels[:CLASSES] = np.arange(CLASSES)
    if multi_label:
        labels = random.integers(0, 2, (COUNT, CLASSES))
    weights = random.uniform(0.5, 2.0, 110) if weighted else None
    split = Split.of(COUNT, train=TRAIN, valid=VALID, test=TEST)
    return Graph.from_arrays(
        edges, labels=labels, weights=weights, split=split, count=COUNT, directed=directed
    )  # fmt: skip


def dense(graph: Graph, r: float, loops: bool) -> np.ndarray:
    """Â = D_r^(r-1) Ã D_c^(-r), float64."""
    matrix = np.eye(graph.nodes.count) if loops else np.zeros((graph.nodes.count, graph.nodes.count))
    for rows, columns, weights in graph.relation.edges():
        matrix[rows, columns] += 1.0 if weights is None else weights
    rows, columns = matrix.sum(1), matrix.sum(0)
    left = np.array([value ** (r - 1) if value > 0 else 0.0 for value in rows])
    right = np.array([value ** (-r) if value > 0 else 0.0 for value in columns])
    return left[:, None] * matrix * right


def probabilities_of(seed: int = 1) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(0.05, 1.0, (COUNT, CLASSES))
    return (values / values.sum(1, keepdims=True)).astype(np.float32)


def one_hot(graph: Graph) -> np.ndarray:
    assert graph.nodes.labels is not None
    return graph.nodes.labels.hot(np.arange(COUNT)).astype(np.float64)


@pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("kind", [{}, {"directed": True}, {"weighted": True}])
@pytest.mark.parametrize("loops", [True, False])
def test_a_step_is_the_formula(r: float, kind: dict[str, bool], loops: bool) -> None:
    graph = graph_of(3, **kind)
    first = np.random.default_rng(0).normal(size=(COUNT, 11)).astype(np.float32)  # wider than the kernel's lanes
    matrix = dense(graph, r, loops)
    wanted = first.astype(np.float64)
    for _ in range(4):
        wanted = 0.7 * matrix @ wanted + 0.3 * first
    for threads in (1, 3):
        found = spread(graph, first, alpha=0.7, steps=4, operator=Operator(r=r, loops=loops), threads=threads)
        assert np.abs(found - wanted).max() < 2e-5
    assert np.array_equal(spread(graph, first, alpha=0.7, steps=0, operator=Operator(r=0.0)), first)


def test_held_rows_and_bounds_hold_after_each_step() -> None:
    graph, held = graph_of(5), np.array([0, 3, 17])
    first = np.random.default_rng(0).normal(size=(COUNT, 2)).astype(np.float32) * 3
    matrix, wanted = dense(graph, 0.5, True), first.astype(np.float64)
    for _ in range(6):
        wanted = np.clip(0.9 * matrix @ wanted + 0.1 * first, -0.4, 0.6)
        wanted[held] = first[held]
    found = spread(graph, first, alpha=0.9, steps=6, held=held, bounds=(-0.4, 0.6))
    assert np.abs(found - wanted).max() < 1e-5
    free = spread(graph, first, alpha=0.9, steps=6)
    assert np.abs(found - free).max() > 0.1  # both did something


@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
def test_label_propagation_ends_in_its_fixed_point(r: float) -> None:
    graph, alpha = graph_of(), 0.8
    first = np.zeros((COUNT, CLASSES))
    first[TRAIN] = one_hot(graph)[TRAIN]
    wanted = (1 - alpha) * np.linalg.inv(np.eye(COUNT) - alpha * dense(graph, r, False)) @ first
    found = label_propagation(graph, alpha=alpha, steps=200, operator=Operator(r=r, loops=False))
    reached = wanted.sum(1) > 1e-12
    assert reached.sum() > 30 and not reached[ALONE]
    assert np.abs(found[reached] - (wanted / wanted.sum(1, keepdims=True).clip(1e-12))[reached]).max() < 1e-5
    assert np.allclose(found.sum(1), 1, atol=1e-5) and found.min() >= 0
    shares = first[TRAIN].mean(0)
    assert np.allclose(found[~reached], shares)  # no label came


def test_clamped_label_propagation_keeps_training_rows_and_is_harmonic_elsewhere() -> None:
    graph = graph_of()
    found = label_propagation(graph, alpha=1.0, steps=2000, operator=Operator(r=0.0, loops=False), clamped=True)
    truth, matrix = one_hot(graph), dense(graph, 0.0, False)
    assert np.array_equal(found[TRAIN], truth[TRAIN])
    rest = np.setdiff1d(np.arange(COUNT), [*TRAIN, *np.flatnonzero(matrix.sum(1) == 0)])
    inner = np.linalg.solve(
        np.eye(len(rest)) - matrix[np.ix_(rest, rest)], matrix[np.ix_(rest, TRAIN)] @ truth[TRAIN]
    )  # Zhu and Ghahramani: every row the mean of its neighbours
    assert np.abs(found[rest] - inner).max() < 1e-4


def test_many_labels_are_shares_of_the_labels_that_came() -> None:
    graph = graph_of(multi_label=True)
    matrix = dense(graph, 0.5, False)
    spread_of = 0.1 * np.linalg.inv(np.eye(COUNT) - 0.9 * matrix)[:, TRAIN]
    found = label_propagation(graph, alpha=0.9, steps=300)
    reached = spread_of.sum(1) > 1e-12
    wanted = spread_of @ one_hot(graph)[TRAIN] / spread_of.sum(1, keepdims=True).clip(1e-12)
    assert np.abs(found - wanted)[reached].max() < 1e-4 and found.max() <= 1


def written_out(graph: Graph, probabilities: np.ndarray, settings: SmoothingSettings) -> np.ndarray:
    """Correct & Smooth, as the paper writes it (sections 2.2 and 2.3)."""
    matrix, truth = dense(graph, settings.r, False), one_hot(graph)
    error = np.zeros((COUNT, CLASSES))
    error[TRAIN] = truth[TRAIN] - probabilities[TRAIN]
    spread_error = error.copy()
    for _ in range(settings.correct_steps):
        spread_error = settings.correct_alpha * matrix @ spread_error + (1 - settings.correct_alpha) * error
        if settings.autoscale:
            spread_error = np.clip(spread_error, -1, 1)
        else:
            spread_error[TRAIN] = error[TRAIN]
    corrected = probabilities.astype(np.float64)
    mean = np.abs(error[TRAIN]).sum() / len(TRAIN)
    for row in range(COUNT if settings.correct_steps else 0):  # no steps: it is left out
        size = np.abs(spread_error[row]).sum()
        sigma = settings.scale if not settings.autoscale else mean / size if size * 1000 > mean else 1.0
        corrected[row] += sigma * spread_error[row]
    start = corrected.copy()
    if settings.smooth_steps:
        start[TRAIN] = truth[TRAIN]
    found = start.copy()
    for _ in range(settings.smooth_steps):
        found = np.clip(settings.smooth_alpha * matrix @ found + (1 - settings.smooth_alpha) * start, 0, 1)
    found = np.clip(found, 0, 1)
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize("autoscale", [True, False])
@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("steps", [(7, 9), (60, 0), (0, 60)])
def test_correct_and_smooth_is_as_written_out(autoscale: bool, r: float, steps: tuple[int, int]) -> None:
    graph, probabilities = graph_of(2), probabilities_of()
    settings = SmoothingSettings(
        correct_alpha=0.85, correct_steps=steps[0], smooth_alpha=0.7, smooth_steps=steps[1],
        autoscale=autoscale, scale=1.5, r=r,
    )  # fmt: skip
    wanted = written_out(graph, probabilities, settings)
    found = correct_and_smooth(graph, probabilities, settings)
    assert np.abs(found - wanted).max() < 1e-5
    assert np.allclose(found.sum(1), 1, atol=1e-5) and found.min() >= 0
    assert np.abs(found - probabilities).max() > 0.05


def test_correcting_errors_of_rows_that_are_right_changes_nothing() -> None:
    graph = graph_of()
    probabilities = probabilities_of()
    probabilities[TRAIN] = one_hot(graph)[TRAIN]
    for autoscale in (True, False):
        assert np.array_equal(correct(graph, probabilities, SmoothingSettings(autoscale=autoscale)), probabilities)


def test_a_corrected_row_keeps_its_sum_and_autoscale_gives_it_the_mean_error() -> None:
    graph, probabilities = graph_of(), probabilities_of()
    moved = correct(graph, probabilities, SmoothingSettings(correct_alpha=0.9)) - probabilities
    mean = np.abs(one_hot(graph)[TRAIN] - probabilities[TRAIN]).sum(1).mean()
    reached = np.abs(moved).sum(1) > 1e-6
    assert np.allclose(np.abs(moved[reached]).sum(1), mean, atol=1e-4)
    assert not reached[ALONE] and reached.sum() > 30
    assert np.abs(moved.sum(1)).max() < 1e-4


def test_smoothing_starts_from_training_labels_and_gives_them_back_at_alpha_zero() -> None:
    graph, probabilities = graph_of(), probabilities_of()
    found = smooth(graph, probabilities, SmoothingSettings(smooth_alpha=0.0, smooth_steps=3))
    assert np.allclose(found[TRAIN], one_hot(graph)[TRAIN], atol=1e-6)
    rest = np.setdiff1d(np.arange(COUNT), TRAIN)
    assert np.allclose(found[rest], probabilities[rest], atol=1e-6)


def test_smoothing_many_labels_stays_among_probabilities() -> None:
    graph = graph_of(multi_label=True)
    probabilities = np.random.default_rng(0).uniform(size=(COUNT, CLASSES)).astype(np.float32)
    start = probabilities.astype(np.float64)
    start[TRAIN] = one_hot(graph)[TRAIN]
    weights = 0.2 * np.linalg.inv(np.eye(COUNT) - 0.8 * dense(graph, 0.5, False))
    found = correct_and_smooth(graph, probabilities, SmoothingSettings(correct_steps=0, smooth_steps=200))
    assert np.abs(found - weights @ start / weights.sum(1, keepdims=True)).max() < 1e-4


def test_labels_of_validation_and_test_rows_change_nothing() -> None:
    graph, probabilities = graph_of(), probabilities_of()
    assert graph.nodes.labels is not None
    values = graph.nodes.labels.values.copy()
    values[10:] = (values[10:] + 1) % CLASSES
    other = graph.with_targets(labels=Labels(values, graph.nodes.labels.classes))
    settings = SmoothingSettings()
    assert np.array_equal(
        label_propagation(graph, alpha=0.9, steps=20), label_propagation(other, alpha=0.9, steps=20)
    )  # fmt: skip
    assert np.array_equal(
        correct_and_smooth(graph, probabilities, settings), correct_and_smooth(other, probabilities, settings)
    )  # fmt: skip
    values[0] = (values[0] + 1) % CLASSES
    other = graph.with_targets(labels=Labels(values, graph.nodes.labels.classes))
    assert not np.array_equal(
        correct_and_smooth(graph, probabilities, settings), correct_and_smooth(other, probabilities, settings)
    )  # fmt: skip


def test_what_cannot_be_smoothed_is_told() -> None:
    graph = graph_of()
    with pytest.raises(GamlpError, match="are not those of the 40 nodes"):
        correct_and_smooth(graph, probabilities_of()[:5], SmoothingSettings())
    with pytest.raises(GamlpError, match="no labelled training rows"):
        label_propagation(graph.with_targets(split=None), alpha=0.9, steps=3)
    with pytest.raises(GamlpError, match="for all nodes at once, beyond"):
        check_room(graph, memory=1000)
    check_room(graph, memory=1 << 20)


def test_the_recipe_has_a_section_that_is_left_out_by_default() -> None:
    assert Recipe().smoothing is None
    recipe = Recipe.of({"smoothing": None}).changed({"smoothing.smooth_alpha": 0.5})
    assert recipe.smoothing == SmoothingSettings(smooth_alpha=0.5)
    assert recipe["smoothing.smooth_alpha"] == 0.5
    assert ("smoothing.autoscale", "True") in {(key, default) for key, default, *_ in described()}
    with pytest.raises(GamlpError, match=r"no 'smoothing\.smooth_alfa': did you mean 'smoothing\.smooth_alpha'"):
        Recipe.of({"smoothing": {"smooth_alfa": 0.5}})
    with pytest.raises(GamlpError, match=r"smoothing\.scale"):
        Recipe.of({"smoothing": {"scale": -1.0}})


def test_on_cora_label_propagation_beats_the_majority_by_thirty_points(data_dir: Path) -> None:
    graph = load("cora", data_dir)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    truth = labels.values[split.test]
    majority = np.bincount(truth).max() / len(truth)  # the largest class of the very rows that are tested
    found = label_propagation(graph, alpha=0.9, steps=50)
    assert (found[split.test].argmax(1) == truth).mean() > majority + 0.30
