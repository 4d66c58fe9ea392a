"""`gamlp export` and `gamlp card` as people call them: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gamlp.run import train
from tests.cli.people import Call

RUN = "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    train("karate", {"training": {"epochs": 2}, "model": {"name": "sgc", "hidden": 4}}, tmp_path / RUN)
    return tmp_path / RUN


def test_a_run_becomes_a_file_and_says_how_near_it_is(run: Path, call: Call) -> None:
    ended = call("export run --to torchscript --out head.pt")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("head.pt: x[batch, 1, 6, 34] → probabilities, logits; at most ")
    assert ended.out.endswith("from the run on random hops\n")
    told = json.loads(call("export run --to torch --out head.pt2 --json").out)
    assert told["to"] == "torch" and told["difference"] <= told["tolerance"] == 1e-5 and told["opset"] is None
    assert (run.parent / "head.pt2").exists()


def test_onnx_names_columns_that_have_no_names(run: Path, call: Call) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    ended = call("export run --to onnx --out head.onnx")
    assert ended.code == 0, ended.err
    assert "note: columns of features have no names: there are no encoders to export.\n" in ended.out
    told = json.loads(call("export run --to onnx --out head.onnx --no-encoders --json").out)
    assert told["opset"] == 18 and told["encoders"] == [] and told["notes"] == []


def test_mlflow_leaves_a_folder(run: Path, call: Call) -> None:
    pytest.importorskip("mlflow")
    ended = call("export run --to mlflow --out model")
    assert ended.code == 0, ended.err
    assert ended.out == "model: MLflow model of 'sgc'; mlflow.pyfunc.load_model reads it\n"
    assert {"MLmodel", "run", "requirements.txt", "README.md"} <= {
        path.name for path in (run.parent / "model").iterdir()
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("export run --to pickle --out m.pkl", "gamlp: there is no format 'pickle'; choose from onnx, "),
        ("export run --to onnx --out m.bin", "gamlp: m.bin: is no name of a onnx file; end it with .onnx.\n"),
        ("export nothing --to torch --out m.pt2", "gamlp: nothing: is no run folder; train one: "),
        ("card nothing", "gamlp: nothing: is no run folder; train one: "),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_2(line: str, said: str, run: Path, call: Call) -> None:
    ended = call(line)
    assert (ended.code, ended.out) == (2, "") and ended.err.startswith(said) and ended.err.count("\n") == 1


def test_a_card_is_printed_or_written(run: Path, call: Call) -> None:
    printed = call("card run")
    assert printed.code == 0 and printed.out.startswith("---\nlibrary_name: gamlp\n")
    written = call("card run --out cards.md")
    assert written.out == "cards.md: the model card of run\n"
    assert (run.parent / "cards.md").read_text(encoding="utf-8") == printed.out
