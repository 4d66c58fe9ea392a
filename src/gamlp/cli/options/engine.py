"""Options of the verbs that run on this machine or on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.run import Engine

_SPARK = "Spark (docs/spark.md)"


EngineOption = Annotated[
    str,
    typer.Option("--engine", help="local: this machine; spark; or one that a plug-in brings.", rich_help_panel=_SPARK),
]
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
        max=1 << 20,
        help="Row blocks, each a task. (default: by memory and cores)",
        rich_help_panel=_SPARK,
        show_default=False,
    ),
]
ExecutorWaitOption = Annotated[
    float | None,
    typer.Option(
        "--executor-wait",
        min=0,
        help="Seconds that executors may take to start. (default: 300)",
        rich_help_panel=_SPARK,
        metavar="SECONDS",
        show_default=False,
    ),
]


def seen_by_tasks(out: str, engine: Engine) -> str:
    """Where a run is written; a URL is refused where no tasks write there."""
    from gamlp.io import is_url

    if is_url(out) and engine.one_machine:
        raise GamlpError(
            "a run behind a URL is trained by tasks", file=out, hint="give a folder, or say --engine spark"
        )
    return out


def engine_settings(
    master: str | None, conf: list[str] | None, blocks: int | None, executor_wait: float | None = None
) -> dict[str, Any]:
    """What was given of an engine's own settings; an engine that does not know them refuses."""
    given = {"master": master, "spark_conf": conf, "blocks": blocks}
    if executor_wait is not None:
        return engine_settings(master, conf, blocks) | {"executor_wait": executor_wait}
    return {name: value for name, value in given.items() if value}
