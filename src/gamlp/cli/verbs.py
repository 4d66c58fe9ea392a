"""The verbs by name: each file is imported when its verb is called; their list needs none of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

# As `gamlp --help` lists them: the first line of each verb's own help, so that none of them is imported for it.
FIRST_LINES = {
    "run": "Do all of it: ingest, propagate, try several models, keep the best by validation rows, score test rows "
    "once.",
    "ingest": "Turn a table of edges and a table of nodes into a graph folder.",
    "train": "Train GAMLP on a graph; the best epoch by validation rows is kept, and test rows are never read.",
    "evaluate": "Score a run on test rows, or on another graph: mean and deviation over its seeds.",
    "predict": "Write id, label and probabilities of nodes, as many as there are, in little memory.",
    "serve": "Answer over HTTP: known nodes by id, new ones by their cells and the ids of their neighbours.",
    "refresh": "Make newcomers that gamlp serve kept nodes of the graph, and tell how far answers had drifted.",
    "explain": "Show how far a model listens, by number of neighbours and by class, and why nodes got their labels.",
    "export": "Write a run for other programs: ONNX, TorchScript, a torch.export program, or an MLflow model.",
    "card": "Write a model card: data, columns, recipe, scores beside baselines, what to doubt, limits.",
    "tune": "Search for a recipe on validation rows; test rows are never read.",
    "plan": "Tell what a run will take, step by step, and whether this machine has it; nothing is run.",
    "propagate": "Propagate features and training labels over a graph, and keep every hop by node.",
    "spark": "Bring gamlp to the executors of a cluster.",
    "info": "Show what a store or a graph folder holds, and verify its checksums.",
    "recipes": "List shipped recipes, those that fit a graph first; print one whole; or explain every setting.",
    "datasets": "List datasets by name, or save one as a graph folder.",
    "bench": "Measure the paper's tables and figures, and set ours beside the published values.",
    "generate": "Make a synthetic graph of any size.",
}


class Verbs(Mapping[str, Any]):
    """Name → command; gamlp.cli.<name> is imported when the command is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in FIRST_LINES:
            raise KeyError(name)
        if name not in self._made:
            own = typer.Typer(rich_markup_mode="rich")
            importlib.import_module(f"gamlp.cli.{name}").register(own)
            self._made[name] = get_group(own).commands[name]
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in FIRST_LINES

    def __iter__(self) -> Iterator[str]:
        return iter(FIRST_LINES)

    def __len__(self) -> int:
        return len(FIRST_LINES)


def listed() -> dict[str, Any]:
    """Stand-ins that know their name and first line."""
    return {name: TyperCommand(name, short_help=line) for name, line in FIRST_LINES.items()}
