"""A served run over HTTP. What speaks it is imported when it is asked for: it needs `gamlp[serve]`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gamlp.errors import MissingExtra

# What requests may ask of a server
from gamlp.serve.http.limits import Limits

# Where it listens
from gamlp.serve.http.listening import Address

if TYPE_CHECKING:
    # The server itself
    from gamlp.serve.http.running import serve_run as serve_run

__all__ = ["Address", "Limits", "serve_run"]


def __getattr__(name: str) -> Any:
    if name != "serve_run":
        raise AttributeError(f"module '{__name__}' has no '{name}'")
    try:
        return import_module("gamlp.serve.http.running").serve_run
    except ModuleNotFoundError as error:
        if (error.name or "gamlp").partition(".")[0] == "gamlp":
            raise
        raise MissingExtra(str(error.name), "serve") from error
