"""NodeClassifier on frames and arrays: fit(nodes, edges), predict(nodes, edges), explain(ids)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gamlp import GamlpError, NodeClassifier

QUICK = {
    "propagation": {"hops": 2, "label_hops": 1},
    "model": {"hidden": 16, "dropout": 0.0},
    "training": {"epochs": 40},
}
COUNT = 60


def nodes() -> pd.DataFrame:
    """Two groups, told apart by two numbers."""
    random = np.random.default_rng(0)
    group = np.arange(COUNT) % 2
    return pd.DataFrame(
        {
            "who": [f"p{number}" for number in range(COUNT)],
            "a": group * 2.0 + random.normal(0, 0.3, COUNT),
            "b": random.normal(0, 1, COUNT),
            "side": np.where(group == 0, "left", "right"),
        }
    )


def edges() -> pd.DataFrame:
    who = nodes()["who"]
    return pd.DataFrame({"src": who, "dst": [who[(number + 2) % COUNT] for number in range(COUNT)]})


def fitted(**more: Any) -> NodeClassifier:
    return NodeClassifier(QUICK).fit(nodes(), edges(), id="who", label="side", **more)


@pytest.fixture(scope="module")
def model() -> NodeClassifier:
    return fitted()


def test_frames_are_fitted_scored_and_predicted(model: NodeClassifier) -> None:
    assert model.score() == 1.0 and model.classes_.tolist() == ["left", "right"]
    own = model.predict()
    assert own.tolist() == nodes()["side"].tolist()
    assert model.predict(nodes(), edges()).tolist() == own.tolist()
    assert model.predict(pa.Table.from_pandas(nodes()), edges=pa.Table.from_pandas(edges()), rows=[3, 0]).tolist() == [
        "right",
        "left",
    ]
    assert model.predict_proba(nodes(), edges()).shape == (COUNT, 2)
    assert model.score(nodes(), edges()) == 1.0


def test_newcomers_move_no_row_to_another_part_and_are_predicted(model: NodeClassifier, tmp_path: Path) -> None:
    new = pd.DataFrame({"who": ["x", "y"], "a": [0.1, 2.1], "b": [0.0, 0.0], "side": [None, None]})
    more = pd.DataFrame({"src": ["x", "y"], "dst": ["p0", "p1"]})
    found = model.predict(pd.concat([nodes(), new]), pd.concat([edges(), more]))
    assert found[-2:].tolist() == ["left", "right"]
    loaded = NodeClassifier.load(model.save(tmp_path / "sides.safetensors"))  # knows the names of columns, too
    assert loaded.predict(pd.concat([nodes(), new]), pd.concat([edges(), more])).tolist() == found.tolist()


def test_a_model_without_labels_predicts_frames_without_them() -> None:
    features_only = {**QUICK, "propagation": {"hops": 2, "label_hops": 0}}
    model = NodeClassifier(features_only).fit(nodes(), edges(), id="who", label="side")
    assert model.predict(nodes().drop(columns="side"), edges()).tolist() == nodes()["side"].tolist()


def test_rows_that_a_person_chose_to_train_are_not_chosen_by_chance_later() -> None:
    """The split that ingest would draw must not let test rows speak."""
    model = fitted(train=range(20), test=range(20, COUNT))
    assert model.predict(nodes(), edges()).tolist() == model.predict().tolist()  # the hops of the fit
    grown = pd.concat([nodes(), nodes().tail(1).assign(who="x")])
    with pytest.raises(GamlpError, match="has no training rows"):
        model.predict(grown, edges())
    assert len(model.predict(grown, edges(), train=range(20))) == COUNT + 1


def test_labels_beside_frames_and_features_as_an_array() -> None:
    y = nodes()["side"].to_numpy()
    beside = NodeClassifier(QUICK).fit(nodes().drop(columns="side"), y, edges=edges(), id="who")
    assert beside.predict().tolist() == y.tolist()
    x, index = nodes()[["a", "b"]].to_numpy(), np.stack([np.arange(COUNT), (np.arange(COUNT) + 2) % COUNT])
    arrays = NodeClassifier(QUICK).fit(x, y, edges=index)
    assert arrays.predict(x, edges=index, train=range(COUNT)).shape == (COUNT,)
    with pytest.warns(UserWarning, match="no edges are given: every node is classified by its own features alone"):
        assert NodeClassifier(QUICK).fit(x, y).score() > 0.8


def test_nodes_are_explained_by_their_ids(model: NodeClassifier) -> None:
    explanation = model.explain(["p3", "p0"])
    assert [node.id for node in explanation.nodes] == ["p3", "p0"]
    assert explanation.nodes[0].predicted.classes == ("right",)
    assert [node.id for node in model.explain("p1", nodes(), edges()).nodes] == ["p1"]
    with pytest.raises(GamlpError, match="p99"):
        model.explain(["p99"])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: model.fit(nodes()), "frames of nodes are given, and none of edges; give both: (nodes, edges)"),
        (lambda model: model.fit(nodes(), edges()), "nodes: no column 'id'; there are: who, a, b, side"),
        (lambda model: model.fit(([[0], [1]], np.eye(2)), id="who"), "'id' names a column, and no frames are given"),
        (lambda model: model.fit(([[0], [1]], np.eye(2)), edges=edges()), "edges beside a tuple, which has its own"),
        (lambda model: model.predict(edges=edges()), "edges are given without nodes, and none is given"),
    ],
)
def test_what_cannot_be_meant_is_told(model: NodeClassifier, call: Any, sentence: str) -> None:
    with pytest.raises(GamlpError, match=re.escape(sentence)):
        call(NodeClassifier(QUICK) if "fit" in call.__code__.co_names else model)
    with pytest.raises(TypeError, match="unexpected keyword argument 'lable'"):
        NodeClassifier(QUICK).fit(nodes(), edges(), lable="side")


def test_a_classifier_and_an_explanation_show_themselves_and_nothing_runs(
    model: NodeClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = "weights over hops of features are flat"  # of so short a training: that is said, not painted
    assert flat in model._repr_html_() and flat in model.explain(["p0"])._repr_html_()
    assert "hop 2" not in model._repr_html_()
    monkeypatch.setattr("gamlp.explanation.weights.FLAT", 0.0)  # no weights are flat
    evil = nodes().assign(side=nodes()["side"].replace("left", "<script>x</script>"))
    other = NodeClassifier({**QUICK, "training": {"epochs": 2}}).fit(evil, edges(), id="who", label="side")
    pages = [model._repr_html_(), model.explain(["p0"])._repr_html_(), other.explain(["p0"])._repr_html_()]
    assert "test" in pages[0] and "accuracy" in pages[0] and "hop 2" in pages[0] and ">a<" in pages[0]
    assert "p0: left" in pages[1] and "by neighbours" in pages[1]
    assert "&lt;script&gt;" in pages[2] and not any("<script" in page or "http" in page for page in pages)
    assert "not fitted yet" in NodeClassifier()._repr_mimebundle_()["text/html"]


def test_texts_gaps_dates_and_booleans_go_in_and_are_encoded_as_training_did(tmp_path: Path) -> None:
    mixed = nodes().assign(
        town=np.where(np.arange(COUNT) % 2 == 0, "North", "South"),
        since=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(COUNT), unit="D"),
        member=np.arange(COUNT) % 3 == 0,
    )
    mixed.loc[::7, "b"] = np.nan
    model = NodeClassifier(QUICK).fit(mixed, edges(), id="who", label="side", drop=["a"])
    assert {column.name for column in model.bundle_.columns["node"]} == {"b", "town", "since", "member"}
    assert model.score() == 1.0
    # Fitted anew, a mean of two rows and one town would make other features of the same cells.
    some = mixed.head(2).assign(side=["left", "right"], split=["train", "train"])
    with pytest.warns(UserWarning, match="such as 'Mars'"):
        found = model.predict_proba(some.assign(town=["North", "Mars"]), edges().head(0))
    loaded = NodeClassifier.load(model.save(tmp_path / "mixed.safetensors"))
    alone = loaded.predict_proba(some, edges().head(0))
    assert np.array_equal(found[0], alone[0]) and not np.array_equal(found[1], alone[1])
