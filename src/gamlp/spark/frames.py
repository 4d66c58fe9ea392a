"""Which nodes and edges make the graph of a fit or of a transform: frames, tables by name, or both in one object."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gamlp.errors import GamlpError
from gamlp.spark.params import GAMLPParams, is_frame
from gamlp.spark.sessions import active_session
from gamlp.spark.tasks import spark_failure_as_error


@dataclass(frozen=True)
class GraphFrames:
    """Nodes and edges of one graph. `rows`: the nodes that were asked about, whose columns an answer keeps."""

    nodes: Any
    edges: Any
    rows: Any


def is_params(value: Any) -> bool:
    """Whether it is what Spark ML gives second: a map of parameters, or several."""
    return isinstance(value, dict | list | tuple)


def unpacked_graph(dataset: Any, edges: Any) -> tuple[Any, Any]:
    """Nodes and edges, both of a GraphFrame or of any other object that has `vertices` and `edges`."""
    if isinstance(dataset, str):
        if (spark := active_session()) is None:
            raise GamlpError(f"there is no Spark session to read table '{dataset}' with", hint="begin one before")
        return table_of(spark, dataset), edges
    if is_frame(dataset) or not (hasattr(dataset, "vertices") and hasattr(dataset, "edges")):
        return _frame(dataset, "nodes", "a DataFrame, or an object with vertices and edges"), edges
    if edges is not None:
        raise GamlpError("edges are given twice", hint="the graph has its own: leave out the second argument")
    return _frame(dataset.vertices, "nodes"), dataset.edges


def _frame(value: Any, what: str, wanted: str = "a DataFrame, or the name of a table") -> Any:
    """A DataFrame of Spark; anything else is refused."""
    if is_frame(value):
        return value
    kind, pandas = type(value).__name__, type(value).__module__.startswith("pandas.")
    hint = "make one of Spark: spark.createDataFrame(it)" if pandas else f"give {wanted}"
    raise GamlpError(f"a {kind}{' of pandas' if pandas else ''} is no table of {what}", hint=hint)


def fit_frames(params: GAMLPParams, dataset: Any, edges: Any = None) -> GraphFrames:
    """The graph of a fit. Edges that are a parameter may lead to nodes that were not given: they are left out."""
    rows, edges = unpacked_graph(dataset, edges)
    if edges is not None:
        return GraphFrames(rows, table_of(rows.sparkSession, edges), rows)
    edges = _own_edges(params, rows)
    if (whole := params.getNodes()) is not None:
        return GraphFrames(_labelled(params, table_of(rows.sparkSession, whole), rows), edges, rows)
    return GraphFrames(rows, _inside(params, edges, rows), rows)


def transform_frames(params: GAMLPParams, dataset: Any, edges: Any = None, fitted: Any = None) -> GraphFrames:
    """The graph of a transform. Where edges are a parameter it is the fit's, whose nodes are `fitted`, with the nodes
    that are new; labels of what is asked about are not read.
    """
    rows, edges = unpacked_graph(dataset, edges)
    if edges is not None:
        return GraphFrames(rows, table_of(rows.sparkSession, edges), rows)
    edges, whole = _own_edges(params, rows), params.getNodes()
    if fitted is None and whole is not None:
        return GraphFrames(_unlabelled(params, table_of(rows.sparkSession, whole)), edges, rows)
    if fitted is None:
        return GraphFrames(rows, _inside(params, edges, rows), rows)
    new = _joined_by_id(params, _unlabelled(params, rows), fitted, "left_anti")
    if new.isEmpty():
        return GraphFrames(fitted, edges if whole is not None else _inside(params, edges, fitted, say=False), rows)
    nodes = fitted.unionByName(new, allowMissingColumns=True)
    return GraphFrames(nodes, _inside(params, edges, nodes), rows)


def known_labels(params: GAMLPParams, rows: Any) -> Any:
    """The same rows with the labels of training rows alone, by their split; without one, with none."""
    from pyspark.sql import functions

    label, split = params.getLabelCol(), params.getSplitCol()
    if label not in rows.columns or split not in rows.columns:
        return _unlabelled(params, rows)
    known = functions.lower(functions.col(_quoted(split))) == "train"  # labels first: the split says which
    for name in (label, split):
        rows = rows.withColumn(name, functions.when(known, functions.col(_quoted(name))))
    return rows


def table_of(spark: Any, table: Any) -> Any:
    """A frame, or the table of the catalogue that has this name: whatever Spark reads there, Delta and Iceberg too."""
    if not isinstance(table, str):
        return _frame(table, "edges")
    try:
        with spark_failure_as_error():
            return spark.table(table)
    except GamlpError as error:
        raise GamlpError(
            f"Spark's catalogue has no table '{table}'", hint="give a name as SHOW TABLES has it"
        ) from error


def _own_edges(params: GAMLPParams, rows: Any) -> Any:
    if (edges := params.getEdges()) is None:
        raise GamlpError("there are no edges", hint="give them with the nodes, or as a parameter: setEdges(edges)")
    return table_of(rows.sparkSession, edges)


def _labelled(params: GAMLPParams, whole: Any, rows: Any) -> Any:
    """All nodes, with the labels and roles of the given rows alone."""
    from pyspark.sql import functions

    key, targets = "gamlp_id", [params.getLabelCol(), params.getSplitCol()]
    found = [name for name in targets if name in rows.columns]
    chosen = [functions.col(_quoted(params.getIdCol())).cast("string").alias(key)]
    given = rows.select(*chosen, *(functions.col(_quoted(name)) for name in found))
    own = whole.drop(*targets)
    return own.join(given, own[_quoted(params.getIdCol())].cast("string") == given[key], "left").drop(key)


def _unlabelled(params: GAMLPParams, rows: Any) -> Any:
    return rows.drop(params.getLabelCol(), params.getSplitCol())


def _joined_by_id(params: GAMLPParams, rows: Any, others: Any, how: str, column: str | None = None) -> Any:
    """Rows whose id is among the others' ids, or is not. As texts: edges may spell integers as such."""
    from pyspark.sql import functions

    key = "gamlp_id"
    ids = others.select(functions.col(_quoted(params.getIdCol())).cast("string").alias(key))
    own = functions.col(_quoted(column or params.getIdCol())).cast("string")
    return rows.join(ids, own == functions.col(key), how)


def _inside(params: GAMLPParams, edges: Any, nodes: Any, *, say: bool = True) -> Any:
    """Edges between these nodes; how many others there are is told."""
    names: Sequence[str] = (params.getSrcCol(), params.getDstCol())
    if any(name not in edges.columns for name in names) or params.getIdCol() not in nodes.columns:
        return edges  # told later, as for every other graph
    kept = edges
    for name in names:
        kept = _joined_by_id(params, kept, nodes, "left_semi", name)
    if not say:
        return kept
    with spark_failure_as_error():
        total, inside = edges.count(), kept.count()
    if inside == total:
        return edges
    warnings.warn(
        f"{total - inside:,} of {total:,} edges lead to nodes that were not given, and are left out; name all nodes "
        "with setNodes to keep them",
        UserWarning,
        stacklevel=2,
    )
    return kept


def _quoted(name: str) -> str:
    """Spark takes a name with a dot for a part of a column."""
    return "`" + name.replace("`", "``") + "`"
