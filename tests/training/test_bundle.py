"""Bundles: the same logits in a fresh process, and nothing read from a file that was changed or is foreign."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gamlp.errors import GamlpError
from gamlp.training.bundle import Bundle
from gamlp.training.checkpoint import save_tensors, with_digest, without_digest
from gamlp.training.seeds import bundle_of
from tests.training.small import CLASSES, WIDTH, make_graph, prepared_in, same_weights, trained

FRESH = """
import sys
import torch
from gamlp.training.bundle import Bundle

bundle = Bundle.load(sys.argv[1])
random = torch.Generator().manual_seed(3)
x, y = torch.randn(9, 1, 3, 6, generator=random), torch.rand(9, 1, 3, 3, generator=random)
with torch.no_grad():
    print(bundle.model()(x, y).numpy().tobytes().hex())
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    changes = {"model__attention": "jk", "model__reference": "noise", "model__batch_norm": True}
    prepared = prepared_in(
        tmp_path_factory.mktemp("graph"),
        make_graph(),
        propagation__scaling="standard",
        training__setting="inductive",
        **changes,
    )
    return bundle_of(prepared, trained(prepared), 0)


@pytest.fixture(scope="module")
def saved(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.save(tmp_path_factory.mktemp("bundle") / "bundle.safetensors")


def refused(path: Path, told: str = "") -> str:
    with pytest.raises(GamlpError, match=told or None) as caught:
        Bundle.load(path).model()
    sentence = str(caught.value)
    assert path.name in sentence and "\n" not in sentence and len(sentence) < 400
    return sentence


def test_all_of_a_bundle_comes_back(bundle: Bundle, saved: Path) -> None:
    again = Bundle.load(saved)
    assert (again.recipe, again.shape, again.classes, again.multi_label) == (
        bundle.recipe,
        bundle.shape,
        ("class 0", "class 1", "class 2"),
        False,
    )
    assert again.report == json.loads(json.dumps(bundle.report)) and again.made_with == bundle.made_with
    assert same_weights(again.weights, bundle.weights)
    assert again.statistics == bundle.statistics and list(again.statistics or {}) == ["node"]
    assert again.recipe.explicit() == bundle.recipe.explicit()


def test_saving_again_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    for _ in range(5):
        assert Bundle.load(saved).save(tmp_path / "again").read_bytes() == saved.read_bytes()


@pytest.mark.slow
def test_a_fresh_process_has_equal_logits(bundle: Bundle, saved: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FRESH, saved], capture_output=True, text=True, check=True).stdout
    random = torch.Generator().manual_seed(3)
    x, y = torch.randn(9, 1, 3, WIDTH, generator=random), torch.rand(9, 1, 3, CLASSES, generator=random)
    with torch.no_grad():
        logits = bundle.model()(x, y).numpy()
    assert np.array_equal(np.frombuffer(bytes.fromhex(told.strip()), np.float32).reshape(9, CLASSES), logits)


def test_any_byte_that_is_flipped_is_found(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    random = np.random.default_rng(0)
    places = [*range(8), *random.integers(8, header, 60), *random.integers(header, len(whole), 40), len(whole) - 1]
    path = tmp_path / "flipped.safetensors"
    for place in places:
        for mask in (0x01, 0x80, 0xFF):
            flipped = bytearray(whole)
            flipped[place] ^= mask
            path.write_bytes(flipped)
            refused(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_file_that_was_cut_off_or_grew_is_refused(saved: Path, tmp_path: Path, share: float) -> None:
    whole = saved.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(share * len(whole))])
    refused(tmp_path / "cut")
    (tmp_path / "grown").write_bytes(whole + b"\0" * 8)
    refused(tmp_path / "grown")


class Trap:
    """Unpickled, it would write a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.mark,)  # type: ignore[return-value]


def test_files_of_another_kind_are_refused_and_never_run(bundle: Bundle, tmp_path: Path) -> None:
    mark = tmp_path / "run"
    for name, content in {
        "pickle": pickle.dumps(Trap(mark)),
        "text": b"hello",
        "empty": b"",
        "huge": (1 << 62).to_bytes(8, "little") + b"{}",
        "json": b'{"format": "gamlp-bundle"}',
    }.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "is no gamlp bundle")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "torch.pt")
    refused(tmp_path / "torch.pt", "is no gamlp bundle")
    save_file({"weight": torch.zeros(3)}, tmp_path / "foreign.safetensors")
    refused(tmp_path / "foreign.safetensors", "is no gamlp bundle")
    refused(tmp_path / "absent", "there is no bundle here")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "(there is no|is no gamlp) bundle")
    assert not mark.exists() and bundle.classes


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"classes": ["one"]},
        {"classes": "class"},
        {"recipe": {"model": {"hiden": 3}}},
        {"recipe": {"training": {"epochs": "5"}}},
        {"recipe": []},
        {"shape": {"features": -1}},
        {"extra": 1},
        {"many": "perhaps"},
        {"columns": {"node": [{"name": "age"}]}},
        {"columns": {"node": [{"name": "age", "type": "date", "width": 6}]}},
        {"columns": ["age"]},
        {"temperature": 0},
        {"temperature": float("nan")},
        {"temperature": "hot"},
        {"positive": "class 0"},  # of three classes
    ],
    ids=str,
)
def test_content_that_does_not_hold_together_is_refused_though_its_digest_is_right(
    bundle: Bundle, saved: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    from safetensors import safe_open

    with safe_open(saved, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        content = json.loads(without_digest(file.metadata(), tensors)[0])
    text = json.dumps({**content, **change})
    save_tensors(tmp_path / "crafted", tensors, with_digest(text, tensors))
    refused(tmp_path / "crafted", "no bundle that this gamlp can read")


def rewritten(saved: Path, place: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """The same file with other tensors, and the digest that goes with them."""
    from safetensors import safe_open

    with safe_open(saved, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = without_digest(file.metadata(), tensors)[0]
    change(tensors)
    save_tensors(place, tensors, with_digest(text, tensors))
    return place


MEAN = "statistics.node.mean"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"statistics.node.median": torch.zeros(WIDTH)}, "'statistics.node.median' is nothing that a bundle"),
        ({"statistics.": torch.zeros(1)}, "'statistics.' is nothing that a bundle"),
        ({"other.node": torch.zeros(1)}, "'other.node' is nothing that a bundle"),
        ({"loose": torch.zeros(1)}, "'loose' is nothing that a bundle"),
        ({MEAN: torch.zeros(WIDTH)}, "'statistics.node.mean' is nothing that a bundle"),  # float32
        ({MEAN: torch.zeros(WIDTH, 1, dtype=torch.float64)}, "'statistics.node.mean' is nothing that a bundle"),
        ({MEAN: torch.zeros(2, dtype=torch.float64)}, "no means and deviations"),
        ({MEAN: torch.full((WIDTH,), torch.nan, dtype=torch.float64)}, "no means and deviations"),
        ({"statistics.node.deviation": torch.zeros(WIDTH, dtype=torch.float64)}, "no means and deviations"),
        ({MEAN: None}, "no means and deviations"),
        (
            {
                MEAN: torch.zeros(2, dtype=torch.float64),
                "statistics.node.deviation": torch.ones(2, dtype=torch.float64),
            },
            "are of 2 features, not of 6",
        ),
    ],
)
def test_tensors_that_no_bundle_has_are_told(
    saved: Path, tmp_path: Path, changes: dict[str, torch.Tensor | None], told: str
) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name, value in changes.items():
            if value is None:
                del tensors[name]
            else:
                tensors[name] = value

    refused(rewritten(saved, tmp_path / "crafted", change), told)


def test_a_bundle_of_before_statistics_had_a_type_is_read(bundle: Bundle, saved: Path, tmp_path: Path) -> None:
    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in ("mean", "deviation"):
            tensors[f"statistics.{name}"] = tensors.pop(f"statistics.node.{name}")

    assert Bundle.load(rewritten(saved, tmp_path / "older", rename)).statistics == bundle.statistics


def test_temperature_and_positive_class_come_back_and_older_bundles_have_none(bundle: Bundle, tmp_path: Path) -> None:
    from safetensors import safe_open

    hot = replace(bundle, temperature=2.5)
    again = Bundle.load(hot.save(tmp_path / "hot"))
    x, y = torch.randn(9, 1, 3, WIDTH), torch.rand(9, 1, 3, CLASSES)
    with torch.no_grad():
        cold = replace(bundle, temperature=1.0).model()(x, y)
        assert again.temperature == 2.5 and torch.equal(again.model()(x, y), cold / 2.5)
        with safe_open(tmp_path / "hot", "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            content = json.loads(without_digest(file.metadata(), tensors)[0])
        assert content.pop("temperature") == 2.5 and content.pop("positive") is None
        save_tensors(tmp_path / "older", tensors, with_digest(json.dumps(content), tensors))
        older = Bundle.load(tmp_path / "older")
        assert (older.temperature, older.positive) == (1.0, None) and torch.equal(older.model()(x, y), cold)


def test_weights_that_do_not_fit_the_recipe_are_told(bundle: Bundle, tmp_path: Path) -> None:
    wider = replace(bundle, recipe=bundle.recipe.changed({"model.hidden": 9}))
    with pytest.raises(GamlpError, match="do not fit its recipe"):
        Bundle.load(wider.save(tmp_path / "wider")).model()


def test_a_bundle_is_written_whole_or_not_at_all(bundle: Bundle, tmp_path: Path) -> None:
    path = bundle.save(tmp_path / "bundle")
    before = path.read_bytes()
    broken = replace(bundle, report={"not": {1, 2}})
    with pytest.raises(TypeError):
        broken.save(path)
    assert path.read_bytes() == before and [entry.name for entry in tmp_path.iterdir()] == ["bundle"]
