"""`gamlp serve`: a trained run behind HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options.recipe import (
    JsonOption,
    MemoryOption,
    ThreadsOption,
    TrustOption,
    resources_of,
    trusted,
)
from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.serve import Address

_SAFETY = "Who may ask"
_LIMITS = "Limits"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("serve")(_serve)


def _serve(
    run: Annotated[Path, typer.Argument(help="Run folder.", metavar="RUN")],
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Keep no newcomers; several processes may then serve the run.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds that a signal leaves to requests that wait.")
    ] = 10.0,
    access_log: Annotated[bool, typer.Option("--access-log", help="A line on stderr for each request.")] = False,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File of keys that clients may send, one a line. (default: the variable GAMLP_API_KEY, or none)",
            metavar="FILE",
            rich_help_panel=_SAFETY,
            show_default=False,
        ),
    ] = None,
    no_api_key: Annotated[
        bool,
        typer.Option("--no-api-key", help="Nobody has to send a key, other machines neither.", rich_help_panel=_SAFETY),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A further name by which clients may call a server on this machine, such as that of a proxy.",
            metavar="NAME",
            rich_help_panel=_SAFETY,
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="Certificate, PEM: HTTPS.", metavar="FILE", rich_help_panel=_SAFETY, show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            help="Its key, PEM. (default: in the same file)",
            metavar="FILE",
            rich_help_panel=_SAFETY,
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[str, typer.Option(help="Of a request.", metavar="SIZE", rich_help_panel=_LIMITS)] = "16MiB",
    max_rows: Annotated[int, typer.Option(min=1, help="Nodes in a request.", rich_help_panel=_LIMITS)] = 10_000,
    max_neighbours: Annotated[
        int, typer.Option(min=1, help="Edges of all new nodes in a request.", rich_help_panel=_LIMITS)
    ] = 1_000_000,
    max_newcomers: Annotated[
        int,
        typer.Option(min=0, help="Kept until gamlp refresh makes them nodes of the graph.", rich_help_panel=_LIMITS),
    ] = 100_000,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Requests that wait; more are told to come again.", rich_help_panel=_LIMITS)
    ] = 256,
    max_connections: Annotated[int, typer.Option(min=1, help="That are open.", rich_help_panel=_LIMITS)] = 1_000,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for a body to arrive, and for its turn.", rich_help_panel=_LIMITS)
    ] = 30.0,
    trust: TrustOption = None,
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer over HTTP: known nodes by id, new ones by their cells and the ids of their neighbours.

    On this machine; a page for people is at http://127.0.0.1:8000:

      gamlp serve run

      curl http://127.0.0.1:8000/predict -d '{"ids": [12, 40]}'

    A node that the graph has not. What it must bring is told by /about:

      curl http://127.0.0.1:8000/about

      curl http://127.0.0.1:8000/predict -d '{"nodes": [{"columns": {"age": 31}, "neighbours": [12, 40]}]}'

    With an id and "keep" it is written down, and later ones may name it as a neighbour; gamlp refresh makes it a node
    of the graph:

      curl http://127.0.0.1:8000/predict -d '{"keep": true, "nodes": [{"id": "n1", "columns": {"age": 31}}]}'

    Why a node gets its answer:

      curl http://127.0.0.1:8000/explain -d '{"ids": [12]}'

    For other machines, with a key and HTTPS:

      gamlp serve run --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key key.pem

      curl https://host:8000/predict -H "X-API-Key: $KEY" -d '{"ids": [12]}'

    /health, /ready and /metrics (Prometheus) are for machines that watch it, /openapi.json for programs, and /v2 speaks
    the Open Inference Protocol. A newer run in the same place, and what gamlp refresh made, is taken up by itself.
    """
    from gamlp.io import parse_size
    from gamlp.serve import Limits, serve_run

    limits = Limits(
        body_bytes=parse_size(max_body), rows=max_rows, neighbours=max_neighbours, waiting=max_waiting,
        connections=max_connections, read_seconds=timeout, wait_seconds=timeout,
    )  # fmt: skip
    with ExitStack() as showing:
        progress = showing.enter_context(display.progress(as_json))

        def told(address: Address) -> None:
            showing.close()
            display.stop_telling()
            if as_json:
                about = {"url": address.url, "host": address.host, "port": address.port, "pid": os.getpid()}
                display.print_json({"run": str(run), **about})
            else:
                display.inform(f"{run} answers at {address.url}; Ctrl-C stops it")

        serve_run(
            run, host=host, port=port, api_key_file=api_key_file, without_key=no_api_key,
            allowed_hosts=allow_host or (), tls_cert=tls_cert, tls_key=tls_key, limits=limits,
            most_newcomers=max_newcomers, read_only=read_only, grace=grace, access_log=access_log,
            trust=trusted(trust), resources=resources_of("cpu", memory, threads), told=told, progress=progress,
        )  # fmt: skip
