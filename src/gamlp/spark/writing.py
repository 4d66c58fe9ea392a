"""Predictions as a folder of Parquet or CSV parts, written by Spark: what `gamlp predict --engine spark` does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Place
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.run import SUFFIXES, Written
from gamlp.spark.prediction import asked
from gamlp.spark.tasks import spark_failure_as_error, status
from gamlp.training.bundle import Bundle

_LIST_MARK = "|"  # between the labels of a node in a CSV, as gamlp predict writes them


def write_spark_predictions(
    spark: Any,
    bundle: Bundle,
    store: HopStore,
    graph: Graph,
    out: str | Path | Place,
    *,
    rows: str = "all",
    each_class: bool = True,
    progress: Progress = silent,
) -> Written:
    """The columns of `gamlp predict` as a folder of parts, which Spark commits as a whole; one that exists is refused.

    `out` ends with .parquet, .csv or .csv.gz. A URL is one that this Spark writes to.
    """
    begun, target = time.monotonic(), check_out(out)
    found = asked(spark, bundle, store, graph, rows=rows, each_class=each_class)
    frame = found.frame if each_class else found.frame.drop("probabilities")
    try:
        with spark_failure_as_error(), status(spark, "predict", found.tasks, progress):
            _write(frame, target, bundle.multi_label)
    except BaseException:
        _forget(target)
        raise
    progress("predict", found.tasks, found.tasks, "blocks")
    return Written(target.local or Path(target.url), found.rows, time.monotonic() - begun)


def check_out(out: str | Path | Place) -> Place:
    """Refuse a name that says no format, and a place that is taken."""
    target = Place.of(out).resolved()
    if not target.name.endswith(SUFFIXES):
        raise GamlpError("is no kind of table that is written", file=out, hint=f"end it with {', '.join(SUFFIXES)}")
    if target.local is not None and target.local.exists():
        raise GamlpError("already exists", file=out, hint="Spark writes a folder of its own: choose another --out")
    return target


def _write(frame: Any, target: Place, multi_label: bool) -> None:
    address = target.url if target.local is None else target.local.as_uri()
    try:
        if target.name.endswith(".parquet"):
            frame.write.mode("error").parquet(address)
            return
        if multi_label:
            from pyspark.sql import functions

            frame = frame.withColumn("label", functions.array_join("label", _LIST_MARK))
        packed = "gzip" if target.name.endswith(".gz") else "none"
        # Quotes inside a cell are doubled, as everywhere but in Spark.
        frame.write.mode("error").csv(address, header=True, compression=packed, escape='"')
    except Exception as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise GamlpError("already exists", file=target.url, hint="choose another --out") from error
        raise


def _forget(target: Place) -> None:
    """What a broken write left; Spark marks one that ended well."""
    if target.local is not None and target.local.is_dir() and not (target.local / "_SUCCESS").exists():
        target.remove()
