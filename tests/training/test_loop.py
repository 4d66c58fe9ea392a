"""The loop: seeds, schedules, early stopping, losses that explode, splits that cannot be trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.graph import Split
from gamlp.models import Shape
from gamlp.recipe import TrainingSettings
from gamlp.run.training import train_run
from gamlp.training.bundle import make_model
from gamlp.training.loop import Fitted, fit
from gamlp.training.metrics import better
from gamlp.training.optimizer import learning_rate, parameter_groups
from gamlp.training.rows import Prepared
from gamlp.training.run_folder import About, RunFolder
from gamlp.training.seeds import bundle_of
from tests.training.small import (
    CLASSES,
    ONE_THREAD,
    WIDTH,
    make_graph,
    prepared_in,
    rows_of_role,
    same_weights,
    trained,
    with_labels,
    with_nodes,
)

Curve = list[tuple[float, float]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_in(tmp_path_factory.mktemp("small"), make_graph())


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, CLASSES)
        self.steps = 0

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        self.steps += self.training
        result: Tensor = self.map(x[:, 0, 0])
        return result


def fitted(prepared: Prepared, make: Callable[[], nn.Module] = Linear, valid: bool = True, **settings: Any) -> Fitted:
    training = TrainingSettings(**{"epochs": 6, "batch_size": 1000, "patience": 0, **settings})
    return fit(make, prepared.train, prepared.valid if valid else None, training)


# Seeds


def test_a_seed_gives_the_same_numbers_again_and_another_seed_others(prepared: Prepared) -> None:
    lines: list[list[dict[str, Any]]] = []
    found = []
    for seed in (0, 0, 1):
        lines.append([])
        made = fit(
            lambda: Linear(),
            prepared.train,
            prepared.valid,
            TrainingSettings(epochs=3),
            seed=seed,
            observe=lines[-1].append,
        )
        found.append((made, trained(prepared, seed)))
    assert same_weights(found[0][1].weights, found[1][1].weights) and found[0][1].valid == found[1][1].valid
    assert not same_weights(found[0][1].weights, found[2][1].weights)
    told = [[{key: value for key, value in line.items() if key != "seconds"} for line in part] for part in lines]
    assert told[0] == told[1] != told[2]


def test_fit_and_a_bundles_model_leave_the_users_random_numbers_alone(prepared: Prepared) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    done = trained(prepared, 7)
    bundle_of(prepared, done, 7).model()
    assert torch.equal(torch.get_rng_state(), before)


def test_what_the_user_seeded_does_not_change_training(prepared: Prepared) -> None:
    torch.manual_seed(1)
    one = trained(prepared)
    torch.manual_seed(2)
    assert same_weights(one.weights, trained(prepared).weights)


# Learning rate


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "constant"}, [1.0, 1.0, 1.0, 1.0]),
        ({"schedule": "linear"}, [1.0, 0.75, 0.5, 0.25]),
        ({"schedule": "cosine"}, [1.0, 0.8535533905932737, 0.5, 0.14644660940672627]),
        ({"schedule": "constant", "warmup": 3}, [0.25, 0.5, 0.75, 1.0]),
        ({"schedule": "linear", "warmup": 2}, [1 / 3, 2 / 3, 1.0, 0.5]),
        ({"schedule": "cosine", "warmup": 9}, [0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_learning_rates_of_epochs(prepared: Prepared, settings: dict[str, Any], expected: list[float]) -> None:
    training = TrainingSettings(epochs=4, learning_rate=0.1, **settings)
    assert [learning_rate(training, epoch) / 0.1 for epoch in range(4)] == pytest.approx(expected, abs=1e-12)
    lines: list[dict[str, Any]] = []
    fit(Linear, prepared.train, None, training, observe=lines.append)
    assert [line["learning_rate"] / 0.1 for line in lines] == pytest.approx(expected)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_an_epoch_is_the_optimizers_step_on_the_mean_loss(prepared: Prepared, optimizer: str) -> None:
    settings = {"epochs": 2, "optimizer": optimizer, "weight_decay": 0.1, "learning_rate": 0.05}
    found = fitted(prepared, keep="last", **settings).weights
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Linear()
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    steps = kind(model.parameters(), lr=0.05, weight_decay=0.1)
    x = torch.from_numpy(prepared.store.gather(prepared.train.rows, hops=2).x)
    for _ in range(2):
        steps.zero_grad()
        nn.functional.cross_entropy(model(x), torch.from_numpy(prepared.train.targets).long()).backward()
        steps.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


class Costly(Linear):
    """Its weights cost a thousand times their squares."""

    def penalty(self) -> Tensor:
        return 1000 * self.map.weight.square().sum()


def test_what_a_model_adds_to_its_loss_is_trained_on_and_told(prepared: Prepared) -> None:
    lines: list[dict[str, Any]] = []
    training = TrainingSettings(epochs=40, batch_size=1000, patience=0, learning_rate=0.05, keep="last")
    costly = fit(Costly, prepared.train, None, training, observe=lines.append).weights["map.weight"]
    free = fitted(prepared, epochs=40, learning_rate=0.05, keep="last").weights["map.weight"]
    assert costly.square().sum() < 0.01 * free.square().sum()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = 1000 * float(Linear().map.weight.detach().square().sum())
    assert lines[0]["loss"] > first > 100 * lines[-1]["loss"]


# Early stopping


def along(monkeypatch: pytest.MonkeyPatch, curve: Curve) -> None:
    """Validation (score, loss) follows the curve."""
    left = iter(curve)

    def evaluate(*_: Any) -> dict[str, float]:
        score, loss = next(left)
        return {"loss": loss, "score": score}

    monkeypatch.setattr("gamlp.training.loop.evaluate", evaluate)


@pytest.mark.parametrize(
    ("curve", "settings", "kept", "epochs"),
    [
        ([(0.1, 9), (0.5, 9), (0.4, 1), (0.4, 1), (0.4, 1)], {}, 2, 5),
        ([(0.1, 9), (0.5, 9), (0.4, 1), (0.4, 1), (0.4, 1)], {"patience": 2}, 2, 4),
        ([(0.1, 9), (0.5, 9), (0.4, 1), (0.6, 1), (0.4, 1)], {"patience": 2}, 4, 5),
        ([(0.5, 9), (0.5, 8), (0.5, 8), (0.5, 7), (0.5, 9)], {"patience": 3}, 4, 5),  # ties by loss
        ([(0.9, 5), (0.1, 4), (0.1, 3), (0.1, 4), (0.9, 9)], {"monitor": "loss"}, 3, 5),
        ([(0.9, 5), (0.9, 5), (0.1, 5), (0.1, 4), (0.9, 9)], {"monitor": "loss", "patience": 1}, 1, 2),
        ([(0.9, 1), (0.1, 2), (0.1, 3), (0.1, 4), (0.1, 5)], {"patience": 1, "keep": "last"}, 5, 5),
    ],
)
def test_the_kept_epoch_and_where_training_stops(
    prepared: Prepared,
    monkeypatch: pytest.MonkeyPatch,
    curve: Curve,
    settings: dict[str, Any],
    kept: int,
    epochs: int,
) -> None:
    along(monkeypatch, curve)
    found = fitted(prepared, epochs=5, **settings)
    assert (found.epoch, found.epochs) == (kept, epochs)
    assert (found.valid["score"], found.valid["loss"]) == curve[kept - 1]
    assert found.stopped == ("" if epochs == 5 else f"no better epoch in {settings['patience']}")


def test_the_weights_are_those_of_the_kept_epoch(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    along(monkeypatch, [(0.1, 9), (0.5, 9), (0.4, 1), (0.4, 1)])
    best = fitted(prepared, epochs=4)
    assert same_weights(best.weights, fitted(prepared, valid=False, epochs=2).weights)
    assert same_weights(dict(best.model.state_dict()), best.weights) and not best.model.training


def test_without_validation_rows_the_last_epoch_is_kept(prepared: Prepared) -> None:
    found = fitted(prepared, valid=False, patience=1)
    assert (found.epoch, found.epochs, found.stopped) == (6, 6, "")


# What explodes


class Exploding(Linear):
    """Infinite logits from a step on."""

    last = 3

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        logits = super().forward(x, y)
        return logits * math.inf if self.steps > self.last else logits


class Jumping(Linear):
    """Its loss is always finite, but a step's gradient is not."""

    def __init__(self) -> None:
        super().__init__()
        self.map.weight.register_hook(lambda grad: grad * math.nan if self.steps == 4 else grad)


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("kind", [Exploding, Jumping])
def test_a_loss_that_explodes_stops_training_keeps_good_weights_and_says_so(
    prepared: Prepared, kind: type[Linear], valid: bool, keep: str
) -> None:
    found = fitted(prepared, kind, valid, keep=keep)
    assert found.epochs == 4 and found.epoch <= 3
    assert "became NaN or infinite in epoch 4" in found.stopped
    assert all(value.isfinite().all() for value in found.weights.values())
    if keep == "last" or not valid:
        assert same_weights(found.weights, fitted(prepared, Linear, False, epochs=3).weights)


@pytest.mark.parametrize("valid", [True, False])
def test_a_loss_that_explodes_in_the_first_epoch_is_told(prepared: Prepared, valid: bool) -> None:
    class AtOnce(Exploding):
        last = 0

    with pytest.raises(GamlpError, match=r"in epoch 1, before any good weights; lower training\.learning_rate"):
        fitted(prepared, AtOnce, valid)


def test_a_learning_rate_or_features_out_of_all_measure_are_told(tmp_path: Path) -> None:
    wild = prepared_in(tmp_path / "rate", make_graph(), training__learning_rate=1e38)
    with pytest.raises(GamlpError, match="NaN or infinite"):
        trained(wild)


def test_metrics_stay_json_when_the_loss_is_not_a_number(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gamlp.training.warm.make_model", lambda *_: Exploding())
    run = RunFolder.create(tmp_path / "run", About(graph=None, store="hops"), prepared.recipe, resume=False)
    bundles = train_run(prepared, run, resources=ONE_THREAD)
    assert "NaN" in bundles[0].report["stopped"]

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in run.metrics_path.read_text().splitlines()]
    assert [line["loss"] is None for line in lines] == [False, True]


# What cannot be trained on


def test_an_empty_training_split_is_refused(tmp_path: Path) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    roles = np.where(graph.nodes.split.roles == 1, 0, graph.nodes.split.roles).astype(np.int8)
    with pytest.raises(GamlpError, match="no training rows"):
        prepared_in(tmp_path, with_nodes(graph, split=Split(roles)))


@pytest.mark.parametrize("missing", ["features", "labels", "split"])
def test_a_graph_without_features_labels_or_split_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(GamlpError, match=f"has no {missing}"):
        prepared_in(tmp_path, with_nodes(make_graph(), **{missing: None}), features__structural="none")


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_one_class_or_no_label_at_all_in_training_is_refused(tmp_path: Path, setting: str) -> None:
    graph = make_graph()
    assert graph.nodes.labels is not None
    values = graph.nodes.labels.values.copy()
    values[rows_of_role(graph, "train")] = 1
    with pytest.raises(GamlpError, match="every training row is 'class 1'"):
        prepared_in(tmp_path / "one", with_labels(graph, values), training__setting=setting)
    values[rows_of_role(graph, "train")] = -1
    with pytest.raises(GamlpError, match="no training row has a label"):
        prepared_in(tmp_path / "none", with_labels(graph, values), training__setting=setting)


def test_shape_of_what_is_prepared_follows_the_recipe(tmp_path: Path) -> None:
    assert prepared_in(tmp_path, make_graph(), model__beta=0).shape == Shape(WIDTH, CLASSES, 2, 0)


@pytest.mark.parametrize(
    ("monitor", "wanted"),
    [
        ("score", [True, False, True, False]),
        ("loss", [False, True, True, False]),
        ("both", [False, False, True, False]),
    ],
)
def test_what_better_means(monitor: Any, wanted: list[bool]) -> None:
    best = {"score": 0.8, "loss": 0.5}
    cases = [(0.9, 0.6), (0.7, 0.4), (0.8, 0.4), (0.7, 0.6)]
    settings = TrainingSettings(monitor=monitor)
    assert [better({"score": score, "loss": loss}, best, settings) for score, loss in cases] == wanted


# A window of epochs


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from(["score", "smooth"]),
)
def test_means_over_a_window_choose_the_epoch_and_patience(
    prepared: Prepared, curve: Curve, window: int, patience: int, monitor: str
) -> None:
    """Written out: means of the last epochs; the first epoch that no other is better than; epochs since a best."""
    means = []
    for end in range(1, len(curve) + 1):
        last = curve[max(0, end - window) : end]
        means.append((sum(score for score, _ in last) / len(last), -sum(loss for _, loss in last) / len(last)))
    done = len(curve)
    for epoch in range(1, len(curve) + 1):
        so_far = means[:epoch]
        since = [1 + so_far.index(max(so_far))]
        if monitor == "smooth":
            losses = [loss for _, loss in so_far]
            since.append(1 + losses.index(max(losses)))
        if patience and epoch - max(since) >= patience:
            done = epoch
            break
    with pytest.MonkeyPatch.context() as patched:
        along(patched, curve)
        found = fitted(prepared, epochs=len(curve), window=window, patience=patience, monitor=monitor)
    assert found.epochs == done
    assert found.epoch == 1 + means[:done].index(max(means[:done]))
    assert (found.valid["score"], found.valid["loss"]) == curve[found.epoch - 1]  # its own, not the mean


def test_attention_vectors_alone_have_a_rate_and_a_decay_of_their_own(prepared: Prepared) -> None:
    recipe = prepared.recipe.changed({"model.attention": "jk", "model.dropout": 0.0})
    made = TrainingSettings(weight_decay=0.1, attention_decay=0.3, attention_rate=0.5)
    model = make_model(recipe, prepared.shape)
    named = {id(value): name for name, value in model.named_parameters()}
    groups = {
        (one["weight_decay"], one["rate"]): {named[id(v)] for v in one["params"]}
        for one in parameter_groups(model, made)
    }
    vectors = {f"{part}.{name}" for part in ("attention", "label_attention") for name in ("vector", "reference_vector")}
    assert groups == {(0.3, 0.5): vectors, (0.1, 1.0): set(named.values()) - vectors}
    moved = {}
    for rate in (0.0, 0.5, 1.0):
        begun: dict[str, Tensor] = {}

        def make() -> nn.Module:
            made = make_model(recipe, prepared.shape)
            begun.update({name: value.detach().clone() for name, value in made.named_parameters()})  # noqa: B023
            return made

        once = TrainingSettings(epochs=1, batch_size=1000, learning_rate=0.01, attention_rate=rate)
        weights = fit(make, prepared.train, None, once).weights
        moved[rate] = {name: float((weights[name] - value).abs().max()) for name, value in begun.items()}
    for name in named.values():
        for rate in (0.0, 0.5):
            share = rate if name in vectors else 1.0
            assert moved[rate][name] == pytest.approx(share * moved[1.0][name], rel=1e-3)
        assert moved[1.0][name] > 0
