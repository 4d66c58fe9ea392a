"""Why a node got its label: hops, probabilities and branches by dense algebra written out."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

from gamlp.errors import GamlpError
from gamlp.explanation.nodes import NodeExplanation, explain_nodes, label_branch
from gamlp.graph import Graph, Ids, Labels, Split
from gamlp.models import Shape, labels_used
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.recipe import Recipe
from gamlp.training.bundle import Bundle, make_model
from gamlp.training.rows import plan_of

COUNT, HOPS, CLASSES = 40, 3, ("ant", "bee", "<cat>", "d,e")


def graph(order: np.ndarray | None = None, *, multi_label: bool = False) -> Graph:
    """Forty nodes, the last without neighbours, some without a label; `order[i]` is the old row of new row i."""
    random = np.random.default_rng(0)
    edges = random.integers(0, COUNT - 1, (2, 90))
    x = random.normal(size=(COUNT, 5)).astype(np.float32)
    if multi_label:
        values = random.integers(0, 2, (COUNT, 4)).astype(np.int8)
        values[30:] = -1
    else:
        values = np.where(np.arange(COUNT) < 30, random.integers(0, 4, COUNT), -1).astype(np.int32)
    roles = np.zeros(COUNT, np.int8)
    roles[:20], roles[20:25], roles[25:30] = 1, 2, 3
    ids = pa.array([f"n {row}" for row in range(COUNT)], pa.large_string())
    order = np.arange(COUNT) if order is None else order
    made = Graph.from_arrays(
        np.argsort(order)[edges], x[order], Labels(values[order], CLASSES), split=Split(roles[order]), count=COUNT
    )
    nodes = replace(made.nodes, ids=Ids(COUNT, ids.take(pa.array(order))))
    return replace(made, node_types={made.target: nodes})


def bundle(multi_label: bool = False, **changes: Any) -> Bundle:
    values = {"model.hidden": 8, "model.beta": 0.8, "propagation.hops": HOPS, "propagation.label_hops": 2}
    recipe = Recipe.of(None).changed(values | changes)
    shape = Shape(5, 4, HOPS, 2 if labels_used(recipe) else 0)
    torch.manual_seed(5)
    return Bundle(recipe, shape, CLASSES, multi_label, make_model(recipe, shape).state_dict())


def explained(made: Bundle, on: Graph, folder: Path, rows: np.ndarray, **options: Any) -> list[NodeExplanation]:
    store = stored(made, on, folder)
    return explain_nodes(made, store, rows, ids=on.nodes.ids, degrees=on.relation.degrees(), **options)


def stored(made: Bundle, on: Graph, folder: Path) -> HopStore:
    return LocalPropagator().propagate(on, plan_of(made.recipe), folder / "hops")


def dense(on: Graph) -> np.ndarray:
    """Â = D^(-1/2) (A + I) D^(-1/2)."""
    adjacency = np.eye(COUNT)
    for rows, neighbours, _ in on.relation.edges():
        adjacency[rows, neighbours] = 1
    root = 1 / np.sqrt(adjacency.sum(1))
    return root[:, None] * adjacency * root


def test_each_hop_alone_and_both_branches(tmp_path: Path) -> None:
    on, made = graph(), bundle()
    found = explained(made, on, tmp_path, np.arange(COUNT), top=4)
    operator, state = dense(on), {name: value.double().numpy() for name, value in made.weights.items()}

    def mlp(name: str, h: np.ndarray) -> np.ndarray:
        layers = sum(key.startswith(f"{name}.linear") for key in state) // 2
        for layer in range(layers):
            h = h @ state[f"{name}.linear.{layer}.weight"].T + state[f"{name}.linear.{layer}.bias"]
            h = h if layer == layers - 1 else np.maximum(h, 0)
        return h

    def softmax(z: np.ndarray) -> np.ndarray:
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    x = [on.nodes.features.values.astype(float)]
    known = np.zeros((COUNT, 4))
    known[np.arange(20), on.nodes.labels.values[:20]] = 1  # training rows alone
    y = [known]
    for _ in range(HOPS):
        x.append(operator @ x[-1])
        y.append(operator @ y[-1])
    smooth = [(1 - a) * y[hop] + a * y[2] for hop, a in ((1, np.cos(np.pi / 4)), (2, np.cos(np.pi / 2)))]
    degrees = on.relation.degrees()
    for row, node in enumerate(found):
        weights = np.array(node.feature_weights)
        mixed = sum(weight * hop[row] for weight, hop in zip(weights, x))
        heard = sum(weight * hop[row] for weight, hop in zip(node.label_weights, smooth))
        features, labels = mlp("mlp", mixed[None]), 0.8 * mlp("label_mlp", heard[None])
        probabilities, without = softmax(features + labels)[0], softmax(features)[0]
        assert weights.sum() == pytest.approx(1, abs=1e-6) and node.first_label_hop == 1
        assert (node.id, node.row, node.degree) == (f"n {row}", row, degrees[row])
        assert node.role == ("train" if row < 20 else "valid" if row < 25 else "test" if row < 30 else "")
        assert node.true == ((CLASSES[on.nodes.labels.values[row]],) if row < 30 else None)
        assert node.predicted.classes == (CLASSES[probabilities.argmax()],)
        assert node.predicted.probability == pytest.approx(probabilities.max(), abs=1e-5)
        assert node.without_labels is not None and node.without_labels.classes == (CLASSES[without.argmax()],)
        for hop, part in enumerate(node.hops):
            alone = softmax(mlp("mlp", x[hop][row][None]))[0]
            assert part.hop == hop and part.alone is not None
            assert part.alone.classes == (CLASSES[alone.argmax()],)
            assert part.alone.probability == pytest.approx(alone.max(), abs=1e-5)
        assert [part.name for part in node.classes] == [CLASSES[number] for number in np.argsort(-probabilities)]
        for part in node.classes:
            number = CLASSES.index(part.name)
            assert part.from_labels is not None
            assert part.logit == pytest.approx(part.from_features + part.from_labels, abs=1e-5)
            assert part.from_features == pytest.approx(features[0, number], abs=1e-5)
            assert part.from_labels == pytest.approx(labels[0, number], abs=1e-5)
            assert part.probability == pytest.approx(probabilities[number], abs=1e-5)
            assert part.without_labels == pytest.approx(without[number], abs=1e-5)
    assert len({node.predicted.classes for node in found}) > 1  # random weights, but not all of one mind


def test_the_order_of_nodes_changes_nothing(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(COUNT)
    one = {node.id: node for node in explained(bundle(), graph(), tmp_path / "one", np.arange(COUNT))}
    rows = np.array([7, 2, 39])
    two = explained(bundle(), graph(order), tmp_path / "two", rows)
    assert [node.id for node in two] == [f"n {order[row]}" for row in rows]  # in the order asked for
    for node in two:
        same = one[node.id]
        assert (node.degree, node.true, node.role, node.predicted.classes) == (
            same.degree, same.true, same.role, same.predicted.classes,
        )  # fmt: skip
        assert np.allclose(node.feature_weights, same.feature_weights, atol=1e-5)
        assert [part.alone.classes for part in node.hops] == [part.alone.classes for part in same.hops]
        assert np.allclose([p.logit for p in node.classes], [p.logit for p in same.classes], atol=1e-5)


def test_the_class_before_labels_spoke_is_among_those_shown(tmp_path: Path) -> None:
    found = explained(bundle(**{"model.beta": 40.0}), graph(), tmp_path, np.arange(COUNT), top=1)
    turned = [node for node in found if node.without_labels.classes != node.predicted.classes]
    assert turned
    for node in found:
        assert len(node.classes) == (2 if node in turned else 1)
        assert node.without_labels.classes[0] in {part.name for part in node.classes}


def test_many_labels(tmp_path: Path) -> None:
    on, made = graph(multi_label=True), bundle(multi_label=True)
    found = explained(made, on, tmp_path, np.array([3, 35]), top=4)
    assert found[0].true == tuple(CLASSES[n] for n in np.flatnonzero(on.nodes.labels.values[3] > 0))
    assert found[1].true is None
    for node in found:
        above = {part.name for part in node.classes if part.logit > 0}
        assert set(node.predicted.classes) == above and node.predicted.text == (
            " | ".join(node.predicted.classes) or "none"
        )
        for part in node.classes:
            assert part.probability == pytest.approx(1 / (1 + np.exp(-part.logit)), abs=1e-6)


def test_models_that_tell_less(tmp_path: Path) -> None:
    node = explained(bundle(**{"model.name": "sign", "model.beta": 0.0}), graph(), tmp_path / "sign", np.array([4]))[0]
    assert node.feature_weights is None and all(part.alone is None for part in node.hops) and len(node.hops) == HOPS + 1
    assert node.label_weights is None and node.without_labels is None and node.classes[0].from_labels is None
    assert node.classes[0].from_features == node.classes[0].logit
    node = explained(bundle(**{"model.name": "sgc", "model.beta": 0.0}), graph(), tmp_path / "sgc", np.array([4]))[0]
    assert node.feature_weights == (0, 0, 0, 1) and node.hops[-1].alone == node.predicted


def test_a_network_of_ones_own_without_a_word_about_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x[:, 0, 1, :4]

    made = bundle(**{"model.beta": 0.0})
    monkeypatch.setattr(Bundle, "model", lambda self: Own())
    node = explained(made, graph(), tmp_path, np.array([4]))[0]
    assert node.feature_weights is None and node.hops[0].alone is None and 0 < node.predicted.probability < 1


def test_a_node_whose_hops_were_not_kept(tmp_path: Path) -> None:
    made, on = bundle(**{"propagation.rows": "split"}), graph()
    assert explained(made, on, tmp_path, np.array([0]))[0].id == "n 0"
    with pytest.raises(GamlpError, match="hops of node 'n 38' were not kept; give the graph"):
        explained(made, on, tmp_path, np.array([0, 38]))


def test_more_nodes_than_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explained(bundle(), graph(), tmp_path, np.arange(COUNT))
    monkeypatch.setattr("gamlp.explanation.nodes._BATCH", 7)
    parts = explained(bundle(), graph(), tmp_path, np.arange(COUNT))
    for one, two in zip(whole, parts, strict=True):
        assert asdict(one)["hops"][0]["weight"] == pytest.approx(asdict(two)["hops"][0]["weight"], abs=1e-6)
        assert one.predicted.classes == two.predicted.classes and one.id == two.id


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_label_branch_that_is_silent_is_told_from_one_that_speaks(tmp_path: Path, multi_label: bool) -> None:
    made, on = bundle(multi_label), graph(multi_label=multi_label)
    store, rows = stored(made, on, tmp_path), np.arange(COUNT)
    speaks = label_branch(made, store, rows)
    nodes = explain_nodes(made, store, rows, ids=on.nodes.ids, degrees=on.relation.degrees())
    assert speaks is not None and speaks.rows == COUNT and not speaks.silent and speaks.size > 0.01
    changed = [node for node in nodes if node.without_labels and node.without_labels.classes != node.predicted.classes]
    assert speaks.changed == len(changed)
    quiet = {name: value * (0 if name.startswith("label_mlp") else 1) for name, value in made.weights.items()}
    silent = label_branch(replace(made, weights=quiet), store, rows)
    assert silent is not None and (silent.changed, silent.size) == (0, 0.0) and silent.silent
    assert label_branch(bundle(multi_label, **{"model.beta": 0.0}), store, rows, most=5) is None


@pytest.mark.parametrize("beta", [0.8, 0.0])
def test_probabilities_have_the_temperature_of_predictions(tmp_path: Path, beta: float) -> None:
    from gamlp.run.prediction_table import batch_probabilities

    made, on, rows = replace(bundle(**{"model.beta": beta}), temperature=3.0), graph(), np.arange(0, COUNT, 7)
    found = explained(made, on, tmp_path, rows)
    _, expected = next(iter(batch_probabilities(made, stored(made, on, tmp_path), rows)))
    for node, probabilities in zip(found, expected):
        assert node.predicted.probability == pytest.approx(float(probabilities.max()), rel=1e-5)
        parts = {part.name: part for part in node.classes}
        assert all(part.probability == pytest.approx(probabilities[CLASSES.index(name)], rel=1e-5)
                   for name, part in parts.items())  # fmt: skip
        assert all(part.logit == pytest.approx(part.from_features + (part.from_labels or 0)) for part in parts.values())
