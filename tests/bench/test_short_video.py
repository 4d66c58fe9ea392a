"""The generated short-video graph as SGC alone sees it, by whose scores its settings were fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gamlp.graph import Graph
from gamlp.graph.datasets import short_video
from gamlp.graph.datasets.synthetic.planted import Group, Planted
from gamlp.peers import Workspace, recipe_named, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return short_video(tmp_path_factory.mktemp("videos") / "graph", scale=0.1)


def right(graph: Graph, hops: int, folder: Path) -> tuple[float, float, float]:
    """Share of test videos that SGC gets right: of all, of those that few watch, of those that anybody does."""
    recipe = recipe_named("sgc", "short-video").changed({"propagation.hops": hops})
    report = run(graph, recipe, 0, Workspace(folder, probabilities=True))
    labels, split = graph.nodes.labels, graph.nodes.split
    assert report.probabilities is not None and labels is not None and split is not None
    found = report.probabilities.argmax(1)[split.test] == labels.values[split.test]
    groups = [Group(60_000, 2, hot=0.2), Group(40_000, 2)]
    hot = Planted(groups, 143_438, len(labels.classes), 0.5, 0, between=True).hot()[split.test]
    assert report.test["score"] == pytest.approx(found.mean(), abs=1e-6)
    assert report.epochs < recipe.training.epochs, "it has not converged"
    return float(found.mean()), float(found[~hot].mean()), float(found[hot].mean())


def test_sgc_ends_between_40_and_50_per_cent(graph: Graph, tmp_path: Path) -> None:
    score, _, _ = right(graph, recipe_named("sgc", "short-video").propagation.hops, tmp_path)
    assert 0.40 <= score <= 0.50


def test_cold_videos_need_far_hops_and_hot_ones_drown_in_them(graph: Graph, tmp_path: Path) -> None:
    (_, cold, hot), (_, nearer_cold, nearer_hot), (_, far_cold, far_hot) = (
        right(graph, hops, tmp_path / str(hops)) for hops in (0, 2, 10)
    )
    assert cold + 0.15 < nearer_cold < far_cold - 0.05
    assert hot - 0.05 > nearer_hot > far_hot + 0.03
