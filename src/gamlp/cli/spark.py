"""`gamlp spark`: what a cluster needs before a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gamlp.cli.options.recipe import JsonOption
from gamlp.cli.show import display

_HELP = """Bring gamlp to the executors of a cluster.

  gamlp spark pack --out gamlp.tar.gz
"""


def register(app: typer.Typer) -> None:
    """Add the verb and what it does."""
    verb = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode="rich")
    verb.callback()(lambda: None)  # one command, and yet a group
    verb.command("pack")(_pack)
    app.add_typer(verb, name="spark")


def _pack(
    out: Annotated[Path, typer.Option(help="Archive to write, .tar.gz or .tgz; must not exist.", metavar="FILE")],
    also: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another package, such as s3fs; may be given again.", metavar="NAME"),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", help="A package that executors have; may be given again.", metavar="NAME"),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            help="The executors' Python, of this version. (default: its name, such as python3.11)",
            metavar="NAME|PATH",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write gamlp and all it needs as an archive that Spark brings to executors with nothing but a bare Python.

      gamlp spark pack --out gamlp.tar.gz

    With the library of an object store, for executors that have torch:

      gamlp spark pack --out gamlp.tar.gz --with s3fs --leave-out torch

    Executors must have the same system and the same version of Python as this machine.
    """
    from gamlp.io import format_size
    from gamlp.spark import pack

    with display.progress(as_json) as progress:
        packed = pack(out, also=also or [], leave_out=leave_out or [], python=python, progress=progress)
    if as_json:
        content = {"path": str(packed.path), "bytes": packed.bytes, "files": packed.files, "conf": packed.conf}
        display.print_json(content | {"packages": list(packed.distributions)})
        return
    display.say(
        f"{packed.path}: {packed.files:,} files of {len(packed.distributions)} packages, {format_size(packed.bytes)}; "
        "the options of Spark that bring it to executors:"
    )
    for key, value in packed.conf.items():
        display.say(f"  {key}={value}")
