"""`gamlp ingest` on Spark: names of tables and the same options → a graph folder, in a session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gamlp.graph.ingest import IngestOptions, IngestReport, Tables
from gamlp.progress import Progress, silent
from gamlp.spark.ingest.build import SparkGraphOptions, spark_graph
from gamlp.spark.ingest.tables import read_table
from gamlp.spark.session import SparkSettings, session


def ingest_on_spark(
    settings: SparkSettings, options: IngestOptions, blocks: int | None = None, progress: Progress = silent
) -> IngestReport:
    """Read tables as Spark reads them and build their graph."""
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
        options.relation_ends,
        options.target,
        options.names_of,
        options.edge_names_of,
    )
    with session(settings) as spark:
        return spark_graph(spark, _read(spark, options.edges), _read(spark, options.nodes), options.out, how, progress)


def _read(spark: Any, places: Tables) -> Any:
    if isinstance(places, Mapping):
        return {name: read_table(spark, str(place)) for name, place in places.items()}
    return read_table(spark, str(places))
