"""`gamlp explain`: tables, JSON, CSV and pictures of a run, and refusals in one sentence."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gamlp.training.run_folder import METHOD_RUN
from tests.cli.conftest import Call
from tests.cli.people import TOWNS, plant

pytestmark = pytest.mark.slow

QUICK = "--set training.epochs=15 --set model.hidden=16 --set propagation.hops=3 --set propagation.label_hops=2"


def trained(call: Call, folder: Path, options: str = QUICK, prefix: str = "p") -> str:
    """A small run in `run`; gives the id of its first node."""
    tables = plant(folder / "tables", prefix=prefix)
    ended = call(f"ingest --edges '{tables.edges}' --nodes '{tables.nodes}' --out graph")
    assert ended.code == 0, ended.err
    ended = call(f"train graph --out run {options}")
    assert ended.code == 0, ended.err
    return next(iter(tables.truth))


def test_everything_of_one_run(call: Call, tmp_path: Path) -> None:
    odd = '[red]<b>"$x^2$", 中 '
    first = trained(call, tmp_path, prefix=odd)
    second = next(
        line["id"]
        for line in csv.DictReader((tmp_path / "tables/nodes.csv").open(encoding="utf-8"))
        if line["id"] != first
    )
    Path("ids.txt").write_text(f"{first}\n{second}\n", encoding="utf-8")
    ended = call("explain run --nodes-file ids.txt --out a/w.json --out a/w.csv --out a/w.png --out a/w.svg")
    assert ended.code == 0, ended.err
    for said in (
        "by number of neighbours",
        "by predicted class",
        f"Node {first}: predicted",
        "this hop alone says",
        *TOWNS,
    ):
        assert said in ended.out
    found = json.loads(Path("a/w.json").read_text())
    _check_schema(found)
    assert [node["id"] for node in found["nodes"]] == [first, second]
    # So few epochs leave the weights of labels as they began: that is said, and no table of them is shown.
    assert len(found["notes"]) == 1 and found["notes"][0].startswith("weights over hops of labels are equal")
    _check_csv(found, Path("a/w.csv"))
    _check_pictures(Path("a/w.png"), Path("a/w.svg"))
    assert sorted(path.name for path in Path("a").iterdir()) == ["w.csv", "w.json", "w.png", "w.svg"]

    ended = call("explain run --nodes-file ids.txt --json")
    assert json.loads(ended.out) == found | {"files": []}
    by_graph = json.loads(call("explain run/bundle.safetensors --graph graph --nodes-file ids.txt --json").out)
    assert by_graph["nodes"][0]["predicted"]["classes"] == found["nodes"][0]["predicted"]["classes"]
    assert np.allclose(_first_weights(by_graph), _first_weights(found), atol=1e-5)
    assert not [path for path in Path("run").iterdir() if path.name.startswith(".hops")]


def _first_weights(found: dict) -> list[float]:
    return [part["weight"] for part in found["nodes"][0]["hops"]]


def _check_schema(found: dict) -> None:
    assert list(found) == ["model", "graph", "hop_weights", "subsets", "nodes", "notes"]
    assert found["subsets"] is None
    weights = found["hop_weights"]
    assert list(weights) == ["by_degree", "by_predicted_class", "by_true_class"]
    groups = [
        *weights["by_degree"]["ranges"],
        *weights["by_predicted_class"]["classes"],
        *weights["by_true_class"]["classes"],
    ]
    for part in groups:
        assert part["rows"] > 0 and len(part["features"]) == 4 and len(part["labels"]) == 2
        assert sum(part["features"]) == pytest.approx(1, abs=1e-5) and sum(part["labels"]) == pytest.approx(1, abs=1e-5)
    counts = {name: sum(part["rows"] for part in weights[name]["classes"]) for name in list(weights)[1:]}
    assert counts["by_predicted_class"] == 150 > counts["by_true_class"] > 50  # of 60 in 100 the label is known
    for node in found["nodes"]:
        assert set(node) == {
            "id", "row", "degree", "role", "true", "predicted", "hops", "label_weights", "first_label_hop",
            "without_labels", "classes",
        }  # fmt: skip
        assert [part["hop"] for part in node["hops"]] == [0, 1, 2, 3]
        assert all(set(part["alone"]) == {"classes", "probability"} for part in node["hops"])
        assert node["true"] is None or node["true"][0] in TOWNS
        assert len(node["classes"]) == 3 and sum(part["probability"] for part in node["classes"]) == pytest.approx(1)


def _check_csv(found: dict, path: Path) -> None:
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    assert {row["by"] for row in rows} == {"degree", "predicted class", "true class", "node"}
    first = found["nodes"][0]
    mine = [row for row in rows if row["by"] == "node" and row["name"] == first["id"]]
    assert [(row["signal"], row["hop"]) for row in mine] == [
        *(("features", str(hop)) for hop in range(4)), ("labels", "1"), ("labels", "2"),
    ]  # fmt: skip
    for row, part in zip(mine, first["hops"]):
        assert float(row["weight"]) == part["weight"] and row["alone"] == part["alone"]["classes"][0]


def _check_pictures(png: Path, svg: Path) -> None:
    from matplotlib.image import imread

    pixels = imread(png)
    assert pixels.ndim == 3 and min(pixels.shape[:2]) > 400
    shades = np.unique((pixels[..., :3] * 255).astype(np.uint8).reshape(-1, 3), axis=0)
    assert len(shades) > 50, "blank"
    ink = pixels[..., :3].min(2) < 0.95
    assert ink.mean() > 0.2 and ink[: len(ink) // 3].any() and ink[-len(ink) // 3 :].any()
    assert svg.read_text().lstrip().startswith("<?xml")


def test_a_model_that_weighs_no_hops(call: Call, tmp_path: Path) -> None:
    first = trained(
        call, tmp_path, "--set model.name=sign --set training.epochs=5 --set model.hidden=8 --set model.beta=0"
    )
    ended = call("explain run")
    assert ended.code == 0 and "note: model 'sign' weighs no hops: it mixes them by matrices of its own." in ended.out
    ended = call(f"explain run --nodes {first} --out why.json")
    assert (
        ended.code == 0 and f"Node {first}: predicted" in ended.out and "none has a prediction of its own" in ended.out
    )
    found = json.loads(Path("why.json").read_text())
    assert found["hop_weights"] == {"by_degree": None, "by_predicted_class": None, "by_true_class": None}
    ended = call("explain run --out why.png")
    assert ended.code == 2 and "weighs no hops: there is nothing to draw" in ended.err and not Path("why.png").exists()


def test_refusals(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained(call, tmp_path)
    Path("empty.txt").write_text("\n")
    Path("folder.json").mkdir()
    Path("peer").mkdir()
    (Path("peer") / METHOD_RUN).write_text("{}")
    for line, sentence in {
        "explain peer": "peer: is the run of a peer that knows only its own graph",
        "explain nowhere": "nowhere: is no run folder",
        "explain run/bundle.safetensors": "a bundle alone knows no nodes; say which: --graph GRAPH.",
        f"explain run --nodes {first}x": f"graph 'graph' has no node '{first}x'; the nearest is '{first}'.",
        f"explain run --graph graph --nodes {first}x": f"has no node '{first}x'",
        "explain run --nodes-file empty.txt": "empty.txt: has no ids; give one id a line.",
        "explain run --nodes-file none.txt": "none.txt: there is no such file of ids.",
        "explain run --out why.pdf": "why.pdf: is no kind of file that is written; end it with .json, .csv, .png",
        "explain run --out folder.json": "folder.json: is a folder where a file is to be written",
    }.items():
        ended = call(line)
        assert ended.code == 2 and sentence in ended.err, (line, ended.err)
        assert "Traceback" not in ended.err and ended.err.count("\n") == 1
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else found(name, *rest)
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = call("explain run --out why.png")
    assert ended.code == 2 and ended.err == 'gamlp: matplotlib is not installed; run: pip install "gamlp[plots]".\n'
    assert call("explain run --out why.json").code == 0
