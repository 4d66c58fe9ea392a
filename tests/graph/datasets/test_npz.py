"""Files of Amazon and Coauthor that were tampered with: one sentence, and no crash inside scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gamlp.errors import GamlpError
from gamlp.graph.datasets.loading import load

NODES, WIDTH = 80, 7


def parts() -> dict[str, Any]:
    random = np.random.default_rng(0)
    matrices = {
        "adj": scipy.sparse.random_array((NODES, NODES), density=0.2, format="csr", rng=random),
        "attr": scipy.sparse.random_array((NODES, WIDTH), density=0.4, format="csr", rng=random),
    }
    found: dict[str, Any] = {"labels": np.arange(NODES) % 2}
    for name, one in matrices.items():
        found |= {f"{name}_data": one.data, f"{name}_indices": one.indices, f"{name}_indptr": one.indptr}
        found[f"{name}_shape"] = np.array(one.shape)
    return found


def load_these(tmp_path: Path, content: dict[str, Any], save: Any = np.savez) -> Any:
    place = tmp_path / "data" / "Amazon" / "Photo" / "raw"
    place.mkdir(parents=True, exist_ok=True)
    save(place / "amazon_electronics_photo.npz", **content)
    return load("amazon-photo", tmp_path / "data")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))


def test_a_good_file_loads(tmp_path: Path) -> None:
    assert load_these(tmp_path, parts()).nodes.count == NODES


@pytest.mark.parametrize("name", ["adj", "attr"])
@pytest.mark.parametrize(
    ("part", "at", "value"),
    [
        ("indices", 3, 10**6),
        ("indices", 3, -1),
        ("indptr", 2, 10**6),
        ("indptr", -1, 10**8),
        ("indptr", 0, 5),
        ("shape", 0, 10**9),
        ("shape", 1, 2),
        ("shape", 1, -4),
    ],
)
def test_a_changed_number_is_one_sentence(name: str, part: str, at: int, value: int, tmp_path: Path) -> None:
    content = parts()
    content[f"{name}_{part}"] = content[f"{name}_{part}"].copy()
    content[f"{name}_{part}"][at] = value
    with pytest.raises(GamlpError, match=r"photo\.npz: .*fetch it again"):
        load_these(tmp_path, content)
    assert list((tmp_path / "cache").rglob("*.npy")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", np.arange(NODES - 1) % 2),
        ("labels", np.full(NODES, -3)),
        ("labels", np.full(NODES, 2**31 - 2)),
        ("labels", np.full(NODES, 0.5)),
        ("labels", np.zeros((NODES, 2), np.int64)),
        ("labels", np.array([{"a": 1}] * NODES)),
        ("labels", np.array("x")),
        ("adj_indices", np.array(["a"] * 10)),
        ("adj_data", np.zeros((4, 4))),
        ("adj_shape", np.array([NODES])),
        ("adj_shape", np.array(5)),
        ("attr_indptr", np.zeros(0, np.int64)),
        ("attr_data", np.zeros(3, [("a", "f4")])),
    ],
)
def test_an_array_of_another_kind_is_one_sentence(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=r"photo\.npz: .*fetch it again"):
        load_these(tmp_path, {**parts(), name: value})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_changed_bytes_are_refused_or_harmless(save: Any, tmp_path: Path) -> None:
    sound = load_these(tmp_path, parts(), save)
    path = next((tmp_path / "data").rglob("*.npz"))
    whole, random, refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(40):
        data = bytearray(whole)
        data[random.integers(len(data))] ^= 1 << random.integers(8)
        path.write_bytes(data)
        try:
            found = load("amazon-photo", tmp_path / "data")
        except GamlpError:
            refused += 1
            continue
        assert np.array_equal(found.nodes.features.values, sound.nodes.features.values)
        assert np.array_equal(found.nodes.labels.values, sound.nodes.labels.values)
    assert refused > 10  # most bytes matter, and each change was looked at
