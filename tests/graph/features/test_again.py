"""Features made again from raw columns: the bytes of ingesting with the state, and nothing of rows without a say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, fingerprint
from gamlp.graph.features import fitted_on, written
from gamlp.graph.ingest import IngestOptions, ingest, states_schema
from gamlp.training import with_columns

CITIES = ("Oslo", "Rome", "Lima")


def table(folder: Path, rows: int = 40, seed: int = 0, **changes: dict[int, str]) -> Path:
    """A node table with an age, a city and a date; `changes`: cells by column and row. Edges lie beside."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(seed)
    cells = {
        "age": [f"{value:.1f}" for value in random.normal(40, 10, rows)],
        "city": [CITIES[value] for value in random.integers(3, size=rows)],
        "since": [f"20{10 + value % 10}-03-{1 + value % 28:02d}" for value in range(rows)],
        "label": ["ab"[value % 2] for value in range(rows)],
        "split": [("train", "train", "valid", "test")[value % 4] for value in range(rows)],
    }
    for name, values in changes.items():
        for row, value in values.items():
            cells.setdefault(name, [""] * rows)[row] = value
    rows_of = (",".join([f"n{row}", *(cells[name][row] for name in cells)]) for row in range(rows))
    lines = [",".join(["id", *cells]), *rows_of]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = "\n".join(f"n{row},n{(row * 7 + 1) % rows}" for row in range(rows))
    (folder / "edges.csv").write_text(f"src,dst\n{edges}\n")
    return folder


def graph_of(folder: Path, name: str = "graph", **options: object) -> Graph:
    ingest(folder / "edges.csv", folder / "nodes.csv", folder / name, IngestOptions(name=name, **options))  # type: ignore[arg-type]
    return Graph.open(folder / name)


def values(graph: Graph) -> bytes:
    assert graph.nodes.features is not None
    return np.asarray(graph.nodes.features.values[:]).tobytes()


def test_the_bytes_of_ingesting_with_the_state(tmp_path: Path) -> None:
    trained = graph_of(table(tmp_path / "one"))
    folder = table(tmp_path / "two", 30, 1, age={3: "9e7", 4: ""}, city={5: "Bern", 6: ""})
    with_schema = graph_of(folder, "schema", schema=states_schema(trained.columns))
    again, notes = with_columns(graph_of(folder, "alone"), trained.columns)
    assert values(again) == values(with_schema) and again.columns == trained.columns
    assert notes == [
        "column 'age' of graph 'alone' has 1 gap where training saw none: filled",
        "column 'city' of graph 'alone' holds 1 value that training never saw, such as 'Bern'",
        "column 'city' of graph 'alone' has 1 gap where training saw none: filled",
    ]
    kept = written(again, tmp_path / "work")
    assert values(kept) == values(again) and written(kept, tmp_path / "work") is kept
    numbers = np.array([29, 0, 7, 7])
    assert np.array_equal(again.nodes.features.values[numbers, 1:3], kept.nodes.features.values[numbers, 1:3])
    assert fingerprint.features(again) != fingerprint.features(trained)


def test_a_node_of_another_magnitude_changes_no_other_row(tmp_path: Path) -> None:
    trained = graph_of(table(tmp_path / "one"))
    plain, _ = with_columns(graph_of(table(tmp_path / "two", 30, 1)), trained.columns)
    far, _ = with_columns(graph_of(table(tmp_path / "three", 30, 1, age={3: "9e7"})), trained.columns)
    differ = np.flatnonzero((plain.nodes.features.values[:] != far.nodes.features.values[:]).any(1))
    assert differ.tolist() == [3]


def test_a_column_that_holds_one_value_here_is_what_it_was_in_training(tmp_path: Path) -> None:
    """By itself it would be left out as constant; the model was trained with it."""
    trained = graph_of(table(tmp_path / "one"))
    folder = table(tmp_path / "two", 8, 1, city=dict.fromkeys(range(8), "Rome"))
    again, _ = with_columns(graph_of(folder, "alone"), trained.columns)
    assert values(again) == values(graph_of(folder, "schema", schema=states_schema(trained.columns)))


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    trained = graph_of(table(tmp_path / "one"))
    words = graph_of(table(tmp_path / "words", age=dict.fromkeys(range(40), "old") | {1: "young", 2: "mid"}))
    with pytest.raises(GamlpError, match=r"column 'age' of graph 'graph' holds 40 cells such as 'old' where .*on type"):
        with_columns(words, trained.columns)
    untouched = graph_of(table(tmp_path / "two"), "plain", columns={"age": "as-is"}, drop=["city", "since"])
    with pytest.raises(GamlpError, match=r"lacks columns 'city', 'since' that the model was trained on"):
        with_columns(untouched, trained.columns)
    other = graph_of(table(tmp_path / "three"), "age", columns={"age": "standard"}, drop=["city", "since"])
    with pytest.raises(GamlpError, match=r"is a number where .* a column of type standard; ingest .* --schema RUN"):
        with_columns(untouched, other.columns)


def test_a_state_that_does_not_fit_its_width_is_refused(tmp_path: Path) -> None:
    trained = graph_of(table(tmp_path / "one"))
    wrong = {"node": tuple(one.model_copy(update={"width": one.width + 1}) for one in trained.columns["node"])}
    with pytest.raises(GamlpError, match="the state of column 'age' makes 1 features, not 2"):
        with_columns(graph_of(table(tmp_path / "two", 30, 1)), wrong)


def test_states_of_training_rows_know_nothing_of_others(tmp_path: Path) -> None:
    one = graph_of(table(tmp_path / "one"))
    changed = dict.fromkeys(range(3, 40, 4), "9e7")  # test rows alone
    two = graph_of(table(tmp_path / "two", age=changed, city=dict.fromkeys(changed, "Bern")))
    assert one.columns != two.columns
    rows = one.nodes.split.train
    fitted = [fitted_on(graph, rows) for graph in (one, two)]
    assert fitted[0].columns == fitted[1].columns != one.columns
    train = [graph.nodes.features.values[rows].tobytes() for graph in fitted]
    assert train[0] == train[1]


def test_a_type_that_somebody_named_stays_and_untouched_columns_have_no_state(tmp_path: Path) -> None:
    codes = {row: str(row % 3) for row in range(40)}
    graph = graph_of(table(tmp_path / "one", code=codes), columns={"code": "standard"})
    found = {column.name: column for column in fitted_on(graph, graph.nodes.split.train).columns["node"]}
    assert (found["code"].type, found["code"].asked) == ("standard", "standard") and found["age"].asked is None
    plain = graph_of(table(tmp_path / "two"), columns={"*": "as-is"}, drop=["city", "since"])
    assert fitted_on(plain, plain.nodes.split.train) is plain


def test_nothing_that_differs_among_training_rows_is_refused(tmp_path: Path) -> None:
    same = dict.fromkeys([row for row in range(40) if row % 4 < 2], "5")
    graph = graph_of(table(tmp_path / "one", age=same), drop=["city", "since"])
    with pytest.raises(GamlpError, match="no feature column of graph 'graph' differs among its training rows"):
        fitted_on(graph, graph.nodes.split.train)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_of_one_row_needs_the_states_of_the_model(tmp_path: Path) -> None:
    trained = graph_of(table(tmp_path / "one"))
    folder = table(tmp_path / "two", 1)
    alone = graph_of(folder, "alone")
    assert alone.nodes.features is None
    with pytest.raises(GamlpError, match=r"no features where the model was trained on columns 'age'.*--schema RUN"):
        with_columns(alone, trained.columns)
    given = graph_of(folder, "schema", schema=states_schema(trained.columns))
    assert with_columns(given, trained.columns)[1] == []


def test_a_type_that_other_rows_cannot_be_read_as_is_that_of_ingest(tmp_path: Path) -> None:
    """Training rows hold numbers alone: fitted on them, words of other rows would be gaps without a word."""
    words = {row: ("7", "8.5", "high", "9.25")[row % 4] for row in range(40)}
    graph = graph_of(table(tmp_path / "one", code=words), columns={"code": "category"})
    found = {column.name: column for column in graph.columns["node"]}
    assert found["code"].type == "category"
    # As if ingest had found it out by itself.
    free = tuple(column.model_copy(update={"asked": None}) for column in graph.columns["node"])
    features = replace(graph.nodes.features, columns=free)
    fitted = fitted_on(graph.with_features(node=features), graph.nodes.split.train)
    again = {column.name: column for column in fitted.columns["node"]}
    assert again["code"].type == "category"
