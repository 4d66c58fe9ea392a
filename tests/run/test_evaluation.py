"""Scores on another graph: rows that trained the model, or chose it, are left out by their ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids
from gamlp.io import Place
from gamlp.run import evaluate, seen_ids, train
from gamlp.run.seen_ids import among, read_seen, seen_hashes, write_seen
from gamlp.training import RunFolder
from tests.training.small import NODES, ONE_THREAD, RECIPE, make_graph, with_nodes

TOLD = "trained the model or chose it, by their ids"


def named(graph: Graph, prefix: str = "p") -> Graph:
    texts = [f"{prefix}{row}" for row in range(graph.nodes.count)]
    return with_nodes(graph, ids=Ids(graph.nodes.count, pa.array(texts, pa.large_string())))


def run_on(graph: Graph, folder: Path) -> RunFolder:
    return train(graph, RECIPE, folder, resources=ONE_THREAD).run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("run")
    return run_on(named(make_graph()).save(folder / "graph"), folder / "run")


def heard(graph: Graph) -> int:
    """Training rows: the model listens to their labels."""
    assert graph.nodes.split is not None
    return len(graph.nodes.split.train)


def learned(graph: Graph) -> int:
    assert graph.nodes.split is not None
    return len(graph.nodes.split.rows("train", "valid"))


def without_test(graph: Graph) -> Graph:
    """No row tests: then all labelled rows are scored."""
    assert graph.nodes.split is not None
    roles = np.where(graph.nodes.split.roles == 3, 0, graph.nodes.split.roles)
    return with_nodes(graph, split=replace(graph.nodes.split, roles=roles))


def test_rows_that_trained_or_chose_are_left_out(run: RunFolder) -> None:
    graph = without_test(named(make_graph()))
    report = evaluate(run, graph, resources=ONE_THREAD)
    count = learned(graph)
    assert report["rows"] == NODES - count and report["part"] == "labelled"
    assert f"{count} of {NODES} labelled rows {TOLD}, and are left out" in report["notes"]
    assert report["seeds"] == evaluate(run, named(make_graph()), resources=ONE_THREAD)["seeds"]  # its test rows alone


def test_scores_come_with_base_rates_classes_and_reliability(run: RunFolder) -> None:
    report = evaluate(run, resources=ONE_THREAD)
    graph = make_graph()
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    train, test = (graph.nodes.labels.values[graph.nodes.split.rows(part)] for part in ("train", "test"))
    most = np.bincount(train).argmax()
    assert report["base"]["score"] == pytest.approx((test == most).mean())
    assert report["valid"]["base"]["score"] <= 1 and report["best"] in report["seeds"]
    assert [row["rows"] for row in report["classes"]] == np.bincount(test, minlength=3).tolist()
    right = sum(row["recall"] * row["rows"] for row in report["classes"])
    assert right / len(test) == pytest.approx(report["seeds"][report["best"]]["score"])
    bins = report["reliability"]
    assert sum(one["rows"] for one in bins) == len(test) and all(0 <= one["said"] <= 1 for one in bins)
    error = sum(one["rows"] * abs(one["said"] - one["true"]) for one in bins) / len(test)
    assert report["seeds"][report["best"]]["ece"] == pytest.approx(error)
    again = run.evaluation()
    assert again is not None and again["classes"] == report["classes"]


def test_other_nodes_of_the_same_ids_are_scored_when_that_is_said(run: RunFolder) -> None:
    graph = without_test(named(make_graph()))
    assert evaluate(run, graph, other_nodes=True, resources=ONE_THREAD)["rows"] == NODES - heard(graph)


def test_rows_in_another_order_are_known_by_their_ids(run: RunFolder) -> None:
    plain = without_test(named(make_graph()))
    texts = plain.nodes.ids.take(np.arange(NODES)).to_pylist()
    turned = pa.array([*texts[1:], "new"], pa.large_string())  # row i is now called as row i + 1 was
    report = evaluate(run, with_nodes(plain, ids=Ids(NODES, turned)), resources=ONE_THREAD)
    split = make_graph().nodes.split
    assert split is not None
    learned_of = np.append(np.isin(split.roles[1:], [1, 2]), False)
    assert report["rows"] == int((~learned_of & (split.roles != 1)).sum())  # role 1 trains: its labels are heard


def test_where_nothing_is_left_it_is_refused(run: RunFolder) -> None:
    graph = named(make_graph())
    assert graph.nodes.split is not None
    roles = np.where(graph.nodes.split.roles == 1, 3, 1).astype(np.int8)  # what trained now tests
    with pytest.raises(GamlpError, match=f"all .* test rows of graph 'small' {TOLD}; .* --other-nodes"):
        evaluate(run, with_nodes(graph, split=replace(graph.nodes.split, roles=roles)), resources=ONE_THREAD)


def test_other_ids_are_other_nodes(run: RunFolder) -> None:
    graph = without_test(named(make_graph(), "q"))
    report = evaluate(run, graph, resources=ONE_THREAD)
    assert report["rows"] == NODES - heard(graph) and not any(TOLD in note for note in report["notes"])


def test_row_numbers_are_no_ids_but_of_the_very_graph(tmp_path: Path) -> None:
    run = run_on(make_graph(), tmp_path / "run")
    report = evaluate(run, without_test(make_graph()), resources=ONE_THREAD)
    assert report["rows"] == NODES - learned(make_graph())
    graph = without_test(make_graph(1, name="other"))
    other = evaluate(run, graph, resources=ONE_THREAD)
    assert other["rows"] == NODES - heard(graph)
    assert "nodes of graph 'other' have no ids: it is not known whether some trained the model" in other["notes"]


def test_a_run_that_did_not_note_them_finds_them_in_its_graph(run: RunFolder, tmp_path: Path) -> None:
    noted = read_seen(run.seen_path)
    assert noted is not None and len(noted) == learned(make_graph()) and run.seen_path.stat().st_size < 8 * 45 + 200
    kept = run.seen_path.rename(tmp_path / "kept")
    try:
        report = evaluate(run, without_test(named(make_graph())), resources=ONE_THREAD)
    finally:
        kept.rename(run.seen_path)
    assert report["rows"] == NODES - learned(make_graph())


def test_two_graphs_are_both_remembered(tmp_path: Path) -> None:
    graph, valid = named(make_graph()), named(make_graph(1, nodes=45, name="other"), "v")
    run = train(graph, RECIPE, tmp_path / "run", valid=valid, resources=ONE_THREAD).run
    seen = read_seen(run.seen_path)
    assert seen is not None and graph.nodes.split is not None and valid.nodes.split is not None
    assert among(seen, seen_hashes(graph, np.arange(NODES))).tolist() == (graph.nodes.split.roles == 1).tolist()
    assert among(seen, seen_hashes(valid, np.arange(45))).tolist() == (valid.nodes.split.roles == 2).tolist()


@pytest.mark.parametrize("chunk", [1 << 20, 7])
def test_parts_of_hashes_are_merged_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(seen_ids, "_CHUNK", chunk)
    random, place = np.random.default_rng(0), Place.of("memory://seen.npy")
    parts = [random.integers(0, 1 << 64, 50, dtype=np.uint64) for _ in range(4)]
    parts += [np.array([3, 3, (1 << 64) - 1], np.uint64), parts[0][:9], parts[0][:0]]
    for path in (tmp_path / "seen.npy", place):
        for some in (parts, []):
            write_seen(path, iter(some))
            found = read_seen(path)
            assert found is not None
            assert np.array_equal(found, np.unique(np.concatenate([np.zeros(0, np.uint64), *some])))


def test_integers_and_their_texts_are_the_same_ids() -> None:
    graph = make_graph()
    numbers = with_nodes(graph, ids=Ids(NODES, np.arange(NODES) + 5))
    texts = with_nodes(graph, ids=Ids(NODES, pa.array([str(row + 5) for row in range(NODES)], pa.large_string())))
    rows = np.arange(NODES)
    assert seen_hashes(numbers, rows).tolist() == seen_hashes(texts, rows).tolist()
    assert not np.isin(seen_hashes(graph, rows), seen_hashes(numbers, rows)).any()  # row numbers are no ids


def test_a_list_of_ids_that_is_none_is_told(tmp_path: Path) -> None:
    write_seen(tmp_path / "seen.npy", [np.array([5, 3, 3], np.uint64)])
    found = read_seen(tmp_path / "seen.npy")
    assert found is not None and found.tolist() == [3, 5] and read_seen(tmp_path / "none.npy") is None
    assert among(np.zeros(0, np.uint64), np.array([1], np.uint64)).tolist() == [False]
    for name, wrong in {"a": np.array([5, 3], np.uint64), "b": np.zeros((2, 2), np.uint64), "c": np.zeros(3)}.items():
        np.save(tmp_path / f"{name}.npy", wrong)
        with pytest.raises(GamlpError, match="no sorted list of hashed ids"):
            read_seen(tmp_path / f"{name}.npy")


def test_rows_whose_labels_the_model_hears_are_not_scored(run: RunFolder) -> None:
    """Training rows of another graph are heard through its label hops: scored too, they would be told their answer."""
    other = without_test(named(make_graph(), "q"))
    split = other.nodes.split
    assert split is not None
    report = evaluate(run, other, resources=ONE_THREAD)
    assert report["rows"] == NODES - len(split.train)
    assert any("whose labels the model listens to, are left out" in note for note in report["notes"])
    all_heard = with_nodes(other, split=replace(split, roles=np.ones(NODES, np.int8)))
    with pytest.raises(GamlpError, match="listens to the labels of all rows"):
        evaluate(run, all_heard, resources=ONE_THREAD)
