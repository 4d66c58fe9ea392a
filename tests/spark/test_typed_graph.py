"""Graphs of several types that Spark builds: those of `gamlp ingest` from the same tables in order of their ids."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from tests.spark.graph_tables import assert_same

AUTHORS = [f"a{number:02}" for number in range(17)]
PAPERS = list(range(23))
VENUES = [3, 7, 1000, 2**40]
RELATION_ENDS = {
    "writes": ("author", "paper"),
    "cites": ("paper", "paper"),
    "in": ("paper", "venue"),
    "runs": ("author", "venue"),
}


def node_tables() -> dict[str, pa.Table]:
    """Texts, row numbers and integers as ids; papers have labels, authors a column that is called as one."""
    rng = np.random.default_rng(0)
    return {
        "author": pa.table({"name": AUTHORS, "x": rng.normal(size=17).round(3), "label": ["odd"] * 17}),
        "paper": pa.table(
            {"id": PAPERS, "x": rng.normal(size=23).round(3), "label": ["b", "a", None] * 7 + ["a", "b"]}
        ),
        "venue": pa.table({"id": VENUES}),
    }


def edge_tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(1)

    def ends(sources: list[Any], targets: list[Any], count: int) -> dict[str, Any]:
        picked = [sources[at] for at in rng.integers(0, len(sources), count)]
        return {"src": picked, "dst": [targets[at] for at in rng.integers(0, len(targets), count)]}

    writes = ends(AUTHORS, PAPERS, 90)  # row 5 → row 5 is no self-loop between types
    writes |= {"src": [*writes["src"], AUTHORS[5]], "dst": [*writes["dst"], PAPERS[5]]}
    return {
        "writes": pa.table(writes | {"weight": rng.random(91).astype(np.float32)}),
        "cites": pa.table(ends(PAPERS, PAPERS, 60)),
        "in": pa.table(ends(PAPERS, VENUES, 30)).rename_columns(["paper", "venue"]),
    }


def written(tables: dict[str, pa.Table], folder: Path, seed: int | None = None) -> dict[str, Path]:
    """One CSV each; with a seed in another order."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        order = np.arange(len(table)) if seed is None else np.random.default_rng(seed).permutation(len(table))
        pa.csv.write_csv(table.take(order), folder / f"{name}.csv")
    return {name: folder / f"{name}.csv" for name in tables}


NAMES = {"names_of": {"author": NodeNames(id="name")}, "relation_ends": RELATION_ENDS, "name": "g", "target": "paper"}


def both(spark: Any, folder: Path, edges: Any, **how: Any) -> tuple[Any, Any]:
    """(expected, found): graphs and reports of the local engine and of Spark, which reads rows in another order."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", UserWarning)
        own = written(node_tables(), folder / "nodes")
        expected = ingest(edges(None), own, folder / "local", IngestOptions(columns={"*": "as-is"}, **how))
        shuffled = written(node_tables(), folder / "mixed", 1)
        told = [str(each.message) for each in heard]
        read = {node_type: read_table(spark, path) for node_type, path in shuffled.items()}
        places = edges(2)
        tables = (
            {name: read_table(spark, path) for name, path in places.items()}
            if isinstance(places, dict)
            else read_table(spark, places)
        )
        report = spark_graph(
            spark, tables, read, folder / "spark", IngestOptions(columns={"*": "as-is"}, **how), blocks=3
        )
        assert [str(each.message) for each in heard] == told * 2
    same = {"folder": expected.folder, "seconds": expected.seconds, "delimiters": expected.delimiters}
    assert replace(report, **same) == expected
    return Graph.open(folder / "local"), Graph.open(folder / "spark")


def test_a_table_for_each_relation(spark: Any, tmp_path: Path) -> None:
    expected, found = both(
        spark,
        tmp_path,
        lambda seed: written(edge_tables(), tmp_path / f"edges{seed}", seed),
        edge_names_of={"in": EdgeNames("paper", "venue")},
        **NAMES,
    )
    assert_same(found, expected)
    assert found.target == "paper" and found.node_types["author"].features.width == 1  # its labels are no features
    assert found.relations["writes"].reverse == "rev-writes" and not found.relations["cites"].directed
    assert found.relations["runs"].entries == found.relations["rev-runs"].entries == 0
    assert list(found.relations) == list(expected.relations)


def test_a_column_of_relations(spark: Any, tmp_path: Path) -> None:
    """Ids of all types in one column, rows of no relation and of wrong types passed over."""

    def edges(seed: int | None) -> Path:
        tables = {
            name: pa.table({"src": table[0].cast(pa.string()), "dst": table[1].cast(pa.string())})
            for name, table in edge_tables().items()
        }
        tables["likes"] = pa.table({"src": AUTHORS[:3], "dst": AUTHORS[1:4]})  # not declared
        tables["runs"] = pa.table({"src": [AUTHORS[2], "7"], "dst": ["7", AUTHORS[2]]})  # one the wrong way
        named = [table.append_column("relation", pa.array([name] * len(table))) for name, table in tables.items()]
        return written({"all": pa.concat_tables(named)}, tmp_path / f"edges{seed}", seed)["all"]

    expected, found = both(spark, tmp_path, edges, on_bad="skip", directed=True, **NAMES)
    assert_same(found, expected)
    assert found.source["bad_rows"] == {"relation without --join": 3, "unknown node": 1}
    assert found.relations["writes"].reverse is None and found.relations["runs"].entries == 1


def test_an_end_of_the_wrong_type_is_told(spark: Any, tmp_path: Path) -> None:
    nodes = {name: spark.createDataFrame(table) for name, table in node_tables().items()}
    wrong = spark.createDataFrame([("a02", "7"), ("a01", "1000")], ["src", "dst"])
    with pytest.raises(GamlpError) as error:
        spark_graph(
            spark,
            {"writes": wrong},
            nodes,
            tmp_path / "new" / "graph",
            IngestOptions(columns={"*": "as-is"}, **NAMES),
            blocks=2,
        )
    assert str(error.value) == (
        "edges writes, column dst: edge a01 → 1000: '1000' is a venue, where relation 'writes' expects a paper."
    )
    assert not (tmp_path / "new").exists()
