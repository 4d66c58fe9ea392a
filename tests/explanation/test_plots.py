"""Heat maps of weights: what stands in them, and that any name can."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.explanation.nodes import Answer, HopPart, NodeExplanation
from gamlp.explanation.plots import MOST_ROWS, panels, save_figure, weights_figure
from gamlp.explanation.weights import ClassRows, DegreeRange, WeightsByClass, WeightsByDegree

pytest.importorskip("matplotlib", reason="gamlp[plots] is not installed")
NAMES = (
    "$x^2",
    "$\\frac{",
    "<script>",
    "中文",
    "line\nbreak\x07",
    "a very long name that no axis has room for",
    "plain",
)


def shares(count: int, seed: int = 0) -> tuple[float, ...]:
    return tuple(np.random.default_rng(seed).dirichlet(np.ones(count)).tolist())


def by_degree(hops: int, labels: int | None) -> WeightsByDegree:
    ranges = [(1, 1), (2, 5), (6, 900)]
    made = [
        DegreeRange(*ends, 10 + part, shares(hops, part), None if labels is None else shares(labels, part))
        for part, ends in enumerate(ranges)
    ]
    return WeightsByDegree(tuple(made), 1, False)


def by_class(names: tuple[str, ...], hops: int, labels: int | None) -> WeightsByClass:
    made = [
        ClassRows(name, 5 + number, shares(hops, number), None if labels is None else shares(labels, number))
        for number, name in enumerate(names)
    ]
    return WeightsByClass("predicted", tuple(made), 1, False)


def node(name: str, hops: int, *, alone: bool = True) -> NodeExplanation:
    parts = tuple(HopPart(hop, w, Answer((name,), 0.5) if alone else None) for hop, w in enumerate(shares(hops)))
    return NodeExplanation(name, 0, 3, "test", None, Answer((name,), 0.9), parts, None, 1, None, ())


def test_what_stands_in_a_panel() -> None:
    degree, classes, nodes = by_degree(4, 2), by_class(NAMES, 4, 2), [node("p1", 4), node("p2", 4)]
    found = panels("features", degree, classes, nodes)
    assert [panel.axis for panel in found] == [
        "neighbours (nodes)",
        "predicted class (nodes)",
        "node: predicted (true)",
    ]
    assert found[0].names == ("1 (10)", "2–5 (11)", "6–900 (12)") and found[0].first == 0
    assert np.array_equal(found[0].weights, [part.features for part in degree.ranges])
    assert np.array_equal(found[1].weights, [part.features for part in classes.classes])
    assert found[2].names == ("p1: p1 (?)", "p2: p2 (?)") and found[2].words == (("p1",) * 4, ("p2",) * 4)
    labels = panels("labels", degree, classes, nodes)  # these nodes have no weights of labels
    assert len(labels) == 2 and labels[0].first == 1 and labels[0].weights.shape == (3, 2)
    assert panels("labels", by_degree(4, None), None, ()) == []


def test_axes_units_and_values() -> None:
    figure = weights_figure(by_degree(4, 2), by_class(NAMES, 4, 2), title="How far it listens")
    drawn = [axes for axes in figure.axes if axes.images]
    assert len(drawn) == 4 and {axes.get_xlabel() for axes in drawn} == {"hop (steps away)"}
    assert any(axes.get_ylabel() == "weight (share of 1)" for axes in figure.axes)  # the colours' own scale
    assert [tick.get_text() for tick in drawn[0].get_xticklabels()] == ["0", "1", "2", "3"]
    beside = weights_figure(by_degree(4, 2), None, [node("p1", 4)])  # a node without weights of labels
    assert [axes.axison for axes in beside.axes] == [True, True, True, False, True]
    written = [text.get_text() for text in drawn[0].texts]
    assert written[:4] == [f"{weight:.2f}" for weight in by_degree(4, 2).ranges[0].features]
    assert len({axes.images[0].get_clim() for axes in drawn}) == 1  # one scale of colours


@pytest.mark.parametrize("hops", [1, 7, 101])
@pytest.mark.parametrize("kind", [".png", ".svg"])
def test_any_name_and_any_size(hops: int, kind: str, tmp_path: Path) -> None:
    classes = by_class(NAMES + tuple(f"class {number}" for number in range(60)), hops, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = weights_figure(by_degree(hops, None), classes, [node(name, hops) for name in NAMES], title="$\\frac{")
        save_figure(figure, tmp_path / f"w{kind}")
    assert all(axes.images or not axes.axison or axes.get_ylabel() for axes in figure.axes)
    rows = [len(axes.get_yticklabels()) for axes in figure.axes if axes.images]
    assert rows[:3] == [3, MOST_ROWS, len(NAMES)]
    assert f"{MOST_ROWS} largest of {len(classes.classes)}" in panels("features", None, classes, ())[0].title
    assert [path.name for path in tmp_path.iterdir()] == [f"w{kind}"] and (tmp_path / f"w{kind}").stat().st_size > 5000


def test_nothing_to_draw_and_nothing_left_behind(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="weighs no hops: there is nothing to draw"):
        weights_figure(None, None, [])
    figure = weights_figure(by_degree(3, None))
    with pytest.raises(ValueError):
        save_figure(figure, tmp_path / "w.xyz")
    assert not list(tmp_path.iterdir())


def test_flat_weights_are_written_and_not_painted() -> None:
    flat = replace(by_degree(4, None), uneven={"features": 0.01})
    (panel,) = panels("features", flat, None, ())
    assert panel.flat and "flat: all hops weigh about the same" in panel.title
    (axes, *_) = weights_figure(flat).axes
    assert not axes.images[0].get_array().any() and len(axes.texts) == 12
