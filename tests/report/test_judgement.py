"""Facts of runs: against loops over rows, and as words that reach the run folder, the page and who asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Labels, Split
from gamlp.report.judgement import Judged, dropped_columns
from gamlp.report.observed import Frame, Tally
from gamlp.run.evaluation import evaluate
from gamlp.run.path import run_path
from gamlp.run.source import Source
from gamlp.training import RunFolder
from tests.training.small import ONE_THREAD, RECIPE, make_graph


def judged(target: np.ndarray, probabilities: np.ndarray, training: np.ndarray | None = None) -> Judged:
    names = tuple(f"c{at}" for at in range(probabilities.shape[1]))
    frame = Frame.of(names, target, np.arange(len(target)))
    tally = Tally(frame, listed=True)
    tally.add(np.arange(len(target)), probabilities, target)
    return Judged(frame, {0: tally}, 0, tally.ranking.curves(), "test", training)


def test_the_same_answer_for_all_is_compared_row_by_row() -> None:
    random = np.random.default_rng(0)
    target, probabilities = random.choice(3, 300, p=[0.5, 0.3, 0.2]), random.random((300, 3))
    probabilities[np.arange(300), target] += 0.3
    probabilities /= probabilities.sum(1, keepdims=True)
    facts = judged(target, probabilities, np.array([10, 40, 0])).facts()
    right, same = probabilities.argmax(1) == target, target == 1  # most training rows have class 1
    apart = right.astype(float) - same
    constant, score = facts["constant"], facts["score"]
    assert constant.answer == "the answer 'c1'" and constant.value == pytest.approx(same.mean())
    assert constant.ahead == pytest.approx(apart.mean())
    assert constant.error == pytest.approx(apart.std() / np.sqrt(300))
    assert score.value == pytest.approx(right.mean()) and score.rows == 300
    assert facts["sure"] == pytest.approx(probabilities.max(1).mean())
    assert [one.found for one in facts["found"]] == [int((right & (target == at)).sum()) for at in range(3)]
    assert [one.trained for one in facts["found"]] == [True, True, False]
    assert facts["ranked"] is None


def test_of_two_classes_the_rarer_one_is_ranked() -> None:
    random = np.random.default_rng(1)
    target = (random.random(400) < 0.9).astype(np.int64)
    first = np.clip(0.1 + 0.5 * (target == 0) + 0.2 * random.normal(size=400), 0.01, 0.99)
    ranked = judged(target, np.stack([first, 1 - first], 1)).facts()["ranked"]
    assert ranked.positive == "c0" and ranked.share == pytest.approx((target == 0).mean()) and ranked.informative


def noisy(graph: Graph) -> Graph:
    """Labels that nothing tells anything about, mostly one."""
    labels = graph.nodes.labels
    assert labels is not None
    values = (np.random.default_rng(9).random(len(labels.values)) < 0.3).astype(np.int32)
    return graph.with_targets(labels=Labels(values, ("often", "seldom")))


def test_words_reach_the_folder_the_page_and_who_asked(tmp_path: Path) -> None:
    graph = make_graph(nodes=300)
    recipe = RECIPE.changed({"training.epochs": 10, "training.batch_size": 64})
    outcome = run_path(Source("small", None, graph), recipe, tmp_path / "run", resources=ONE_THREAD)
    assert outcome.words[0] == "One of 3 classes was predicted for 300 nodes."
    assert outcome.words[1].startswith("Accuracy of 75 test rows is ") and "points (± " in outcome.words[2]
    assert not any("eighbours" in one for one in outcome.words)
    content = json.loads(outcome.report.read_text().split('id="data">')[1].split("</script>")[0])
    assert content["words"]["better"] is True
    assert [*content["words"]["said"], *content["words"]["doubts"]] == outcome.words
    assert content["agreement"]["agree"] > content["agreement"]["chance"] + 0.3
    again = run_path(Source("small", None, graph), recipe, tmp_path / "run", resources=ONE_THREAD)
    assert again.words == outcome.words == evaluate(RunFolder.open(tmp_path / "run"), own=graph)["words"]
    (tmp_path / "run" / "words.json").write_text('{"words": ["Trust it."]}')
    assert RunFolder.open(tmp_path / "run").words() == []  # somebody's own


def test_a_run_on_noise_is_not_to_be_trusted(tmp_path: Path) -> None:
    graph = noisy(make_graph(nodes=400))
    outcome = run_path(Source("noise", None, graph), RECIPE, tmp_path / "run", resources=ONE_THREAD)
    said = " ".join(outcome.words)
    assert "No better than the answer 'often' for every node" in said and "should not be trusted" in said
    assert "Labels of neighbours tell little" in said or "Neighbours disagree" in said


def test_labels_of_test_rows_do_not_change_what_is_said_of_neighbours(tmp_path: Path) -> None:
    graph = make_graph(nodes=200)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    values = labels.values.copy()
    values[split.test] = 0
    other = graph.with_targets(labels=Labels(values, labels.classes))
    found: list[Any] = []
    for name, one in (("a", graph), ("b", other)):
        outcome = run_path(Source(name, None, one), RECIPE, tmp_path / name, resources=ONE_THREAD)
        content = json.loads(outcome.report.read_text().split('id="data">')[1].split("</script>")[0])
        found.append(content["agreement"])
    assert found[0] == found[1]


def test_without_labelled_rows_beside_training_nobody_knows(tmp_path: Path) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    graph = graph.with_targets(split=Split(np.where(graph.nodes.split.roles == 1, 1, 0)))
    outcome = run_path(Source("small", None, graph), RECIPE, tmp_path / "run", resources=ONE_THREAD)
    assert any("how good the predictions are is not known" in one for one in outcome.words)


def test_columns_that_were_left_out_by_themselves_are_told(tmp_path: Path) -> None:
    uses = [
        {"table": "nodes", "column": "name", "use": "ignored", "about": "text: free text"},
        {"table": "nodes", "column": "age", "use": "feature", "about": "number"},
        {"table": "nodes", "column": "split", "use": "ignored", "about": "--split is empty"},
        {"table": "edges", "column": "kind", "use": "ignored", "about": "edges have ends"},
    ]
    (tmp_path / "ingest.json").write_text(json.dumps({"columns": uses}))
    assert dropped_columns(tmp_path) == [("name", "text: free text")]
    for broken in ("", "[]", '{"columns": [1]}', '{"columns": [{"use": "ignored", "table": 3}]}'):
        (tmp_path / "ingest.json").write_text(broken)
        assert dropped_columns(tmp_path) == []
    assert dropped_columns(tmp_path / "nowhere") == []
