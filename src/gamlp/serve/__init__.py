"""Answers online: a trained run with the hops of all its nodes, asked about known nodes and about new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# A graph and the hops of all its nodes, as a run was trained on or as it was last refreshed
from gamlp.serve.generation import Generation, open_generation

# What requests may ask of a server, and where it listens
from gamlp.serve.http import Address, Limits

# What is asked and answered
from gamlp.serve.questions import Answered, Ends, Id, NewNode, Question, Refusal

# Newcomers become nodes of the graph
from gamlp.serve.refresh import Refreshed, refresh_run

# The run that answers
from gamlp.serve.served import MOST_NEWCOMERS, ServedRun, serving

if TYPE_CHECKING:
    # The server: FastAPI and uvicorn are imported when it is asked for
    from gamlp.serve.http import serve_run as serve_run

__all__ = [
    "MOST_NEWCOMERS", "Address", "Answered", "Ends", "Generation", "Id", "Limits", "NewNode", "Question", "Refreshed",
    "Refusal", "ServedRun", "open_generation", "refresh_run", "serve_run", "serving",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "serve_run":
        raise AttributeError(f"module '{__name__}' has no '{name}'")
    from gamlp.serve import http

    return http.serve_run
