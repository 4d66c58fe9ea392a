"""What train, evaluate and predict refuse: one sentence, exit code 2, nothing left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gamlp.graph import Graph, Labels, Split
from gamlp.training.bundle import Bundle
from tests.cli.people import Call

FAST = "--set training.epochs=3 --set model.hidden=8"


def graph(name: str, *, width: int = 4, classes: tuple[str, ...] = ("a", "b"), train: int = 20, one: bool = False):
    """A small graph, saved under its name."""
    random = np.random.default_rng(0)
    labels = np.zeros(60, np.int64) if one else np.arange(60) % len(classes)
    split = Split.of(60, train=np.arange(train), valid=np.arange(20, 40), test=np.arange(40, 50))
    edges, x = random.integers(0, 60, (2, 200)), random.normal(size=(60, width))
    made = Graph.from_arrays(edges, x, split=split, name=name)
    nodes = replace(made.nodes, labels=Labels(labels.astype(np.int32), classes))
    return replace(made, node_types={"node": nodes}).save(name)


@pytest.fixture
def place(call: Call, tmp_path: Path) -> Path:
    """`graph`, its run `run`, hops `store`, and graphs that do not fit."""
    graph("graph")
    graph("wide", width=7)
    graph("strange", classes=("a", "zebra"))
    graph("untrained", train=0)
    graph("same", one=True)
    Graph.from_arrays([[0, 1], [1, 2]], np.eye(4), name="bare").save("bare")
    assert call(f"train graph --out run {FAST} --set propagation.hops=2").code == 0
    assert call("propagate graph --out store --hops 2 --label-hops 0").code == 0
    assert call("propagate graph --out folded --label-folds 2").code == 0
    Path("table.txt").write_text("no bundle")
    Path("wrong.yaml").write_text("model:\n  atention: jk\n")
    Path("broken.yaml").write_text("model: [\n")
    return tmp_path


CASES = [
    ("train graph --out x --set training.epoch=3", "a recipe has no 'training.epoch': did you mean 'training.epochs'?"),
    ("train graph --out x --servers 2", "servers hold weights where exchange is 'server' alone"),
    ("train graph --out x --set epochs=3", "a recipe has no 'epochs': did you mean 'training.epochs'?"),
    ("train graph --out x --set training.epochs=many", "'training.epochs': input should be a valid integer, not"),
    ("train graph --out x --set model.dropout=2", "'model.dropout': input should be less than 1, not 2"),
    ("train graph --out x --set training.epochs", "'training.epochs' sets nothing; write --set KEY=VALUE"),
    ("train graph --out x --recipe wrong.yaml", "wrong.yaml: a recipe has no 'model.atention': did you mean"),
    ("train graph --out x --recipe broken.yaml", "broken.yaml"),
    ("train graph --out x --recipe coraa-jk", "there is no recipe 'coraa-jk'"),
    ("train graph --out x --recipe nowhere.yaml", "nowhere.yaml: there is no such recipe"),
    ("train graph --out x --set model.name=gamlpp", "there is no model 'gamlpp': did you mean 'gamlp'?"),
    ("train graph --out x --set model.name=no.such:Thing", "model 'no.such:Thing' cannot be imported"),
    ("train graph --out x --set model.name=sgc --set model.attention=jk", "'sgc' has no setting 'model.attention'"),
    ("train graph --out x --set propagation.also_r=[0]", "model 'gamlp' reads one operator: leave"),
    ("run graph --out x --model gcn --set propagation.also_r=[0]", "model 'gcn' reads one operator: leave"),
    ("train graph --out x --seeds three", "'three' are no seeds"),
    ("train graph --out x --seeds 0,0", "seeds are different numbers"),
    ("train graph --out x --device tpu", "device 'tpu' is not here"),
    ("train graph --out x --memory lots", "'lots' is not a size"),
    ("train grph --out x", "'grph' is neither a dataset nor a graph folder"),
    ("train bare --out x", "graph 'bare' has no labels"),
    ("train untrained --out x", "graph 'untrained' has no training rows"),
    ("train same --out x", "every training row is 'a'; training needs at least two classes"),
    ("train graph --valid wide --out x", "graph 'wide' has 7 features where the model expects 4"),
    ("train graph --valid strange --out x", "graph 'strange' has class 'zebra' which training never saw"),
    ("train store --out x --set propagation.hops=4", "the store holds 2 hops of features, and the recipe reads 4"),
    ("train store --out x --set propagation.r=0", "the store's features have operator r 0.5, loops True, not r 0.0"),
    ("train folded --out x --set propagation.folds=5", "cross-fitted labels have folds 2, not 5 as in the recipe"),
    ("train store --out x --set model.beta=1", "store: the store has no hops of labels, which the recipe reads"),
    ("train store --out x --set training.setting=inductive", "training.setting inductive needs the graph"),
    ("train store --valid graph --out x", "a validation graph needs the graph"),
    ("train graph --out run", "run: already holds a run; go on with gamlp train --resume, or choose another --out"),
    ("train graph --out run --resume", "run: holds a run of another recipe"),
    (f"train wide --out run --resume {FAST} --set propagation.hops=2", "run: holds a run on another graph"),
    ("train graph --out graph", "graph: is not empty and holds no run"),
    ("train graph --out table.txt", "table.txt: is a file where a folder is to be written"),
    ("evaluate nowhere", "nowhere: is no run folder; train one"),
    ("evaluate graph", "graph: is no run folder"),
    ("evaluate run --graph wide", "graph 'wide' has 7 features where the model expects 4"),
    ("evaluate run --graph strange", "graph 'strange' has class 'zebra' which training never saw"),
    ("evaluate run --graph bare", "graph 'bare' has no labels to compare with"),
    ("evaluate run --other-nodes", "--other-nodes is about another graph; name it: --graph GRAPH"),
    ("predict run --out x.xlsx", "x.xlsx: is no kind of table that is written; end it with .parquet, .csv, .csv.gz"),
    ("predict run --out x.csv --rows some", "unknown rows 'some'"),
    ("predict run --out x.csv --rows unlabelled", "no rows are 'unlabelled'"),
    ("predict run --out x.csv --graph wide", "graph 'wide' has 7 features where the model expects 4"),
    ("predict run --out x.csv --graph strange", "graph 'strange' has class 'zebra' which training never saw"),
    ("predict run --out x.csv --graph nowhere/x", "nowhere/x: there is no such graph folder"),
    ("predict run/bundle.safetensors --out x.csv", "a bundle alone knows no nodes; say which: --graph GRAPH"),
    ("predict table.txt --graph graph --out x.csv", "table.txt: is no gamlp bundle; give the bundle"),
    ("predict nowhere --out x.csv", "nowhere: is no run folder"),
    ("run graph --edges x.csv", "give a dataset, or both --edges and --nodes"),
    ("run --edges x --nodes table.txt --out x", "x: there is no such table"),
    ("recipes cora-jj", "there is no recipe 'cora-jj'"),
]  # fmt: skip


def test_each_is_one_sentence(place: Path, call: Call) -> None:
    before = sorted(str(path) for path in place.rglob("*") if "run/hops" not in str(path))
    for line, told in CASES:
        ended = call(line)
        assert ended.code == 2, (line, ended)
        assert ended.err.startswith("gamlp: ") and told in ended.err, (line, ended.err)
        assert ended.err.count("\n") == 1 and ended.err.endswith((".\n", "?.\n")) and ended.out == "", (line, ended)
        after = sorted(str(path) for path in place.rglob("*") if "run/hops" not in str(path))
        assert after == before, (line, set(after) ^ set(before))


def test_damaged_runs(place: Path, call: Call) -> None:
    whole = Path("run/bundle.safetensors").read_bytes()
    tampered = bytearray(whole)
    tampered[-5] ^= 1
    Path("run/bundle.safetensors").write_bytes(tampered)
    ended = call("predict run --out x.csv")
    assert ended.code == 2 and "was changed since it was written" in ended.err
    bundle = Bundle.load("run/seeds/0.safetensors")
    foreign = Bundle(
        bundle.recipe.changed({"model.name": "os:Path"}, trust="os:Path"),
        bundle.shape, bundle.classes, False, {"a": torch.ones(1)},
    )  # fmt: skip
    foreign.save("run/bundle.safetensors")
    ended = call("predict run --out x.csv")
    assert ended.code == 2 and "a model of its own code is loaded only when you name it" in ended.err
    Path("run/bundle.safetensors").unlink()
    ended = call("predict run --out x.csv")
    assert ended.code == 2 and "run: the run is unfinished; go on" in ended.err
    ended = call(f"train graph --out run --resume {FAST} --set propagation.hops=2")
    assert ended.code == 0 and Path("run/bundle.safetensors").read_bytes() == whole


def test_a_graph_that_is_gone_or_changed(place: Path, call: Call) -> None:
    Path("graph").rename("moved")
    ended = call("predict run --out x.csv")
    assert ended.code == 2 and "give one with --graph GRAPH" in ended.err and not Path("x.csv").exists()
    assert call("predict run --graph moved --out x.csv").code == 0
    Graph.from_arrays([[0, 1], [1, 2]], np.eye(4), count=4, name="other").save("graph")
    ended = call("predict run --out y.csv")
    assert ended.code == 2 and "has changed since training; predict with --graph GRAPH" in ended.err
    assert call("evaluate run").code == 0  # scores need the hops alone


def test_rows_that_were_not_kept(place: Path, call: Call) -> None:
    assert call(f"train graph --out some {FAST} --set propagation.rows=split").code == 0
    ended = call("predict some --out x.csv")
    assert ended.code == 2 and "hops of 50 of 60 nodes were kept, and others are among 'all'" in ended.err
    assert call("predict some --out x.csv --rows split").code == 0
    assert call("predict some --out y.csv --graph graph").code == 0
    assert len(Path("x.csv").read_text().splitlines()) == 51 and len(Path("y.csv").read_text().splitlines()) == 61


def test_a_store_gives_what_a_recipe_leaves_open(place: Path, call: Call) -> None:
    call(
        "propagate graph --out deep --hops 3 --r 0.25 --label-hops 4 --label-folds 2 --scaling l2 "
        "--set propagation.loops=false"
    )
    ended = call(f"train deep --out from-deep {FAST}")
    assert ended.code == 0, ended.err
    text = Path("from-deep/recipe.yaml").read_text()
    for line in ("hops: 3", "r: 0.25", "loops: false", "scaling: l2", "label_hops: 4", "folds: 2", "beta: 1.0"):
        assert f"  {line}\n" in text
    assert call(f"train deep --out shallower {FAST} --set propagation.hops=1 --set propagation.folds=0").code == 0
    assert call(f"train store --out without-labels {FAST}").code == 0
    assert "beta: 0.0" in Path("without-labels/recipe.yaml").read_text()
    for run in ("from-deep", "without-labels"):
        assert call(f"evaluate {run}").code == 0
        assert call(f"predict {run} --out {run}.csv").code == 0


def test_a_loss_that_becomes_nan_is_told(place: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from gamlp.training import loop

    real = loop.evaluate

    def fails_later(*given):
        fails_later.calls += 1
        found = real(*given)
        return found | ({"loss": float("nan")} if fails_later.calls == 2 else {})

    fails_later.calls = 0
    monkeypatch.setattr(loop, "evaluate", fails_later)
    ended = call(f"train graph --out x {FAST}")
    assert ended.code == 0
    assert ended.err.startswith("gamlp: warning: seed 0: the loss")
    assert "in epoch 2; the weights of epoch 1 are kept" in ended.err
    assert ended.err.count("\n") == 1


def test_a_module_of_ones_own(place: Path, call: Call) -> None:
    Path("own_model_of_mine.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, shape, scale=1.0):\n"
        "        super().__init__()\n"
        "        self.linear = nn.Linear(shape.features, shape.classes)\n"
        "    def forward(self, x, y=None):\n"
        "        return self.linear(x[:, 0, -1])\n"
    )
    words = "--set model.name=own_model_of_mine:Net --set training.epochs=3"
    assert call(f"train graph --out own {words}").code == 0
    ended = call("predict own --out own.csv")
    assert ended.code == 2 and "say --trust own_model_of_mine:Net" in ended.err
    assert call("predict own --out own.csv --trust own_model_of_mine:Net").code == 0
    assert call("evaluate own --trust own_model_of_mine:Net").code == 0
    assert call(f"run graph --out whole {words}").code == 0
    ended = call(f"train graph --out odd {words} --set 'model.options={{size: 3}}'")
    assert ended.code == 2 and "cannot be made" in ended.err and not Path("odd").exists()


def test_a_store_of_some_rows_is_run_to_the_end(place: Path, call: Call) -> None:
    assert call("propagate graph --out some --hops 2 --label-hops 0 --rows split").code == 0
    ended = call(f"run some --out again {FAST}")
    assert ended.code == 0 and "labels and probabilities of 50 nodes" in ended.out, ended.err


def test_rows_that_were_not_kept_are_told_without_an_option_of_another_verb(place: Path, call: Call) -> None:
    assert call(f"train graph --out few {FAST} --set propagation.rows=train+valid").code == 0
    ended = call("evaluate few")
    assert ended.code == 2 and "were kept" in ended.err and "--rows" not in ended.err
