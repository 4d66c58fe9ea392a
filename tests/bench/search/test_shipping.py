"""What a search leaves: a log of all trials, recipes that are shipped under their names, and how sure the choice is."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gamlp.bench.search import CellSearch, SearchCell, Shelf, rank_cell, ship, spearman, write_log, write_ranking
from gamlp.bench.search.trials import Line
from gamlp.errors import GamlpError
from gamlp.recipe import Choice, Recipe

pytest.importorskip("optuna")


def cell(present: float) -> SearchCell:
    """Its score is its learning rate, and a little more for each seed."""
    shipped = Recipe().changed({"training.learning_rate": present})
    space = {"training.learning_rate": Choice(choices=[0.1, 0.2, 0.3])}
    return SearchCell("karate-jk", "karate", "jk", space, shipped, {}, (("present", shipped),), shipped, 10)


def score(_: SearchCell, recipe: Recipe, replicate: int) -> Line:
    value = recipe.training.learning_rate + 0.001 * replicate
    return {"score": value, "loss": 1 - value, "seconds": 1.0}


def searched(folder: Path, one: SearchCell, runs: int = 8) -> CellSearch:
    search = CellSearch([one], folder, score, lambda _: None)
    search.run(60, most_runs=runs)
    return search


def test_the_leader_is_shipped_with_the_story_of_its_search(tmp_path: Path) -> None:
    one = cell(0.15)
    search = searched(tmp_path / "work", one)
    found = ship(search, one, tmp_path / "shipped", lambda _: None)
    assert found.replaced
    recipe = Recipe.of(tmp_path / "shipped" / "karate" / "jk.yaml")
    assert recipe.training.learning_rate == 0.3
    assert "validation 30.20 ± 0.16 % over 5 seeds, where the recipe before it has 15.20 ± 0.16 %" in recipe.about
    assert "test rows were not read" in recipe.about and f"of {len(search.trials(one.name).trials)} (" in recipe.about


def test_a_present_recipe_that_is_better_stays(tmp_path: Path) -> None:
    one = cell(0.9)
    said: list[str] = []
    found = ship(searched(tmp_path / "work", one), one, tmp_path / "shipped", said.append)
    assert not found.replaced and not (tmp_path / "shipped").exists()
    assert "the present one stays" in said[0]
    with pytest.raises(GamlpError, match="has no trial yet"):
        ship(CellSearch([one], tmp_path / "other", score), one, tmp_path / "shipped")


def test_the_log_has_every_trial_with_its_recipe(tmp_path: Path) -> None:
    one = cell(0.15)
    search = searched(tmp_path, one)
    path = write_log(one, search.trials(one.name), tmp_path / "logs")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    trials = search.trials(one.name).trials
    assert len(rows) == len(trials)
    for row, trial in zip(rows, trials):
        assert Recipe.of(json.loads(row["recipe"])) == trial.recipe
        assert (row["source"], row["state"]) == (trial.source, "complete")
        assert int(row["replicates"]) == len(trial.runs)
        assert float(row["seconds"]) == len(trial.runs)
        assert float(row["valid"]) == pytest.approx(
            trial.recipe.training.learning_rate + 0.001 * (len(trial.runs) - 1) / 2, abs=1e-4
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    for place, layers in {"photo/gcn": 1, "photo/sgc": 2, "computers/sgc": 3}.items():
        path = tmp_path / f"{place}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(Recipe().changed({"model.layers": layers, "about": place}).explicit_yaml())
    names = {"photo/gcn": ["computers-gcn", "cs-gcn"], "photo/sgc": ["cs-sgc"]}
    (tmp_path / "cs").mkdir()
    (tmp_path / "names.yaml").write_text("# Further names.\n" + yaml.safe_dump(names))
    return Shelf(tmp_path)


def meanings(shelf: Shelf) -> dict[str, int]:
    """Layers of the recipe behind every name."""
    found = {f"{path.parent.name}-{path.stem}": Recipe.of(path).model.layers for path in shelf.folder.glob("*/*.yaml")}
    for place, names in (yaml.safe_load((shelf.folder / "names.yaml").read_text()) or {}).items():
        for name in names:
            assert name not in found, "a name that is given twice"
            found[name] = Recipe.of(shelf.folder / f"{place}.yaml").model.layers
    return found


@pytest.mark.parametrize(
    ("dataset", "method", "layers"),
    [("computers", "gcn", 7), ("photo", "gcn", 7), ("photo", "sgc", 3), ("cs", "gcn", 1), ("computers", "sgc", 7)],
)
def test_a_name_gets_its_recipe_and_all_other_names_keep_theirs(
    dataset: str, method: str, layers: int, shelf: Shelf
) -> None:
    before = meanings(shelf)
    shelf.put(dataset, method, Recipe().changed({"model.layers": layers, "about": "new"}))
    assert meanings(shelf) == {**before, f"{dataset}-{method}": layers}
    files = [Recipe.of(path).changed({"about": ""}) for path in shelf.folder.glob("*/*.yaml")]
    assert all(one not in files[:at] for at, one in enumerate(files)), "a content exists once"
    assert (shelf.folder / "names.yaml").read_text().startswith("# Further names.\n")


def test_test_scores_are_read_only_after_the_choice_and_end_the_search(tmp_path: Path) -> None:
    one = cell(0.15)
    search = searched(tmp_path / "work", one)
    read: list[float] = []

    def test(_: SearchCell, recipe: Recipe, replicate: int) -> float:
        read.append(recipe.training.learning_rate)
        return 1 - recipe.training.learning_rate  # what is best by validation is worst

    with pytest.raises(GamlpError, match="its choice could still change"):
        rank_cell(search, one, test)
    assert not read
    ship(search, one, tmp_path / "shipped", lambda _: None)
    found = rank_cell(search, one, test)
    assert found["spearman"] == pytest.approx(-1)
    assert found["lost"] == pytest.approx(0.3 - 0.1)
    with pytest.raises(GamlpError, match="its search is over"):
        search.run(60)
    write_ranking({one.name: found}, tmp_path)
    assert "| karate-jk | 4 | -1.00 | 70.00 | 90.00 | 20.00 |" in (tmp_path / "uncertainty.md").read_text()
    assert json.loads((tmp_path / "uncertainty.json").read_text())["karate-jk"]["trials"]


def test_ranks_are_correlated_with_ties_as_their_mean() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)
    assert spearman([1, 1], [1, 2]) is None


def test_a_trial_that_failed_is_not_shipped(tmp_path: Path) -> None:
    one = replace(cell(0.15), space={"training.learning_rate": Choice(choices=[0.1, 0.3])})

    def fails(own: SearchCell, recipe: Recipe, replicate: int) -> Line:
        if recipe.training.learning_rate == 0.3 and replicate:
            raise GamlpError("fell over")
        return score(own, recipe, replicate)

    search = CellSearch([one], tmp_path / "work", fails, lambda _: None)
    search.run(60, most_runs=4)
    found = ship(search, one, tmp_path / "shipped", lambda _: None)
    assert found.leader == 0 and not found.replaced
