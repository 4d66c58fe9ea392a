"""Damaged graph folders and tampered manifests are told in one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, damaged_files
from tests.graph.of_everything import everything
from tests.sealing import seal_graph, write_sealed

PARTS = [
    "nodes/paper/features.npy",
    "nodes/paper/labels.npy",
    "nodes/paper/split.npy",
    "nodes/paper/ids.arrow",
    "nodes/author/ids.npy",
    "relations/cites/00001/offsets.npy",
    "relations/cites/00000/neighbours.npy",
    "relations/writes/00000/weights.npy",
]


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_truncated_or_changed_part_is_told(tmp_path: Path, part: str) -> None:
    everything().save(tmp_path / "graph")
    path = tmp_path / "graph" / part
    content = path.read_bytes()
    changed = bytearray(content)
    changed[-1] ^= 1
    path.write_bytes(changed)
    try:
        assert damaged_files(Graph.open(tmp_path / "graph")) == [part]
    except GamlpError as error:  # the last offset, Arrow's mark at the end of a file: seen without checksums
        assert part.endswith(("offsets.npy", "ids.arrow")), error
    os.truncate(path, len(content) - 1)
    with pytest.raises(GamlpError, match=rf"{path.name}: file has {len(content) - 1} bytes, not {len(content)}"):
        Graph.open(tmp_path / "graph")
    path.unlink()
    with pytest.raises(GamlpError, match=f"{path.name}: file is missing"):
        Graph.open(tmp_path / "graph")


@pytest.mark.parametrize("part", [part for part in PARTS if part.endswith(".npy")])
@pytest.mark.parametrize("at", [0, 6, 12, 30])
def test_a_damaged_header_is_told_in_one_sentence(tmp_path: Path, part: str, at: int) -> None:
    everything().save(tmp_path / "graph")
    path = tmp_path / "graph" / part
    content = bytearray(path.read_bytes())
    content[at] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(GamlpError) as raised:
        Graph.open(tmp_path / "graph")
    assert "\n" not in str(raised.value)


def test_damaged_string_ids_are_told_in_one_sentence(tmp_path: Path) -> None:
    everything().save(tmp_path / "graph")
    path = tmp_path / "graph/nodes/paper/ids.arrow"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(GamlpError, match=r"ids\.arrow: is damaged: its bytes are not those that were written"):
        Graph.open(tmp_path / "graph").nodes.ids.take(np.arange(2))
    seal_graph(tmp_path / "graph")
    with pytest.raises(GamlpError, match=r"ids\.arrow: ids cannot be read"):
        Graph.open(tmp_path / "graph").nodes.ids.take(np.arange(2))


def set_at(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


def rename(*keys: Any, to: str) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[to] = content.pop(keys[-1])

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_at("format", to="other"),
        set_at("version", to=9),
        set_at("surplus", to=1),
        set_at("target", to="nobody"),
        set_at("nodes", "paper", "count", to=6),
        set_at("nodes", "paper", "count", to=-1),
        set_at("nodes", "paper", "features", "width", to=4),
        set_at("nodes", "paper", "features", "dtype", to="float32"),
        set_at("nodes", "paper", "labels", "classes", to=["x"]),
        set_at("nodes", "paper", "ids", to="numbers"),
        set_at("relations", "cites", "target", to="nobody"),
        set_at("relations", "cites", "source", to="nobody"),
        set_at("relations", "cites", "weighted", to=True),
        set_at("relations", "cites", "blocks", 1, "start", to=1),
        set_at("relations", "cites", "blocks", 1, "stop", to=4),
        set_at("relations", "cites", "blocks", 0, "entries", to=2),
        set_at("relations", "cites", "blocks", to=[{"start": 0, "stop": 2, "entries": 3}]),
        rename("relations", "cites", to="../cites"),
        rename("nodes", "author", to="../../author"),
        rename("files", "nodes/paper/split.npy", to="../split.npy"),
        rename("files", "nodes/paper/split.npy", to="nodes/../../split.npy"),
        rename("files", "nodes/paper/split.npy", to="/etc/hosts"),
    ],
    ids=lambda change: "-".join(str(cell.cell_contents) for cell in reversed(change.__closure__)),
)
def test_a_tampered_manifest_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    everything().save(tmp_path / "graph")
    manifest = tmp_path / "graph" / "graph.json"
    content = json.loads(manifest.read_text())
    change(content)
    write_sealed(manifest, content)
    with pytest.raises(GamlpError) as raised:
        Graph.open(tmp_path / "graph")
    assert "\n" not in str(raised.value) and str(tmp_path / "graph") in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{]", b"\xff", b"[1]"])
def test_a_manifest_that_is_no_json_of_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    everything().save(tmp_path / "graph")
    (tmp_path / "graph" / "graph.json").write_bytes(content)
    with pytest.raises(GamlpError, match="damaged or foreign manifest"):
        Graph.open(tmp_path / "graph")


def test_what_is_no_graph_is_told(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="not a graph folder"):
        Graph.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(GamlpError, match="not a graph folder"):
        Graph.open(tmp_path / "file")
