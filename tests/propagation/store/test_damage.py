"""A hop store that is damaged, or whose manifest was written by somebody else: told, never read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.propagation import HopStore
from tests.propagation.store.small_store import BOTH, ENGINE, NODES, WIDTH, make_graph
from tests.sealing import write_sealed


def shard_of(folder: Path, signal: str = "features") -> Path:
    return next(folder.glob(f"{signal}-*/00000.npy"))


@pytest.mark.parametrize("which", ["features-*/00000.npy", "labels-*/rows.npy", "labels.npy", "split.npy"])
def test_a_flipped_byte_is_found(tmp_path: Path, which: str) -> None:
    ENGINE.propagate(make_graph(), BOTH.model_copy(update={"rows": "split"}), tmp_path / "store")
    (path,) = (tmp_path / "store").glob(which)
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)
    assert HopStore.open(tmp_path / "store").damaged() == [path.relative_to(tmp_path / "store").as_posix()]


@pytest.mark.parametrize("which", ["features-*/00000.npy", "labels-*/rows.npy", "labels.npy", "split.npy"])
@pytest.mark.parametrize("missing", [True, False], ids=["missing", "truncated"])
def test_a_missing_or_truncated_file_is_refused(tmp_path: Path, which: str, missing: bool) -> None:
    ENGINE.propagate(make_graph(), BOTH.model_copy(update={"rows": "split"}), tmp_path / "store")
    (path,) = (tmp_path / "store").glob(which)
    if missing:
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(GamlpError, match=f"{path.name}: is missing or has another size"):
        HopStore.open(tmp_path / "store")
    with pytest.raises(GamlpError, match="is missing or has another size"):
        ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")


def test_a_shard_of_another_kind_is_refused(tmp_path: Path) -> None:
    ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")
    path = shard_of(tmp_path / "store")
    values = np.load(path)
    np.save(path, values.view(np.int32))
    with pytest.raises(GamlpError, match="shard is int32"):
        HopStore.open(tmp_path / "store")
    np.save(path, values.reshape(NODES, WIDTH, 4))
    with pytest.raises(GamlpError, match=r"shape \(60, 11, 4\), not float32 of shape \(60, 4, 11\)"):
        HopStore.open(tmp_path / "store")


def set_at(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


FEATURES = ("signals", "features")


@pytest.mark.parametrize(
    "change",
    [
        set_at("format", to="gamlp-graph"),
        set_at("version", to=2),
        set_at("unknown", to=1),
        set_at(*FEATURES, "shards", 0, "name", to="../../secret"),
        set_at(*FEATURES, "shards", 0, "name", to="/etc/hosts"),
        set_at(*FEATURES, "shards", 0, "name", to=".."),
        set_at(*FEATURES, "folder", to=".."),
        set_at(*FEATURES, "folder", to="a/../../b"),
        set_at(*FEATURES, "folder", to=""),
        set_at("answers", "files", 0, "name", to="../labels.npy"),
        set_at(*FEATURES, "shards", 0, "start", to=1),
        set_at(*FEATURES, "count", to=61),
        set_at(*FEATURES, "dtype", to="float64"),
        set_at(*FEATURES, "hops", to=-1),
    ],
    ids=lambda change: "-".join(str(cell.cell_contents) for cell in reversed(change.__closure__)),
)
def test_a_tampered_manifest_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")
    manifest = tmp_path / "store" / "store.json"
    content = json.loads(manifest.read_text())
    change(content)
    write_sealed(manifest, content)
    with pytest.raises(GamlpError, match="damaged or foreign store manifest"):
        HopStore.open(tmp_path / "store")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null"])
def test_a_manifest_that_is_no_json_of_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")
    (tmp_path / "store" / "store.json").write_bytes(content)
    with pytest.raises(GamlpError, match="damaged or foreign store manifest"):
        HopStore.open(tmp_path / "store")
