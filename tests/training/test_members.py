"""Several models of a seed, blended: the mean of what they say, by weights that validation rows pick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split
from gamlp.models import Blend
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.registry import peer_of
from gamlp.recipe import Recipe
from gamlp.report.parts import curves_of
from gamlp.run.preparation import prepare
from gamlp.run.training import train, train_run
from gamlp.training import metric_value
from gamlp.training.batches import HopRows, read_batches
from gamlp.training.blending import Answers, Said, blend_words, picks, shares_of
from gamlp.training.bundle import Bundle
from gamlp.training.loop import Machine
from gamlp.training.rows import Prepared, rows_of
from gamlp.training.run_folder import About, RunFolder
from gamlp.training.seeds import NoFolder, bundle_of, fit_blend, fit_prepared, member_seed, train_seeds
from tests.conformance.models import OWN
from tests.training.small import (
    ONE_THREAD,
    make_graph,
    prepared_in,
    relabelled,
    rows_of_role,
    same_weights,
    with_nodes,
)
from tests.training.typed_small import RECIPE as TYPED
from tests.training.typed_small import planted

MEMBERS, EPOCHS = 3, 4
SEVERAL: dict[str, Any] = {"training__members": MEMBERS, "training__epochs": EPOCHS}


class Killed(BaseException):
    """As sudden as a signal, but in this process."""


@dataclass(frozen=True)
class Remembered(NoFolder):
    """Members' bundles, which no folder keeps once they are blended."""

    members: list[Bundle] = field(default_factory=list)

    def keep(self, seed: int, bundle: Bundle, member: int | None = None) -> None:
        if member is not None:
            self.members.append(bundle)


def blend(prepared: Prepared) -> tuple[Bundle, list[Bundle]]:
    """The one seed's bundle, and its members'."""
    folder = Remembered()
    bundles, best = train_seeds(prepared, here, folder)
    return bundles[best], folder.members


def here(prepared: Prepared, seed: int, files: Any = None, **told: Any) -> Any:
    return fit_prepared(prepared, seed, Machine(), **told)


def logits(bundle: Bundle, rows: HopRows) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([bundle.model()(x, y) for _, x, y in read_batches(rows, rows.rows)]).double()


def equal_shares(monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
    monkeypatch.setattr("gamlp.training.seeds.shares_of", lambda *_: list(shares))


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_blend_is_the_weighted_mean_of_what_its_members_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, multi_label: bool
) -> None:
    """softmax(blend T) = Σ w_i softmax(logits_i / T_i); sigmoids where a node has many labels."""
    equal_shares(monkeypatch, 0.5, 0.0, 0.5)
    prepared = prepared_in(tmp_path, make_graph(multi_label=multi_label), propagation__folds=3, **SEVERAL)
    found, members = blend(prepared)
    rows = rows_of(prepared.store, found.recipe, rows_of_role(make_graph(), "train", "valid", "test"))
    said = torch.sigmoid if multi_label else lambda values: torch.softmax(values, 1)
    mean = 0.5 * said(logits(members[0], rows)) + 0.5 * said(logits(members[2], rows))  # as calibrated: over T_i
    torch.testing.assert_close(said(logits(found, rows) * found.temperature), mean, atol=1e-6, rtol=1e-5)
    assert isinstance(found.model(), Blend) and found.recipe.model.name == "blend"
    assert [one["weight"] for one in found.report["members"]] == [0.5, 0.0, 0.5]
    assert [one["seed"] for one in found.report["members"]] == [member_seed(0, number) for number in range(MEMBERS)]
    assert blend_words(found.report) == "a blend of 2 models, of 3 that were trained (weights 0.50, 0.50)"


def test_members_are_the_models_of_their_seeds(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path, make_graph(), **SEVERAL)
    _, members = blend(prepared)
    for number, member in enumerate(members):
        alone = fit_prepared(prepared, number * 1_000_003, Machine())
        assert same_weights(member.weights, alone.weights) and member.report["valid"] == alone.valid
    assert len({member_seed(seed, number) for seed in range(1000) for number in range(64)}) == 64_000


@pytest.mark.parametrize("metric", ["auto", "roc_auc", "log_loss", "macro_f1"])
def test_no_member_validates_better_than_the_blend(tmp_path: Path, metric: str) -> None:
    for seed in range(2):
        graph = make_graph(seed)
        prepared = prepared_in(tmp_path / str(seed), graph, **SEVERAL, training__metric=metric, training__seeds=[seed])
        found, members = blend(prepared)
        assert prepared.valid is not None
        name, targets = found.report["metric"], prepared.valid.targets
        sign = -1 if name == "log_loss" else 1

        def gain(bundle: Bundle, hot: float = 1.0, rows: HopRows = prepared.valid) -> float:
            said = torch.softmax(logits(bundle, rows) * hot, 1).numpy()
            return sign * metric_value(name, said, targets)  # noqa: B023

        best = max(gain(one) for one in members)
        own = found.temperature if found.recipe.model.name == "blend" else 1.0  # what comes after picking
        assert gain(found, own) >= best - 1e-6
        told = found.report["valid"]
        if metric == "roc_auc":
            assert told["metric"] == pytest.approx(gain(found), abs=1e-5)
        if metric == "auto":
            assert told["score"] == pytest.approx(gain(found))


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = [
        train(make_graph(), quick(), tmp_path / name, resources=ONE_THREAD).run.bundle_path.read_bytes()
        for name in ("one", "other")
    ]
    assert runs[0] == runs[1]


def quick(**changes: Any) -> Recipe:
    return Recipe.of(
        {
            "propagation": {"hops": 2, "label_hops": 2},
            "model": {"hidden": 8, "layers": 2},
            "training": {"epochs": EPOCHS, "batch_size": 16, "patience": 0, "members": MEMBERS, **changes},
        }
    )


def run_in(folder: Path, prepared: Prepared, observe: Callable[[dict[str, Any]], None] | None = None) -> RunFolder:
    run = RunFolder.create(folder, About(graph=None, store="hops"), prepared.recipe, resume=True)
    train_run(prepared, replace(run, checkpoint_seconds=0.0), resources=ONE_THREAD, observe=observe)
    return run


def told(run: RunFolder) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in run.metrics()]


def test_killed_at_any_moment_a_run_ends_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every epoch of every member, while a bundle is kept, and before what members left is removed."""
    few = {"training__members": 2, "training__epochs": 2, "training__seeds": [0, 1]}
    prepared = prepared_in(tmp_path / "hops", make_graph(), **few)
    unbroken = run_in(tmp_path / "unbroken", prepared)
    seen: set[Any] = set()

    def once(moment: Any) -> None:
        if moment not in seen:
            seen.add(moment)
            raise Killed

    def kill(line: dict[str, Any]) -> None:
        once((line["seed"], line["member"], line["epoch"]))

    keep, tidy = RunFolder.keep, RunFolder._tidy

    def keeping(self: RunFolder, seed: int, bundle: Bundle, member: int | None = None) -> None:
        once(("keep", seed, member))
        keep(self, seed, bundle, member)

    def tidying(self: RunFolder, seed: int, member: int | None) -> None:
        once(("tidy", seed, member))
        tidy(self, seed, member)

    monkeypatch.setattr(RunFolder, "keep", keeping)
    monkeypatch.setattr(RunFolder, "_tidy", tidying)
    for _ in range(200):
        try:
            run = run_in(tmp_path / "run", prepared, kill)
        except Killed:
            continue
        break
    assert len(seen) == 2 * (2 * 2 + 2 * 3)
    for seed in (0, 1):
        assert run.seed_path(seed).read_bytes() == unbroken.seed_path(seed).read_bytes()
    assert run.bundle_path.read_bytes() == unbroken.bundle_path.read_bytes()
    assert told(run) == told(unbroken) and len(told(run)) == 2 * 2 * 2
    assert {path.name for path in (run.path / "seeds").iterdir()} == {"0.safetensors", "1.safetensors"}


def test_lines_are_the_seeds_and_say_which_model_they_are_of(tmp_path: Path) -> None:
    stages: list[str] = []
    prepared = prepared_in(tmp_path / "hops", make_graph(), **SEVERAL, training__seeds=[0, 1])
    run = RunFolder.create(tmp_path / "run", About(graph=None, store="hops"), prepared.recipe, resume=False)
    train_run(prepared, run, resources=ONE_THREAD, progress=lambda stage, *_: stages.append(stage))
    assert [(line["seed"], line["member"], line["epoch"]) for line in run.metrics()] == [
        (seed, member, epoch) for seed in (0, 1) for member in range(MEMBERS) for epoch in range(1, EPOCHS + 1)
    ]
    assert list(dict.fromkeys(stages))[:2] == ["seed 0, model 1 of 3", "seed 0, model 2 of 3"]
    curves = curves_of(run.metrics())
    assert curves is not None
    assert [(one["seed"], one["member"], one["epoch"]) for one in curves["seeds"]] == [
        (seed, member, [1, 2, 3, 4]) for seed in (0, 1) for member in range(MEMBERS)
    ]


def test_no_test_label_changes_a_weight_and_without_choosing_no_validation_label(tmp_path: Path) -> None:
    graph = make_graph()
    found = {}
    for name, changed in {
        "as it is": graph,
        "test": relabelled(graph, rows_of_role(graph, "test")),
        "valid": relabelled(graph, rows_of_role(graph, "valid")),
    }.items():
        found[name] = blend(prepared_in(tmp_path / name, changed, **SEVERAL, training__patience=1))[0]
    assert found["as it is"].report["members"] == found["test"].report["members"]
    assert same_weights(found["as it is"].weights, found["test"].weights)
    assert found["as it is"].recipe == found["test"].recipe
    assert found["as it is"].report["members"] != found["valid"].report["members"], "the comparison is not blind"


def test_without_validation_rows_all_weigh_the_same(tmp_path: Path) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    roles = np.where(graph.nodes.split.roles == 2, 0, graph.nodes.split.roles).astype(np.int8)
    found, members = blend(prepared_in(tmp_path, with_nodes(graph, split=Split(roles)), **SEVERAL))
    assert [one["weight"] for one in found.report["members"]] == pytest.approx([1 / 3] * 3)
    assert found.report["valid"] == {} and len(found.weights) == 3 * len(members[0].weights)


def test_a_model_that_is_picked_alone_is_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    equal_shares(monkeypatch, 0.0, 1.0, 0.0)
    prepared = prepared_in(tmp_path, make_graph(), **SEVERAL)
    found, members = blend(prepared)
    assert found.recipe == prepared.recipe and same_weights(found.weights, members[1].weights)
    assert found.temperature == members[1].temperature and found.report["valid"] == members[1].report["valid"]
    assert found.report["seed"] == 0 and found.report["epoch"] == members[1].report["epoch"]
    assert "one model of 3" in str(blend_words(found.report))


def test_greedy_selection_begins_with_the_best_and_takes_what_helps(tmp_path: Path) -> None:
    targets, rows = np.array([1, 1, 1, 1]), np.arange(4)

    def answers(*ones: float) -> Answers:
        return Answers("accuracy", (Said(rows, np.array([[1 - one, one] for one in ones]), targets),))

    useless, first, second = answers(0.1, 0.1, 0.1, 0.1), answers(0.9, 0.9, 0.1, 0.6), answers(0.9, 0.45, 0.9, 0.6)
    picked = picks([useless, first, second])
    assert picked[0] == 2 and set(picked) == {1, 2}, "as many are right, and the log-loss is lower"
    prepared = prepared_in(tmp_path, make_graph())
    one = bundle_of(prepared, fit_prepared(prepared, 0, Machine()), 0)
    assert shares_of([one, one], prepared.valid, "accuracy") == [1.0, 0.0], "the same model twice is one"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("logistic", "model 'logistic' has no first weights that could differ; set training.members to 1"),
        ("lightgbm", "has no first weights"),
        (OWN, "is code of its own, which no blend may name; set training.members to 1"),
    ],
)
def test_what_cannot_be_blended_is_refused_before_anything_is_written(tmp_path: Path, model: str, told: str) -> None:
    recipe = Recipe.of({"model": {"name": model}, "training": {"members": 2}}, trust=model)
    with pytest.raises(GamlpError, match=told):
        train(make_graph(), recipe, tmp_path / "run", trust=model, resources=ONE_THREAD)
    assert not (tmp_path / "run" / "run.json").exists()


def test_peers_that_are_no_models_on_hops_refuse_members() -> None:
    with pytest.raises(GamlpError, match="'gcn' is no model on hops: seeds of it are not blended"):
        peer_of(Recipe.of({"model": {"name": "gcn"}, "training": {"members": 2}}))


def test_a_table_measures_the_same_blend(tmp_path: Path) -> None:
    recipe, graph = quick(seeds=[4]), make_graph()
    lines: list[dict[str, Any]] = []
    report = peer_of(recipe).run(Task(graph), recipe, 4, Workspace(tmp_path / "work", ONE_THREAD, observe=lines.append))
    trained = train(graph, recipe, tmp_path / "run", resources=ONE_THREAD)
    bundle = trained.bundles[4]
    assert report.valid == bundle.report["valid"] and report.epochs == bundle.report["epochs"]
    assert {line["member"] for line in lines} == set(range(MEMBERS))
    used = sum(one["weight"] > 0 for one in bundle.report["members"])
    assert used > 1 and report.parameters == sum(value.numel() for value in bundle.weights.values())
    assert any(f"seed 4 is a blend of {used} models" in note for note in trained.notes)


def test_several_relations_and_a_sample_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blend is read with all subsets: it is not trained itself."""
    equal_shares(monkeypatch, 0.25, 0.75)
    recipe = TYPED.changed({"training.members": 2, "training.epochs": 3, "training.subset_sample": 1})
    prepared = prepare(planted().graph(), recipe, tmp_path, resources=ONE_THREAD)
    found, members = blend(prepared)
    assert prepared.valid is not None
    one, two = (torch.softmax(logits(member, prepared.valid), 1) for member in members)
    said = torch.softmax(logits(found, prepared.valid) * found.temperature, 1)
    torch.testing.assert_close(said, 0.25 * one + 0.75 * two, atol=1e-6, rtol=1e-5)


@pytest.mark.long
@pytest.mark.slow
def test_several_processes_train_every_member(tmp_path: Path) -> None:
    graph: Graph = make_graph()
    together = train(graph, quick(epochs=2), tmp_path / "two", resources=replace(ONE_THREAD, processes=2))
    assert len(together.bundles[0].report["members"]) == MEMBERS
    assert {path.name for path in (tmp_path / "two" / "seeds").iterdir()} == {"0.safetensors"}
    _, fitted = fit_blend(prepared_in(tmp_path / "hops", graph, quick(epochs=2)), 0, Machine())
    assert fitted.epochs <= 2 * MEMBERS


def test_a_blend_reads_label_hops_by_size_as_its_members_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    equal_shares(monkeypatch, 0.5, 0.25, 0.25)
    prepared = prepared_in(tmp_path, make_graph(), model__label_scale="size", **SEVERAL)
    bundle, _ = blend(prepared)
    assert prepared.valid is not None
    again = rows_of(prepared.store, bundle.recipe, prepared.valid.rows)
    assert again.label_factor == prepared.valid.label_factor != 1
