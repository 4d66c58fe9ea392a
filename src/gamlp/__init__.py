"""Classify the nodes of a graph too big for graph neural networks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from gamlp.classifier import NodeClassifier as NodeClassifier
    from gamlp.errors import GamlpError as GamlpError
    from gamlp.graph import Graph as Graph
    from gamlp.graph.datasets import open_or_load as load
    from gamlp.propagation import HopStore as HopStore
    from gamlp.recipe import Recipe as Recipe
    from gamlp.run import predict as predict
    from gamlp.run import train as train
    from gamlp.training import Bundle as Bundle

    from gamlp.run import explain as explain  # isort: skip

# Imported when first asked for, so that `import gamlp` stays fast.
_WHERE = {
    "Bundle": "gamlp.training:Bundle",  # a trained model as it is saved
    "GamlpError": "gamlp.errors:GamlpError",  # a mistake that a person can mend, in one sentence
    "Graph": "gamlp.graph:Graph",  # nodes, their features and labels, and relations between them
    "HopStore": "gamlp.propagation:HopStore",  # propagated features and labels by node
    "NodeClassifier": "gamlp.classifier:NodeClassifier",  # fit, predict and score, as scikit-learn has them
    "Recipe": "gamlp.recipe:Recipe",  # every setting that decides a result
    "explain": "gamlp.run:explain",  # a run: how far it listens, and why a node got its label
    "load": "gamlp.graph.datasets.loading:open_or_load",  # a graph by the name of a dataset, or its folder
    "predict": "gamlp.run:predict",  # a run: labels of nodes, as a table
    "train": "gamlp.run:train",  # a graph: into a run folder
}

__all__ = ["Bundle", "GamlpError", "Graph", "HopStore", "NodeClassifier", "Recipe", "__version__"]
__all__ += ["explain", "load", "predict", "train"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        module, _, symbol = _WHERE[name].partition(":")
        # Kept, so that a room of the same name does not take its place when it is imported.
        globals()[name] = found = getattr(import_module(module), symbol)
        return found
    if name == "__version__":
        globals()[name] = number = _version()
        return number
    raise AttributeError(f"module 'gamlp' has no attribute '{name}'")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # 50 ms, for one number

    try:
        return version("gamlp")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0"


def __dir__() -> list[str]:
    return __all__
