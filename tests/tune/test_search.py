"""The search reads validation rows alone, goes on where it stopped, and refuses another question's study."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, Split
from gamlp.graph.datasets.loading import load
from gamlp.recipe import Recipe, load_space, named_spaces, starting_point, suggest
from gamlp.recipe.space import Choice
from gamlp.training.loop import Machine
from gamlp.training.seeds import fit_blend, fit_prepared
from gamlp.tune.search import Search
from tests.training.small import ONE_THREAD, RECIPE, make_graph, with_nodes

pytest.importorskip("optuna", reason="the search comes with gamlp[tune]")

SPACE = {
    "training.learning_rate": [0.01, 0.03],
    "propagation.hops": [1, 3],
    "model.beta": [0.0, 1.0],
}
BASE = {"model": {"hidden": 16, "layers": 2}, "training": {"epochs": 40}, "propagation": {"label_hops": 2}}


def space_file(tmp_path: Path, content: Any = None) -> Path:
    import yaml

    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(SPACE if content is None else content))
    return path


def search(graph: Graph, tmp_path: Path, **changes: Any) -> Search:
    settings = {"seeds": (0,), "confirm": 2, "confirm_seeds": (0, 1), **changes}
    return Search([graph], Recipe.of(BASE), load_space(space_file(tmp_path)), tmp_path / "study", **settings)


@pytest.mark.slow
def test_a_search_finds_a_recipe_and_logs_every_trial(tmp_path: Path) -> None:
    found = search(load("digits"), tmp_path).run(4)
    assert len(found.trials) == 4 and found.runs == 2
    assert found.score > 0.5
    assert "test rows were not read" in found.recipe.about
    assert found.recipe["training.learning_rate"] in SPACE["training.learning_rate"]


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    graph = load("digits")
    first = search(graph, tmp_path).run(2)
    again = search(graph, tmp_path).run(3)
    assert [trial["valid"] for trial in again.trials[:2]] == [trial["valid"] for trial in first.trials]
    assert len(again.trials) == 3


def test_test_labels_and_test_rows_change_nothing(tmp_path: Path) -> None:
    graph = load("digits")
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    values = labels.values.copy()
    values[split.test] = (values[split.test] + 1) % 10
    nodes = dataclasses.replace(graph.nodes, labels=Labels(values, labels.classes))
    wrong = dataclasses.replace(graph, node_types={"node": nodes})
    recipe = Recipe.of(BASE)
    scores: list[list[float]] = [[], []]
    for kept, (name, candidate) in zip(scores, (("one", graph), ("two", wrong))):
        (tmp_path / name).mkdir()
        search(candidate, tmp_path / name).validate(recipe, (0, 1), kept.append)
    assert scores[0] == scores[1]
    stores = list((tmp_path / "one" / "study" / "hops").glob("features-*/features*/*rows*.npy"))
    kept_rows = [np.load(path) for path in stores]
    assert kept_rows and not any(np.isin(rows, split.test).any() for rows in kept_rows), "hops of test rows were kept"


def test_a_study_of_another_question_is_refused(tmp_path: Path) -> None:
    graph = load("digits")
    search(graph, tmp_path, confirm=0).run(1)
    with pytest.raises(GamlpError, match="another seeds"):
        search(graph, tmp_path, seeds=(0, 1)).run(2)
    with pytest.raises(GamlpError, match="another graph"):
        search(load("karate"), tmp_path).run(2)
    one = search(graph, tmp_path, confirm=0)
    dataclasses.replace(one, base=one.base.changed({"about": "told otherwise"})).run(1)


def test_one_graph_can_be_validated_on_another(tmp_path: Path) -> None:
    graph = load("digits")
    found = search(graph, tmp_path, valid_graph=graph, confirm=0).run(2)
    assert found.score > 0.5


@pytest.mark.parametrize("name", named_spaces())
def test_shipped_spaces_hold_keys_of_recipes_for_both_attentions(name: str) -> None:
    optuna = pytest.importorskip("optuna")
    space = load_space(name)
    assert "training.monitor" not in space, "what trials are ranked by is not searched"
    study = optuna.create_study()
    for attention in ("jk", "recursive"):
        base = Recipe.of({"model": {"attention": attention}})
        for _ in range(5):
            recipe = suggest(study.ask(), space, base)
            assert recipe.model.attention == attention
            if attention == "recursive":
                assert "reference" not in recipe.model.model_fields_set
        assert set(starting_point(space, base)) <= set(space)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"training.learningrate": [1]}, "did you mean 'training.learning_rate'"),
        ({"training.epochs": {"low": 1}}, "give choices, or low and high"),
        ({"model.beta": {"low": 1, "high": 0}}, "'model.beta': low is not above high"),
        ({"model.beta": {"low": 0, "high": 1, "log": True}}, "above 0 where log is true"),
        ({"model.beta": {"low": 0, "high": 1, "step": 0}}, "a step is above 0"),
        ({"model.beta": []}, "'model.beta': give at least one choice"),
        ({"model.beta": {"choices": [1.0], "when": "model.bet"}}, "a recipe has no 'model.bet'"),
        ({"training.monitor": ["score", "loss"]}, "ranked by, and cannot be searched; leave it out"),
        ({"training.metric": ["roc_auc"]}, "'training.metric' is what trials are ranked by"),
        ({"training": [{"monitor": "loss"}]}, "'training' is no setting"),
        ({"model.name": ["pydoc:pipepager"]}, "runs only when you name it; .* say --trust pydoc:pipepager"),
        ({"training.epochs": ["many"]}, "training.epochs"),
        ([1], "a space is a mapping"),
    ],
)
def test_a_bad_space_is_one_sentence(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=said):
        load_space(space_file(tmp_path, content))


def test_a_recipe_that_comes_again_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    monkeypatch.setattr(
        "gamlp.tune.search.fit_blend", lambda *args, **more: trained.append(1) or fit_blend(*args, **more)
    )
    one = search(load("digits"), tmp_path, confirm=0)
    found = dataclasses.replace(one, space=load_space(space_file(tmp_path, {"model.hidden": [16]}))).run(3)
    assert [trial["state"] for trial in found.trials] == ["complete"] * 3 and len(trained) == 1
    assert len({trial["valid"] for trial in found.trials}) == 1


def test_a_search_by_loss_keeps_the_least(tmp_path: Path) -> None:
    graph = load("digits")
    found = search(graph, tmp_path, by="loss", confirm=0).run(3)
    losses = [trial["valid loss"] for trial in found.trials if trial["state"] == "complete"]
    assert len(losses) > 1 and found.score == min(losses) > 0 and f"loss {min(losses):.4f} ±" in found.recipe.about
    with pytest.raises(GamlpError, match="another measure"):
        search(graph, tmp_path).run(3)


def test_a_search_goes_by_the_metric_of_the_base_recipe(tmp_path: Path) -> None:
    """Fails where trials are ranked by accuracy whatever was asked for."""
    graph, few = load("digits"), {"training.epochs": 5, "training.metric": "roc_auc"}
    one = search(graph, tmp_path, confirm=0)
    one = dataclasses.replace(one, base=one.base.changed(few))
    found = one.run(2)
    valid = fit_prepared(one.prepared(found.recipe, graph, 0), 0, Machine()).valid
    scores = [trial["valid"] for trial in found.trials if trial["state"] == "complete"]
    assert found.score == max(scores) == valid["metric"] != valid["score"]
    assert "ROC-AUC" in found.recipe.about and found.recipe.training.metric == "roc_auc"


def test_an_empty_space_is_refused_where_no_subsets_are_chosen(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="the space is empty"):
        dataclasses.replace(search(load("digits"), tmp_path), space=load_space("subsets")).run(1)
    assert not (tmp_path / "study").exists()


def test_the_verb_writes_a_recipe_and_its_log(tmp_path: Path) -> None:
    from gamlp.cli.main import app

    out = tmp_path / "digits.yaml"
    arguments = ["tune", "digits", "--out", str(out), "--space", str(space_file(tmp_path)), "--trials", "2"]
    arguments += ["--seeds", "1", "--confirm", "0", "--set", "training.epochs=3", "--set", "model.hidden=8"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert Recipe.of(out)["training.epochs"] == 3
    rows = list(csv.DictReader(out.with_suffix(".csv").read_text().splitlines()))
    assert [row["trial"] for row in rows] == ["0", "1"]
    assert "validation" in done.output and str(out.with_suffix(".csv").name) in done.output.replace("\n", "")


def test_recipes_that_are_given_are_tried_first_and_once(tmp_path: Path) -> None:
    given = Recipe.of(BASE).changed({"training.learning_rate": 0.03, "propagation.hops": 1, "model.beta": 0.0})
    for _ in range(2):
        found = search(load("digits"), tmp_path, first=(given,), confirm=0).run(2)
    assert found.trials[1]["training.learning_rate"] == 0.03 and found.trials[1]["propagation.hops"] == 1
    assert len(found.trials) == 2


QUICK = {"model": {"hidden": 4, "layers": 1}, "training": {"epochs": 8, "learning_rate": 0.05}}
OUTSIDE = {"training.learning_rate": [1e-9, 2e-9], "model.dropout": {"low": 0.1, "high": 0.9, "step": 0.1}}


def quick_search(folder: Path, space: Any, **changes: Any) -> Search:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"seeds": (0,), "confirm": 1, "confirm_seeds": (0, 1), **changes}
    return Search([load("karate")], Recipe.of(QUICK), load_space(space_file(folder, space)), folder / "s", **settings)


@pytest.mark.parametrize("confirm", [0, 1])
def test_the_start_recipe_is_tried_first_and_nothing_worse_is_found(confirm: int, tmp_path: Path) -> None:
    """Where every value of the space learns nothing, the recipe that was begun with is the best."""
    search = quick_search(tmp_path, OUTSIDE, confirm=confirm)
    found = search.run(4)
    assert "training.learning_rate" not in found.trials[0], "its own value lies outside the space, and is kept"
    assert found.trials[0]["model.dropout"] == Recipe()["model.dropout"]
    assert found.recipe.changed({"about": ""}) == search.base.changed({"about": ""})
    assert found.start == found.score and found.text.endswith(f"(the start recipe: {100 * found.score:.2f} %)")
    alone: list[float] = []
    search.validate(search.base, search.confirm_seeds if confirm else search.seeds, alone.append)
    assert found.score == pytest.approx(sum(alone) / len(alone))


def test_the_start_recipe_stands_among_those_that_are_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many noisy trials are better by luck: the start recipe, which more seeds show to be the best, comes back."""
    start = Recipe.of(QUICK)

    def lucky(search: Search, recipe: Recipe, seeds: tuple[int, ...], after: Any) -> None:
        for _ in seeds:
            after((0.8 if len(seeds) > 1 else 0.5) if recipe == start else (0.7 if len(seeds) > 1 else 0.9))

    monkeypatch.setattr(Search, "validate", lucky)
    found = quick_search(tmp_path, {"training.learning_rate": [0.01, 0.02]}, confirm=1).run(5)
    assert found.recipe.training.learning_rate == 0.05 and found.score == pytest.approx(0.8)


@pytest.mark.slow
def test_a_search_is_drawn_by_its_seed_and_goes_on_as_if_never_interrupted(tmp_path: Path) -> None:
    space = {"training.learning_rate": {"low": 1e-3, "high": 1.0, "log": True}, "model.beta": [0.0, 0.3, 1.0]}

    def drawn(folder: str, *trials: int, seed: int = 0) -> list[Any]:
        for number in trials:
            found = quick_search(tmp_path / folder, space, confirm=0, seed=seed).run(number)
        return [{key: value for key, value in trial.items() if key != "seconds"} for trial in found.trials]

    one = drawn("one", 10)
    assert len({trial["training.learning_rate"] for trial in one}) > 6
    assert drawn("two", 3, 10) == one
    assert drawn("three", 3, seed=1)[1:] != one[1:3]


def test_a_search_without_validation_rows_is_refused_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    roles = graph.nodes.split.roles.copy()
    roles[roles == 2] = 0
    monkeypatch.setattr("gamlp.tune.search.fit_blend", lambda *_: pytest.fail("it trained"))
    space = {"model.hidden": Choice(choices=[4, 8])}
    search = Search([with_nodes(graph, split=Split(roles))], RECIPE, space, tmp_path / "s", resources=ONE_THREAD)
    with pytest.raises(GamlpError, match="goes by validation rows, and none"):
        search.run(2)
