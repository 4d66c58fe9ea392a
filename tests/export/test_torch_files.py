"""TorchScript and torch.export: files that torch alone reads, where there is no gamlp."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.export.head import random_hops
from gamlp.export.torch_files import write_program, write_torchscript
from gamlp.models import MODELS
from gamlp.training import Bundle
from tests.export.bundles import ONE, OWN, TYPED_NAMES, VARIANTS, gamlp_of, model_bundle, typed_bundle

WRITERS = {"torchscript": (write_torchscript, "m.pt"), "torch": (write_program, "m.pt2")}
LOADS = {
    "torchscript": "model = torch.jit.load(path)",
    "torch": "model = torch.export.load(path).module()",
}
# gamlp is refused as if it were not installed; whatever else is there may stay.
WITHOUT = """
import json, sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "gamlp":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import numpy, torch
path, hops, out = sys.argv[1:]
{load}
with torch.no_grad():
    given = [torch.from_numpy(one) for one in numpy.load(hops).values()]
    probabilities, logits = model(*given)
numpy.save(out, torch.stack([probabilities, logits]).numpy())
assert "gamlp" not in sys.modules
"""


def agrees(bundle: Bundle, path: Path, write: Any, load: Any) -> None:
    assert 0 <= write(bundle, path) <= 1e-5
    module = load(path)
    for rows in (1, 6):
        hops = random_hops(bundle, rows, seed=50)
        with torch.no_grad():
            _, logits = module(*hops)
            expected = bundle.model()(*hops) if len(hops) == 2 else bundle.model()(hops[0], None)
        np.testing.assert_allclose(logits.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*MODELS, OWN])
def test_every_model_agrees_in_torchscript(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    agrees(model_bundle(name, ONE), tmp_path / "m.pt", write_torchscript, torch.jit.load)


@pytest.mark.parametrize("name", TYPED_NAMES)
def test_models_of_several_types_agree_in_torchscript(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    agrees(typed_bundle(name), tmp_path / "m.pt", write_torchscript, torch.jit.load)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_attention_agrees_in_torchscript(variant: str, tmp_path: Path) -> None:
    agrees(gamlp_of(variant), tmp_path / "m.pt", write_torchscript, torch.jit.load)


@pytest.mark.parametrize("name", ["gamlp", "lightgbm", "blend", "majority"])
def test_models_agree_as_programs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    bundle = model_bundle(name, ONE)
    agrees(bundle, tmp_path / "m.pt2", write_program, lambda path: torch.export.load(path).module())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamlp", "nars"])
def test_models_of_several_types_agree_as_programs(name: str, tmp_path: Path) -> None:
    agrees(typed_bundle(name), tmp_path / "m.pt2", write_program, lambda path: torch.export.load(path).module())


@pytest.mark.slow
@pytest.mark.parametrize("format", WRITERS)
def test_a_file_is_read_where_there_is_no_gamlp(format: str, tmp_path: Path) -> None:
    bundle = gamlp_of("recursive")
    write, name = WRITERS[format]
    write(bundle, tmp_path / name)
    hops = random_hops(bundle, 4, seed=9)
    np.savez(tmp_path / "hops.npz", *(one.numpy() for one in hops))
    code = WITHOUT.format(load=LOADS[format])
    given = [str(tmp_path / one) for one in (name, "hops.npz", "out.npy")]
    ran = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    with torch.no_grad():
        expected = bundle.model()(*hops)
    probabilities, logits = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)


@pytest.mark.slow
def test_the_guard_of_that_test_refuses_gamlp(tmp_path: Path) -> None:
    code = WITHOUT.replace("{load}", "import gamlp")
    ran = subprocess.run([sys.executable, "-c", code, "a", "b", "c"], capture_output=True, text=True)
    assert ran.returncode != 0 and "ModuleNotFoundError" in ran.stderr


def test_both_say_what_they_are(tmp_path: Path) -> None:
    bundle = model_bundle("sgc", ONE)
    write_torchscript(bundle, tmp_path / "m.pt")
    write_program(bundle, tmp_path / "m.pt2")
    script = {"gamlp.classes": "", "gamlp.recipe": ""}
    torch.jit.load(tmp_path / "m.pt", _extra_files=script)
    program = {"gamlp.classes": "", "gamlp.version": ""}
    torch.export.load(tmp_path / "m.pt2", extra_files=program)
    for found in (script, program):
        assert json.loads(found["gamlp.classes"]) == ["class 0", "class 1", "class 2"]
    assert b"name: sgc" in bytes(script["gamlp.recipe"]) and program["gamlp.version"]


@pytest.mark.parametrize("format", WRITERS)
def test_a_file_that_differs_is_not_left_behind(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gamlp.export.head import head_of

    bundle, other = model_bundle("sgc", ONE), model_bundle("sgc", ONE)
    monkeypatch.setattr("gamlp.export.torch_files.head_of", lambda _: head_of(other))
    write, name = WRITERS[format]
    with pytest.raises(GamlpError, match=r"differs from the run by .* and is not left behind"):
        write(bundle, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
