"""The published experiments, each by one command on a raw folder of its set's own layout, fabricated small.

Whoever has the files gets the paper's experiment by `gamlp run NAME --data-dir FOLDER`; here widths and epochs are cut,
so that the way is what is tested: files → graph → hops → training → predictions and a report.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from gamlp.bench import table_of
from gamlp.bench.cells import recipe_in
from gamlp.graph.datasets import DATASETS
from gamlp.peers import recipes_for
from gamlp.recipe import Recipe, published_recipe, shipped_names
from gamlp.run import LOCAL, default_recipe, open_source, run_path
from tests.cli.people import Call
from tests.graph.datasets import raw_folders
from tests.graph.datasets.raw_folders import ogb_arrays, write_split_dict

ATTENTIONS = ("recursive", "jk")
VARIANTS = ("", "-rlu", "-scr", "-rlu-scr")
DEFAULTS = {"ogbn-products": "recursive"}
DEFAULTS |= dict.fromkeys(("ogbn-papers100m", "ogbn-mag", "ppi", "flickr", "reddit"), "jk")
NAMES = [f"{name}-{attention}{variant}" for name in DEFAULTS for attention in ATTENTIONS for variant in VARIANTS]

# The published settings, written out: tables of the paper's appendix, and for PPI, Flickr and Reddit the public code.
PUBLISHED: dict[str, dict[str, Any]] = {
    "ogbn-products-recursive": {
        "propagation.hops": 5, "propagation.label_hops": 10, "model.hidden": 512, "model.layers": 4,
        "model.input_dropout": 0.2, "model.attention_dropout": 0.5, "model.dropout": 0.5,
        "model.activation": "leaky_relu", "model.hop_mlp": True, "model.residual": True, "model.beta": 1.0,
        "training.learning_rate": 1e-3, "training.batch_size": 50000, "training.epochs": 400, "training.patience": 300,
    },
    "ogbn-papers100m-jk": {
        "propagation.hops": 12, "propagation.label_hops": 10, "model.hidden": 1280, "model.jk_layers": 4,
        "model.layers": 6, "model.input_dropout": 0.0, "model.attention_dropout": 0.5, "model.dropout": 0.5,
        "model.activation": "sigmoid", "model.beta": 1.0, "training.learning_rate": 1e-4, "training.batch_size": 5000,
        "training.epochs": 400, "training.patience": 60,
    },
    "ogbn-mag-jk": {
        "propagation.hops": 5, "propagation.label_hops": 3, "model.hidden": 512, "model.jk_layers": 4,
        "model.layers": 4, "model.input_dropout": 0.1, "model.attention_dropout": 0.0, "model.dropout": 0.5,
        "model.activation": "leaky_relu", "model.beta": 1.0, "training.learning_rate": 1e-3,
        "training.batch_size": 10000, "training.epochs": 400, "training.patience": 100,
    },
    "ppi-jk": {
        "propagation.hops": 10, "propagation.label_hops": 9, "model.hidden": 2048, "model.jk_layers": 4,
        "model.layers": 6, "model.input_dropout": 0.1, "model.attention_dropout": 0.0, "model.dropout": 0.1,
        "model.activation": "sigmoid", "training.learning_rate": 1e-3, "training.epochs": 800, "training.patience": 100,
    },
    "ppi-recursive": {"model.hidden": 2048, "model.layers": 6, "model.dropout": 0.1, "training.epochs": 600},
    "flickr-jk": {
        "propagation.hops": 10, "propagation.label_hops": 5, "model.hidden": 512, "model.jk_layers": 2,
        "model.layers": 2, "model.dropout": 0.7, "training.learning_rate": 1e-3, "training.batch_size": 250,
        "training.epochs": 50,
    },
    "flickr-recursive": {"model.dropout": 0.5, "training.learning_rate": 1e-4, "training.batch_size": 250},
    "reddit-jk": {
        "propagation.hops": 10, "propagation.label_hops": 4, "model.hidden": 512, "model.jk_layers": 2,
        "model.layers": 2, "model.dropout": 0.7, "training.learning_rate": 1e-4, "training.batch_size": 1000,
        "training.epochs": 350,
    },
    "reddit-recursive": {"model.dropout": 0.7, "training.learning_rate": 1e-4, "training.epochs": 350},
}  # fmt: skip


def _products(root: Path) -> None:
    raw_folders.write_tables(root / "ogbn_products", ogb_arrays(47, 100), "sales_ranking")


def _papers(root: Path) -> None:
    raw_folders.write_papers(root / "papers100M-bin", ogb_arrays(172))


def _mag(root: Path) -> None:
    raw_folders.write_mag(root / "mag", ogb_arrays(349))


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "ogbn-products": _products,
    "ogbn-papers100m": _papers,
    "ogbn-mag": _mag,
    "ppi": lambda root: raw_folders.write_ppi(root / "PPI" / "raw"),
    "flickr": lambda root: raw_folders.write_flickr(root / "Flickr" / "raw"),
    "reddit": lambda root: raw_folders.write_reddit(root / "Reddit" / "raw"),
}
# What is cut so that a run takes a second; all else is as published.
SMALL = {"model.hidden": 8, "training.epochs": 2, "training.batch_size": 16, "relations.embedding_epochs": 1}
FEWER = {"training.stages": 2}


@pytest.mark.parametrize("name", NAMES)
def test_every_published_set_has_both_attentions_plain_with_rlu_with_scr_and_with_both(name: str) -> None:
    recipe, plain = Recipe.of(name), Recipe.of(name.replace("-rlu", "").replace("-scr", ""))
    assert name in shipped_names()
    assert recipe.model.name == "gamlp" and recipe.model.attention == ("jk" if "-jk" in name else "recursive")
    assert (recipe.training.stages > 1) is ("-rlu" in name)
    assert (recipe.consistency is not None) is ("-scr" in name)
    assert recipe.model == plain.model and recipe.propagation == plain.propagation
    assert "Not measured on the real files." in recipe.about
    if recipe == plain:
        assert "our default" in recipe.about and ("the authors' code" in recipe.about or "sources" in recipe.about)
    else:
        base = name.replace("-rlu", "").replace("-scr", "")
        assert recipe.about.startswith(f"As {base} (its sources are there). With ")
        assert "authors' code" in recipe.about or "SCR's authors" in recipe.about or "these are ours" in recipe.about


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_holds_the_published_settings(name: str) -> None:
    recipe = Recipe.of(name)
    assert {key: recipe[key] for key in PUBLISHED[name]} == PUBLISHED[name]


def test_the_inductive_sets_are_honest() -> None:
    """Another tissue has no training labels, so PPI has no label branch; training rows see each other alone."""
    for name in NAMES:
        recipe, inductive = Recipe.of(name), not name.startswith("ogbn")
        assert (recipe.training.setting == "inductive") is inductive
        assert (recipe.model.beta == 0) is name.startswith("ppi")
        if recipe.training.stages == 1 and recipe.consistency is None:
            assert ("Not to be compared with the published score" in recipe.about) is inductive


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("variant", ["", "-rlu-scr"])
def test_a_published_experiment_is_one_command(name: str, variant: str, tmp_path: Path, call: Call) -> None:
    """Fails where the recipe is not the dataset's own, a file of the layout is not read, or a run does not end."""
    FOLDERS[name](tmp_path / "data")
    asked = f"{name}-{DEFAULTS[name]}{variant}"
    cut = SMALL | (FEWER if variant else {})
    words = " ".join(f"--set {key}={value}" for key, value in cut.items())
    named = f"--recipe {asked}" if variant else ""
    ended = call(f"run {name} {named} --data-dir data --out made {words} --threads 1")
    assert ended.code == 0, ended.err
    assert f"recipe: {asked}" in ended.out
    used = yaml.safe_load((tmp_path / "made" / "recipe.yaml").read_text())
    wanted = Recipe.of(asked).changed(cut)
    if variant and wanted.training.setting == "inductive":  # every row of the training graph has a label
        assert "the training graph has none: they are left out" in ended.out
        wanted = wanted.changed({"consistency": None, "training.stages": 1})
    for section in ("model", "training", "consistency"):
        assert used[section] == yaml.safe_load(wanted.to_yaml())[section]
    for key in ("hops", "label_hops", "r", "label_r", "loops", "scaling"):
        assert used["propagation"][key] == getattr(wanted.propagation, key)
    assert (tmp_path / "made" / "report.html").stat().st_size > 1000
    predicted = pq.read_table(tmp_path / "made" / "predictions.parquet")
    assert predicted.num_rows > 20


def test_without_any_option_the_published_recipe_is_used_and_nothing_is_chosen(
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`gamlp run ogbn-products`; the training itself, of width 512, is cut short here."""
    _products(tmp_path / "data")
    used: list[Recipe] = []

    def run(source: Any, recipe: Recipe, out: Path, **settings: Any) -> Any:
        used.append(recipe)
        return run_path(source, recipe.changed(SMALL), out, **settings)

    monkeypatch.setattr("gamlp.run.path.run_path", run)
    ended = call("run ogbn-products --data-dir data --out made --threads 1")
    assert ended.code == 0, ended.err
    assert used == [Recipe.of("ogbn-products-recursive")]
    assert "note: settings of ogbn-products are published, and used; --preset default tries several." in ended.out


def test_a_preset_still_chooses(tmp_path: Path, call: Call) -> None:
    _products(tmp_path / "data")
    ended = call("run ogbn-products --preset fast --data-dir data --out made --threads 1")
    assert ended.code == 0 and "preset fast" in ended.out, ended.err


@pytest.mark.parametrize("typed", ["ogbn-papers100m", "ogbn-papers100M"])
def test_a_split_dict_and_a_name_as_ogb_spells_it(typed: str, tmp_path: Path) -> None:
    raw_folders.write_papers(tmp_path / "ogbn_papers100M", ogb_arrays(172), write=partial(write_split_dict))
    source = open_source(typed, tmp_path)
    assert default_recipe(source) == "ogbn-papers100m-jk"
    made = run_path(source, Recipe.of("ogbn-papers100m-jk").changed(SMALL), tmp_path / "made", resources=LOCAL)
    assert made.predictions is not None and made.test is not None


def test_the_defaults_are_what_the_paper_gives() -> None:
    assert {name: published_recipe(name) for name in DEFAULTS} == {
        name: f"{name}-{attention}" for name, attention in DEFAULTS.items()
    }
    assert published_recipe("cora") is None
    assert set(DEFAULTS) <= set(DATASETS)


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_tables_of_these_sets_use_them(name: str) -> None:
    table = table_of("inductive" if not name.startswith("ogbn") else name)
    rows = {"GAMLP(JK)": "jk", "GAMLP(R)": "recursive", "NARS-GAMLP": "jk"}
    found = {row: recipe for row, recipe in rows.items() if row in table.methods}
    assert found
    for row, recipe in found.items():
        assert recipe_in(table, table.methods[row], name, None) == Recipe.of(f"{name}-{recipe}")


def test_what_fits_such_a_set_are_its_own_recipes_first_with_their_sources(tmp_path: Path, call: Call) -> None:
    _products(tmp_path)
    graph = open_source("ogbn-products", tmp_path).opened
    own = recipes_for(graph, "ogbn-products")[:8]
    assert own[0].name == "ogbn-products-recursive"
    assert {one.name for one in own} == {name for name in NAMES if name.startswith("ogbn-products")}
    assert all(one.why == Recipe.of(one.name).about for one in own)
    ended = call("recipes ogbn-products --data-dir .")
    assert ended.code == 0 and "gamlp run ogbn-products: uses ogbn-products-recursive" in ended.out
    assert "as published for ogbn-products" in " ".join(ended.out.split())


def test_recipes_of_a_set_are_told_before_its_files_are_there(tmp_path: Path, call: Call) -> None:
    ended = call("recipes ogbn-papers100M --data-dir .")
    assert ended.code == 0 and "gamlp run ogbn-papers100M: uses ogbn-papers100m-jk" in ended.out
    assert "missing: put raw/data.npz" in ended.err
    ended = call("recipes ogbn-arxiv --data-dir .")  # it has none of its own
    assert ended.code == 2 and "ogbn-arxiv is missing" in ended.err
