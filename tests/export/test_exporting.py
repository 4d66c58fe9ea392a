"""Formats by name: what is refused before anything is written, and what is told of what was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.export import FORMATS, export_run
from gamlp.run import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    train("karate", {"training": {"epochs": 2}, "model": {"hidden": 4}}, folder)
    return folder


def test_a_run_and_its_bundle_alone_give_the_same(run: Path, tmp_path: Path) -> None:
    by_run = export_run(run, tmp_path / "run.pt", "torchscript")
    by_bundle = export_run(run / "bundle.safetensors", tmp_path / "bundle.pt", "torchscript")
    assert by_run.difference is not None and by_run.difference <= 1e-5
    assert by_run.inputs == by_bundle.inputs == {"x": (1, 6, 34), "y": (1, 6, 4)}
    assert by_run.as_json()["inputs"]["x"] == ["batch", 1, 6, 34] and by_run.as_json()["opset"] is None
    x, y = torch.rand(3, 1, 6, 34), torch.rand(3, 1, 6, 4)
    answers = [torch.jit.load(tmp_path / name)(x, y)[0] for name in ("run.pt", "bundle.pt")]
    assert torch.equal(*answers)


@pytest.mark.parametrize(
    ("to", "out", "said"),
    [
        ("tensorflow", "m.tf", f"there is no format 'tensorflow'; choose from {', '.join(FORMATS)}"),
        ("onnx", "m.pt", "is no name of a onnx file; end it with .onnx"),
        ("torchscript", "m.pt2", "is no name of a torchscript file; end it with .pt or .ts"),
        ("torch", "m.pt", "is no name of a torch file; end it with .pt2"),
    ],
)
def test_formats_and_names_are_checked_first(to: str, out: str, said: str, run: Path, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=said):
        export_run(run, tmp_path / out, to)
    assert list(tmp_path.iterdir()) == []


def test_only_mlflow_holds_a_graph(run: Path, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="torch holds no graph; leave out --graph-in-place, or use --to mlflow"):
        export_run(run, tmp_path / "m.pt2", "torch", graph_in_place=True)


def test_a_folder_is_not_replaced_by_a_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(GamlpError, match="is a folder where a file is to be written"):
        export_run(run, tmp_path / "m.onnx", "onnx")


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    for to, out in (("torch", "m.pt2"), ("mlflow", "m")):
        with pytest.raises(GamlpError, match="is no run folder"):
            export_run(tmp_path / "nothing", tmp_path / out, to)
