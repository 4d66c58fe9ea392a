"""Features made of edges: the equations written out densely, the same bytes of every engine, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Ids
from gamlp.graph.features import DrawnSigns
from gamlp.io import Place
from gamlp.propagation import LocalPropagator, Propagator, structural, with_structural_features
from gamlp.recipe import FeaturesSettings
from tests.conformance import dense
from tests.conformance.engines import ENGINES

SETTINGS = FeaturesSettings(width=12, hops=2, rounds=3, seed=4)
COUNT = 30
EDGES = np.random.default_rng(2).integers(0, COUNT - 2, (2, 70))  # the last two nodes hear nobody


def _graph(*, directed: bool = False) -> Graph:
    graph = Graph.from_arrays(EDGES, count=COUNT, directed=directed)
    ids = Ids(COUNT, np.arange(COUNT) * 3 + 1)
    return replace(graph, node_types={"node": replace(graph.nodes, ids=ids)})


def _made(graph: Graph, folder: Path, engine: Propagator | None = None, settings: FeaturesSettings = SETTINGS) -> Graph:
    kept = Place.of(folder) / "made"
    return with_structural_features(graph, settings, engine or LocalPropagator(), kept, Place.of(folder) / "work")


def _values(graph: Graph) -> np.ndarray:
    assert graph.nodes.features is not None
    return np.asarray(graph.nodes.features.values)


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.array([row / np.linalg.norm(row) if np.any(row) else row for row in rows])


def _expected(*, directed: bool) -> np.ndarray:
    """Word for word what the module's docstring says."""
    along = dense.adjacency(COUNT, [(int(a), int(b)) for a, b in EDGES.T], None, directed=directed)
    matrices = [dense.operator(matrix, 0.0, False) for matrix in ((along, along.T) if directed else (along,))]
    projection = np.zeros((COUNT, SETTINGS.width))
    moved = DrawnSigns(_graph().nodes.ids, SETTINGS.width, SETTINGS.seed)[:].astype(np.float64)
    for _ in range(SETTINGS.rounds):
        total = projection.copy()
        for matrix in matrices:
            for k in range(1, SETTINGS.hops + 1):
                total += k**2 * _unit(np.linalg.matrix_power(matrix, k) @ moved)
        projection = moved = _unit(total)
    degrees = [along.sum(1), along.sum(0)] if directed else [along.sum(1)]
    return np.concatenate([*(np.log(1 + degree)[:, None] / 8 for degree in degrees), projection], 1)


@pytest.mark.parametrize("directed", [False, True], ids=["", "directed"])
def test_features_are_the_equations(tmp_path: Path, directed: bool) -> None:
    made = _made(_graph(directed=directed), tmp_path)
    assert np.allclose(_values(made), _expected(directed=directed), atol=2e-6)
    assert not _values(made)[-2:].any(), "a node alone has no degree and hears no signs"
    assert made.nodes.features is not None and made.nodes.features.columns is not None
    names = [(column.name, column.width) for column in made.nodes.features.columns]
    degrees = [("in-degree", 1), ("out-degree", 1)] if directed else [("degree", 1)]
    assert names == [*degrees, ("projection", 12)]
    assert not (tmp_path / "work").exists()


def test_every_engine_makes_the_same_bytes(tmp_path: Path) -> None:
    graph = _graph(directed=True).save(tmp_path / "graph")
    found = []
    for index, name in enumerate(("local", "local, out of core", "blocks, little memory")):
        _made(graph, tmp_path / str(index), ENGINES[name]())
        files = sorted((tmp_path / str(index) / "made").glob("*.npy"))
        found.append([(path.name, path.read_bytes()) for path in files])
    assert len(found[0]) == 1 and found[1:] == found[:1] * 2


def test_they_are_made_once_and_anew_for_other_edges_ids_or_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _graph()
    first = _values(_made(graph, tmp_path))
    other_ids = replace(graph, node_types={"node": replace(graph.nodes, ids=Ids(COUNT))})
    changed = [
        _values(_made(other_ids, tmp_path)),
        _values(_made(graph, tmp_path, settings=SETTINGS.model_copy(update={"seed": 5}))),
        _values(_made(Graph.from_arrays(EDGES[:, 1:], count=COUNT), tmp_path)),
    ]
    assert all(not np.array_equal(first, values) for values in changed)
    assert len(list((tmp_path / "made").glob("*.npy"))) == 4

    def never(*arguments: object) -> None:
        raise AssertionError("made a second time")

    monkeypatch.setattr(structural, "_projections", never)
    assert np.array_equal(_values(_made(graph, tmp_path)), first)


def test_an_interrupted_run_goes_on_after_its_last_round(tmp_path: Path) -> None:
    class Stops(LocalPropagator):
        left = 2

        def propagate(self, *arguments, **named):  # type: ignore[no-untyped-def]
            if Stops.left == 0:
                raise KeyboardInterrupt
            Stops.left -= 1
            return super().propagate(*arguments, **named)

    graph = _graph()
    with pytest.raises(KeyboardInterrupt):
        _made(graph, tmp_path, Stops())
    Stops.left = 1  # of three rounds, two are found
    assert np.array_equal(_values(_made(graph, tmp_path, Stops())), _values(_made(graph, tmp_path / "whole")))


def test_width_zero_is_degrees_alone(tmp_path: Path) -> None:
    made = _made(_graph(), tmp_path, settings=FeaturesSettings(width=0))
    assert np.allclose(_values(made), _expected(directed=False)[:, :1])
