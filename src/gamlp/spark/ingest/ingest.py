"""`gamlp ingest` on Spark: names of tables and the same options → a graph folder, in a session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gamlp.graph.ingest.build import IngestOptions, IngestReport
from gamlp.progress import Progress, silent
from gamlp.spark.ingest.build import SparkGraphOptions, spark_graph
from gamlp.spark.ingest.tables import read_table
from gamlp.spark.session import SparkSettings, session

Places = str | Mapping[str, str]  # one table, or several by what they hold


def ingest_on_spark(
    settings: SparkSettings,
    edges: Places,
    nodes: Places,
    out: str | Path,
    options: IngestOptions,
    blocks: int | None = None,
    progress: Progress = silent,
) -> IngestReport:
    """Read tables as Spark reads them and build their graph; places are those given here, not in `options`."""
    how = SparkGraphOptions(
        options.edge_names,
        options.node_names,
        options.directed,
        options.dtype,
        options.on_bad,
        options.fractions,
        options.stratified,
        options.seed,
        options.name,
        blocks,
        options.joins,
        options.target,
        options.names_of,
        options.edge_names_of,
    )
    with session(settings) as spark:
        return spark_graph(spark, _read(spark, edges), _read(spark, nodes), out, how, progress)


def _read(spark: Any, places: Places) -> Any:
    if isinstance(places, str):
        return read_table(spark, places)
    return {name: read_table(spark, place) for name, place in places.items()}
