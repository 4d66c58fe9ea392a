"""A split by the times of nodes, and the graph as of its cuts."""

from __future__ import annotations

import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import TimeSplit

SPLIT = TimeSplit("year", "2018", "2019")
NODES = "id,x,year,label\na,1,2017,u\nb,2,2018,v\nc,3,2019,u\nd,4,2020,v\ne,5,,u\nf,6,2018,\n"
EDGES = (
    "src,dst,weight,time\na,b,1,2018-12-31\nb,a,4,2019-01-01\nb,c,1,2019-12-31\nc,d,1,2018-01-01\na,e,1,2017-01-01\n"
)


def pairs(graph: Graph) -> dict[tuple[int, int], float]:
    return {
        (int(row), int(other)): float(weight)
        for rows, others, weights in graph.relation.edges()
        for row, other, weight in zip(rows, others, weights)
    }


def test_nodes_are_split_by_their_times_and_edges_kept_as_of_the_cuts(build, tmp_path):
    with pytest.warns(UserWarning, match="column 'year': 1 nodes have no time, and are in no part of the split"):
        graph, report = build(NODES, EDGES, split_by=SPLIT)
    assert graph.nodes.split.roles.tolist() == [1, 1, 2, 3, 0, 0]  # e has no time, f no label
    assert graph.nodes.features.width == 1  # the year is no feature
    assert report.split_by == "year: train until 2018, valid until 2019" == graph.source["split_by"]
    for opened in (graph, graph.save(tmp_path / "copy")):
        # An edge is there from its own time and that of its ends: c → d waits for d, a → e for ever.
        assert pairs(opened.as_of("train")) == {(0, 1): 1, (1, 0): 1}  # the weight of 2019 is not added yet
        assert pairs(opened.as_of("valid")) == {(0, 1): 5, (1, 0): 5, (1, 2): 1, (2, 1): 1}
        assert len(pairs(opened)) == 8
    assert report.entries_earlier == {"train": {"edge": 2}, "valid": {"edge": 4}} and report.entries == {"edge": 8}
    uses = {one.column: (one.use, one.about) for one in report.columns}
    assert uses["year"] == ("split", "train until 2018, valid until 2019")
    assert uses["time"] == ("time", "by periods of the split")


def test_without_times_of_their_own_edges_are_there_with_their_ends(build):
    with pytest.warns(UserWarning):
        graph, _ = build(NODES, "src,dst,weight\na,b,1\nb,c,1\nc,d,1\nf,a,1\n", split_by=SPLIT)
    assert set(pairs(graph.as_of("train"))) == {(0, 1), (1, 0), (0, 5), (5, 0)}
    assert set(pairs(graph.as_of("valid"))) == {(0, 1), (1, 0), (1, 2), (2, 1), (0, 5), (5, 0)}


def test_the_time_is_a_feature_where_it_is_asked_for_and_a_split_column_is_told(build):
    nodes = NODES.replace("label", "split").replace(",u", ",train").replace(",v", ",test")
    graph, report = build(nodes.replace("e,5,,", "e,5,2015,"), EDGES, split_by=SPLIT, features="x,year")
    assert graph.nodes.features.width == 2
    with pytest.warns(UserWarning):
        _, report = build(nodes, EDGES, split_by=SPLIT, out=graph.folder.parent / "two")
    assert ("ignored", "the split is by year") in [(one.use, one.about) for one in report.columns]


def test_another_split_has_no_cuts(build):
    with pytest.warns(UserWarning):
        graph, _ = build(NODES, EDGES, split_by=SPLIT)
    assert graph.with_targets(labels=graph.nodes.labels).earlier
    other = graph.with_targets(split=graph.nodes.split)
    with pytest.raises(GamlpError, match=r"has no split by time; .*--split-by COLUMN"):
        other.as_of("train")


@pytest.mark.parametrize(
    ("split_by", "said"),
    [
        (
            TimeSplit("year", "2000", "2019"),
            "year: no labelled node is until 2000; choose a later --train-until",
        ),
        (TimeSplit("age", "2018", "2019"), "no column 'age'"),
        (TimeSplit("year", "2019", "2018"), "--valid-until 2018 is not later than --train-until 2019"),
        (TimeSplit("year", "soon", "2019"), "--train-until soon: is no time"),
        (
            TimeSplit("year", "2018-05-01", "2019-05-01"),
            "cannot be compared with column 'year': give a number such as 2017",
        ),
        (TimeSplit("label", "2018", "2019"), "row 1, column label: 'u' is not a time"),
    ],
)
def test_bad_splits_are_refused(build, tmp_path, split_by, said):
    with pytest.raises(GamlpError) as told:
        build(NODES, EDGES, split_by=split_by)
    assert said in str(told.value) and not (tmp_path / "graph").exists()


def test_the_three_options_go_together():
    with pytest.raises(GamlpError, match="--split-by goes with --train-until and --valid-until"):
        TimeSplit.given("year", None, None)
    assert TimeSplit.given(None, None, None) is None


def test_types_without_times_are_always_there(library):
    graph, _ = library(
        papers="id,f1,label,year\n1,1,x,2017\n2,3,y,2018\n3,5,x,2019\n4,7,y,2020\n",
        split_by=SPLIT,
        writes="src,dst,date\nada,1,2017\nbob,1,2020\nbob,2,2018\n3,3,2017\n",
    )
    entries = {part: {name: one.entries for name, one in graph.as_of(part).relations.items()} for part in graph.earlier}
    assert entries["train"]["writes"] == entries["train"]["rev-writes"] == 2
    assert entries["valid"]["writes"] == 3 and graph.relations["writes"].entries == 4
    assert graph.as_of("train").heterogeneous
