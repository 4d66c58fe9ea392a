"""Frames of pandas, Polars, Arrow and DuckDB as graphs: the bytes, the checks and the sentences of ingest."""

from __future__ import annotations

import gc
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from gamlp import GamlpError, Graph
from gamlp.graph.frames import graph_from_frames, in_python
from gamlp.graph.ingest import ingest

OF_FILES = {"delimiter"}  # never said of a frame
SOURCE = Path(importlib.import_module("gamlp").__file__ or "").parent


def people(count: int = 40) -> pd.DataFrame:
    numbers = np.arange(count)
    return pd.DataFrame(
        {
            "id": [f"p{number}" for number in numbers],
            "age": 20 + numbers % 7,
            "height": np.where(numbers % 3 == 0, 1.5, 1.8).astype(np.float32),
            "embedding": list(np.stack([numbers / 7, -numbers], 1).astype(np.float32)),
            "label": pd.Categorical(np.where(numbers % 2 == 0, "even", "odd")),
        }
    )


def friends(count: int = 40) -> pd.DataFrame:
    ids = [f"p{number}" for number in range(count)]
    return pd.DataFrame({"src": ids, "dst": ids[1:] + ids[:1], "weight": np.linspace(0.5, 2, count)})


def same_frame(kind: str, frame: pd.DataFrame) -> Any:
    """The frame as another library holds it."""
    table = pa.Table.from_pandas(frame)
    if kind == "pandas":
        return frame
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(table)
    if kind == "duckdb":
        return pytest.importorskip("duckdb").from_arrow(table)
    if kind == "reader":
        return table.to_reader(max_chunksize=7)
    return table


def arrays_of(folder: Path) -> dict[str, bytes]:
    """All files but the manifest, which names the tables."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "graph.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def from_parquet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("files")
    parquet.write_table(pa.Table.from_pandas(people()), folder / "nodes.parquet")
    parquet.write_table(pa.Table.from_pandas(friends()), folder / "edges.parquet")
    ingest(folder / "edges.parquet", folder / "nodes.parquet", folder / "graph")
    return arrays_of(folder / "graph")


@pytest.mark.parametrize("kind", ["pandas", "polars", "duckdb", "table", "reader"])
def test_a_frame_gives_the_bytes_of_the_same_table_as_parquet(
    kind: str, from_parquet: dict[str, bytes], tmp_path: Path
) -> None:
    Graph.from_frames(same_frame(kind, people()), same_frame(kind, friends()), folder=tmp_path / "graph")
    found = arrays_of(tmp_path / "graph")
    assert found == from_parquet and any(name.endswith("weights.npy") for name in found)


def test_a_graph_without_a_folder_lives_in_a_temporary_one_as_long_as_any_graph_made_of_it() -> None:
    graph = Graph.from_frames(people(), friends())
    assert graph.folder is None and graph.made is not None and graph.made.folder is not None
    place = graph.made.folder.path
    assert place.is_dir()
    other = graph.with_targets(split=None)
    del graph
    gc.collect()
    assert len(other.nodes.features.values) == 40  # read now, not before
    del other
    gc.collect()
    assert not place.exists()


def test_an_index_is_a_column_where_it_has_a_name() -> None:
    graph = Graph.from_frames(people().set_index("id"), friends())
    assert graph.nodes.ids.take(np.array([3])).to_pylist() == ["p3"]
    shuffled = people().sample(frac=1, random_state=0)  # an index without a name, in another order
    names = [column.name for column in Graph.from_frames(shuffled, friends()).columns["node"]]
    assert names == ["age", "height", "embedding"]


def test_several_types_and_relations_by_name() -> None:
    papers = people().rename(columns={"id": "paper", "label": "venue"})
    authors = pd.DataFrame({"id": [1, 2, 3], "h": [4.0, 5.0, 6.0]})
    wrote = pd.DataFrame({"author": [1, 2, 3, 1], "dst": ["p0", "p1", "p2", "p3"]})
    graph = Graph.from_frames(
        {"paper": papers, "author": authors},
        {"cites": friends(), "writes": wrote},
        id={"paper": "paper"},
        label={"paper": "venue"},
        src={"writes": "author"},
        join={"cites": ("paper", "paper"), "writes": ("author", "paper")},
        target="paper",
    )
    assert {name: nodes.count for name, nodes in graph.node_types.items()} == {"paper": 40, "author": 3}
    assert set(graph.relations) == {"cites", "writes", "rev-writes"}
    assert graph.nodes.labels is not None and graph.nodes.labels.classes == ("even", "odd")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": people().drop(columns="id")}, "nodes: no column 'id'; there are: age"),
        ({"edges": friends().assign(dst="z")}, "edges, row 1, column dst: node 'z' is not in the node table."),
        ({"edges": friends().assign(weight=-1.0)}, "edges, row 1, column weight: a weight of -1"),
        ({"nodes": pd.concat([people(), people()])}, "nodes, row 41, column id: node 'p0' is already in row 1."),
        ({"nodes": 3}, "nodes: a int is not a table; give a DataFrame of pandas or Polars"),
        ({"nodes": people().assign(age=[1, "a"] * 20)}, "nodes, column age: values of different kinds"),
        ({"nodes": pd.concat([people(), people()[["age"]]], axis=1)}, "nodes: two columns are called 'age'; rename"),
        ({"features": ["label"]}, "features= names column 'label', which is that of labels; leave it out"),
        ({"nodes": {"a": people(), "b": people()}}, "say whose labels are asked for with target=TYPE."),
        ({"max_rows": 3}, "nodes: more than 3 rows; if they are meant, allow them with max_rows=."),
        ({"nodes": {}}, "nodes are an empty mapping"),
    ],
)
def test_what_is_wrong_is_told_with_frame_row_column_and_an_argument(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GamlpError, match=re.escape(sentence)) as told:
        Graph.from_frames(**{"nodes": people(), "edges": friends(), **change})
    assert "--" not in str(told.value)


def test_a_lazy_frame_and_a_reader_that_is_empty_are_told() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(GamlpError, match="collect it first"):
        Graph.from_frames(polars.LazyFrame({"id": [1]}), friends())
    reader = pa.Table.from_pandas(people()).to_reader()
    Graph.from_frames(reader, friends())
    with pytest.raises(GamlpError, match="nodes: no nodes: the table has no rows"):
        Graph.from_frames(reader, friends())


def test_a_reader_of_several_batches_loses_none_of_its_rows() -> None:
    """Somebody looks at the first batch before the rows are read: it is read again."""
    whole = Graph.from_frames(people(), friends())
    reader = pa.Table.from_pandas(people()).to_reader(max_chunksize=7)
    graph = Graph.from_frames(reader, pa.Table.from_pandas(friends()).to_reader(max_chunksize=5))
    assert graph.nodes.count == whole.nodes.count and graph.relation.entries == whole.relation.entries
    assert graph.nodes.features.values[:].tobytes() == whole.nodes.features.values[:].tobytes()


def test_every_option_that_a_sentence_of_ingest_names_is_an_argument() -> None:
    """Fails where a message of ingest names an option that from_frames has not."""
    arguments = set(inspect.signature(graph_from_frames).parameters)
    named: set[str] = set()
    for path in [*(SOURCE / "graph" / "ingest").glob("*.py"), SOURCE / "graph" / "relations.py"]:
        for line in path.read_text().splitlines():
            named |= set(re.findall(r"(\w+)=", in_python(line))) if "--" in line else set()
            named -= set(re.findall(r"(\w+)=", line)) - arguments  # Python's own
    assert {"features", "label", "join"} <= named <= arguments | OF_FILES
