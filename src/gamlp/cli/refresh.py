"""`gamlp refresh`: newcomers that a server kept become nodes of the run's graph."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options.recipe import JsonOption, MemoryOption, ThreadsOption, TrustOption, resources_of, trusted
from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.serve import Refreshed


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("refresh")(_refresh)


def _refresh(
    run: Annotated[Path, typer.Argument(help="Run folder.", metavar="RUN")],
    trust: TrustOption = None,
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make newcomers that gamlp serve kept nodes of the graph, and tell how far answers had drifted.

    A server may answer meanwhile: it takes up what was made by itself. The graph that the run was trained on stays as
    it is; the grown one, and its hops, lie in the run folder:

      gamlp refresh run
    """
    from gamlp.serve import refresh_run  # with all of torch: models that answer are recorded

    resources = resources_of("cpu", memory, threads)
    with display.progress(as_json) as progress:
        found = refresh_run(run, trust=trusted(trust), resources=resources, progress=progress)
    if as_json:
        display.print_json(asdict(found) | {"notes": list(found.notes)})
        return
    for note in found.notes:
        display.say(f"note: {note}.")
    if not found.newcomers:
        display.say(f"{run}: no newcomers since generation {found.generation}")
        return
    _show(run, found)


def _show(run: Path, found: Refreshed) -> None:
    display.say(
        f"{run}: generation {found.generation}: {found.newcomers:,} newcomers with {found.edges:,} edges are in the "
        f"graph; hops of {found.made:,} nodes made anew, of {found.copied:,} copied; {found.seconds:.1f} s"
    )
    drift = found.drift
    assert drift is not None
    for whose, moved in (("newcomers", drift.newcomers), ("older nodes that hear them", drift.older)):
        if moved.rows:
            display.say(
                f"drift of {moved.rows:,} {whose}: probabilities by {moved.mean:.4f} on average and by "
                f"{moved.largest:.4f} at most, {moved.labels:.1%} of labels, hops by up to {moved.hops:.0%}"
            )
    if drift.drawn < drift.reached:
        display.say(f"({drift.drawn:,} older nodes were drawn of the {drift.reached:,} that newcomers may reach)")
    if found.waiting:
        display.say(f"{found.waiting:,} newcomers came meanwhile: they follow with the next refresh")
