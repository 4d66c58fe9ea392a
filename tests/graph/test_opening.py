"""Whatever reads an array of a graph folder reads bytes that were compared with their checksum; opening reads none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from tests.conformance.engines import BlocksHere
from tests.graph.of_everything import everything
from tests.sealing import seal_graph
from tests.training.small import make_graph

READERS: dict[str, Callable[[Graph], Any]] = {
    "nodes/paper/features.npy": lambda graph: graph.nodes.features.read(slice(0, 1)),
    "nodes/paper/labels.npy": lambda graph: graph.nodes.labels.known(),
    "nodes/paper/split.npy": lambda graph: graph.nodes.split.train,
    "nodes/paper/ids.arrow": lambda graph: graph.nodes.ids.take(np.arange(1)),
    "nodes/author/ids.npy": lambda graph: graph.node_types["author"].ids.take(np.arange(1)),
    "relations/cites/00001/offsets.npy": lambda graph: graph.relations["cites"].degrees(),
    "relations/cites/00000/neighbours.npy": lambda graph: list(graph.relations["cites"].edges()),
    "relations/writes/00000/weights.npy": lambda graph: list(graph.relations["writes"].edges()),
}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("part", READERS)
def test_a_flipped_bit_is_told_when_the_array_is_read(tmp_path: Path, part: str) -> None:
    everything().save(tmp_path / "graph")
    flip(tmp_path / "graph" / part)
    graph = Graph.open(tmp_path / "graph")
    assert graph.nodes.features.width and graph.relations["cites"].entries and graph.nodes.labels is not None
    with pytest.raises(GamlpError, match=f"{part}: is damaged: its bytes are not those that were written"):
        READERS[part](graph)
    for other, read in READERS.items():
        if other.split("/")[:2] != part.split("/")[:2]:
            read(graph)  # nothing else is looked at


@pytest.mark.parametrize("part", ["features.npy", "labels.npy", "split.npy", "neighbours.npy", "offsets.npy"])
@pytest.mark.parametrize("engine", [LocalPropagator(threads=1), BlocksHere()], ids=["local", "blocks"])
def test_no_engine_computes_with_damaged_bytes(tmp_path: Path, engine: Any, part: str) -> None:
    make_graph().save(tmp_path / "graph")
    (path,) = (tmp_path / "graph").rglob(part)
    flip(path)
    plan = Plan(features=FeatureSignal(hops=2), labels=LabelSignal(hops=1))
    with pytest.raises(GamlpError, match=f"{part}: is damaged: its bytes"):
        engine.propagate(Graph.open(tmp_path / "graph"), plan, tmp_path / "store")
    assert not (tmp_path / "store" / "store.json").exists()


@pytest.mark.parametrize(
    ("part", "values", "sentence"),
    [
        ("labels", np.array([0, 1, 2, 0, 99], np.int32), "label 99 of"),
        ("labels", np.array([0, -2, 0, 0, 0], np.int32), "label -2 of"),
        ("split", np.array([0, 1, 2, 3, 4], np.int8), "4 is no part of a split"),
        ("split", np.array([0, -1, 2, 3, 1], np.int8), "-1 is no part of a split"),
    ],
)
def test_numbers_that_cannot_be_are_told_whatever_the_checksum_says(
    tmp_path: Path, part: str, values: np.ndarray, sentence: str
) -> None:
    make_graph().save(tmp_path / "graph")
    path = tmp_path / "graph/nodes/node" / f"{part}.npy"
    whole = np.load(path)
    whole[:5] = values
    np.save(path, whole)
    seal_graph(tmp_path / "graph")
    nodes = Graph.open(tmp_path / "graph").nodes
    with pytest.raises(GamlpError, match=f"{part}.npy: is damaged: {sentence}"):
        nodes.labels.known() if part == "labels" else nodes.split.train


@pytest.mark.parametrize("at", range(3))
def test_string_ids_that_lead_out_of_their_file_are_told(tmp_path: Path, at: int) -> None:
    """Arrow trusts offsets: reading such ids ended the process."""
    everything().save(tmp_path / "graph")
    path = tmp_path / "graph/nodes/paper/ids.arrow"
    ids = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("id").combine_chunks()
    offsets = np.frombuffer(ids.buffers()[1], np.int64, len(ids) + 1)
    content = path.read_bytes()
    assert content.count(offsets.tobytes()) == 1
    wrong = offsets.copy()
    wrong[at + 1] = [1 << 40, -5, 1 << 62][at]
    path.write_bytes(content.replace(offsets.tobytes(), wrong.tobytes()))
    seal_graph(tmp_path / "graph")
    with pytest.raises(GamlpError, match=r"ids\.arrow: ids cannot be read"):
        Graph.open(tmp_path / "graph").nodes.ids.take(np.arange(len(ids)))


@pytest.mark.parametrize("kind", ["archive", "structured", "columns first"])
def test_arrays_of_another_layout_are_told(tmp_path: Path, kind: str) -> None:
    make_graph().save(tmp_path / "graph")
    path = tmp_path / "graph/nodes/node/features.npy"
    values = np.load(path)
    with path.open("wb") as file:
        if kind == "archive":
            np.savez(file, values)
        elif kind == "structured":
            np.save(file, np.zeros(len(values), [("a", "f4"), ("b", "f4")]))
        else:
            np.save(file, np.asfortranarray(values))
    seal_graph(tmp_path / "graph")
    with pytest.raises(GamlpError, match=r"features\.npy: not a readable \.npy array \(it"):
        Graph.open(tmp_path / "graph")
