"""The paper's tables as data: each file against the schema, the registries, and number by number the paper itself."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench.cells import recipe_in
from gamlp.bench.tables import NAMES, PaperTable, read_table, table_of
from gamlp.errors import GamlpError
from gamlp.graph.datasets import synthetic
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.models import labels_used
from gamlp.peers.registry import METHODS, recipe_named
from gamlp.recipe import Recipe, shipped_names
from tests.bench import latex

# Headings of the paper's tables that are metrics; all others are datasets or methods.
METRICS = {
    "Val Accuracy": "valid.score",
    "Validation Accuracy": "valid.score",
    "Test Accuracy": "test.score",
    "Test accuracy": "test.score",
    "Training Time": "seconds.training",
    "Training time": "seconds.training",
}
NUMBERED = [
    "citation", "co-purchase", "ogbn-products", "ogbn-papers100m", "inductive", "ogbn-mag", "ablation-labels",
    "ablation-reference", "ablation-alpha", "efficiency",
]  # fmt: skip
ABLATED = ("pubmed", "amazon-computers", "amazon-photo", "coauthor-cs", "short-video")
OTHERS = ("heterogeneous",)  # tables whose published values stand in other papers
Cells = dict[tuple[str, str, str], latex.Number]  # method, dataset, metric


@pytest.fixture(scope="module")
def paper(data_dir: Path) -> str:
    """The paper's LaTeX, beside the raw data."""
    place = data_dir.parent / "paper" / "gamlp.tex"
    if not place.is_file():
        pytest.skip(f"the paper's LaTeX is not at {place}")
    return latex.read(place)


def labels_of(table: PaperTable) -> dict[str, list[str]]:
    """LaTeX label → datasets whose published values stand there."""
    given = {name for cells in table.published.values() for name in cells}
    found: dict[str, list[str]] = {}
    for name in (name for name in table.datasets if name in given):
        found.setdefault(table.datasets[name].label or table.source.label, []).append(name)
    return found


def in_paper(text: str, label: str, titles: dict[str, str]) -> Cells:
    """What the paper's table says, methods as rows or as columns; `titles` are titles → names of its datasets."""
    found = {}
    for (row, column), number in latex.cells_of(text, label).items():
        method, heading = (column, row) if row in METRICS else (row, column)
        if heading in METRICS:
            (dataset,) = titles.values()
            found[method, dataset, METRICS[heading]] = number
        else:
            found[method, titles[heading], "test.score"] = number
    return found


def in_file(table: PaperTable, datasets: list[str]) -> Cells:
    return {
        (method, dataset, metric): (value.mean, value.deviation)
        for method, cells in table.published.items()
        for dataset, values in cells.items()
        if dataset in datasets
        for metric, value in values.items()
    }


def disagreements(published: Cells, ours: Cells) -> list[str]:
    """Every cell that one side has and the other has not, or not with the same numbers."""
    return [
        f"{key}: the paper has {published.get(key)}, the file {ours.get(key)}"
        for key in sorted(published.keys() | ours.keys())
        if published.get(key) != ours.get(key)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_valid_and_named_as_its_file(name: str) -> None:
    table = table_of(name)
    assert table.name == name
    assert table.seeds >= 3 and table.budget_minutes > 0 and table.title and table.source.label


def test_every_file_is_a_table_that_can_be_asked_for() -> None:
    folder = resources.files("gamlp.bench") / "tables"
    assert {entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml")} == {f"{n}.yaml" for n in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_datasets_are_in_the_catalogue_or_described(name: str) -> None:
    table = table_of(name)
    generated, tasks = table.options.get("generated", {}), table.options.get("tasks", {})
    assert table.datasets.keys() <= DATASETS.keys() | generated.keys() | tasks.keys()
    assert not (generated.keys() | tasks.keys()) - table.datasets.keys()
    for settings in generated.values():
        known = inspect.signature(getattr(synthetic, settings["generator"].replace("-", "_"))).parameters
        assert settings.keys() - {"generator"} <= known.keys() - {"out", "threads", "replace", "progress"}
    for graphs in tasks.values():
        assert {graphs["train"], graphs["valid"], *graphs["tests"]} <= DATASETS.keys()
        assert graphs["train"] not in graphs["tests"] and graphs["valid"] not in graphs["tests"]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_a_shipped_recipe_of_a_known_method_with_changes_it_takes(name: str) -> None:
    table = table_of(name)
    for dataset in table.datasets:
        if dataset.startswith("ogbn-"):  # published alone
            continue
        for method in table.runs_of(dataset):
            row = table.methods[method]
            for point in table.axis.values if table.axis else (None,):
                recipe = recipe_in(table, row, dataset, point)
                assert recipe.model.name in METHODS
                used = table.datasets[dataset].recipes.get(row.recipe or "", row.recipe)
                searched = [f"{dataset}-{row.tuned}", f"{dataset}-{used}-{row.tuned}"]
                if row.tuned is not None and set(searched) & set(shipped_names()):
                    assert recipe in [Recipe.of(one) for one in searched if one in shipped_names()]
                    continue
                assert all(recipe[key] == value for key, value in row.changes.items())
                if table.axis is not None and not table.axis.key.startswith("graph."):
                    assert recipe[row.axis or table.axis.key] == point
                else:
                    assert row.axis is None or recipe[row.axis] is not None


@pytest.mark.parametrize("name", NAMES)
def test_recipes_of_all_rows_are_shipped(name: str) -> None:
    for row in table_of(name).methods.values():
        if row.recipe is not None:
            assert row.recipe in shipped_names()
            assert recipe_named(row.recipe).model.name in METHODS


def test_citation_and_co_purchase_run_every_method() -> None:
    """But those that have no epochs or of which the paper gives the cost alone, and those of several types."""
    plain = {name for name, method in METHODS.items() if method.family not in ("types", "solved")}
    everyone = plain - {"gamlp", "nars", "fastgcn"} | {"jk", "recursive", "sagn-labels"}
    for name in ("citation", "co-purchase"):
        assert {row.recipe for row in table_of(name).methods.values()} == everyone


def test_tables_have_every_peer_and_column_that_is_to_be_measured() -> None:
    papers = {method for method in table_of("citation").published if method in table_of("co-purchase").published}
    assert len(papers) == 12
    for name in ("edge-sparsity", "label-sparsity"):
        assert table_of(name).methods.keys() == papers and table_of(name).seeds == 10
    deep = {"GAMLP(JK)", "GAMLP(R)", "SGC", "S²GC", "GBP", "JK-Net", "APPNP"}
    assert table_of("depth").methods.keys() == deep and table_of("depth").seeds == 10
    for name in ("ablation-labels", "ablation-reference", "ablation-alpha"):
        assert set(ABLATED) <= table_of(name).datasets.keys() and table_of(name).seeds == 10
    inductive, own = table_of("inductive"), table_of("inductive-nodes")
    assert {*own.methods, "SAGN+0-SLE", "UniMP"} == {*inductive.methods, "SAGN+0-SLE", "UniMP"}
    assert set(inductive.runs_of("twitch")) == set(inductive.methods) and inductive.seeds == own.seeds == 10
    types = {"R-GCN", "HGT", "HGConv", "R-HGNN", "R-GSN", "NARS", "SIGN", "NARS-GAMLP"}
    assert types <= set(table_of("heterogeneous").runs_of("hgb-acm"))


def test_efficiency_ends_by_itself_and_beside_it_all_have_the_same_epochs() -> None:
    ends, equal = table_of("efficiency"), table_of("efficiency-epochs")
    assert ends.methods.keys() == equal.methods.keys() and ends.datasets.keys() == equal.datasets.keys()
    assert ends.options == equal.options
    for dataset in ends.datasets:
        for method in ends.runs_of(dataset):
            last = recipe_in(ends, ends.methods[method], dataset, None).training
            assert (last.epochs, last.patience, last.keep) == (500, 50, "best"), f"{method} on {dataset}"
            same = recipe_in(equal, equal.methods[method], dataset, None)
            assert (same.training.epochs, same.training.patience) == (20, 0)
            assert same.propagation.scaling == "none"  # rows of generated features do not sum to one


@pytest.mark.parametrize("name", ["ablation-labels", "ablation-alpha"])
def test_the_label_branch_is_on_in_every_variant_but_no_label(name: str) -> None:
    table = table_of(name)
    for method, row in table.methods.items():
        for dataset in ABLATED:
            assert labels_used(recipe_in(table, row, dataset, None)) is (method != "-no_label")


@pytest.mark.parametrize("name", NUMBERED)
def test_every_published_number_is_the_papers_and_none_is_left_out(name: str, paper: str) -> None:
    table = table_of(name)
    labels = labels_of(table)
    assert labels
    for label, datasets in labels.items():
        ours = in_file(table, datasets)
        assert disagreements(in_paper(paper, label, {table.datasets[one].title: one for one in datasets}), ours) == []
        # And without regard to rows and columns: the numbers themselves, as often as the paper has them.
        written = Counter(number for value in ours.values() for number in value if number is not None)
        assert written == Counter(latex.numbers(paper, label))


@pytest.mark.parametrize("name", NUMBERED)
def test_one_wrong_missing_or_invented_number_is_found(name: str, paper: str) -> None:
    table = table_of(name)
    for label, datasets in labels_of(table).items():
        ours = in_file(table, datasets)
        published = in_paper(paper, label, {table.datasets[one].title: one for one in datasets})
        for key, (mean, deviation) in ours.items():
            assert disagreements(published, ours | {key: (round(mean + 0.1, 2), deviation)})
            assert disagreements(published, ours | {key: (mean, 0.33 if deviation is None else deviation + 0.01)})
            assert disagreements(published, {other: value for other, value in ours.items() if other != key})
        assert disagreements(published, ours | {("MLP", datasets[0], "test.score"): (50.0, 1.0)})


def test_published_values_stand_in_checked_tables_or_in_a_sentence_of_the_text(paper: str) -> None:
    """Depth has no table: its one number is a bound that the text states. Beyond repeats some of checked tables."""
    assert {name for name in NAMES if table_of(name).published} == {*NUMBERED, *OTHERS, "depth", "beyond"}
    (value,) = (one for cells in table_of("depth").published.values() for one in cells["pubmed"].values())
    sentence = re.search(
        r"depth equals (\d+), the predictive accuracy of our GAMLP\(JK\) still exceeds ([\d.]+)", paper
    )
    assert sentence is not None
    assert (value.at, value.mean, value.bound) == (int(sentence[1]), float(sentence[2]), "above")


def test_hgb_tells_both_scores_of_every_published_row_and_runs_every_peer_by_type() -> None:
    table = table_of("heterogeneous")
    assert table.seeds == 5 and table.datasets.keys() == {"hgb-acm", "hgb-dblp", "hgb-imdb"}
    for cells in table.published.values():
        for values in cells.values():
            assert values.keys() == {"test.macro_f1", "test.micro_f1"}
            assert all(value.deviation is not None for value in values.values())
    for method in ("R-GCN", "HGT", "HAN", "GTN", "MAGNN", "Simple-HGN", "SeHGNN without labels"):
        assert table.published[method].keys() == table.datasets.keys()
    by_type = {name for name, method in METHODS.items() if method.family == "types"}
    assert by_type <= {row.recipe for row in table.methods.values()}
    assert "half of the test rows" in table.footnotes[0]


def test_beyond_has_gamlps_published_values_on_all_transductive_sets() -> None:
    table, sources = table_of("beyond"), [table_of("citation"), table_of("co-purchase")]
    assert list(table.datasets) == [dataset for source in sources for dataset in source.datasets]
    for source in sources:
        for dataset in source.datasets:
            assert (table.datasets[dataset].label or table.source.label) == source.source.label
            for method, cells in table.published.items():
                assert cells[dataset] == source.published[method][dataset]
    assert table.published.keys() == {"GAMLP(JK)", "GAMLP(R)"} and table.seeds == 10


def test_beyond_runs_the_attention_that_validates_better() -> None:
    """As the recipes say of the search that found them: a new recipe may turn this, and then the column has to."""
    table = table_of("beyond")
    for dataset, column in table.datasets.items():
        found = {}
        for name in ("jk", "recursive"):
            told = re.search(r"validation (loss )?([\d.]+)", Recipe.of(f"{dataset}-{name}").about)
            assert told is not None, f"{dataset}-{name} does not say how it validated"
            found[name] = float(told[2]) * (-1 if told[1] else 1)
        assert column.recipes.get("jk", "jk") == max(found, key=lambda name: found[name]), dataset
    first, *others = table.runs_of("cora")
    plain = recipe_in(table, table.methods[first], "cora", None)
    assert plain == Recipe.of(f"cora-{table.datasets['cora'].recipes.get('jk', 'jk')}") and len(others) >= 4


def test_rows_of_beyond_change_what_they_are_called_by_and_nothing_else() -> None:
    table = table_of("beyond")
    sections = {"+ C&S": {"smoothing"}, "+ SCR": {"consistency"}, "+ RLU": {"training"}}
    for method, own in {**sections, "+ RLU + SCR": {"consistency", "training"}}.items():
        row = table.methods[method]
        assert row.recipe == "jk" and {key.partition(".")[0] for key in row.changes} == own
    both = table.methods["+ RLU + SCR"].changes
    assert both == table.methods["+ RLU"].changes | table.methods["+ SCR"].changes
    general = Recipe.of("correct-and-smooth").smoothing
    assert general is not None and recipe_in(table, table.methods["+ C&S"], "cora", None).smoothing == general


def test_co_purchase_has_gcn_on_the_same_splits_and_says_how_validation_differs_from_test() -> None:
    table = table_of("co-purchase")
    assert all("GCN" in table.runs_of(dataset) and table.published["GCN"][dataset] for dataset in table.datasets)
    assert any("class-balanced" in note and "GCN" in note for note in table.footnotes)
    for dataset in table.datasets:
        assert (DATASETS[dataset].per_class or (0, 0))[1] == 30


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERS])
def test_sources_are_labels_of_the_paper(name: str, paper: str) -> None:
    table = table_of(name)
    for label in {table.source.label, *(one.label for one in table.datasets.values() if one.label)}:
        assert latex.environment(paper, label)


def test_settings_that_the_text_states(paper: str) -> None:
    depth, steps, weights = table_of("depth"), table_of("sgc-steps"), table_of("hop-weights").options
    assert depth.axis is not None
    assert f"at propagation depth {', '.join(map(str, depth.axis.values))} on the PubMed" in paper
    assert f"SGC on {steps.options['nodes']} randomly sampled nodes of Citeseer" in paper
    assert f"in {steps.seeds} different runs" in paper
    ranges = ", ".join(f"{low}-{high}" for low, high in weights["degrees"])
    assert f"select {weights['nodes']} nodes for each degree range ({ranges})" in paper
    assert f"the maximum step is {weights['hops']}" in paper
    assert "papers100M dataset, we run each method five times" in paper and table_of("ogbn-papers100m").seeds == 5


def test_complexity_formulas_are_the_papers(paper: str) -> None:
    _heading, *rows = latex.rows_of(paper, "algorithm analysis")
    published = {}
    for _kind, method, *cells in rows:
        published[method] = dict(zip(("preparation", "training", "memory"), (cell.strip("$") for cell in cells)))
    assert table_of("complexity").options["formulas"] == published
    assert table_of("complexity").methods.keys() == published.keys()


def test_products_shape_is_a_tenth_of_the_papers_counts(paper: str) -> None:
    (row,) = (row for row in latex.rows_of(paper, "tab:data") if row[0] == "ogbn-products")
    made = table_of("efficiency").options["generated"]["products-shape"]
    nodes, features, edges, classes = (int(cell.replace(",", "")) for cell in row[1:5])
    assert (made["nodes"], made["edges"]) == (round(nodes / 10), round(edges / 10))
    assert (made["features"], made["classes"]) == (features, classes)
    train, valid, test = (int(part.rstrip("k")) for part in row[5].split("/"))
    assert made["train"] == round(train / (train + valid + test), 2)
    assert made["valid"] == round(valid / (train + valid + test), 2)


@pytest.mark.parametrize(
    ("name", "made", "share"),
    [("ogbn-products", "products-hundredth", 100), ("ogbn-papers100M", "papers100m-thousandth", 1000)],
)
def test_shapes_of_the_large_sets_are_shares_of_the_papers_counts(name: str, made: str, share: int, paper: str) -> None:
    (row,) = (row for row in latex.rows_of(paper, "tab:data") if row[0] == name)
    generated = table_of(name.lower()).options["generated"][made]
    nodes, features, edges, classes = (int(cell.replace(",", "")) for cell in row[1:5])
    assert (generated["nodes"], generated["edges"]) == (round(nodes / share), round(edges / share))
    assert (generated["features"], generated["classes"]) == (features, classes)
    train, valid, test = (1000 * int(part.rstrip("k")) for part in row[5].split("/"))
    labelled = generated.get("labelled", 1.0)
    assert labelled == pytest.approx((train + valid + test) / nodes, rel=0.01)
    assert generated["train"] == pytest.approx(train / (train + valid + test), abs=0.005)
    assert generated["valid"] == pytest.approx(valid / (train + valid + test), abs=0.005)


@pytest.mark.parametrize("name", ["ogbn-products", "ogbn-papers100m", "ogbn-mag"])
def test_large_sets_have_a_column_of_their_shape_that_runs_every_row(name: str) -> None:
    """By the recipes of the set itself, and never beside the published values."""
    table = table_of(name)
    own, shape = table.datasets
    assert own == name and table.datasets[shape].stand_in and table.datasets[shape].like == name
    assert table.runs_of(shape) == table.runs_of(name) == tuple(table.methods)
    for method, row in table.methods.items():
        assert recipe_in(table, row, shape, None) == recipe_in(table, row, name, None), method


SMALL: dict[str, Any] = {
    "name": "small",
    "title": "Small",
    "source": {"paper": "a paper", "label": "tab:small"},
    "datasets": {"cora": {"title": "Cora"}},
    "methods": {"SGC": {"recipe": "sgc"}, "FastGCN": {}},
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"published": {"GCN": {"cora": 1.0}}}, "no method of the table"),
        ({"published": {"SGC": {"pubmed": 1.0}}}, "no dataset of the table"),
        ({"published": {"SGC": {"cora": {"valid.score": 1.0}}}}, "no metric of 'cora'"),
        ({"published": {"SGC": {"cora": [81.0, -0.2]}}}, "greater than or equal to 0"),
        ({"published": {"SGC": {"cora": {"test.score": {"mean": 1, "at": 3}}}}}, "no value of the axis"),
        ({"datasets": {"cora": {"title": "Cora", "methods": ["GCN"]}}}, "no method of the table"),
        ({"kind": "curve"}, "a curve has an axis"),
        ({"seed": 10}, "not permitted"),
    ],
)
def test_a_table_that_does_not_hold_together_is_refused(change: dict[str, Any], sentence: str) -> None:
    assert read_table(SMALL).runs_of("cora") == ("SGC",)
    with pytest.raises(GamlpError, match=sentence):
        read_table(SMALL | change)


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(GamlpError, match="did you mean 'citation'"):
        table_of("citations")
