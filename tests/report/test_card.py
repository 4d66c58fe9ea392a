"""A model card says what a run measured, beside baselines, and that it did not measure the rest."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.propagation import HopStore
from gamlp.report import card_of
from gamlp.report.card import _escaped
from gamlp.run import evaluate, graph_of, train
from gamlp.training import RunFolder
from tests.training.small import make_graph

RECIPE: dict[str, Any] = {"training": {"epochs": 3, "seeds": [0, 1]}, "model": {"hidden": 4}}


def card(run: Path, *, with_graph: bool = True) -> str:
    opened = RunFolder.open(run)
    graph = graph_of(opened, HopStore.open(opened.store_path())) if with_graph else None
    return card_of(opened, graph)


def section(text: str, title: str) -> str:
    """What stands below a heading, until the next."""
    (found,) = re.findall(rf"^## {title}\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def front(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return content


def cells(table: str, first: str) -> list[str]:
    """Of the row of a table that begins with a word."""
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run twice: trained alone, and evaluated too."""
    folder = tmp_path_factory.mktemp("card")
    make_graph(nodes=80).save(folder / "graph")
    train(folder / "graph", RECIPE, folder / "trained")
    shutil.copytree(folder / "trained", folder / "evaluated")
    evaluate(RunFolder.open(folder / "evaluated"))
    return {"trained": folder / "trained", "evaluated": folder / "evaluated", "graph": folder / "graph"}


def test_scores_are_those_that_were_measured_beside_one_answer_for_all(runs: dict[str, Path]) -> None:
    run = RunFolder.open(runs["evaluated"])
    text, report = card(runs["evaluated"]), run.evaluation()
    assert report is not None
    shown = cells(section(text, "Scores"), "accuracy")
    mean, deviation = report["mean"]["score"], report["deviation"]["score"]
    assert shown[2] == f"{100 * mean:.1f} % ± {100 * deviation:.1f}"
    assert shown[3] == f"{100 * report['base']['score']:.1f} %"
    valid = [bundle.valid["score"] for bundle in run.bundles().values()]
    assert shown[0].startswith(f"{100 * sum(valid) / 2:.1f} % ± ")
    assert "Mean ± sample deviation over 2 seeds." in section(text, "Scores")
    words = section(text, "In short, and what to doubt")
    assert all(f"- {_escaped(one)}" in words for one in run.words()) and run.words()
    result = front(text)["model-index"][0]["results"][0]
    assert result["metrics"][0]["value"] == mean and result["dataset"]["name"] == "small"


def test_what_was_not_measured_is_said_to_be_so(runs: dict[str, Path]) -> None:
    text = card(runs["trained"])
    assert "model-index" not in front(text)
    assert cells(section(text, "Scores"), "accuracy")[2:] == ["not measured", "not measured"]
    assert "Test rows were not scored: `gamlp evaluate` does it once." in section(text, "Scores")
    assert "Other models were not compared" in section(text, "Scores")
    assert "On test rows it was not measured." in section(text, "Calibration")
    assert "was not measured: gamlp evaluate" in section(text, "In short, and what to doubt")
    assert cells(section(text, "Data"), "test rows with a known label")[0].endswith(", not scored")


def test_data_is_counted_and_edges_only_where_the_graph_is_at_hand(runs: dict[str, Path]) -> None:
    from gamlp.graph import Graph

    graph = Graph.open(runs["graph"])
    data = section(card(runs["evaluated"]), "Data")
    assert cells(data, "nodes") == ["80"] and cells(data, "edges") == [f"{graph.relation.entries // 2:,}"]
    assert graph.nodes.split is not None
    assert cells(data, "training rows") == [str(len(graph.nodes.split.train))]
    without = section(card(runs["evaluated"], with_graph=False), "Data")
    assert cells(without, "edges") == ["not counted: the graph is not at hand"]


def test_a_run_without_its_hops_has_a_card_all_the_same(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["evaluated"], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "hops")
    data = section(card(tmp_path / "run", with_graph=False), "Data")
    assert cells(data, "rows without a label") == ["not counted"] and cells(data, "graph") == ["run"]


def test_limits_follow_from_the_recipe(runs: dict[str, Path], tmp_path: Path) -> None:
    limits = section(card(runs["trained"]), "Limits")
    assert "A new node needs 6 numbers as features" in limits and "Training was transductive" in limits
    assert "a training row's own label comes back to it" in limits and "`gamlp refresh`" in limits
    changes = {"training": {**RECIPE["training"], "setting": "inductive"}, "model": {"hidden": 4, "beta": 0.0}}
    train(runs["graph"], changes, tmp_path / "run")
    other = section(card(tmp_path / "run"), "Limits")
    assert "Training rows saw only each other" in other and "label comes back" not in other


def test_columns_are_listed_with_their_encoders_and_names_are_text(tmp_path: Path) -> None:
    """A class or a column may be called anything: it is no markup of the card."""
    evil = "<b>|`x`"
    rows = [f"n{i},{i % 7},{'red' if i % 2 else 'blue'},{('yes', evil)[i % 2]}" for i in range(40)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,age,co|our,label", *rows]))
    (tmp_path / "edges.csv").write_text("\n".join(["src,dst", *(f"n{i},n{(i + 2) % 40}" for i in range(40))]))
    ingest(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph", IngestOptions())
    train(tmp_path / "graph", {"training": {"epochs": 2}, "model": {"hidden": 4}}, tmp_path / "run")
    evaluate(RunFolder.open(tmp_path / "run"))
    text = card(tmp_path / "run")
    assert "| co\\|our | category | 2 | 2 values |" in section(text, "Schema")
    assert evil not in text and _escaped(evil) in section(text, "Data")
    assert "`age`, `co|our`" in section(text, "Limits")
    bare = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert re.search(r"(?<!\\)<", bare) is None


def test_how_to_reproduce_is_a_command_that_does(runs: dict[str, Path], tmp_path: Path) -> None:
    """The command of the card, run in the run folder: the same validation scores."""
    import shlex

    from tests import forked

    again = section(card(runs["trained"]), "How to reproduce")
    (command,) = re.findall(r"```sh\n(.*?)\n```", again)
    words = [str(tmp_path / "again") if word == "AGAIN" else word for word in shlex.split(command)]
    done = forked.gamlp(*words[1:], folder=runs["trained"])
    assert done.returncode == 0, done.stderr
    first, second = (RunFolder.open(path).bundles()[0].valid for path in (runs["trained"], tmp_path / "again"))
    assert first == second
    assert "Seeds: 0, 1." in again and "the versions of other packages were not written down" in again


def test_the_leaderboard_of_a_choice_is_in_the_card(runs: dict[str, Path], tmp_path: Path) -> None:
    from gamlp.io import sealed, write_json

    shutil.copytree(runs["evaluated"], tmp_path / "run")
    rows = [
        {"name": "mine", "title": "GAMLP", "valid": 0.75, "error": 0.05, "test": 0.7},
        {
            "name": "majority",
            "title": "The commonest class",
            "valid": 0.25,
            "error": None,
            "test": None,
            "simple": True,
        },
    ]
    board = {"metric": "accuracy", "chosen": "mine", "sentence": "", "rows": rows}
    write_json(tmp_path / "run" / "leaderboard.json", sealed(board))
    text = card(tmp_path / "run")
    scores = section(text, "Scores")
    assert cells(scores, "→ GAMLP") == ["75.0 % ± 5.0", "70.0 %"]
    assert cells(scores, "The commonest class") == ["25.0 %", "not measured"]
    assert "# small: GAMLP" in text
