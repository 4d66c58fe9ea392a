"""From a person's own tables to predictions in three commands, or in one; and on to other graphs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from gamlp.models import labels_used
from gamlp.training.run_folder import RunFolder
from tests.cli.people import TOWNS, Call, plant

FAST = "--set training.epochs=40 --set model.hidden=32 --set propagation.hops=2 --set propagation.label_hops=2"


def accuracy(table: pyarrow.Table, truth: dict[str, str]) -> float:
    ids, labels = table["id"].to_pylist(), table["label"].to_pylist()
    return float(np.mean([truth[one] == label for one, label in zip(ids, labels)]))


@pytest.fixture
def trained(call: Call, tmp_path: Path):
    """`run` on graph `graph`, both in the working folder."""
    tables = plant(tmp_path / "tables")
    assert call("ingest --edges tables/edges.csv --nodes tables/nodes.csv --out graph").code == 0
    ended = call(f"train graph --out run {FAST}")
    assert ended.code == 0 and ended.err == "", ended.err
    assert "validation accuracy" in ended.out and "gamlp evaluate run" in ended.out
    assert "gamlp predict run --out predictions.parquet" in ended.out
    return tables


def test_three_commands(trained, call: Call) -> None:
    ended = call("predict run --out predictions.parquet")
    assert ended.code == 0 and "150 rows" in ended.out
    table = pyarrow.parquet.read_table("predictions.parquet")
    assert table.column_names == ["id", "label", "probability", *(f"p_{town}" for town in sorted(TOWNS))]
    assert set(table["id"].to_pylist()) == set(trained.truth) and len(table) == 150
    assert accuracy(table, trained.truth) > 0.9
    probabilities = np.stack([table[f"p_{town}"].to_numpy() for town in sorted(TOWNS)], 1)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5) and np.allclose(
        probabilities.max(1), table["probability"].to_numpy()
    )
    assert [sorted(TOWNS)[best] for best in probabilities.argmax(1)] == table["label"].to_pylist()

    for name in ("predictions.csv", "predictions.csv.gz"):
        assert call(f"predict run --out {name} --rows unlabelled --no-probabilities --batch-size 7").code == 0
        some = pyarrow.csv.read_csv(name)
        assert some.column_names == ["id", "label", "probability"]
        assert set(some["id"].to_pylist()) == set(trained.truth) - trained.known
        whole = dict(zip(table["id"].to_pylist(), table["label"].to_pylist()))
        assert [whole[one] for one in some["id"].to_pylist()] == some["label"].to_pylist()

    ended = call("evaluate run")
    assert ended.code == 0 and re.search(r"accuracy, % +\d", ended.out) and "ROC-AUC" in ended.out
    assert json.loads(Path("run/evaluation.json").read_text())["mean"]["score"] > 0.8
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_one_command(call: Call, tmp_path: Path) -> None:
    tables = plant(tmp_path / "tables")
    words = f"run --edges tables/edges.csv --nodes tables/nodes.csv {FAST} --seeds 2"
    ended = call(words)
    assert ended.code == 0 and ended.err == "", ended.err
    assert "mean weight of each hop of features" in ended.out
    assert re.search("mean weight of each hop of labels|Weights over hops of labels are flat", ended.out)
    assert re.search(r"accuracy, % +[\d.]+ ± [\d.]+ \([\d.]+\) +[\d.]+ ± [\d.]+ \([\d.]+\)", ended.out)
    assert re.search(r"edges +source +src *\n", ended.out) and re.search(r"nodes +id +id *\n", ended.out)
    kept = json.loads(Path("runs/nodes/ingest.json").read_text())["columns"]
    assert {use["column"]: use["use"] for use in kept if use["table"] == "edges"} == {"src": "source", "dst": "target"}
    assert accuracy(pyarrow.parquet.read_table("runs/nodes/predictions.parquet"), tables.truth) > 0.9
    bytes_before = Path("runs/nodes/seeds/1.safetensors").read_bytes()
    again = call(words)
    assert again.code == 0 and re.findall(r"accuracy.*", again.out) == re.findall(r"accuracy.*", ended.out)
    assert Path("runs/nodes/seeds/1.safetensors").read_bytes() == bytes_before

    ended = call(f"{words} --set training.learning_rate=0.001")
    assert ended.code == 2 and "holds a run of another recipe ('training.learning_rate' differs)" in ended.err
    plant(tmp_path / "tables", seed=1)
    ended = call(words)
    assert ended.code == 2 and "runs/nodes: holds a run on other tables; choose another --out." in ended.err

    Path("runs/nodes").rename("elsewhere")  # its graph lies in it, and moves with it
    assert call("predict elsewhere --out moved.csv").code == 0


def test_run_digits_prints_what_is_promised(call: Call) -> None:
    ended = call("run --set training.epochs=30")
    assert ended.code == 0 and ended.err == "", ended.err
    shown = re.search(r"accuracy, % +([\d.]+) \([\d.]+\) +([\d.]+) \([\d.]+\)", ended.out)  # (the commonest class)
    assert shown is not None and min(map(float, shown.groups())) > 95
    assert re.search(r"neighbours +nodes +hop 0 +hop 1", ended.out) and "runs/digits: bundle.safetensors" in ended.out
    assert "gamlp predict runs/digits --out predictions.parquet" in ended.out
    predicted = pyarrow.parquet.read_table("runs/digits/predictions.parquet")
    assert len(predicted) == 1797 and str(predicted.schema.field("label").type) == "int64"
    assert "runs/digits/predictions.parquet: labels and probabilities of 1,797 nodes" in ended.out
    result = json.loads(call("run digits --set training.epochs=30 --json").out)
    assert result["test"]["mean"]["score"] > 0.95 and len(result["hop_weights"]["ranges"]) >= 3
    for part in result["hop_weights"]["ranges"]:
        assert sum(part["features"]) == pytest.approx(1, abs=1e-5)


def test_other_graphs(trained, call: Call, tmp_path: Path) -> None:
    """A grown graph, one that was never seen, and one without labels for a model that listens to them."""
    other = plant(tmp_path / "other", 80, seed=3, prefix="q")
    for table in ("nodes.csv", "edges.csv"):  # grown: the old nodes and edges, and new ones
        new = (tmp_path / "other" / table).read_text().splitlines()[1:]
        Path("grown-" + table).write_text("\n".join([*(tmp_path / "tables" / table).read_text().splitlines(), *new]))
    assert call("ingest --edges grown-edges.csv --nodes grown-nodes.csv --out grown").code == 0
    ended = call("predict run --graph grown --out grown.parquet")
    assert ended.code == 0, ended.err
    table = pyarrow.parquet.read_table("grown.parquet")
    assert len(table) == 230 and accuracy(table, trained.truth | other.truth) > 0.85

    assert call("ingest --edges other/edges.csv --nodes other/nodes.csv --out unseen").code == 0
    ended = call("evaluate run --graph unseen --json")
    assert ended.code == 0, ended.err
    report = json.loads(ended.out)
    assert report["part"] == "test" and report["mean"]["score"] > 0.7 and not Path("run/evaluation.json").exists()
    bare = call("predict run/bundle.safetensors --graph unseen --out bare.csv")
    assert bare.code == 0 and accuracy(pyarrow.csv.read_csv("bare.csv"), other.truth) > 0.8

    plant(tmp_path / "mute", 40, seed=4, known=0)
    assert call("ingest --edges mute/edges.csv --nodes mute/nodes.csv --out mute-graph").code == 0
    ended = call("predict run --graph mute-graph --out mute.csv")
    assert (
        ended.code == 2
        and "the model listens to known labels, and graph 'mute-graph' has no training rows" in ended.err
    )
    assert not Path("mute.csv").exists() and not list(Path().rglob(".hops-*"))


def test_validating_on_another_graph_switches_labels_off_and_says_so(call: Call, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 1)):
        plant(tmp_path / name, seed=seed)
        call(f"ingest --edges {name}/edges.csv --nodes {name}/nodes.csv --out {name}-graph")
    text = (tmp_path / "two/nodes.csv").read_text().splitlines()
    text = [f"{line},{'split' if row == 0 else 'valid' if line.split(',')[1] else ''}" for row, line in enumerate(text)]
    (tmp_path / "two/nodes.csv").write_text("\n".join(text))
    assert call("ingest --edges two/edges.csv --nodes two/nodes.csv --out valid-graph").code == 0
    ended = call(f"train one-graph --valid valid-graph --out run {FAST} --set propagation.scaling=standard")
    assert ended.code == 0, ended.err
    assert "the label branch is off (model.beta 0): graph 'valid-graph' has no training labels" in ended.out
    assert not labels_used(RunFolder.open("run").recipe())
    ended = call("predict run --out valid.csv")  # the run's rows are those of the graph it was validated on
    assert ended.code == 0 and "150 rows" in ended.out
    assert call("predict run --graph one-graph --out one.csv").code == 0
