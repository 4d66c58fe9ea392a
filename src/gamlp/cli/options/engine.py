"""Options of the verbs that run on this machine or on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.spark.session import SparkSettings

_SPARK = "Spark (docs/spark.md)"


class Engine(StrEnum):
    local = "local"
    spark = "spark"


EngineOption = Annotated[Engine, typer.Option("--engine", help="This machine, or Spark.", rich_help_panel=_SPARK)]
MasterOption = Annotated[
    str | None,
    typer.Option(
        help="local[4], spark://host:7077, yarn, k8s://…, sc://…. (default: spark-submit's, or local[*])",
        rich_help_panel=_SPARK,
        show_default=False,
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        help="An option of Spark, such as spark.executor.memory=4g; may be given again.",
        rich_help_panel=_SPARK,
        metavar="KEY=VALUE",
        show_default=False,
    ),
]
BlocksOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Row blocks, each a task. (default: by memory and cores)",
        rich_help_panel=_SPARK,
        show_default=False,
    ),
]


def spark_of(
    engine: Engine, master: str | None, conf: list[str] | None, blocks: int | None = None
) -> SparkSettings | None:
    """Which Spark; None for this machine alone."""
    from gamlp.spark.session import SparkSettings

    if engine is Engine.spark:
        return SparkSettings.of(master, conf or [])
    given = {"--master": master, "--spark-conf": conf, "--blocks": blocks}
    if named := [name for name, value in given.items() if value]:
        raise GamlpError(f"{named[0]} is for Spark", hint="say --engine spark too")
    return None


@contextmanager
def one_application(spark: SparkSettings | None) -> Iterator[None]:
    """All that a verb does on Spark is one application."""
    if spark is None:
        yield
        return
    from gamlp.spark.session import keeping

    with keeping():
        yield
