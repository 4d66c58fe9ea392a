"""Classify the nodes of a graph too big for graph neural networks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gamlp.classifier import NodeClassifier as NodeClassifier
    from gamlp.errors import GamlpError as GamlpError
    from gamlp.graph import Graph as Graph
    from gamlp.recipe import Recipe as Recipe
    from gamlp.training.bundle import Bundle as Bundle

try:
    __version__ = version("gamlp")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"

# Imported when first asked for, so that `import gamlp` stays fast.
_WHERE = {
    "Bundle": "gamlp.training.bundle",
    "GamlpError": "gamlp.errors",
    "Graph": "gamlp.graph",
    "NodeClassifier": "gamlp.classifier",
    "Recipe": "gamlp.recipe",
}

__all__ = ["Bundle", "GamlpError", "Graph", "NodeClassifier", "Recipe", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'gamlp' has no attribute '{name}'")
