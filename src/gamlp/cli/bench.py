"""`gamlp bench`: the paper's tables and figures, measured now, beside the published values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options.recipe import DataDirOption, DeviceOption, JsonOption, MemoryOption, ThreadsOption, resources_of
from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.bench import PaperTable, Record, Work

NameArgument = Annotated[str, typer.Argument(help="Of a table: gamlp bench list.")]
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
        help="File of finished runs, to be kept: they are not run again, new ones are added. "
        "(default: runs.jsonl beside --out, where there is one)",
        show_default=False,
    ),
]
WORK = Path("runs/bench")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verb = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode="rich")
    verb.command("list")(_list)
    verb.command("run")(_run)
    verb.command("show")(_show)
    verb.command("summary")(_summary)
    verb.command("methods")(_methods)
    app.add_typer(verb, name="bench")


_HELP = """Measure the paper's tables and figures, and set ours beside the published values.

  gamlp bench list

  gamlp bench run citation --seeds 3 --methods SGC --methods 'GAMLP(JK)'

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
    name: NameArgument,
    seeds: Annotated[int | None, typer.Option(min=1, help="(default: the table's)", show_default=False)] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Rows to run, as often as needed. (default: all)", show_default=False)
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Columns to run, as often as needed. (default: all)", show_default=False)
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Minutes; no run is begun after them. (default: the table's)", min=0, show_default=False),
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
    """Run what a table lacks, cells with fewest seeds first, and write it as Markdown, CSV, JSON, PNG and SVG.

    Interrupted or out of budget, it goes on where it was when it is run again.
    """
    from gamlp.bench import Work, measure_table, table_of

    table = table_of(name)
    minutes = table.budget_minutes if budget is None else budget
    with display.progress(as_json) as progress:
        place = Work(
            work, data_dir, resources_of(device, memory, threads), seeds, _names(datasets), _names(methods),
            time.monotonic() + 60 * minutes, progress, _record(record, out),
        )  # fmt: skip
        refused = measure_table(table, place, jobs)
    for what, reason in refused.items():
        display.warn(f"{what}: {reason.rstrip('.')}")
    _write(table, place, out, as_json)


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

    _write(table_of(name), Work(work, data_dir, record=_record(record, out)), out, as_json)


def _summary(
    work: WorkOption = WORK,
    out: Annotated[
        Path | None,
        typer.Option(help="Markdown file to write, beside the tables' pages. (default: print it)", show_default=False),
    ] = None,
    record: RecordOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """What of the paper reproduces, what does not, and why, from all that has been measured."""
    from gamlp.bench import Work, as_summary
    from gamlp.io import write_text

    pages = work / "tables" if out is None else out.parent
    page = as_summary(Work(work, data_dir, record=_record(record, pages), pages=pages))
    if out is None:
        display.say(page)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page)
    display.say(f"{out} is written")


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


def _record(given: Path | None, pages: Path | None) -> Record | None:
    """The file that was named, else the one beside the pages."""
    from gamlp.bench import RECORD, Record

    if given is None:
        return None if pages is None or not (pages / RECORD).exists() else Record(pages / RECORD)
    if given.is_dir():
        raise GamlpError("is a folder, and --record is a file", file=given, hint=f"--record {given / RECORD}")
    return Record(given)


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
