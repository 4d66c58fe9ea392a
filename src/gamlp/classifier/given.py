"""What a person gives to fit and predict → Graph: a graph of any library, frames of nodes and edges, or arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from gamlp.classifier.matrices import WrongInput, check_features, check_targets, is_matrix
from gamlp.graph import Graph, as_graph
from gamlp.graph.ingest import PlainSchema, is_frame

# Of frames; what else `Graph.from_frames` takes would change which rows there are, or where they lie.
FRAME_NAMES = (
    "id", "label", "split", "features", "column", "drop", "schema", "many_labels", "unknown_label", "src", "dst",
    "weight", "relation", "time", "before", "split_by", "train_until", "valid_until", "join", "target", "directed",
    "fractions",
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """A source and what came beside it: edges of frames or arrays, and labels that replace those of the source."""

    source: Any
    edges: Any = None
    y: Any = None

    @classmethod
    def of(cls, source: Any, second: Any, edges: Any) -> Given:
        """`fit(nodes, edges)` of frames; `fit(graph, y)`, `fit(x, y, edges=edges)` and `fit(nodes, y, edges=edges)`."""
        if is_tables(source) and edges is None:
            if not is_tables(second):
                raise WrongInput("frames of nodes are given, and none of edges", hint="give both: (nodes, edges)")
            return cls(source, second)
        return cls(source, edges, second)

    @property
    def frames(self) -> bool:
        return is_tables(self.source)

    @property
    def matrix(self) -> bool:
        """Features alone, as scikit-learn has them."""
        return not self.frames and is_matrix(self.source)

    def checked(self, estimator: BaseEstimator, *, fitting: bool) -> Given:
        """With features and labels that scikit-learn would take; a graph or frames are checked as they are read."""
        if not self.matrix:
            return self
        x = check_features(estimator, self.source, fitting=fitting)
        if fitting and self.edges is None:
            message = "no edges are given: every node is classified by its own features alone; give edges=edge_index"
            warnings.warn(message, UserWarning, stacklevel=3)
        return replace(self, source=x, y=check_targets(x, self.y, fitting=fitting))

    def graph(self, names: Mapping[str, Any], seed: int) -> Graph:
        """The graph; `names` are those of the columns of frames, `seed` draws the split that they do not have."""
        if self.frames:
            return as_graph(Graph.from_frames(self.source, self.edges, seed=seed, **names), self.y)
        if names:
            raise WrongInput(f"'{next(iter(names))}' names a column, and no frames are given", hint="leave it out")
        if self.matrix:
            return as_graph((np.zeros((2, 0), np.int64) if self.edges is None else self.edges, self.source, self.y))
        if self.edges is not None:
            what = f"edges beside a {type(self.source).__name__}, which has its own"
            raise WrongInput(what, hint="give edges with frames or with an array of features")
        return as_graph(self.source, self.y)

    def raw_labels(self) -> Any:
        """Labels as a person gave them, beside the graph, in a tuple or in PyG's `Data`; a Graph's own have types."""
        if self.y is not None:
            return self.y
        if isinstance(self.source, tuple):
            return self.source[2] if len(self.source) == 3 else None
        return None if isinstance(self.source, Graph) or self.frames else getattr(self.source, "y", None)


def is_tables(value: Any) -> bool:
    """A frame, or frames by node type or relation."""
    by_name = isinstance(value, Mapping) and not scipy.sparse.issparse(value)  # some sparse matrices are mappings
    return is_frame(value) or (by_name and len(value) > 0 and all(map(is_frame, value.values())))


def check_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """Names of columns that were given; an argument that nobody knows is a TypeError, as Python has it."""
    for name in names:
        if name not in FRAME_NAMES:
            raise TypeError(f"fit() got an unexpected keyword argument '{name}'")
    return {name: _plain(value) for name, value in names.items()}


def predicting(names: Mapping[str, Any], nodes: Any, schema: PlainSchema | None) -> dict[str, Any]:
    """Names as those of fit, for nodes that may have no labels yet: a column of labels or of a split may be missing.

    `schema`: columns as training fitted them. Nothing is fitted anew: what an encoder knows, it knows from training.
    """
    found = {name: value for name, value in names.items() if schema is None or name not in ("column", "drop")}
    if schema is not None:
        found["schema"] = schema
    tables = nodes if isinstance(nodes, Mapping) else {None: nodes}
    columns = {str(column) for frame in tables.values() for column in _columns(frame)}
    for name in ("label", "split"):
        wanted = found.get(name)
        if isinstance(wanted, str) and wanted and wanted not in columns:
            found[name] = ""
        elif isinstance(wanted, Mapping):
            found[name] = {table: one for table, one in wanted.items() if not one or one in columns}
    return found


def without_drawn_split(graph: Graph) -> Graph:
    """The graph of frames without a split that chance made: rows that trained were chosen by a person."""
    if graph.made is None or not graph.made.report.split_made:
        return graph
    return replace(graph.with_targets(split=None), folder=None)


def _columns(frame: Any) -> list[Any]:
    for name in ("columns", "column_names"):  # of pandas, Polars and DuckDB; of Arrow
        found = getattr(frame, name, None)
        if found is not None and all(isinstance(one, str) for one in found):
            return list(found)
    names = getattr(getattr(frame, "schema", None), "names", None)
    return list(names or [])


def _plain(value: Any) -> Any:
    """As JSON keeps it in a bundle."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple | set) else value
