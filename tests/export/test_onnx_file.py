"""ONNX: every model in a file that onnxruntime answers from as the run does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.export.head import head_of, random_hops
from gamlp.export.onnx_file import OPSET, write_onnx
from gamlp.models import MODELS
from gamlp.training import Bundle
from tests.export.bundles import ONE, OWN, TYPED_NAMES, VARIANTS, gamlp_of, model_bundle, typed_bundle

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

# Each takes seconds: two stand for all where time is short.
SOON = {"gamlp", "label-spreading"}
CASES = [pytest.param(name, marks=[] if name in SOON else pytest.mark.slow) for name in [*MODELS, OWN]]
TYPED_CASES = [pytest.param(name, marks=pytest.mark.slow) for name in TYPED_NAMES]


def session_of(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def agrees(bundle: Bundle, path: Path) -> None:
    """Of other hops than those that the file was compared on."""
    difference = write_onnx(bundle, path)
    assert 0 <= difference <= 1e-5
    session = session_of(path)
    for rows in (1, 5):
        hops = random_hops(bundle, rows, seed=50)
        feed = dict(zip(("x", "y"), (one.numpy() for one in hops)))
        feed = {one.name: feed[one.name] for one in session.get_inputs()}
        probabilities, logits = session.run(["probabilities", "logits"], feed)
        with torch.no_grad():
            expected = bundle.model()(*hops) if len(hops) == 2 else bundle.model()(hops[0], None)
        np.testing.assert_allclose(logits, expected.numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(probabilities, torch.softmax(expected, 1).numpy(), atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_model_agrees(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    agrees(model_bundle(name, ONE), tmp_path / "m.onnx")


@pytest.mark.parametrize("name", TYPED_CASES)
def test_models_of_several_types_agree(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    agrees(typed_bundle(name), tmp_path / "m.onnx")


@pytest.mark.parametrize("variant", [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS])
def test_every_attention_agrees(variant: str, tmp_path: Path) -> None:
    agrees(gamlp_of(variant), tmp_path / "m.onnx")


@pytest.mark.slow
def test_trees_within_a_blend_agree(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    from gamlp.models import blend_recipe
    from tests.export.bundles import bundle_of

    members = [model_bundle("lightgbm", ONE), gamlp_of("jk"), model_bundle("logistic", ONE)]
    recipe = blend_recipe([one.recipe for one in members], [3.0, 0.0, 1.0], temperatures=[1.0, 2.0, 0.5])
    weights = {
        f"members.{place}.{name}": value for place, one in enumerate(members) for name, value in one.weights.items()
    }
    agrees(bundle_of(recipe, ONE, weights=weights), tmp_path / "m.onnx")


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    write_onnx(gamlp_of("jk", positive="class 1"), path)
    model = onnx.load(path)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", OPSET)]
    assert model.producer_name == "gamlp"
    session = session_of(path)
    assert {one.name: one.shape for one in session.get_inputs()} == {"x": ["batch", 1, 3, 5], "y": ["batch", 1, 3, 3]}
    outputs = {one.name: one.shape for one in session.get_outputs()}
    assert outputs == {"probabilities": ["batch", 3], "logits": ["batch", 3]}
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["gamlp.classes"]) == ["class 0", "class 1", "class 2"]
    assert json.loads(about["gamlp.positive"]) == "class 1" and about["gamlp.version"]
    assert "attention: jk" in about["gamlp.recipe"]
    assert str(Path(__file__).parents[2]).encode() not in path.read_bytes(), "no folder of this machine"


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    bundle = model_bundle("sgc", ONE)
    for name in ("one.onnx", "two.onnx"):
        write_onnx(bundle, tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_a_file_that_differs_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = model_bundle("sgc", ONE)
    other = model_bundle("sgc", ONE)
    monkeypatch.setattr("gamlp.export.torch_files.head_of", lambda _: head_of(other))
    with pytest.raises(GamlpError, match=r"ONNX differs from the run by .* and is not left behind"):
        write_onnx(bundle, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_written_down_is_one_sentence(tmp_path: Path) -> None:
    from gamlp.recipe import Recipe
    from tests.export.bundles import bundle_of

    name = f"{__name__}:ByNumbers"
    recipe = Recipe.of({"propagation": {"hops": 2, "label_hops": 2}, "model": {"name": name}}, trust=name)
    with pytest.raises(
        GamlpError, match=rf"ONNX cannot hold model '{name}' \(.+\); use gamlp export --to mlflow"
    ) as told:
        write_onnx(bundle_of(recipe, ONE), tmp_path / "m.onnx")
    assert len(str(told.value).splitlines()) == 1 and list(tmp_path.iterdir()) == []


class ByNumbers(torch.nn.Module):
    """What is answered depends on a number of the batch: no graph of operations has a branch for it."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(shape.features, shape.classes)

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.linear(x[:, 0, 0]) * (1 if float(x.sum()) > 0 else 2)


@pytest.mark.parametrize("library", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_library_names_its_extra(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(GamlpError) as told:
        write_onnx(model_bundle("sgc", ONE), tmp_path / "m.onnx")
    assert str(told.value) == 'onnx is not installed; run: pip install "gamlp[onnx]".'


@pytest.mark.slow
def test_nothing_is_reported_home(tmp_path: Path) -> None:
    """onnxruntime, left alone, writes a session of its telemetry among temporary files when it is imported."""
    code = "from gamlp.export.onnx_file import library; library()"
    plain = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    (tmp_path / "tmp").mkdir()
    ran = subprocess.run([sys.executable, "-c", code], env={**plain, "TMPDIR": str(tmp_path / "tmp")}, check=True)
    assert ran.returncode == 0 and list((tmp_path / "tmp").iterdir()) == []
