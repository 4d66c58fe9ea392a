"""`gamlp bench`: the paper's tables and figures, measured now, beside the published values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options.recipe import DataDirOption, DeviceOption, JsonOption, MemoryOption, ThreadsOption, resources_of
from gamlp.cli.show import display
from gamlp.cli.show.bench import show_status
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.bench import PaperTable, Work

NameArgument = Annotated[str, typer.Argument(help="Of a table: gamlp bench list.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME…", help="Of tables: gamlp bench list.")]
WorkOption = Annotated[
    Path, typer.Option("--work", help="Folder that keeps runs and hops; a table goes on from what is there.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Folder for the table and figure. (default: inside --work)", show_default=False),
]
RecordOption = Annotated[
    Path | None,
    typer.Option(
        "--record",
        help="Folder of finished runs, a file a table: they are not run again, new ones are added. "
        "(default: runs, beside the pages)",
        show_default=False,
    ),
]
WORK = Path("runs/bench")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verb = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode="rich")
    verb.command("list")(_list)
    verb.command("run")(_run)
    verb.command("status")(_status)
    verb.command("show")(_show)
    verb.command("summary")(_summary)
    verb.command("methods")(_methods)
    app.add_typer(verb, name="bench")


_HELP = """Measure the paper's tables and figures, and set ours beside the published values.

  gamlp bench list

  gamlp bench run citation --seeds 3 --methods SGC --methods 'GAMLP(JK)'

  gamlp bench status

  gamlp bench run citation co-purchase --budget 2h --jobs 2

  gamlp bench show citation

  gamlp bench summary
"""


def _list(as_json: JsonOption = False) -> None:
    """All tables, with what each measures."""
    from gamlp.bench import NAMES, table_of

    tables = [table_of(name) for name in NAMES]
    if as_json:
        display.print_json([table.model_dump(mode="json") for table in tables])
        return
    rows = [(table.name, table.title, len(table.methods), len(table.datasets)) for table in tables]
    display.table("name", "what", "methods", "datasets", rows=rows)


def _run(
    names: NamesArgument,
    seeds: Annotated[int | None, typer.Option(min=1, help="(default: the table's)", show_default=False)] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Rows to run, as often as needed. (default: all)", show_default=False)
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Columns to run, as often as needed. (default: all)", show_default=False)
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="90s, 30m, 2h (a number: minutes). No run is begun that would not end within. When all cells have "
            "their seeds, what is left goes to rows that are not told apart. (default: the tables')",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; cores are shared among them.")] = 1,
    work: WorkOption = WORK,
    out: OutOption = None,
    record: RecordOption = None,
    device: DeviceOption = "auto",
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run what tables lack, cells with fewest seeds first, and write them as Markdown, CSV, JSON, PNG and SVG.

    What it will take is told before. Interrupted or out of budget, it goes on where it was when it is run again.
    """
    from gamlp.bench import Forecast, Schedule, Work, is_special, measure_tables, status_of, table_of

    tables = [table_of(name) for name in dict.fromkeys(names)]
    seconds = sum(60 * table.budget_minutes for table in tables) if budget is None else _seconds(budget)
    extra = budget is not None and seeds is None
    with display.progress(as_json) as progress:
        place = Work(
            work, data_dir, resources_of(device, memory, threads), seeds, _names(datasets), _names(methods),
            time.monotonic() + seconds, progress, _runs(record, out, work), out or work / "tables",
        )  # fmt: skip
        _tell_torn(place)
        of_runs = [table for table in tables if not is_special(table)]
        if of_runs:
            for said in Forecast.of(Schedule(of_runs, place, extra).waiting()).sentences(seconds, jobs):
                display.inform(said)
        for table in tables:
            if is_special(table):
                for said in status_of(table, place).missing.sentences(seconds, what=f"points of {table.name}"):
                    display.inform(said)
        refused = measure_tables(tables, place, jobs, extra)
    for what, reason in refused.items():
        display.warn(f"{what}: {reason.rstrip('.')}")
    for table in tables:
        _write(table, place, out, as_json)


def _status(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Of tables. (default: all)", show_default=False)
    ] = None,
    work: WorkOption = WORK,
    out: OutOption = None,
    record: RecordOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """What tables have, what they lack and what that would cost, what is stale, and what is not possible here."""
    from gamlp.bench import NAMES, Work, status_of, table_of

    pages = out or work / "tables"
    place = Work(work, data_dir, runs=_runs(record, out, work), pages=pages)
    _tell_torn(place)
    found = [status_of(table_of(name), place) for name in names or NAMES]
    if as_json:
        display.print_json([one.as_json() for one in found])
        return
    show_status(found, bool(names))


def _show(
    name: NameArgument,
    work: WorkOption = WORK,
    out: OutOption = None,
    record: RecordOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """The table as measured so far; nothing is run."""
    from gamlp.bench import Work, table_of

    _write(table_of(name), Work(work, data_dir, runs=_runs(record, out, work)), out, as_json)


def _summary(
    work: WorkOption = WORK,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for README.md, index.html and pictures; the tables' pages are in its folder bench. "
            "(default: print it, of the tables in --work)",
            show_default=False,
        ),
    ] = None,
    record: RecordOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """What of the paper holds, what does not and what is not known, claim by claim, from all that has been measured."""
    from gamlp.bench import PAGES, Work, as_summary, write_summary

    pages = work / "tables" if out is None else out / PAGES
    place = Work(work, data_dir, runs=_runs(record, pages, work), pages=pages)
    if out is None:
        display.say(as_summary(place))
        return
    readme, page, *pictures = write_summary(place, out)
    display.say(f"{readme} and {page.name} are written, with {len(pictures)} pictures")


def _methods(as_json: JsonOption = False) -> None:
    """GAMLP and every peer, by the name that gamlp run --model takes."""
    from gamlp.peers import METHODS

    rows = [(method.name, method.title, method.family, method.paper) for method in METHODS.values()]
    if as_json:
        display.print_json([dict(zip(("name", "title", "family", "paper"), row)) for row in rows])
        return
    display.table("name", "method", "family", "paper", rows=rows)


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    """Repeated options, or one with commas."""
    return None if given is None else tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def _runs(given: Path | None, pages: Path | None, work: Path) -> Path:
    """The folder of the record that was named, else the one beside the pages."""
    from gamlp.bench import RUNS

    if given is not None and given.exists() and not given.is_dir():
        raise GamlpError("is a file, and --record is a folder", file=given, hint=f"--record {given.parent / RUNS}")
    return given or (pages or work / "tables") / RUNS


def _tell_torn(place: Work) -> None:
    for path in place.record.torn:
        display.inform(f"{path} ends within a line: it is passed over, and its run is run again")


def _seconds(budget: str) -> float:
    """Of `2h`; a number alone is minutes."""
    from gamlp.tune import seconds_of

    return seconds_of(f"{budget}m" if budget.replace(".", "", 1).isdigit() else budget)


def _write(table: PaperTable, work: Work, out: Path | None, as_json: bool) -> None:
    from gamlp.bench import write_result

    folder = out or work.folder / "tables"
    written = write_result(table, work, folder)
    if as_json:
        display.print_json({"table": table.name, "files": [str(path) for path in written.files], **written.content})
        return
    display.say(written.page)
    if not written.measured:
        display.say(f"Nothing of it has been measured: gamlp bench run {table.name}, with its datasets at hand.")
    display.say(f"\n{folder}: {', '.join(path.name for path in written.files)}")
