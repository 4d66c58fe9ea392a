"""A model on another table: columns are encoded by the states of training, whatever they were ingested with."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from gamlp.graph import Graph
from gamlp.graph.ingest import states_schema
from gamlp.run import evaluate, predict, train
from gamlp.training import Bundle, RunFolder
from tests.graph.features.test_again import graph_of, table

QUICK = {"training": {"epochs": 5}, "model": {"hidden": 8, "layers": 1}, "propagation": {"hops": 2, "label_hops": 1}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(graph_of(table(folder / "tables")), QUICK, folder / "run")
    return folder / "run"


def labels(run: Path, graph: Graph, out: Path) -> tuple[pyarrow.Table, tuple[str, ...]]:
    written = predict(run, out, graph=graph)
    assert written is not None
    return pyarrow.parquet.read_table(out), written.notes


def test_another_table_by_itself_is_as_if_ingested_with_the_schema(run: Path, tmp_path: Path) -> None:
    """Swapped columns, a node of another magnitude, a new category and a new gap."""
    trained = Graph.open(run.parent / "tables" / "graph")
    folder = table(tmp_path / "two", 30, 1, age={3: "9e7"}, city={5: "Bern", 6: ""})
    lines = [line.split(",") for line in (folder / "nodes.csv").read_text().splitlines()]
    swapped = [[row[0], row[2], row[1], *row[3:]] for row in lines]
    (folder / "nodes.csv").write_text("\n".join(map(",".join, swapped)) + "\n")
    assert [column.name for column in trained.columns["node"]] == ["age", "city", "since"]
    alone, notes = labels(run, graph_of(folder, "alone"), tmp_path / "alone.parquet")
    schema, _ = labels(
        run, graph_of(folder, "schema", schema=states_schema(trained.columns)), tmp_path / "schema.parquet"
    )
    assert alone.equals(schema) and len(alone) == 30
    assert notes == (
        "column 'city' of graph 'alone' holds 1 value that training never saw, such as 'Bern'",
        "column 'city' of graph 'alone' has 1 gap where training saw none: filled",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.parquet", "schema.parquet", "two"]


def test_evaluation_tells_what_is_new(run: Path, tmp_path: Path) -> None:
    other = graph_of(table(tmp_path / "two", 30, 1, city={3: "Bern"}))
    told = evaluate(RunFolder.open(run), other, other_nodes=True)
    assert told["notes"] == ["column 'city' of graph 'graph' holds 1 value that training never saw, such as 'Bern'"]


def test_an_inductive_bundle_holds_what_training_rows_alone_say(tmp_path: Path) -> None:
    recipe = QUICK | {"training": {"epochs": 2, "setting": "inductive"}}
    changed = dict.fromkeys(range(3, 40, 4), "9e7")  # test rows alone
    bundles = []
    for name, changes in (("one", {}), ("two", {"age": changed, "city": dict.fromkeys(changed, "Bern")})):
        graph = graph_of(table(tmp_path / name, **changes))
        train(graph, recipe, tmp_path / name / "run")
        bundles.append(Bundle.load(tmp_path / name / "run" / "bundle.safetensors"))
        assert bundles[-1].columns != graph.columns
        assert len(labels(tmp_path / name / "run", graph, tmp_path / f"{name}.parquet")[0]) == 40
    one, two = bundles
    assert one.columns == two.columns
    assert all(one.weights[key].numpy().tobytes() == two.weights[key].numpy().tobytes() for key in one.weights)


def test_a_folder_with_the_name_of_the_dataset_does_not_stand_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("karate", {"training": {"epochs": 2}, "model": {"hidden": 4}}, tmp_path / "karate")
    monkeypatch.chdir(tmp_path)
    written = predict("karate", "labels.csv")  # the run, which was trained on the dataset
    assert written is not None and written.rows == 34
