"""Real data against PyG: its SIGN transform computes the same second hop where the operators agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph.datasets.loading import load
from gamlp.propagation import FeatureSignal, LocalPropagator, Operator, Plan, hops_in_memory

WITHOUT_LOOPS = Operator(r=0.5, loops=False)  # SIGN: D^(-1/2) A D^(-1/2) over the edges as they are


@pytest.fixture
def sign() -> Any:
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    from torch_geometric.transforms import SIGN

    return SIGN


def pyg_data(name: str, data_dir: Path) -> Any:
    from torch_geometric import io

    if name == "cora":
        return io.read_planetoid_data(str(data_dir / "Planetoid/Cora/raw"), "cora")
    return io.read_npz(str(data_dir / "Amazon/Photo/raw/amazon_electronics_photo.npz"))


@pytest.mark.parametrize("name", ["cora", "amazon-photo"])
def test_hop_two_is_pygs_sign(sign: Any, name: str, data_dir: Path, tmp_path: Path) -> None:
    graph = load(name, data_dir, **({} if name == "cora" else {"whole": True}))
    data = sign(2)(pyg_data(name, data_dir))
    plan = FeatureSignal(hops=2, operator=WITHOUT_LOOPS)
    rows = np.arange(graph.nodes.count)
    stored = LocalPropagator().propagate(graph, Plan(features=plan), tmp_path / "store").gather(rows).x[:, 0]
    held = hops_in_memory(graph, plan)
    for hop, theirs in ((1, data.x1.numpy()), (2, data.x2.numpy())):
        scale = np.abs(theirs).max()
        assert scale > 0.1
        assert np.abs(stored[:, hop] - theirs).max() <= 1e-5 * scale  # hubs are summed in another order
        assert np.array_equal(held[hop], stored[:, hop])


def test_other_operators_are_not_pygs_sign(sign: Any, data_dir: Path) -> None:
    """The comparison above can tell operators apart."""
    theirs = sign(2)(pyg_data("cora", data_dir)).x2.numpy()
    for operator in (Operator(r=0.5), Operator(r=0.4, loops=False)):
        ours = hops_in_memory(load("cora", data_dir), FeatureSignal(hops=2, operator=operator))[2]
        assert np.abs(ours - theirs).max() > 1e-3
