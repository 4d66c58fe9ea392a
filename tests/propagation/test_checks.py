"""Values that a storage type makes infinite or zero are told, in every engine, of what is stored as of the state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, LocalPropagator, Operator, Plan, Propagator
from gamlp.propagation.local.arrays import hops_in_memory
from tests.conformance.engines import BlocksHere

ENGINES = [LocalPropagator(threads=2), BlocksHere()]
HALF = (
    r"beyond what float16 holds, which makes it infinite or zero; "
    r"use another type: gamlp train --set propagation.dtype=bfloat16 or float32\.$"
)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=["local", "blocks"])


def ring(values: np.ndarray, weights: list[float] | None = None) -> Graph:
    count = len(values)
    edges = [[*range(count)], [*range(1, count), 0]]
    return Graph.from_arrays(edges, values.astype(np.float32), weights=weights)


def plan(dtype: str, hops: int = 2, r: float = 0.5) -> Plan:
    return Plan(features=FeatureSignal(hops=hops, dtype=dtype, operator=Operator(r=r)))


@each_engine
@pytest.mark.parametrize("hops", [0, 2])
def test_features_that_float16_makes_zero_are_told(engine: Propagator, tmp_path: Path, hops: int) -> None:
    values = np.ones((6, 3))
    values[:, 1] = 1e-8
    graph = ring(values).save(tmp_path / "graph")
    with pytest.raises(GamlpError, match=r"\d values of features at hop 0 are " + HALF):
        engine.propagate(graph, plan("float16", hops), tmp_path / "store")
    found = engine.propagate(graph, plan("bfloat16", hops), tmp_path / "other").gather(np.arange(6))
    assert found.x is not None and np.allclose(found.x[:, 0, 0, 1], 1e-8, rtol=4e-3)


@each_engine
def test_what_float16_rounds_away_beside_larger_values_is_no_loss(engine: Propagator, tmp_path: Path) -> None:
    """Far below the rounding of a column's largest value; every large graph of real numbers has such values."""
    values = np.full((6, 3), 1e-9)
    values[0] = [0.1, 1.0, 30.0]
    graph = ring(values).save(tmp_path / "graph")
    found = engine.propagate(graph, plan("float16", r=0.0), tmp_path / "store").gather(np.arange(6))
    exact = engine.propagate(graph, plan("float32", r=0.0), tmp_path / "exact").gather(np.arange(6))
    assert found.x is not None and exact.x is not None
    assert (np.abs(found.x - exact.x).max(axis=(0, 1, 2)) <= np.array([0.1, 1.0, 30.0]) * 2**-11).all()


@each_engine
def test_a_hub_whose_state_float16_makes_zero_is_told(engine: Propagator, tmp_path: Path) -> None:
    """Node 3's weights add up to 1e12, and at r = 1 its state is its value over that."""
    values = np.ones((8, 2))
    weights = [1.0, 1.0, 1e12, 1e12, 1.0, 1.0, 1.0, 1.0]
    graph = ring(values, weights).save(tmp_path / "graph")
    with pytest.raises(GamlpError, match=HALF):
        engine.propagate(graph, plan("float16", r=1.0), tmp_path / "store")
    found = engine.propagate(graph, plan("float32", r=1.0), tmp_path / "exact").gather(np.arange(8))
    assert found.x is not None and found.x[3, 0, 1].min() > 0.5


@each_engine
@pytest.mark.parametrize(
    ("dtype", "instead"),
    [
        ("float32", "scale features: gamlp train --set"),
        ("bfloat16", "use another type: gamlp train --set propagation.dtype=float32"),
    ],
)
def test_sums_beyond_the_largest_number_are_told(engine: Propagator, tmp_path: Path, dtype: str, instead: str) -> None:
    graph = ring(np.full((6, 3), 3e38)).save(tmp_path / "graph")
    with pytest.raises(GamlpError, match=f"larger than {dtype} holds; {instead}"):
        engine.propagate(graph, plan(dtype, r=0.0), tmp_path / "store")
    assert not (tmp_path / "store" / "store.json").exists()


def test_hops_in_memory_tell_the_same() -> None:
    with pytest.raises(GamlpError, match="features at hop 0 are " + HALF):
        hops_in_memory(ring(np.full((5, 2), 1e-8)), FeatureSignal(hops=1, dtype="float16"))
    with pytest.raises(GamlpError, match="features at hop 0 are " + HALF):
        hops_in_memory(ring(np.full((5, 2), 1e5)), FeatureSignal(hops=0, dtype="float16"))


@pytest.mark.parametrize("scaling", ["row", "l2"])
def test_rows_of_any_length_are_scaled(scaling: str) -> None:
    """Squares of 3e38 and 1e-30 are beyond float32; their rows' directions are not."""
    values = np.array([[3e38, 1e38, -3e38], [1e-30, 3e-30, 0], [1e-44, 0, 0], [0, 0, 0], [3, 4, 0]])
    found = hops_in_memory(ring(values), FeatureSignal(hops=0, scaling=scaling))[0]
    exact = values.astype(np.float32).astype(np.float64)
    lengths = np.abs(exact).sum(1) if scaling == "row" else np.sqrt(np.square(exact).sum(1))
    assert np.allclose(found, exact / np.where(lengths > 0, lengths, 1)[:, None], rtol=1e-6, atol=0)
