"""A graph of several types on a real session: the local engine's bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from gamlp.spark.engine import SparkPropagator
from tests.conformance.test_bytes import fingerprints
from tests.propagation.typed import SUBSETS, typed_graph


def test_views_are_the_local_engines(spark: Any, tmp_path: Path) -> None:
    graph = typed_graph().save(tmp_path / "graph")
    plan = Plan(
        features=FeatureSignal(hops=2, scaling="standard"),
        labels=LabelSignal(hops=2),
        subsets=SUBSETS[1:3],
        separate_types=True,
    )
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    SparkPropagator(blocks=3).propagate(graph, plan, tmp_path / "spark")
    assert fingerprints(tmp_path / "spark") == fingerprints(tmp_path / "local")
