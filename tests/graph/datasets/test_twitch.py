"""Twitch from its raw files: features that all countries share, every country with its part to play."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.datasets.catalogue import DATASETS
from gamlp.graph.datasets.loading import load

COUNTRIES = {
    "de": "train",
    "engb": "valid",
    "es": "test",
    "fr": "test",
    "ptbr": "test",
    "ru": "test",
    "zhtw": "test",
}


@pytest.mark.parametrize("country", ["de", "engb", "fr", "ptbr"])
def test_a_country_has_its_counts_and_its_part(country: str, data_dir: Path) -> None:
    graph, counts = load(f"twitch-{country}", data_dir), DATASETS[f"twitch-{country}"].counts
    nodes = graph.nodes
    assert nodes.features is not None and nodes.split is not None
    assert (nodes.count, graph.relation.entries, nodes.features.width) == (
        counts.nodes,
        2 * counts.edges,
        3170,
    )
    assert len(nodes.split.rows(COUNTRIES[country])) == nodes.count


def test_rows_are_those_of_the_files(data_dir: Path) -> None:
    nodes = load("twitch-ptbr", data_dir).nodes
    assert nodes.features is not None and nodes.labels is not None
    lists = json.loads((data_dir / "Twitch/PTBR/features.json").read_text())
    for node in (0, 7, 1911):
        assert set(np.flatnonzero(nodes.features.values[node])) == set(lists[str(node)])
    with (data_dir / "Twitch/PTBR/target.csv").open() as file:
        mature = {int(row["new_id"]): row["mature"] == "True" for row in csv.DictReader(file)}
    assert nodes.labels.values.tolist() == [int(mature[node]) for node in range(nodes.count)]
    assert nodes.labels.classes == ("general", "mature")


def make(
    root: Path, target: str, features: str = '{"0": [1, 1, 5], "2": [3169]}', edges: str = "from,to\n0,1\n"
) -> Path:
    folder = root / "Twitch" / "ES"
    folder.mkdir(parents=True)
    (folder / "target.csv").write_text("id,days,mature,views,partner,new_id\n" + target)
    (folder / "features.json").write_text(features)
    (folder / "edges.csv").write_text(edges)
    return root


NODES = "9,1,True,1,False,2\n8,1,False,1,False,0\n7,1,True,1,False,1\n"


def test_a_node_without_features_is_a_zero_row_and_a_repeated_one_counts_once(tmp_path: Path) -> None:
    # Node 2 comes twice, as two users of FR do: 6551 lines of target.csv are 6549 nodes.
    nodes = load("twitch-es", make(tmp_path, NODES + "9,1,True,2,False,2\n")).nodes
    assert nodes.features is not None and nodes.labels is not None
    assert [np.flatnonzero(row).tolist() for row in nodes.features.values] == [[1, 5], [], [3169]]
    assert nodes.labels.values.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"target": "9,1,True,1,False,5\n"}, "target.csv: new_id does not number"),
        ({"target": NODES + "9,1,False,1,False,2\n"}, "target.csv: new_id .* two labels"),
        ({"features": '{"0": [3170]}'}, "features.json: .*beyond 3170"),
        ({"features": '{"0": ['}, "features.json: not the JSON"),
        ({"edges": "from,to\n0,3\n"}, "an edge names node 3 of 3"),
        ({"edges": "a,b\n0,1\n"}, "edges.csv: not the table"),
    ],
)
def test_files_that_do_not_fit_are_named(change: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=told):
        load("twitch-es", make(tmp_path, **{"target": NODES, **change}))
