"""A measurement in a process of its own: memory that others freed would hide what it takes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from gamlp.errors import GamlpError

_PRELOADED = ["gamlp.peers", "gamlp.peers.message_passing", "sklearn.metrics", "pymetis"]


def in_own_process(work: Callable[..., Any], *arguments: Any, threads: int = 1) -> Any:
    """What a function of a module gives, called in a fresh process that has everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(send, work, arguments, threads), daemon=True)
    process.start()
    send.close()
    try:
        result, found = receive.recv()
    except EOFError:
        process.join()
        raise GamlpError(f"its process ended with code {process.exitcode}") from None
    finally:
        process.join()
    if result == "refused":
        raise GamlpError(found)
    return found


def _child(send: Connection, work: Callable[..., Any], arguments: tuple[Any, ...], threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        found = work(*arguments)
    except GamlpError as error:
        send.send(("refused", str(error)))
    else:
        send.send(("found", found))
    send.close()
