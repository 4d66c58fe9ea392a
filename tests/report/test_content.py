"""The numbers of a report, against loops written out plainly."""

from __future__ import annotations

import json
import statistics as stats
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.explanation.weights import weights_by_degree
from gamlp.graph import Graph, Split
from gamlp.propagation import HopStore
from gamlp.report import SeedScores, content_of_probabilities
from gamlp.report.observed import Frame, Tally
from gamlp.report.parts import MOST_POINTS, curves_of
from gamlp.run.evaluation import evaluate
from gamlp.run.path import run_path
from gamlp.run.source import Source
from gamlp.run.training import train
from gamlp.training.bundle import Bundle
from gamlp.training.rows import rows_of
from tests.report.examples import RECIPE, content_of, graph_of, probabilities_of
from tests.training.small import ONE_THREAD, make_graph
from tests.training.small import RECIPE as SMALL


def test_confusion_classes_and_degrees_are_those_of_a_loop_over_the_rows() -> None:
    graph = graph_of()
    labels, split, degrees = graph.nodes.labels, graph.nodes.split, graph.relation.degrees()
    assert labels is not None and split is not None
    content = content_of(graph)
    assert content["best"] == 1  # by validation, 0.8 against 0.7
    for seed in (0, 1):
        probabilities = probabilities_of(graph, seed)
        counts = [[0] * 3 for _ in range(3)]
        for row in split.test:
            counts[labels.values[row]][int(np.argmax(probabilities[row]))] += 1
        if seed == content["best"]:
            assert content["confusion"]["counts"] == counts
            for bar in content["by_class"]:
                right, chosen = counts[bar["class"]][bar["class"]], sum(row[bar["class"]] for row in counts)
                precision, recall = right / chosen, right / bar["rows"]
                assert (bar["precision"], bar["recall"]) == pytest.approx((precision, recall), abs=1e-5)
                assert bar["f1"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-5)
        for bar in content["by_class"]:
            accuracy = counts[bar["class"]][bar["class"]] / sum(counts[bar["class"]])
            assert bar["rows"] == sum(counts[bar["class"]])
            assert bar["least"] - 1e-4 <= accuracy <= bar["greatest"] + 1e-4
    assert sum(bar["rows"] for bar in content["by_degree"]) == len(split.test) == content["rows"]
    for bar in content["by_degree"]:
        inside = [row for row in split.test if bar["low"] <= degrees[row] <= bar["high"]]
        right = [
            np.mean([np.argmax(probabilities_of(graph, seed)[row]) == labels.values[row] for row in inside])
            for seed in (0, 1)
        ]
        assert bar["rows"] == len(inside)
        assert bar["mean"] == pytest.approx(np.mean(right), abs=1e-5)
        assert (bar["least"], bar["greatest"]) == pytest.approx((min(right), max(right)), abs=1e-5)


def test_scores_are_means_and_sample_deviations_over_seeds() -> None:
    graph = graph_of()
    values = [0.5, 0.7, 0.9]
    seeds = [SeedScores(seed, {"score": 0.1}, {"score": value}) for seed, value in enumerate(values)]
    found = content_of_probabilities(graph, {}, seeds, RECIPE)["scores"]["test"]["score"]
    assert found == {"mean": pytest.approx(0.7), "deviation": pytest.approx(stats.stdev(values))}


def test_reliability_is_of_the_best_seed_and_of_two_classes_the_rarer() -> None:
    graph = graph_of(400, 2)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    content = content_of(graph)
    rarer = int(np.argmin(np.bincount(labels.values[split.test])))
    said = probabilities_of(graph, content["best"])[split.test, rarer]
    bins = content["reliability"]
    assert content["positive"] == labels.classes[rarer] and list(content["ranking"]) == [str(rarer)]
    assert sum(one["rows"] for one in bins) == len(split.test) and len(bins) == 15
    assert sum(one["rows"] * one["said"] for one in bins) == pytest.approx(said.sum(), rel=1e-4)
    true = (labels.values[split.test] == rarer).sum()
    assert sum(one["rows"] * one["true"] for one in bins) == pytest.approx(true, rel=1e-3)


def test_many_labels_have_f1_by_class_and_micro_f1_by_degree() -> None:
    graph = graph_of(120, multi_label=True)
    labels, split, degrees = graph.nodes.labels, graph.nodes.split, graph.relation.degrees()
    assert labels is not None and split is not None
    content = content_of(graph, seeds=1)
    chosen, true = probabilities_of(graph)[split.test] > 0.5, labels.values[split.test] > 0
    assert content["confusion"] is None and content["score_name"] == "micro-F1"
    assert "The same most frequent labels for every node would have" in content["words"]["said"][1]
    assert 0 < content["base"]["score"] < 1 and content["reliability"]
    for bar in content["by_class"]:
        own, said = true[:, bar["class"]], chosen[:, bar["class"]]
        precision, recall = (own & said).sum() / said.sum(), (own & said).sum() / own.sum()
        assert bar["mean"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-5)
    for bar in content["by_degree"]:
        inside = (degrees[split.test] >= bar["low"]) & (degrees[split.test] <= bar["high"])
        right, error = (true & chosen)[inside].sum(), (true ^ chosen)[inside].sum()
        assert bar["mean"] == pytest.approx(2 * right / (2 * right + error), abs=1e-5)
    nodes = content["nodes"]
    for index, row in enumerate(split.test):
        assert nodes["id"][index] == str(row)
        assert set(nodes["extra"][index]) == set(np.flatnonzero(chosen[index] & ~true[index]).tolist())
        assert set(nodes["missed"][index]) == set(np.flatnonzero(true[index] & ~chosen[index]).tolist())


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_most_confident_mistakes_are_found_however_the_rows_come(batch: int) -> None:
    random = np.random.default_rng(3)
    target, probabilities = random.integers(0, 4, 300), random.random((300, 4))
    rows = np.arange(300) * 2 + 1
    frame = Frame.of(tuple("abcd"), target, rows, most_drawn=20)
    tally = Tally(frame, listed=True, most_mistakes=15)
    for begin in range(0, 300, batch):
        part = slice(begin, begin + batch)
        tally.add(rows[part], probabilities[part], target[part])
    nodes = tally.nodes()
    wrong = [index for index in range(300) if probabilities[index].argmax() != target[index]]
    surest = sorted(wrong, key=lambda index: -probabilities[index].max())[:15]
    listed = [int(row) for _, row in sorted(zip(nodes["worst"], nodes["row"])) if _ >= 0]
    assert listed == [int(rows[index]) for index in surest]
    assert tally.mistakes == len(wrong)
    assert set(frame.drawn) <= set(nodes["row"]) and len(nodes["row"]) == len(np.unique(nodes["row"])) <= 35


def test_a_matrix_of_many_classes_keeps_the_largest_and_joins_the_others() -> None:
    random = np.random.default_rng(0)
    sizes = np.arange(1, 41)
    target = np.repeat(np.arange(40), sizes)
    probabilities = random.random((len(target), 40))
    frame = Frame.of(tuple(f"c{index}" for index in range(40)), target, np.arange(len(target)))
    tally = Tally(frame)
    tally.add(np.arange(len(target)), probabilities, target)
    assert frame.named == tuple(range(16, 40)) and frame.others == 16
    full = np.zeros((40, 40), int)
    for true, chosen in zip(target, probabilities.argmax(1)):
        full[true, chosen] += 1
    np.testing.assert_array_equal(tally.confusion[:24, :24], full[16:, 16:])
    np.testing.assert_array_equal(tally.confusion[:24, 24], full[16:, :16].sum(1))
    assert tally.confusion[24, 24] == full[:16, :16].sum() and tally.confusion.sum() == len(target)


def test_long_trainings_are_thinned_but_keep_their_ends() -> None:
    lines = [{"seed": 0, "epoch": epoch, "loss": 1.0} for epoch in range(1, 5001)]
    found = curves_of(lines)
    assert found is not None
    epochs = found["seeds"][0]["epoch"]
    assert len(epochs) <= MOST_POINTS + 1 and (epochs[0], epochs[-1]) == (1, 5000)
    assert "valid_loss" not in found["seeds"][0] and curves_of([]) is None


def test_a_run_tells_its_scores_weights_times_and_memory(tmp_path: Path) -> None:
    graph = make_graph()
    recipe = SMALL.changed({"training.seeds": [0, 1], "training.metric": "balanced_accuracy"})
    trained = train(Source("small", None, graph), recipe, tmp_path / "run", resources=ONE_THREAD)
    report = evaluate(trained.run, own=graph, resources=ONE_THREAD)
    text = (tmp_path / "run" / "report.html").read_text()
    content = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert report["report"] == str(trained.run.report_path)
    assert content["scores"]["test"]["score"]["mean"] == pytest.approx(report["mean"]["score"], abs=1e-5)
    counts = np.array(content["confusion"]["counts"])
    assert np.trace(counts) / counts.sum() == pytest.approx(report["seeds"][content["best"]]["score"], abs=1e-6)
    assert content["metric_name"] == "balanced accuracy" and content["scores"]["valid"]["metric"]["mean"] > 0
    assert all(len(one["valid_metric"]) == 6 for one in content["curves"]["seeds"])
    assert {one["seed"]: len(one["epoch"]) for one in content["curves"]["seeds"]} == {0: 6, 1: 6}
    for part in ("preparation", "training", "evaluation", "peak_memory"):
        assert content["timings"][part] is not None and content["timings"][part] >= 0
    assert content["parameters"] == sum(value.numel() for value in trained.bundles[0].weights.values())
    _weights_are_the_models(content, trained.bundles[content["best"]], trained.run.store_path(), graph)


def _weights_are_the_models(content: dict[str, Any], bundle: Bundle, place: Path, graph: Graph) -> None:
    store, nodes = HopStore.open(place), content["nodes"]
    rows = np.array([int(one) for one in nodes["id"]])
    x, y = rows_of(store, bundle.recipe, rows).gather(np.arange(len(rows)))
    found = bundle.model().hop_weights(torch.from_numpy(x).float(), torch.from_numpy(y).float())
    np.testing.assert_allclose(np.array(nodes["features"]) / 1000, found.features.detach().numpy(), atol=6e-4)
    np.testing.assert_allclose(np.array(nodes["labels"]) / 1000, found.labels.detach().numpy(), atol=6e-4)
    everyone = rows_of(store, bundle.recipe, np.arange(graph.nodes.count))
    ranges = weights_by_degree(bundle.model(), everyone, graph.relation.degrees())
    assert ranges is not None
    assert content["weights"]["ranges"][0]["features"] == pytest.approx(list(ranges.ranges[0].features or ()), abs=1e-5)


def test_another_graph_has_a_report_of_its_own_and_the_runs_stays(tmp_path: Path) -> None:
    graph, other = make_graph(), make_graph(5, name="../else where")
    recipe = SMALL.changed({"model.beta": 0.0})
    trained = train(Source("small", None, graph), recipe, tmp_path / "run", resources=ONE_THREAD)
    own = evaluate(trained.run, own=graph, resources=ONE_THREAD)
    before = Path(own["report"]).read_bytes()
    found = evaluate(trained.run, other, resources=ONE_THREAD)
    assert Path(found["report"]) == tmp_path / "run" / "report-else-where.html"
    assert Path(found["report"]).exists() and Path(own["report"]).read_bytes() == before


def test_without_test_rows_the_page_shows_validation_rows_and_says_so(tmp_path: Path) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    graph = graph.with_targets(split=Split(np.where(graph.nodes.split.roles == 3, 0, graph.nodes.split.roles)))
    outcome = run_path(Source("small", None, graph), SMALL, tmp_path / "run", resources=ONE_THREAD)
    content = json.loads(outcome.report.read_text().split('id="data">')[1].split("</script>")[0])
    assert outcome.test is None and content["part"] == "valid"
    valid = outcome.trained.bundles[0].report["valid"]["score"]
    counts = np.array(content["confusion"]["counts"])
    assert np.trace(counts) / counts.sum() == pytest.approx(valid) and content["rows"] == counts.sum()


def test_a_finished_run_is_not_evaluated_or_reported_again(tmp_path: Path) -> None:
    graph = make_graph()
    once = run_path(Source("small", None, graph), SMALL, tmp_path / "run", resources=ONE_THREAD)
    before = once.report.stat().st_mtime_ns
    again = run_path(Source("small", None, graph), SMALL, tmp_path / "run", resources=ONE_THREAD)
    assert again.report.stat().st_mtime_ns == before and once.test is not None and again.test is not None
    assert again.test["mean"] == once.test["mean"]
    again.report.unlink()  # a run of an earlier gamlp has scores and no page
    assert run_path(Source("small", None, graph), SMALL, tmp_path / "run", resources=ONE_THREAD).report.exists()
