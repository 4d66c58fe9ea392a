"""NodeClassifier: scikit-learn's manners, every way to give a graph, labels as they came, saved and loaded."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from gamlp import GamlpError, Graph, NodeClassifier, Recipe
from gamlp.graph import FeatureColumn, Ids, Split, random_split
from gamlp.graph.datasets.loading import load

QUICK = {
    "propagation": {"hops": 3, "label_hops": 2},
    "model": {"hidden": 64, "dropout": 0.2},
    "training": {"epochs": 30},
}
FEATURES_ONLY = {**QUICK, "propagation": {"hops": 3, "label_hops": 0}}
CORA = {
    "propagation": {"hops": 10, "scaling": "row", "label_hops": 0},
    "model": {"attention": "jk", "hidden": 64, "layers": 2, "input_dropout": 0.5},
    "training": {"weight_decay": 5e-4, "epochs": 100},
}


@pytest.fixture(scope="module")
def digits() -> Graph:
    return load("digits")


@pytest.fixture(scope="module")
def fitted(digits: Graph) -> NodeClassifier:
    return NodeClassifier(QUICK).fit(digits)


def parts(graph: Graph) -> tuple[Any, Any, Any]:
    """edge_index, x and y of a graph, as people hold them."""
    (rows, neighbours, _), *_ = graph.relation.edges()
    return np.stack([neighbours, rows]), graph.nodes.features.values, graph.nodes.labels.values.astype(np.int64)


def roles(graph: Graph) -> dict[str, Any]:
    split = graph.nodes.split
    return {"train": split.train, "valid": split.valid, "test": split.test}


def test_the_constructor_stores_and_scikit_learn_can_copy_it() -> None:
    recipe = {"training": {"epochs": "many"}}  # wrong, and told only at fit
    model = NodeClassifier(recipe, seed=3, memory="1GiB")
    assert model.get_params()["recipe"] is recipe and model.get_params()["seed"] == 3
    assert set(model.get_params()) == {
        "recipe",
        "preset",
        "time_limit",
        "metric",
        "seed",
        "memory",
        "threads",
        "device",
        "folder",
        "progress",
        "trust",
    }
    other = clone(model).set_params(seed=4, recipe=Recipe())
    assert (other.seed, other.memory, model.seed) == (4, "1GiB", 3)
    assert "seed=3" in repr(model) and is_classifier(model)
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    with pytest.raises(GamlpError, match=r"training\.epochs"):
        model.fit(load("karate"))


def test_before_fit_nothing_is_predicted(tmp_path: Path) -> None:
    model = NodeClassifier()
    for ask in (model.predict, model.predict_proba, model.score, model.hop_weights):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "bundle")


def test_digits_are_learned(digits: Graph, fitted: NodeClassifier) -> None:
    assert fitted.score() > 0.95
    assert fitted.n_features_in_ == 64 and fitted.classes_.tolist() == list(range(10))
    probabilities = fitted.predict_proba(rows=[5, 3])
    assert (
        probabilities.shape == (2, 10)
        and probabilities.dtype == np.float32
        and np.allclose(probabilities.sum(1), 1, atol=1e-5)
    )
    assert fitted.predict(rows=[5, 3]).tolist() == fitted.classes_[probabilities.argmax(1)].tolist()
    test = digits.nodes.split.test
    mask = np.isin(np.arange(digits.nodes.count), test)
    right = fitted.predict(rows=mask) == digits.nodes.labels.values[test]
    assert fitted.score() == pytest.approx(right.mean()) == fitted.score(digits) == fitted.score(rows=test)
    assert fitted.predict().shape == (1797,) and fitted.predict(rows=[]).shape == (0,)
    weights = fitted.hop_weights(rows=[0, 1, 2])
    assert weights.features.shape == (3, 4) and weights.labels.shape == (3, 2) and weights.first_label_hop == 1
    assert torch.allclose(weights.features.sum(1), torch.ones(3))


def test_batches_change_nothing(digits: Graph) -> None:
    small = {**FEATURES_ONLY, "training": {"epochs": 2, "batch_size": 100}}
    model = NodeClassifier(small, memory="80MiB").fit(digits)
    whole, some = model.predict_proba(), model.predict_proba(rows=np.arange(1796, -1, -7))
    assert np.allclose(whole[np.arange(1796, -1, -7)], some, atol=1e-6)


def test_a_seed_gives_the_same_again_and_names_the_training_seed() -> None:
    karate = load("karate")
    one, two = (NodeClassifier(QUICK, seed=5).fit(karate) for _ in range(2))
    assert np.array_equal(one.predict_proba(), two.predict_proba()) and list(one.reports_) == [5]
    assert not np.array_equal(one.predict_proba(), NodeClassifier(QUICK, seed=6).fit(karate).predict_proba())
    several = {**QUICK, "training": {"epochs": 5, "seeds": [1, 2, 3]}}
    model = NodeClassifier(several).fit(karate)
    scores = {seed: report["valid"]["score"] for seed, report in model.reports_.items()}
    assert set(scores) == {1, 2, 3} and model.bundle_.report["valid"]["score"] == max(scores.values())


def test_pyg_data_arrays_and_graphs_are_one(data_dir: Path) -> None:
    data_class = pytest.importorskip("torch_geometric.data").Data
    graph = load("cora", data_dir)
    edges, x, y = parts(graph)
    split = graph.nodes.split
    masks = {name: torch.tensor(split.roles == role) for role, name in enumerate(("train_mask", "val_mask"), 1)}
    data = data_class(x=torch.tensor(x), edge_index=torch.tensor(edges), y=torch.tensor(y), **masks)
    data.test_mask = torch.tensor(split.roles == 3)
    short = {**CORA, "training": {"epochs": 8}}
    ours, theirs = NodeClassifier(short).fit(graph), NodeClassifier(short).fit(data)
    arrays = NodeClassifier(short).fit((edges, x), y, **roles(graph))
    assert ours.score() == theirs.score() == arrays.score() == theirs.score(data)
    probabilities = ours.predict_proba()
    assert np.array_equal(probabilities, theirs.predict_proba()) and np.array_equal(
        probabilities, arrays.predict_proba()
    )
    assert theirs.classes_.tolist() == list(range(7)) and theirs.predict(rows=[0]).dtype == np.int64
    assert (theirs.predict(data, rows=split.test) == y[split.test]).mean() == pytest.approx(ours.score())


@pytest.mark.slow
def test_cora_is_learned_from_twenty_nodes_a_class(data_dir: Path) -> None:
    assert NodeClassifier(CORA).fit(load("cora", data_dir)).score() > 0.8


@pytest.mark.parametrize(
    ("labels", "classes", "kind"),
    [
        (lambda y: [("ant", "bee", "cat", "dog")[i] for i in y], ["ant", "bee", "cat", "dog"], "U"),
        (lambda y: np.asarray(y, np.int16) * 10 + 5, [5, 15, 25, 35], "i"),
        (lambda y: np.where(np.arange(34) == 33, np.nan, np.asarray(y, float)), [0, 1, 2, 3], "i"),
        (lambda y: [None if i == 33 else int(value) for i, value in enumerate(y)], [0, 1, 2, 3], "i"),
        (lambda y: [str(value) for value in y], ["0", "1", "2", "3"], "U"),
        (lambda y: np.asarray(y) > 1, [False, True], "b"),
    ],
    ids=["names", "numbers", "nan", "none", "digits as text", "truths"],
)
def test_labels_come_back_as_they_were_given(labels: Any, classes: list[Any], kind: str) -> None:
    edges, x, y = parts(load("karate"))
    model = NodeClassifier(QUICK).fit((edges, x, labels(y)))
    assert model.classes_.tolist() == classes and model.classes_.dtype.kind == kind
    predicted = model.predict()
    assert predicted.dtype == model.classes_.dtype and set(predicted.tolist()) <= set(classes)


def test_many_labels_are_zeros_and_ones(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    edges, x = random.integers(0, 200, (2, 600)), random.normal(size=(200, 6)).astype(np.float32)
    y = (x[:, :3] > 0).astype(int)
    model = NodeClassifier({**FEATURES_ONLY, "training": {"epochs": 60}}).fit((edges, x, y))
    predicted, probabilities = model.predict(), model.predict_proba()
    assert predicted.shape == (200, 3) and set(np.unique(predicted)) <= {0, 1}
    assert np.array_equal(predicted, probabilities > 0.5) and model.classes_.tolist() == [0, 1, 2]
    test = model.split_.test
    both, either = (predicted[test] & y[test]).sum(), predicted[test].sum() + y[test].sum()
    assert model.score() == pytest.approx(2 * both / either) and model.score() > 0.7
    loaded = NodeClassifier.load(model.save(tmp_path / "bundle.safetensors"))
    assert np.array_equal(loaded.predict((edges, x, y)), predicted)


def test_a_graph_without_a_split_is_given_one(digits: Graph) -> None:
    given = parts(digits)
    model = NodeClassifier(QUICK, seed=2).fit(given)
    expected = random_split(digits.nodes.labels, Ids(digits.nodes.count), (0.6, 0.2, 0.2), 2)
    assert np.array_equal(model.split_.roles, expected.roles)
    assert np.array_equal(model.predict(given), model.predict())
    assert model.score(given) == model.score() == pytest.approx((model.predict() == given[2])[expected.test].mean())
    assert np.array_equal(model.predict(given[:2]), model.predict()), "the same nodes, labels not given again"


def test_a_split_drawn_by_an_earlier_version_is_not_drawn_again(digits: Graph) -> None:
    """It would be another one: rows that trained the model would test it."""
    given = parts(digits)
    model = NodeClassifier(QUICK, seed=2).fit(given)
    del model.bundle_.report["python"]["drawn"]["by"]
    with pytest.raises(GamlpError, match="drawn by an earlier version"):
        model.score(given)


def test_rows_say_what_trains(digits: Graph) -> None:
    given, mask = parts(digits), digits.nodes.split.roles == 1
    model = NodeClassifier(QUICK).fit(digits, train=mask, valid=torch.arange(3))
    assert np.array_equal(model.split_.train, np.flatnonzero(mask))
    assert model.split_.valid.tolist() == [0, 1, 2] and model.bundle_.report["valid_rows"] == 3
    with pytest.raises(GamlpError, match="no labelled test rows"):
        model.score()
    assert 0 <= model.score(rows=[7, 8, 9]) <= 1
    for wrong, told in (
        ({"train": [0, 1], "valid": [1]}, "row 1 is in 'train' and in 'valid'"),
        ({"train": [0, 1797]}, "'train' has row 1797 of 1797 nodes"),
        ({"train": [True, False]}, r"the mask 'train' has shape \(2,\)"),
        ({"valid": [0]}, "no training rows"),
        ({"train": [0.5]}, "rows are float64"),
    ):
        with pytest.raises(GamlpError, match=told):
            NodeClassifier(QUICK).fit(given, **wrong)


@pytest.mark.parametrize("recipe", [QUICK, FEATURES_ONLY], ids=["labels", "features"])
def test_new_nodes_join_the_graph(digits: Graph, recipe: dict[str, Any]) -> None:
    edges, x, y = parts(digits)
    count = 1500
    old = (edges < count).all(0)
    rows = np.arange(count)
    before = {"train": rows[: count // 2], "valid": rows[count // 2 :]}
    inductive = {**recipe, "training": {"epochs": 30, "setting": "inductive"}}
    model = NodeClassifier(inductive).fit((edges[:, old], x[:count], y[:count]), **before)
    unknown = np.where(np.arange(len(y)) < count, y, -1)
    known = before["train"] if recipe is QUICK else None
    new = np.arange(count, len(y))
    predicted = model.predict((edges, x, unknown), rows=new, train=known)
    assert (predicted == y[new]).mean() > 0.9
    assert model.score((edges, x, y), rows=new, train=known) == pytest.approx((predicted == y[new]).mean())
    assert np.array_equal(model.predict_proba((edges, x, unknown), rows=new, train=known).argmax(1), predicted)
    assert model.hop_weights((edges, x, unknown), new[:2], train=known).features.shape == (2, 4)
    if recipe is QUICK:
        with pytest.raises(GamlpError, match="listens to known labels"):
            model.predict((edges, x, unknown))
    else:
        assert np.array_equal(model.predict((edges, x), rows=new), predicted), "a graph without labels"
        with pytest.raises(GamlpError, match="no labels to score by"):
            model.score((edges, x))


def test_what_does_not_fit_is_refused_in_a_sentence(digits: Graph, fitted: NodeClassifier) -> None:
    edges, x, y = parts(digits)
    for ask, told in (
        (lambda: fitted.predict((edges, x[:, :60], y)), "60 features where the model expects 64"),
        (lambda: fitted.predict((edges, x, y + 1)), "class '10' which training never saw"),
        (lambda: fitted.predict(rows=[1797]), "row 1797 of 1797"),
        (lambda: fitted.predict(rows=[-1]), "row -1"),
        (lambda: fitted.predict(rows=[True]), "mask 'rows'"),
        (lambda: fitted.predict(train=[0]), "none is given"),
        (lambda: fitted.predict("digits"), "a str is not a graph"),
        (lambda: fitted.score((edges, x, np.where(y == 3, -1, y)), rows=[3], train=[0, 1]), "node 3 has no label"),
        (lambda: NodeClassifier().fit((edges, x)), "has no labels"),
        (lambda: NodeClassifier("nothing-like-it").fit(digits), "there is no recipe"),
        (lambda: NodeClassifier(memory="lots").fit(digits), "is not a size"),
        (lambda: NodeClassifier(device="abacus").fit(digits), "device 'abacus'"),
    ):
        with pytest.raises(GamlpError, match=told):
            ask()


@pytest.mark.slow
def test_a_saved_one_predicts_the_same_in_a_fresh_process(
    digits: Graph, fitted: NodeClassifier, tmp_path: Path
) -> None:
    path = fitted.save(tmp_path / "digits.safetensors")
    code = (
        "import numpy as np\nfrom gamlp import NodeClassifier\nfrom gamlp.graph.datasets.loading import load\n"
        f"np.save('found.npy', NodeClassifier.load({str(path)!r}).predict_proba(load('digits')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert np.array_equal(np.load(tmp_path / "found.npy"), fitted.predict_proba())
    loaded = NodeClassifier.load(path)
    assert loaded.classes_.tolist() == fitted.classes_.tolist() and loaded.score(digits) == fitted.score()
    with pytest.raises(GamlpError, match="no graph of its own"):
        loaded.predict()
    assert isinstance(clone(loaded), NodeClassifier)
    assert fitted.bundle_.recipe == clone(loaded).recipe, "fit again, it is trained the same way"


def test_saved_and_pickled_ones_draw_the_same_split_again(tmp_path: Path) -> None:
    given = parts(load("karate"))
    model = NodeClassifier(QUICK, seed=3).fit(given)
    for other in (NodeClassifier.load(model.save(tmp_path / "k")), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(given), model.predict_proba()) and other.score(given) == model.score()
        assert other.predict(given).dtype == np.int64
        with pytest.raises(GamlpError, match="no graph of its own"):
            other.predict()
        changed = (given[0], given[1], np.where(np.arange(34) == 0, -1, given[2]))
        with pytest.raises(GamlpError, match="listens to known labels"):
            other.predict(changed)  # a split drawn from other labels would score rows that were trained on


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(b"no bundle at all")
    with pytest.raises(GamlpError, match="no gamlp bundle"):
        NodeClassifier.load(tmp_path / "bundle")


def test_the_temporary_folder_lives_as_long_as_the_classifier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    karate = load("karate")
    model = NodeClassifier(QUICK).fit(karate)
    (first,) = tmp_path.iterdir()
    model.fit(karate)
    (second,) = tmp_path.iterdir()
    assert first != second and len(model.predict()) == 34
    other = Graph.from_arrays(
        *parts(karate)[:2], karate.nodes.labels, split=Split(np.roll(karate.nodes.split.roles, 1))
    )
    assert len(model.predict(other)) == 34 and list(tmp_path.iterdir()) == [second]
    with pytest.raises(GamlpError, match="abacus"):
        model.set_params(device="abacus").fit(karate)
    assert list(tmp_path.iterdir()) == [second], "a fit that fails leaves nothing, and the one before stays"
    del model
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_hops_stay_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    karate, folder = load("karate"), tmp_path / "deep" / "hops"
    model = NodeClassifier(QUICK, folder=folder).fit(karate)
    expected = model.predict_proba()
    del model
    gc.collect()
    assert (folder / "hops").is_dir()
    again = NodeClassifier(QUICK, folder=folder).fit(karate)
    assert np.array_equal(again.predict_proba(), expected)
    with pytest.raises(GamlpError, match="hops"):
        NodeClassifier(QUICK, folder=folder).fit(load("digits"))


def test_a_search_by_hand(digits: Graph) -> None:
    stages: list[str] = []

    def progress(stage: str, *_: Any) -> None:
        stages.append(stage)

    start = NodeClassifier(QUICK, progress=progress)
    tried = {}
    for hops in (0, 3):
        recipe = {**QUICK, "propagation": {"hops": hops, "label_hops": 0}}
        tried[hops] = clone(start).set_params(recipe=recipe).fit(digits)
    best = max(tried.values(), key=lambda model: model.bundle_.report["valid"]["score"])
    assert best is tried[3] and "seed 0" in stages


def test_columns_of_another_graph_are_matched_by_name() -> None:
    from dataclasses import replace

    from tests.training.small import RECIPE, WIDTH, make_graph, with_nodes

    graph = make_graph()
    x, letters = graph.nodes.features.values, "abcdef"
    assert len(letters) == WIDTH

    def named(letters_: str) -> Graph:
        columns = tuple(FeatureColumn(name=name) for name in letters_)
        values = np.stack([x[:, letters.index(name)] if name in letters else x[:, 0] * 9 for name in letters_], 1)
        return with_nodes(graph, features=replace(graph.nodes.features, values=values, columns=columns))

    model = NodeClassifier(RECIPE).fit(named(letters))
    expected = model.predict_proba()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict_proba(named("fbdace")), expected)
    with pytest.warns(UserWarning, match="column 'z' of graph 'small' is ignored"):
        assert np.array_equal(model.predict_proba(named("zfbdace")), expected)
    with pytest.warns(UserWarning, match="have no names in graph 'small': features are taken by their position"):
        model.predict(graph)
    with pytest.raises(GamlpError, match="lacks columns 'e', 'f' that the model was trained on"):
        model.predict(named("abcdxy"))
