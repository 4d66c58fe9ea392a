"""Newcomers become nodes of the graph: as if they had been in its tables, whenever it is killed, whoever serves it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import tests.forked  # noqa: F401  (processes are forked from one that has imported torch)
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, ingest, states_schema
from gamlp.io import locked, unsealed
from gamlp.propagation import LocalPropagator
from gamlp.run import predict, train
from gamlp.serve import (
    Answered,
    Ends,
    Id,
    NewNode,
    Question,
    Refreshed,
    ServedRun,
    open_generation,
    overlay,
    refresh_run,
    serving,
)
from gamlp.serve.overlay import OVERLAY, _line, read_overlay
from gamlp.training.stages import Stages
from tests.conformance import dense
from tests.forked import gamlp
from tests.graph.growing_tables import typed_tables
from tests.graph.growth_checks import same_arrays
from tests.serve.trained import RECIPE, matrix_of, tables, trained_run

pytestmark = pytest.mark.usefixtures("rows_are_copied")
CELLS: dict[str, Any] = {"size": 0.3, "colour": "v", "since": "2024-05-06"}


@pytest.fixture
def rows_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of graphs this small all is propagated in no time, and nothing would be copied."""
    monkeypatch.setattr("gamlp.propagation.local.growth._READ", 0)


def recipe(**propagation: Any) -> dict[str, Any]:
    return {**RECIPE, "propagation": {**RECIPE["propagation"], **propagation}}


def node(name: Id, *heard: Id, weights: Sequence[float] | None = None, label: Any = None, **cells: Any) -> NewNode:
    ends = Ends(heard, None if weights is None else tuple(weights))
    return NewNode(name, cells={**CELLS, **cells}, hears={None: ends}, label=label)


def keep(served: ServedRun, *nodes: NewNode) -> np.ndarray:
    [found] = served.answer([Question(nodes=nodes, keep=True)])
    assert isinstance(found, Answered), found
    return found.probabilities


def ask(served: ServedRun, *names: Id) -> np.ndarray:
    [found] = served.answer([Question(ids=names)])
    assert isinstance(found, Answered), found
    return found.probabilities


def anew(run: Path, nodes: Sequence[str], edges: Sequence[str], **options: Any) -> dict[Id, np.ndarray]:
    """What `gamlp predict` says of all nodes where the tables with all rows are ingested again."""
    folder = run.parent
    for name, more in (("nodes", nodes), ("edges", edges)):
        text = (folder / f"{name}.csv").read_text() + "".join(f"{line}\n" for line in more)
        (folder / f"all_{name}.csv").write_text(text)
    schema = states_schema(Graph.open(folder / "graph").columns)
    shutil.rmtree(folder / "anew", ignore_errors=True)
    ingest(folder / "all_edges.csv", folder / "all_nodes.csv", folder / "anew", IngestOptions(schema=schema, **options))
    return predicted(run, folder / "anew")


def predicted(run: Path, graph: Path) -> dict[Id, np.ndarray]:
    predict(run, run.parent / "anew.parquet", graph=graph)
    table = pyarrow.parquet.read_table(run.parent / "anew.parquet")
    values = np.stack([table[name].to_numpy() for name in table.column_names[3:]], 1)
    return dict(zip(table["id"].to_pylist(), values))


def compare(served: ServedRun, expected: dict[Id, np.ndarray]) -> None:
    np.testing.assert_allclose(ask(served, *expected), np.stack(list(expected.values())), atol=1e-6)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "weighted, directed, propagation",
    [(False, False, {}), (True, True, {"r": 0.3}), (True, False, {"r": 0.0, "dtype": "float16"}),
     (False, True, {"directions": "both"})],
)  # fmt: skip
def test_answers_are_those_of_all_tables_ingested_again(
    weighted: bool, directed: bool, propagation: dict[str, Any], tmp_path: Path
) -> None:
    run = trained_run(tmp_path, weighted=weighted, recipe=recipe(**propagation), directed=directed)
    before, w = contents(tmp_path / "graph"), ",0.5" if weighted else ""
    one = {"weights": [0.5, 0.5]} if weighted else {}
    with serving(run) as served:
        keep(served, node("q1", "n1", "n2", label="x", **one), node("q2", "q1", "n3", size="1.5", colour=None, **one))
        found = refresh_run(run)
        assert (found.generation, found.newcomers, found.edges, found.waiting) == (1, 2, 4, 0)
        assert served.changed_on_disk() and served.generation == 0
        newer = served.reopened()
        newer.catch_up()
        served.hand_over(newer)
        assert (newer.generation, newer.newcomers) == (1, 0)
        rows = ["q1,0.3,v,2024-05-06,x", "q2,1.5,,2024-05-06,"]
        ties = [f"{a},{b}{w}" for a, b in (("n1", "q1"), ("n2", "q1"), ("q1", "q2"), ("n3", "q2"))]
        expected = anew(run, rows, ties, directed=directed)
        assert len(expected) == 42
        compare(newer, expected)
        same_arrays(open_generation(run).given, Graph.open(tmp_path / "anew"))
        keep(newer, node("q3", "q2", "n4", since=None, **one))  # on top of the new graph
        found = refresh_run(run)
        assert (found.generation, found.newcomers, found.edges) == (2, 1, 2)
        newer.close()
    rows, ties = [*rows, "q3,0.3,v,,"], [*ties, f"q2,q3{w}", f"n4,q3{w}"]
    with serving(run) as again:
        assert (again.generation, again.newcomers) == (2, 0)
        compare(again, anew(run, rows, ties, directed=directed))
        same_arrays(again.generation_opened.given, Graph.open(tmp_path / "anew"))
    assert contents(tmp_path / "graph") == before, "the graph of training is the user's"
    assert read_overlay(run / "serving" / OVERLAY)[0] == []


def test_a_newcomer_that_came_meanwhile_waits_for_the_next(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    with serving(run) as served:
        keep(served, node("q1", "n1"))
        came = False

        def meanwhile(*_: Any) -> None:
            nonlocal came
            if not came:
                came = True
                keep(served, node("q2", "q1", "n2"))

        found = refresh_run(run, progress=meanwhile)
        assert came and (found.newcomers, found.waiting) == (1, 1)
        newer = served.reopened()
        newer.catch_up()
        served.hand_over(newer)
        assert newer.newcomers == 1 and len(ask(newer, "q1", "q2")) == 2
        assert refresh_run(run).newcomers == 1
        newer.close()
    with serving(run) as again:
        compare(again, anew(run, ["q1,0.3,v,2024-05-06,", "q2,0.3,v,2024-05-06,"], ["n1,q1", "q1,q2", "n2,q2"]))


def test_a_line_that_is_being_written_just_now_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / OVERLAY
    whole = _line(1, node("q1")) + _line(2, node("q2"))
    path.write_bytes(whole[:-9])
    real = overlay._parsed

    def writing(line: bytes) -> Any:
        if not line.endswith(b"\n"):
            with path.open("ab") as file:
                file.write(whole[path.stat().st_size :])
        return real(line)

    monkeypatch.setattr(overlay, "_parsed", writing)
    found, size = read_overlay(path)
    assert [one.number for one in found] == [1] and size == len(_line(1, node("q1")))


def test_the_drift_is_what_a_person_would_measure(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    old = tuple(f"n{i}" for i in range(40))
    with serving(run) as served:
        was = ask(served, *old)
        new = keep(served, node("q1", "n1", "n2", label="z"), node("q2", "q1", size=5.0))
        found = refresh_run(run)
        later = served.reopened()
        now, known = ask(later, *old), ask(later, "q1", "q2")
        served.hand_over(later)
        later.close()
    drift = found.drift
    assert drift is not None and drift.newcomers.rows == 2 and drift.reached == drift.drawn
    assert drift.newcomers.mean == pytest.approx(np.abs(known - new).mean(), abs=1e-7)
    assert drift.newcomers.largest == pytest.approx(np.abs(known - new).max(), abs=1e-7)
    assert drift.older.largest == pytest.approx(np.abs(now - was).max(), abs=1e-7) and drift.older.rows > 10
    assert drift.older.labels == pytest.approx((now.argmax(1) != was.argmax(1)).sum() / drift.older.rows)
    assert 0 < drift.older.hops < 1 and 0 < drift.newcomers.hops < 1
    kept = unsealed((run / "serving/generation-1/drift.json").read_bytes(), required=True)
    assert kept["newcomers"]["mean"] == drift.newcomers.mean and kept["older"]["rows"] == drift.older.rows


def test_a_newcomer_whom_nobody_hears_moves_nothing(tmp_path: Path) -> None:
    run = trained_run(tmp_path, recipe=recipe(r=0.0), directed=True)
    with serving(run) as served:
        keep(served, node("q1", "n1", "n2"))
    found = refresh_run(run)
    assert found.drift is not None and found.drift.newcomers.largest < 1e-6 and found.drift.newcomers.hops < 1e-6
    assert found.drift.older.rows == 0 and (found.made, found.copied) == (1, 40)


def test_rows_that_are_far_away_are_copied_and_the_store_is_that_of_the_ordinary_engine(tmp_path: Path) -> None:
    nodes = [f"n{i},{i % 7}.5,{'uvw'[i % 3]},2024-01-{1 + i % 28:02d},{'xyz'[i % 3]}" for i in range(300)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,size,colour,since,label", *nodes]) + "\n")
    (tmp_path / "edges.csv").write_text("src,dst\n" + "".join(f"n{i},n{(i + 1) % 300}\n" for i in range(300)))
    ingest(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph")
    train(tmp_path / "graph", recipe(rows="split"), tmp_path / "run")
    with serving(tmp_path / "run") as served:
        keep(served, node("q1", "n100", "n101"), node("q2", "q1"))
    found = refresh_run(tmp_path / "run")
    assert 5 < found.made < 20 and found.made + found.copied == 302
    generation = open_generation(tmp_path / "run")
    LocalPropagator().propagate(generation.graph, generation.plan, tmp_path / "whole")
    assert contents(generation.folder / "hops") == contents(tmp_path / "whole")
    with serving(tmp_path / "run") as again:
        compare(again, predicted(tmp_path / "run", generation.folder / "graph"))


def test_of_several_types(tmp_path: Path) -> None:
    old, _, _, options = typed_tables(tmp_path)
    ingest(*old, tmp_path / "graph", IngestOptions(**options))
    train(tmp_path / "graph", RECIPE, tmp_path / "run")
    author = NewNode(77, node_type="author", cells={"u": 0.1, "v": -0.4}, hears={"writes": Ends(("p1", "p2"))})
    paper = NewNode(
        "q", cells={"a": 0.5, "b": None}, hears={"cites": Ends(("p4", "p9")), "writes": Ends((3, 77))}, label="y"
    )
    with serving(tmp_path / "run") as served:
        keep(served, author, paper)
    found = refresh_run(tmp_path / "run")
    assert (found.newcomers, found.edges) == (2, 6) and found.drift is not None and found.drift.newcomers.rows == 1
    for name, more in (("paper", "q,0.5,0,y"), ("author", "77,0.1,-0.4"), ("cites", "p4,q\np9,q"),
                       ("writes", "77,p1\n77,p2\n3,q\n77,q")):  # fmt: skip
        with (tmp_path / f"{name}.csv").open("a") as file:
            file.write(f"{more}\n")
    ingest(*old, tmp_path / "anew", IngestOptions(**options))
    with serving(tmp_path / "run") as again:
        compare(again, predicted(tmp_path / "run", tmp_path / "anew"))
        same_arrays(again.generation_opened.given, Graph.open(tmp_path / "anew"))
        assert keep(again, NewNode("r", cells={"a": 1, "b": 1}, hears={"writes": Ends((77,))})).shape == (1, 2)


def test_what_a_teacher_said_stays_and_is_propagated_over_the_grown_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stages, "kept", 1)
    run = trained_run(tmp_path, recipe={**RECIPE, "training": {"epochs": 3, "stages": 2, "reliable": 0.34}})
    with serving(run) as served:
        first = served.generation_opened.store.signals["labels"].gather(np.arange(40), 0)[:, 0]
        keep(served, node("q1", "n1", "n2", label="x"), node("q2", "q1"))
    found = refresh_run(run)
    assert any(note.startswith("the model hears what its teacher said in training") for note in found.notes)
    generation = open_generation(run)
    hops = generation.store.signals["labels"].gather(np.arange(42))
    train_rows = generation.graph.nodes.split.train  # type: ignore[union-attr]
    assert ((first > 0) & (first < 1)).any(), "the teacher was sure of some rows"
    np.testing.assert_array_equal(hops[:40, 0], first)
    np.testing.assert_array_equal(hops[40, 0], [float(40 in train_rows), 0, 0])
    view = generation.plan.views(generation.graph)[0]
    operator = dense.operator(matrix_of(generation.graph, view), 0.5, loops=True)
    np.testing.assert_allclose(hops, dense.hops(operator, hops[:, 0].astype(np.float64), 2), atol=2e-6)
    with serving(run) as again:
        assert np.isfinite(ask(again, "q1", "q2", "n3")).all()
    assert refresh_run(run) == Refreshed(1)


def test_cells_of_all_kinds_are_what_they_were_when_they_were_asked_about(tmp_path: Path) -> None:
    """Of one column some are numbers, others texts; features of the grown graph are those that a question had."""
    run = trained_run(tmp_path)
    cells = [
        {"size": 3, "colour": True}, {"size": "4.5", "colour": 7}, {"size": None, "colour": "u"}, {"size": True},
        {"size": 1e-7, "colour": 2.5}, {"size": 2**60, "colour": None, "since": None}, {"since": "2023-01-02T03:04:05"},
    ]  # fmt: skip
    with serving(run) as served:
        new = [node(f"q{i}", "n1", **one) for i, one in enumerate(cells)]
        first = np.stack([served.nodes.readers["node"].read(one)[0] for one in new])
        keep(served, *new)
    refresh_run(run)
    stored = open_generation(run).store.signals["features"].gather(np.arange(40, 47), 0)[:, 0]
    np.testing.assert_array_equal(stored, first)


def test_features_without_names_and_integers_as_ids(tmp_path: Path) -> None:
    train("karate", {**RECIPE, "propagation": {"hops": 2}}, tmp_path / "run")
    with serving(tmp_path / "run") as served:
        width = served.about()["types"]["node"]["features"]
        features = tuple(np.linspace(0, 1, width).tolist())
        keep(served, NewNode(77, features=features, hears={None: Ends((0, "33"))}, label=2))
        keep(served, NewNode("78", features=features, hears={None: Ends((77,))}, label="no such class"))
        keep(served, NewNode("79", features=features, label=[1]))
        for nameless in ("", " "):
            [refused] = served.answer([Question(nodes=(NewNode(nameless, features=features),), keep=True)])
            assert not isinstance(refused, Answered)
    found = refresh_run(tmp_path / "run")
    assert found.notes == (
        "labels of newcomers that are no class of the model are left out: 2, such as 'no such class'",
    )
    graph = open_generation(tmp_path / "run").graph
    assert graph.nodes.ids.take(np.array([33, 34, 35, 36])).to_pylist() == [33, 77, 78, 79]
    assert graph.nodes.labels is not None and graph.nodes.labels.values[34:].tolist() == [2, -1, -1]
    with serving(tmp_path / "run") as again:
        keep(again, NewNode("a text", features=features, hears={None: Ends(("78", 5))}))
    refresh_run(tmp_path / "run")
    with serving(tmp_path / "run") as last:  # ids are texts from now on, and integers still found
        assert len(ask(last, "a text", 77, "5", 33)) == 4


def test_there_is_nothing_to_do_and_no_two_do_it(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    assert refresh_run(run) == Refreshed(0) and not (run / "serving").exists()
    with serving(run) as served:
        keep(served, node("q1", "n1"))
    with (
        locked(run / "serving" / "refresh"),
        pytest.raises(GamlpError, match="another refresh of this run is under way"),
    ):
        refresh_run(run)
    with pytest.raises(GamlpError, match="is no run folder"):
        refresh_run(tmp_path / "graph")


def test_what_cannot_be_made_again_is_refused_and_newcomers_are_answered_as_before(tmp_path: Path) -> None:
    """Embeddings of a type without features are those of the graph of training."""
    old, _, _, options = typed_tables(tmp_path)
    authors = (tmp_path / "author.csv").read_text().splitlines()
    (tmp_path / "author.csv").write_text("\n".join(line.split(",")[0] for line in authors) + "\n")
    ingest(*old, tmp_path / "graph", IngestOptions(**options))
    train(tmp_path / "graph", {**RECIPE, "relations": {"missing": "complex"}}, tmp_path / "run")
    with serving(tmp_path / "run") as served:
        new = keep(served, NewNode("q", cells={"a": 0.5, "b": 1}, hears={"writes": Ends((3,))}))
    with pytest.raises(GamlpError, match="features that were made for the graph of training mean nothing"):
        refresh_run(tmp_path / "run")
    assert not (tmp_path / "run/serving/generation-1").exists()
    with serving(tmp_path / "run") as again:
        np.testing.assert_array_equal(ask(again, "q"), new)


def test_generations_that_nobody_serves_go(tmp_path: Path) -> None:
    run = trained_run(tmp_path, recipe=recipe(rows="split"))
    for day in range(4):
        with serving(run) as served:
            assert served.generation == day
            keep(served, node(f"q{day}", "n1"))
        refresh_run(run)
    left = sorted(path.name for path in (run / "serving").glob("generation-*"))
    assert left == ["generation-3", "generation-4"]
    assert sorted(path.name for path in (run / "serving/generation-4").iterdir()) == ["drift.json", "graph", "hops"]


MOMENTS = [
    ("gamlp.serve.refresh.write_json", 1), ("gamlp.serve.refresh.write_tables", 1),
    ("gamlp.graph.growth.beside.share_file", 2), ("gamlp.graph.growth.in_place.save_array", 2),
    ("gamlp.serve.refresh.propagate_growth", 1), ("gamlp.propagation.store.writer.StoreWriter.record", 1),
    ("gamlp.propagation.store.writer.StoreWriter.finish", 1), ("gamlp.serve.refresh.measure", 1),
    ("gamlp.serve.generation.Current.write", 1), ("gamlp.serve.refresh._Next._tidy", 1),
]  # fmt: skip


def _killed(run: str, moment: str, call: int) -> None:
    """Refresh, and end without a word when something is called for the n-th time."""
    place, _, name = moment.rpartition(".")
    owner: Any = __import__(place.partition(".")[0])
    for part in place.split(".")[1:]:
        owner = getattr(owner, part)
    real, calls = getattr(owner, name), 0

    def killing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(owner, name, killing)
    refresh_run(Path(run))


def _kill(run: Path, moment: str, call: int = 1) -> None:
    process = multiprocessing.get_context("forkserver").Process(target=_killed, args=(str(run), moment, call))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL, moment


@pytest.mark.slow
def test_killed_at_any_moment_the_same_command_finishes(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    with serving(run) as served:
        was = keep(served, node("q1", "n1", "n2"), node("q2", "q1", label="y"))
    shutil.copytree(run, tmp_path / "pristine")
    refresh_run(run)
    expected = contents(run / "serving")
    assert len(expected) > 10
    for moment, call in MOMENTS:
        shutil.rmtree(run)
        shutil.copytree(tmp_path / "pristine", run)
        _kill(run, moment, call)
        switched = moment.endswith("_tidy")
        with serving(run, read_only=True) as between:
            assert between.generation == switched, moment
            if not switched:
                np.testing.assert_array_equal(ask(between, "q1", "q2"), was)
        found = refresh_run(run)
        assert found.newcomers == (0 if switched else 2), moment
        if not switched:
            assert contents(run / "serving") == expected, moment


def test_more_newcomers_after_a_kill_wait_for_the_next(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    with serving(run) as served:
        keep(served, node("q1", "n1"))
        _kill(run, "gamlp.serve.refresh.measure")
        keep(served, node("q2", "q1"))
    found = refresh_run(run)
    assert (found.newcomers, found.waiting) == (1, 1)
    _kill(run, "gamlp.serve.refresh.measure")
    (run / "serving" / OVERLAY).unlink()  # what was begun is of newcomers that nobody knows any more
    with serving(run) as served:
        keep(served, node("q9", "n3"))
    assert refresh_run(run).newcomers == 1
    with serving(run) as served:
        assert len(ask(served, "q1", "q9")) == 2
        [refused] = served.answer([Question(ids=("q2",))])
        assert not isinstance(refused, Answered)


def test_the_verb_tells_it_in_a_few_lines(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    assert gamlp("refresh", str(run)).stdout == f"{run}: no newcomers since generation 0\n"
    with serving(run) as served:
        keep(served, node("q1", "n1", "n2", label="strange"))
        done = gamlp("refresh", str(run), "--memory", "1GiB", "--threads", "1")  # while it is served
        keep(served, node("q2", "n5"))
    assert done.returncode == 0, done.stderr
    first, second, *drift = done.stdout.splitlines()
    assert first.startswith("note: labels of newcomers that are no class of the model are left out: 1")
    assert second.startswith(f"{run}: generation 1: 1 newcomers with 2 edges are in the graph; hops of 41 nodes made")
    assert len(drift) == 2 and drift[0].startswith("drift of 1 newcomers: probabilities by 0.")
    # As it is installed: other verbs import parts of torch alone.
    command = [sys.executable, "-c", "from gamlp.cli.main import main; main()", "refresh", str(run), "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    assert told["generation"] == 2 and told["newcomers"] == 1 and told["drift"]["newcomers"]["rows"] == 1
    wrong = gamlp("refresh", str(tmp_path / "graph"))
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr


def test_a_generation_of_another_graph_is_refused(tmp_path: Path) -> None:
    """The run was trained again elsewhere, and what was made for serving it was left behind."""
    run = trained_run(tmp_path)
    with serving(run) as served:
        served.answer([Question(nodes=(NewNode("q1", cells=CELLS, hears={None: Ends(("n1",))}),), keep=True)])
    refresh_run(run)
    left = tmp_path / "left"
    (run / "serving").rename(left)
    shutil.rmtree(run)
    shutil.rmtree(tmp_path / "graph")
    tables(tmp_path, seed=5)
    ingest(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph")
    train(tmp_path / "graph", RECIPE, run)
    left.rename(run / "serving")
    with pytest.raises(GamlpError, match=r"generation 1 is not of the run as it was trained last .* remove the folder"):
        ServedRun.open(run)


def test_a_run_without_its_graph_is_told_without_options_that_are_not_there(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    shutil.rmtree(tmp_path / "graph")
    with pytest.raises(GamlpError, match="cannot be opened") as error:
        ServedRun.open(run)
    assert "--graph" not in str(error.value)
