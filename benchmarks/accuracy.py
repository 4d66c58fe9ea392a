"""Test accuracy of the shipped recipes beside the paper's, over ten seeds (and ten random splits).

    python benchmarks/accuracy.py --data-dir FOLDER              # all of it
    python benchmarks/accuracy.py --parts table --datasets cora  # some

Every run's scores are kept in --work under a digest of its recipe, so an interrupted measurement goes on where it was,
and several processes can share it. Recipes were found on validation rows (gamlp tune); test rows are read here, once
for each run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import yaml

import accuracy_page
from gamlp.graph import Graph, digest
from gamlp.graph.datasets.loading import load
from gamlp.io import write_json
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.recipe import Recipe
from gamlp.run.preparation import hops_for, prepare, prepare_split
from gamlp.run.resources import Resources
from gamlp.training.batches import Batches
from gamlp.training.loop import Machine
from gamlp.training.rows import plan_of, rows_of
from gamlp.training.scores import full_report
from gamlp.training.seeds import fit_prepared
from machine import describe, versions

PLAN = yaml.safe_load((Path(__file__).with_suffix(".yaml")).read_text())
ATTENTIONS = ("jk", "recursive")
PARTS = ("table", "labels", "twitch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="*", default=list(PLAN["datasets"]), choices=PLAN["datasets"])
    parser.add_argument("--attentions", nargs="*", default=list(ATTENTIONS), choices=ATTENTIONS)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("GAMLP_DATA"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / "work")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "accuracy.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bench = Bench(options.work, options.data_dir, options.seeds, Resources(threads=options.threads, device="cpu"))
    results: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "machine": describe(), "versions": versions()}
    if "table" in options.parts:
        results["table"] = {
            name: {attention: bench.dataset(name, attention, {}) for attention in options.attentions}
            for name in options.datasets
        }
    if "labels" in options.parts:
        results["labels"] = {
            name: {
                way: bench.dataset(name, "jk", changes, PLAN["labels"]["seeds"])
                for way, changes in PLAN["labels"]["ways"].items()
            }
            for name in PLAN["labels"]["datasets"]
            if name in options.datasets
        }
    if "twitch" in options.parts:
        results["twitch"] = {title: bench.twitch(recipe) for title, recipe in PLAN["twitch"]["recipes"].items()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1))
    page = accuracy_page.page(results, PLAN)
    options.out.with_suffix(".md").write_text(page)
    print(page)


class Bench:
    """Runs, each kept as a small file."""

    def __init__(self, work: Path, data_dir: Path | None, seeds: int, resources: Resources) -> None:
        self.work, self.data_dir, self.seeds, self.resources = work, data_dir, seeds, resources

    def dataset(self, name: str, attention: str, changes: dict[str, Any], most: int = 10) -> dict[str, Any]:
        """Ten seeds on the public split, or a split and a seed for each of ten."""
        recipe = Recipe.of(f"{name}-{attention}").changed(changes)
        folder = self.work / f"{name}-{attention}-{_digest(recipe)}"
        folder.mkdir(parents=True, exist_ok=True)
        random = PLAN["datasets"][name]["splits"] == "random"
        seeds = min(self.seeds, most)
        for seed in range(seeds):
            if not (kept := folder / f"{seed}.json").exists():
                graph = load(name, self.data_dir, seed=seed if random else 0)
                report = self._run(graph, recipe, seed, folder / f"labels-{seed if random else 0}")
                print(f"{name} {attention} seed {seed}: {100 * report['test']['score']:.2f} %", flush=True)
                write_json(kept, report)
        return _collected(folder, seeds, recipe)

    def _run(self, graph: Graph, recipe: Recipe, seed: int, folder: Path) -> dict[str, Any]:
        begun = time.monotonic()
        prepared = prepare_split(graph, recipe, self._features(graph, recipe), folder, resources=self.resources)
        fitted = fit_prepared(prepared, seed, Machine())
        split, labels = graph.nodes.split, graph.nodes.labels
        assert split is not None and labels is not None
        test = dataclasses.replace(prepared.train, rows=split.test[labels.known()[split.test]], crossfit=False)
        report = full_report(fitted.model, Batches(test, 2000, torch.device("cpu"), memory=0))
        return {"valid": fitted.valid, "test": report, "epoch": fitted.epoch, "seconds": time.monotonic() - begun}

    def _features(self, graph: Graph, recipe: Recipe) -> HopStore:
        """All rows, once for every operator; splits share them."""
        plan = plan_of(recipe, labels=False).model_copy(update={"rows": "all"})
        place = self.work / "hops" / f"{graph.name}-{digest(plan.model_dump(exclude={'labels'}))}"
        return LocalPropagator(threads=self.resources.threads).propagate(graph, plan, place)

    def twitch(self, name: str) -> dict[str, Any]:
        """Trained on one country, chosen on another, tested on the others; each is a graph of its own."""
        recipe = Recipe.of(name)
        about = PLAN["twitch"]
        folder = self.work / f"{name}-{_digest(recipe)}"
        folder.mkdir(parents=True, exist_ok=True)
        seeds = min(self.seeds, about["seeds"])
        for seed in range(seeds):
            if (kept := folder / f"{seed}.json").exists():
                continue
            graphs = [load(about[role], self.data_dir) for role in ("train", "valid")]
            prepared = prepare(graphs[0], recipe, folder, valid_graph=graphs[1], resources=self.resources)
            fitted = fit_prepared(prepared, seed, Machine())
            report: dict[str, Any] = {"valid": fitted.valid}
            for country in about["test"]:
                report[country] = self._country(country, prepared, fitted, folder)
            print(f"{name} seed {seed}", flush=True)
            write_json(kept, report)
        runs = [json.loads((folder / f"{seed}.json").read_text()) for seed in range(seeds)]
        return {
            country: {
                metric: _mean([run[country][metric] for run in runs]) for metric in ("score", "roc_auc", "macro_f1")
            }
            for country in about["test"]
        } | {"valid": {"score": _mean([run["valid"]["score"] for run in runs])}}

    def _country(self, country: str, prepared: Any, fitted: Any, folder: Path) -> dict[str, float]:
        from gamlp.training.seeds import bundle_of

        graph = load(country, self.data_dir)
        bundle = bundle_of(prepared, fitted, 0)
        store = hops_for(bundle, graph, folder / country, self.resources)
        labels = graph.nodes.labels
        assert labels is not None
        rows = rows_of(store, prepared.recipe, labels.known().nonzero()[0])
        return full_report(fitted.model, Batches(rows, 2000, torch.device("cpu"), memory=0))


def _digest(recipe: Recipe) -> str:
    return digest(recipe.model_dump(exclude={"about"}, mode="json"))


def _collected(folder: Path, seeds: int, recipe: Recipe) -> dict[str, Any]:
    runs = [json.loads((folder / f"{seed}.json").read_text()) for seed in range(seeds)]
    return {
        "test": _mean([run["test"]["score"] for run in runs]),
        "valid": _mean([run["valid"]["score"] for run in runs]),
        "seconds": statistics.fmean(run["seconds"] for run in runs),
        "recipe": recipe.explicit(),
    }


def _mean(values: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "runs": len(values),
    }


if __name__ == "__main__":
    main()
