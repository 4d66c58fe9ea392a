"""A served run: what it keeps, what it refuses, and that nothing acknowledged is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.run import train
from gamlp.serve import Answered, Ends, NewNode, Question, Refusal, ServedRun, serving
from gamlp.serve.overlay import OVERLAY, read_overlay
from tests.serve.trained import RECIPE, tables, trained_run

CELLS: dict[str, Any] = {"size": 0.3, "colour": "v", "since": "2024-05-06"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("served"))


@pytest.fixture
def log(run: Path) -> Path:
    """The file of newcomers, gone before and after."""
    path = run / "serving" / OVERLAY
    path.unlink(missing_ok=True)
    return path


def node(name: str | None, *heard: str, **cells: Any) -> NewNode:
    return NewNode(name, cells={**CELLS, **cells}, hears={None: Ends(heard)})


def one(served: ServedRun, question: Question) -> Answered:
    [found] = served.answer([question])
    assert isinstance(found, Answered), found
    return found


def refusal(served: ServedRun, question: Question) -> Refusal:
    [found] = served.answer([question])
    assert isinstance(found, Refusal), found
    return found


def test_a_kept_newcomer_is_known_from_then_on(run: Path, log: Path) -> None:
    with serving(run) as served:
        first = one(served, Question(nodes=(node("q1", "n1", "n2"),), keep=True))
        later = one(served, Question(ids=("q1", "n5")))
        np.testing.assert_array_equal(first.probabilities[0], later.probabilities[0])
        heard = one(served, Question(nodes=(node(None, "q1", "n4"),)))
        assert served.newcomers == 1 and served.about()["newcomers"] == 1
    with serving(run) as again:  # another process: all of it comes from the file
        assert again.newcomers == 1
        np.testing.assert_array_equal(one(again, Question(ids=("q1",))).probabilities[0], first.probabilities[0])
        same = one(again, Question(nodes=(node(None, "q1", "n4"),)))
        np.testing.assert_array_equal(same.probabilities, heard.probabilities)


def test_a_text_among_integers_is_told(tmp_path: Path) -> None:
    """After a refresh all ids would be texts."""
    train("karate", RECIPE, tmp_path / "run")
    features = (0.0,) * 34
    with serving(tmp_path / "run") as served:
        numbers = one(served, Question(nodes=(NewNode("77", features=features),), keep=True))
        forgotten = one(served, Question(nodes=(NewNode("q1", features=features),)))
        texts = one(served, Question(nodes=(NewNode("q1", features=features),), keep=True))
    assert not [note for note in (*numbers.notes, *forgotten.notes) if "integer" in note]
    assert [note for note in texts.notes if "'q1' is no integer" in note]


def test_what_is_not_kept_is_forgotten(run: Path, log: Path) -> None:
    with serving(run) as served:
        found = one(served, Question(nodes=(node("q1", "n1"), node("q2", "q1"))))
        assert found.ids == ("q1", "q2")
        assert refusal(served, Question(ids=("q1",))).status == 404
        assert served.newcomers == 0 and read_overlay(log)[0] == []


def test_a_refused_question_leaves_nothing_and_others_are_answered(run: Path, log: Path) -> None:
    questions = [
        Question(ids=("n1",)),
        Question(nodes=(node("q1", "n1"), node("q2", "nobody")), keep=True),
        Question(ids=("n2", "zzz")),
        Question(nodes=(node("q3", "n3"),), keep=True),
    ]
    with serving(run) as served:
        good, bad, unknown, kept = served.answer(questions)
        assert isinstance(good, Answered) and isinstance(kept, Answered)
        assert isinstance(bad, Refusal) and bad.status == 404 and "no neighbour 'nobody'" in str(bad)
        assert isinstance(unknown, Refusal) and "no node 'zzz'" in str(unknown)
        assert [entry.node.id for entry in read_overlay(log)[0]] == ["q3"]
        assert refusal(served, Question(ids=("q1",))).status == 404


def test_the_same_newcomer_twice_is_one_and_another_of_its_name_is_refused(run: Path, log: Path) -> None:
    with serving(run) as served:
        first = one(served, Question(nodes=(node("q1", "n1"),), keep=True))
        again = one(served, Question(nodes=(node("q1", "n1"),), keep=True))  # a client that saw no answer asks again
        np.testing.assert_array_equal(first.probabilities, again.probabilities)
        assert served.newcomers == 1 and len(read_overlay(log)[0]) == 1
        other = refusal(served, Question(nodes=(node("q1", "n2"),), keep=True))
        assert other.status == 409 and "known with other cells or edges" in str(other)
        there = refusal(served, Question(nodes=(node("n7", "n2"),)))
        assert there.status == 409 and "in the graph already" in str(there)


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (NewNode(cells={"size": 1}), 422, "the node lacks 'colour', 'since'"),
        (NewNode(cells={**CELLS, "size": "tall"}), 422, "column size: 'tall' cannot be read as"),
        (NewNode(cells={**CELLS, "size": {"a": 1}}), 422, "is no cell of a table"),
        (NewNode(features=(1.0, 2.0)), 422, "features of this graph have names; give columns: 'size'"),
        (node("a", "n1", "nobody"), 404, "there is no neighbour 'nobody'"),
        (NewNode(cells=CELLS, hears={None: Ends(("n1",), (1.0,))}), 422, "have no weights, and these have"),
        (NewNode(cells=CELLS, hears={"likes": Ends(("n1",))}), 422, "no relation 'likes'; there are: edge"),
        (NewNode(cells=CELLS, leads_to={None: Ends(("n1",))}), 422, "edges of 'edge' have no direction"),
        (NewNode(node_type="author", cells=CELLS), 422, "no nodes of type 'author'; there are: node"),
    ],
)
def test_bad_newcomers_are_told_in_a_sentence(asked: NewNode, status: int, said: str, run: Path, log: Path) -> None:
    with serving(run) as served:
        found = refusal(served, Question(nodes=(asked,)))
    assert found.status == status and said in str(found)


def test_weights_must_be_weights(tmp_path: Path) -> None:
    with serving(trained_run(tmp_path, weighted=True)) as served:
        for weights, said in [
            (None, "edges of 'edge' have weights, and these have none"),
            ((1.0,), "1 weights for 2 neighbours"),
            ((1.0, -2.0), "a weight of -2; weights are finite and ≥ 0"),
            ((1.0, float("inf")), "a weight of inf"),
            ((1.0, 1e-60), "a weight of 1e-60"),
        ]:
            asked = NewNode(cells=CELLS, hears={None: Ends(("n1", "n2"), weights)})
            assert said in str(refusal(served, Question(nodes=(asked,))))


def test_what_is_new_in_cells_is_noted(run: Path, log: Path) -> None:
    with serving(run) as served:
        found = one(served, Question(nodes=(node("q", "n1", "n1", "q", colour="octarine", size=None, hat=3),)))
    assert found.notes == (
        "'hat' left out: the model was trained without",
        "column size: training never saw a gap; it is filled",
        "column colour: training never saw 'octarine'",
        "edges of a node with itself are left out",
    )


def test_a_node_without_edges_has_an_answer(run: Path, log: Path) -> None:
    with serving(run) as served:
        found = one(served, Question(nodes=(NewNode(cells=CELLS),)))
    np.testing.assert_allclose(found.probabilities.sum(), 1, atol=1e-6)


def test_no_more_newcomers_than_allowed(run: Path, log: Path) -> None:
    with serving(run, most_newcomers=2) as served:
        one(served, Question(nodes=(node("q1"), node("q2")), keep=True))
        found = refusal(served, Question(nodes=(node("q3"),), keep=True))
        assert found.status == 507 and "gamlp refresh" in str(found)
        assert refusal(served, Question(nodes=(node(None),), keep=True)).status == 422


def test_only_one_keeps_and_others_may_read(run: Path, log: Path) -> None:
    with serving(run) as served:
        one(served, Question(nodes=(node("q1", "n1"),), keep=True))
        with pytest.raises(GamlpError, match="another process serves this run"):
            ServedRun.open(run)
        with serving(run, read_only=True) as other:
            assert one(other, Question(ids=("q1",))).ids == ("q1",)
            assert refusal(other, Question(nodes=(node("q2"),), keep=True)).status == 409


def test_a_full_disk_keeps_nothing_and_says_so(run: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line is written before the disk is full: it must not stay."""
    with serving(run) as served:
        one(served, Question(nodes=(node("q1", "n1"),), keep=True))
        before = log.read_bytes()
        write = os.write

        def full(file: int, data: Any) -> int:
            if len(data) > 20:
                return write(file, data[:20])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", lambda file, data: full(file, data) if len(data) > 1 else write(file, data))
        answered, found = served.answer([Question(ids=("n1",)), Question(nodes=(node("q2", "n1"),), keep=True)])
        monkeypatch.undo()
        assert isinstance(answered, Answered) and isinstance(found, Refusal)
        assert found.status == 507 and "No space left" in str(found)
        assert log.read_bytes() == before
        assert refusal(served, Question(ids=("q2",))).status == 404
        one(served, Question(nodes=(node("q2", "n1"),), keep=True))  # there is room again
        assert [entry.number for entry in read_overlay(log)[0]] == [1, 2]


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_end_goes_and_the_rest_stays(cut: int, run: Path, log: Path) -> None:
    with serving(run) as served:
        one(served, Question(nodes=(node("q1", "n1"), node("q2", "q1")), keep=True))
    data = log.read_bytes()
    log.write_bytes(data[:-cut])
    with serving(run) as served:
        assert served.newcomers == 1
        one(served, Question(nodes=(node("q3", "q1"),), keep=True))
    assert [entry.node.id for entry in read_overlay(log)[0]] == ["q1", "q3"]


def test_damage_in_the_middle_is_told(run: Path, log: Path) -> None:
    with serving(run) as served:
        one(served, Question(nodes=(node("q1", "n1"), node("q2", "q1")), keep=True))
    data = bytearray(log.read_bytes())
    data[30] ^= 1
    log.write_bytes(bytes(data))
    with pytest.raises(GamlpError, match=r"newcomers.log, row 1: is damaged in the middle"):
        ServedRun.open(run)


_ADDS = """
import sys
from gamlp.serve import Ends, NewNode, Question, serving
with serving(sys.argv[1]) as served:
    for number in range(10_000):
        cells = {"size": number, "colour": "v", "since": None}
        heard = ("n1",) if not number else (f"q{number - 1}", "n2")
        served.answer([Question(nodes=(NewNode(f"q{number}", cells=cells, hears={None: Ends(heard)}),), keep=True)])
        print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_while_adding_nothing_acknowledged_is_lost(run: Path, log: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _ADDS, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last == 40:
            process.send_signal(signal.SIGKILL)
            break
    rest = [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    last = max([last, *rest])
    with serving(run) as served:
        found = one(served, Question(ids=tuple(f"q{number}" for number in range(last + 1))))
        assert len(found.ids) == last + 1 >= 41


def test_another_generation_takes_over_without_losing_newcomers(run: Path, log: Path) -> None:
    """What is kept while the new one is being opened is known to it when it takes over."""
    with serving(run) as old:
        one(old, Question(nodes=(node("q1", "n1"),), keep=True))
        assert not old.changed_on_disk()
        os.utime(run / "bundle.safetensors")
        assert old.changed_on_disk()
        new = old.reopened()
        one(old, Question(nodes=(node("q2", "q1"),), keep=True))
        new.catch_up()
        old.hand_over(new)
        try:
            assert one(new, Question(ids=("q1", "q2"))).ids == ("q1", "q2")
            one(new, Question(nodes=(node("q3", "q2"),), keep=True))
        finally:
            new.close()
    assert [entry.node.id for entry in read_overlay(log)[0]] == ["q1", "q2", "q3"]


def test_why_a_node_got_its_answer(run: Path, log: Path) -> None:
    with serving(run) as served:
        asked = Question(ids=("n1",), nodes=(node("q", "n2", "n3"),))
        known, new = served.explain(asked)
        [answers] = served.answer([asked])
    assert isinstance(answers, Answered)
    for place, found in enumerate((known, new)):
        assert found["predicted"]["probability"] == pytest.approx(float(answers.probabilities[place].max()), abs=1e-6)
        assert sum(part["weight"] for part in found["hops"]) == pytest.approx(1, abs=1e-5)
        assert found["support"] and found["support"][0]["distance"] >= 1
        assert sum(found["support_by_class"].values()) >= len(found["support"])
    assert new["degree"] == 2 and new["role"] == "" and known["role"] in ("train", "valid", "test", "")


def test_support_is_the_nearest_training_nodes(run: Path, log: Path) -> None:
    """Against a breadth-first search written out over the edges of the graph."""
    with serving(run) as served:
        graph = served.graph
        assert graph.nodes.split is not None
        train_rows = set(graph.nodes.split.train.tolist())
        neighbours: dict[int, set[int]] = {row: set() for row in range(graph.nodes.count)}
        for rows, others, _ in graph.relation.edges():
            for row, other in zip(rows.tolist(), others.tolist()):
                neighbours[row].add(other)
        for row in range(graph.nodes.count):
            [found] = served.explain(Question(ids=(f"n{row}",)))
            reached, last, distance = {row}, {row}, 0
            near: set[int] = set()
            while last and not near and distance < 3:
                last = {other for one in last for other in neighbours[one]} - reached
                reached |= last
                distance += 1
                near = last & train_rows
            assert sum(found["support_by_class"].values()) == len(near)
            assert {f"n{one}" for one in near} >= {one["id"] for one in found["support"]}
            assert all(one["distance"] == distance for one in found["support"])


def test_hops_that_training_did_not_keep_are_made_once(tmp_path: Path) -> None:
    whole = trained_run(tmp_path)
    settings = {**RECIPE, "propagation": {**RECIPE["propagation"], "rows": "split"}}
    train(tmp_path / "graph", settings, tmp_path / "part")
    asked = Question(ids=tuple(f"n{row}" for row in range(40)), nodes=(node(None, "n4", "n8"),))
    found = []
    for place in (whole, tmp_path / "part"):
        with serving(place) as served:
            found.append(one(served, asked).probabilities)
    np.testing.assert_array_equal(*found)
    made = tmp_path / "part" / "serving" / "generation-0" / "hops" / "store.json"
    before = made.stat().st_mtime_ns
    with serving(tmp_path / "part") as served:
        one(served, asked)
    assert made.stat().st_mtime_ns == before


def test_a_run_that_is_replaced_meanwhile_answers_on_and_is_taken_up(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    asked = Question(ids=("n1", "n9"), nodes=(node(None, "n4", "n8"),))
    with serving(run) as old:
        before = one(old, asked).probabilities
        shutil.rmtree(run)
        shutil.rmtree(tmp_path / "graph")
        np.testing.assert_array_equal(one(old, asked).probabilities, before)
        assert old.explain(Question(ids=("n3",)))[0]["support"]
        assert old.changed_on_disk()
        with pytest.raises(GamlpError, match="is no run folder"):
            old.reopened()
        trained_run(tmp_path, recipe={**RECIPE, "training": {"epochs": 3, "seeds": [5]}})
        new = old.reopened()
        old.hand_over(new)
        try:
            assert np.abs(one(new, asked).probabilities - before).max() > 1e-4, "another model answers"
        finally:
            new.close()


def test_features_made_of_edges_have_no_newcomers(tmp_path: Path) -> None:
    tables(tmp_path)
    (tmp_path / "bare.csv").write_text(
        "\n".join(",".join(line.split(",")[::4]) for line in (tmp_path / "nodes.csv").read_text().splitlines()) + "\n"
    )
    from gamlp.graph.ingest import ingest

    ingest(tmp_path / "edges.csv", tmp_path / "bare.csv", tmp_path / "graph")
    train(tmp_path / "graph", {"training": {"epochs": 2}, "model": {"hidden": 8}}, tmp_path / "run")
    with serving(tmp_path / "run") as served:
        assert one(served, Question(ids=("n1",))).ids == ("n1",)
        found = refusal(served, Question(nodes=(NewNode(hears={None: Ends(("n1",))}),)))
    assert found.status == 422 and "made of the graph's edges" in str(found) and "--add-nodes" in str(found)


def test_no_run_no_server(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="is no run folder"):
        ServedRun.open(tmp_path)
    assert not (tmp_path / "serving").exists()


def test_blanks_around_an_integer_make_no_second_node(tmp_path: Path) -> None:
    train("karate", RECIPE, tmp_path / "run")
    with serving(tmp_path / "run") as served:
        for name in (" 7", "7 ", "7"):
            found = refusal(served, Question(nodes=(NewNode(name, features=(0.0,) * 34),), keep=True))
            assert found.status == 409 and "in the graph already" in str(found)
        assert served.newcomers == 0


def test_of_what_is_not_kept_nothing_stays(run: Path, log: Path) -> None:
    with serving(run) as served:
        for number in range(3):
            one(served, Question(nodes=(node(f"a{number}", "n1"), node(f"b{number}", f"a{number}"))))
        refusal(served, Question(nodes=(node("c", "n1"), node("d", "nobody")), keep=True))
        assert served.newcomers == 0 and served.nodes._contents == {}
