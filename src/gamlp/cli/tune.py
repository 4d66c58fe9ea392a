"""`gamlp tune`: a search over recipes on validation rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options.recipe import (
    DataDirOption,
    DeviceOption,
    JsonOption,
    MemoryOption,
    MetricOption,
    SetOption,
    ThreadsOption,
    TrustOption,
    resources_of,
    trusted,
)
from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.tune import Found

_SEARCH = "Search"


class By(StrEnum):
    score = "score"
    loss = "loss"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("tune")(_tune)


def _tune(
    graph: Annotated[str, typer.Argument(help="Graph folder, or the name of a dataset.", metavar="GRAPH_OR_DATASET")],
    out: Annotated[Path, typer.Option(help="Recipe to write, a .yaml file.")],
    recipe: Annotated[
        str | None, typer.Option(help="Where to start from: a shipped recipe or a .yaml file.", show_default=False)
    ] = None,
    changes: SetOption = None,
    metric: MetricOption = None,
    trust: TrustOption = None,
    valid: Annotated[
        str | None,
        typer.Option(help="Another graph to validate on: train on one, predict others.", show_default=False),
    ] = None,
    first: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            help="Another recipe to try before the search chooses.",
            metavar="NAME|FILE",
            rich_help_panel=_SEARCH,
            show_default=False,
        ),
    ] = None,
    space: Annotated[
        str, typer.Option(help="What to try: default, wide, or a .yaml file of your own.", rich_help_panel=_SEARCH)
    ] = "default",
    trials: Annotated[
        int, typer.Option(min=1, help="Trials in all, those of earlier calls included.", rich_help_panel=_SEARCH)
    ] = 50,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Start no trial after so long.", rich_help_panel=_SEARCH, show_default=False),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a trial.", rich_help_panel=_SEARCH)] = 3,
    splits: Annotated[
        int, typer.Option(min=1, help="Random splits a trial, for datasets that have them.", rich_help_panel=_SEARCH)
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of what the search chooses.", rich_help_panel=_SEARCH)] = 0,
    select_subsets: Annotated[
        bool,
        typer.Option(
            "--select-subsets",
            help="Choose subsets of relations too; all of them first.",
            rich_help_panel=_SEARCH,
        ),
    ] = False,
    by: Annotated[
        By,
        typer.Option(help="The metric of validation rows; few rows tell more by their loss.", rich_help_panel=_SEARCH),
    ] = By.score,
    confirm: Annotated[
        int, typer.Option(min=0, help="Best recipes that are tried again with more seeds.", rich_help_panel=_SEARCH)
    ] = 5,
    confirm_seeds: Annotated[int, typer.Option(min=1, help="Seeds of those.", rich_help_panel=_SEARCH)] = 10,
    study: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the study and its hops. (default: beside --out)",
            rich_help_panel=_SEARCH,
            show_default=False,
        ),
    ] = None,
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for a recipe on validation rows; test rows are never read.

    The recipe to start from is the first trial, and what validates worse than it is never kept. Fifty trials, then the
    five best and the first again with ten seeds:

      gamlp tune digits --out digits.yaml --trials 50

    Of several relations, which subsets of them to read:

      gamlp tune hgb-acm --select-subsets --out acm.yaml

    The study is on disk: run the same command again to go on, or in several terminals at once to share it. Every
    trial is listed in a .csv beside the recipe.
    """
    from gamlp.graph.datasets import open_or_load
    from gamlp.recipe import Recipe, load_space, parse_changes
    from gamlp.tune import Search

    if out.suffix not in (".yaml", ".yml"):
        raise GamlpError("a recipe is a .yaml file", file=out, hint="choose another --out")
    typed = parse_changes(changes or []) | ({} if metric is None else {"training.metric": metric})
    trust = trusted(trust, typed)
    base = Recipe.of(recipe, trust=trust).changed(typed, trust=trust)
    with display.progress(as_json) as progress:
        graphs = [open_or_load(graph, data_dir, number, progress) for number in range(splits)]
        search = Search(
            graphs,
            base,
            load_space(space, trust),
            study or out.with_suffix(".study"),
            seeds=tuple(range(seeds)),
            confirm=confirm,
            confirm_seeds=tuple(range(confirm_seeds)),
            valid_graph=None if valid is None else open_or_load(valid, data_dir, 0, progress),
            first=tuple(Recipe.of(other, trust=trust) for other in first or []),
            resources=resources_of(device, memory, threads),
            select_subsets=select_subsets,
            by=by.value,
            seed=seed,
            trust=trust,
        )
        found = search.run(trials, seconds=seconds, progress=progress)
    log = found.write(out)
    _show(found, out, log, as_json)


def _show(found: Found, out: Path, log: Path, as_json: bool) -> None:
    if as_json:
        content = {"recipe": str(out), "log": str(log), "valid": found.score, "start": found.start}
        content |= {"by": "loss" if found.measured == "loss" else "score", "metric": found.measured}
        display.print_json(content | {"deviation": found.deviation, "runs": found.runs, "trials": len(found.trials)})
        return
    chosen = found.recipe.relations.subsets
    if isinstance(chosen, tuple):
        display.say(f"subsets of relations: {', '.join('+'.join(subset) for subset in chosen)}")
    states = [trial["state"] for trial in found.trials]
    display.say(
        f"validation {found.text}; "
        f"{states.count('complete')} trials to their end, {states.count('pruned')} given up early\n"
        f"{out}: the recipe; {log}: every trial\n"
        f"train with it: gamlp train GRAPH --recipe {out} --out RUN",
    )
