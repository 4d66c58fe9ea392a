"""What shuffling chunks of rows costs in accuracy: windows and chunks are a part of the rows as they are at scale."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gamlp.graph import Graph
from gamlp.graph.datasets import load
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.run.resources import Resources
from gamlp.training import order as order_module
from gamlp.training.loop import Machine, fit
from gamlp.training.rows import Prepared, rows_of
from gamlp.training.scores import evaluate
from gamlp.training.seeds import first_model

WINDOWS = 20  # of an epoch; ogbn-papers100M has 37 of 32,768 rows
CHUNKS = 16  # of a window; there 512 of 64 rows
BATCHES = 3  # of a window, as there
CPU = torch.device("cpu")
ORDERS = ("rows", "chunks", "chunks, rows sorted by class", "no shuffling, rows sorted by class")


def accuracies(name: str, seeds: int, *, quick: bool) -> dict[str, list[float]]:
    """Test accuracy by the way of shuffling, a number for every seed. Validation rows choose the epoch."""
    with tempfile.TemporaryDirectory(prefix="gamlp-shuffle-") as folder:
        graph = _graph(name, Path(folder), quick=quick)
        first = prepare(graph, _recipe(graph, quick=quick), Path(folder) / "hops", resources=Resources(device="cpu"))
        found: dict[str, list[float]] = {order: [] for order in ORDERS}
        for seed in range(seeds):
            for order in ORDERS:
                found[order].append(_accuracy(first, order, seed))
    return found


def _graph(name: str, folder: Path, *, quick: bool) -> Graph:
    if name == "communities":
        nodes = 1000 if quick else 12_000
        return communities(
            folder / "graph", nodes=nodes, edges=5 * nodes, features=32, classes=10, signal=0.7, train=0.5, valid=0.2
        )
    return load(name, folder / "graph")


def _recipe(graph: Graph, *, quick: bool) -> Recipe:
    split = graph.nodes.split
    assert split is not None
    batch = max(4, len(split.train) // (WINDOWS * BATCHES))
    return Recipe.of(
        {
            "propagation": {"hops": 4, "label_hops": 4},
            "model": {"hidden": 64, "layers": 2},
            "training": {
                "epochs": 3 if quick else 30,
                "patience": 0,
                "batch_size": batch,
                "learning_rate": 0.003,
                "chunk": max(2, BATCHES * batch // CHUNKS),
            },
        }
    )


def _accuracy(prepared: Prepared, order: str, seed: int) -> float:
    settings = prepared.recipe.training
    train = prepared.train
    if "sorted" in order:  # neighbours of one class: the worst that an order of rows can be
        train = replace(train, rows=train.rows[np.argsort(train.targets, kind="stable")])
    if order == "rows":
        train = replace(train, chunk=0)
    before, shuffled = order_module.WINDOW, order_module.shuffled
    order_module.WINDOW = BATCHES * settings.batch_size
    if order.startswith("no"):
        order_module.shuffled = lambda count, *_: torch.arange(count)
    try:
        fitted = fit(lambda: first_model(prepared), train, prepared.valid, settings, seed=seed, machine=Machine(CPU))
    finally:
        order_module.WINDOW, order_module.shuffled = before, shuffled
    split, labels = prepared.store.split, prepared.store.labels
    assert split is not None and labels is not None
    rows = split.test[labels.known()[split.test]]
    return evaluate(fitted.model, rows_of(prepared.store, prepared.recipe, rows).batches(10_000, CPU))["score"]
