"""`gamlp ingest` on Spark: names of tables and the same options → a graph folder, in a session of its own."""

from __future__ import annotations

from pathlib import Path

from gamlp.cluster import SparkSettings, session
from gamlp.graph.ingest import IngestOptions, IngestReport
from gamlp.graph.spark.build import SparkGraphOptions, spark_graph
from gamlp.graph.spark.tables import read_table
from gamlp.progress import Progress, silent


def ingest_on_spark(
    settings: SparkSettings,
    edges: str,
    nodes: str,
    out: str | Path,
    options: IngestOptions,
    blocks: int | None = None,
    progress: Progress = silent,
) -> IngestReport:
    """Read two tables as Spark reads them and build their graph; places are those given here, not in `options`."""
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
    )
    with session(settings) as spark:
        return spark_graph(spark, read_table(spark, edges), read_table(spark, nodes), out, how, progress)
