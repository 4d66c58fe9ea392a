"""A person's tables become a graph inside the run folder, once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest import IngestOptions, NodeNames
from gamlp.run import Tables, from_tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "nodes.csv").write_text("id,x,label\n" + "".join(f"{i},{i * 1000},{i % 2}\n" for i in range(80)))
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,2\n")
    return Tables(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv"))


def read_with(tables: Tables, **options: Any) -> Tables:
    return replace(tables, how=IngestOptions(**options))


def test_the_seed_draws_the_split_and_is_part_of_the_run(tables: Tables, tmp_path: Path) -> None:
    plain = from_tables(tables, tmp_path / "plain").opened.nodes.split
    seeded = from_tables(read_with(tables, seed=7), tmp_path / "seeded").opened.nodes.split
    assert not np.array_equal(plain.roles, seeded.roles)
    again = from_tables(read_with(tables, seed=7), tmp_path / "seeded").opened.nodes.split
    assert np.array_equal(seeded.roles, again.roles)
    for seed in (0, 8):
        with pytest.raises(GamlpError, match="holds a run on these tables, read with other options"):
            from_tables(read_with(tables, seed=seed), tmp_path / "seeded")


def test_other_tables_and_other_names_of_columns_are_refused(tables: Tables, tmp_path: Path) -> None:
    first = read_with(tables, node_names=NodeNames(label="x", features="label"), on_bad="skip")
    from_tables(first, tmp_path / "run")
    assert from_tables(replace(first, how=replace(first.how, max_rows=1000)), tmp_path / "run").ingested is None
    for other in (tables, replace(first, how=replace(first.how, directed=True))):
        with pytest.raises(GamlpError, match="read with other options"):
            from_tables(other, tmp_path / "run")
    (tmp_path / "nodes.csv").write_text("id,x,label\n" + "".join(f"{i},{i},0\n" for i in range(70)))
    with pytest.raises(GamlpError, match="holds a run on other tables"):
        from_tables(first, tmp_path / "run")


def test_an_array_of_features_that_changed_is_another_run(tables: Tables, tmp_path: Path) -> None:
    array = tmp_path / "x.npy"
    np.save(array, np.ones((80, 2), np.float32))
    with_array = read_with(tables, node_names=NodeNames(features=str(array)))
    from_tables(with_array, tmp_path / "run")
    np.save(array, np.ones((80, 3), np.float32))
    with pytest.raises(GamlpError, match="holds a run on other tables"):
        from_tables(with_array, tmp_path / "run")


def test_the_use_of_columns_is_kept(tables: Tables, tmp_path: Path) -> None:
    opened = from_tables(tables, tmp_path / "run")
    assert opened.ingested is not None
    kept = json.loads((tmp_path / "run" / "ingest.json").read_text())
    assert [use["use"] for use in kept["columns"]] == ["id", "label", "feature", "source", "target"]
    assert from_tables(tables, tmp_path / "run").ingested is None, "nothing was read this time"


def test_tables_that_are_refused_leave_no_run(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,a\n1,2\n1,3\n")
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n")
    tables = Tables(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv"))
    with pytest.raises(GamlpError, match="row 2, column id: node '1' is already in row 1"):
        from_tables(tables, tmp_path / "run")
    assert not (tmp_path / "run" / "tables.json").exists() and not (tmp_path / "run" / "graph").exists()
