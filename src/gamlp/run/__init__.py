"""The whole path: tables or a graph → hops → a trained run → scores, predictions, explanations.

Names are imported when they are asked for: a verb that only reads tables must not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # How probabilities become labels
    from gamlp.run.decision import LIKELIEST as LIKELIEST
    from gamlp.run.decision import Decided as Decided
    from gamlp.run.decision import Decision as Decision

    # Where steps happen
    from gamlp.run.engine import Engine as Engine
    from gamlp.run.engine import LocalEngine as LocalEngine
    from gamlp.run.engine import Opened as Opened
    from gamlp.run.engine import Opening as Opening

    # Scores of a run
    from gamlp.run.evaluation import evaluate as evaluate
    from gamlp.run.evaluation import evaluate_rows as evaluate_rows

    # Nodes that a graph has not yet
    from gamlp.run.newcomers import Newcomers as Newcomers

    # All of it at once
    from gamlp.run.path import Outcome as Outcome
    from gamlp.run.path import run_path as run_path

    # Tables of predictions
    from gamlp.run.prediction_table import SUFFIXES as SUFFIXES
    from gamlp.run.prediction_table import Written as Written
    from gamlp.run.prediction_table import asked_among as asked_among
    from gamlp.run.prediction_table import batch_probabilities as batch_probabilities
    from gamlp.run.prediction_table import new_table as new_table
    from gamlp.run.prediction_table import no_rows as no_rows
    from gamlp.run.prediction_table import not_kept as not_kept
    from gamlp.run.prediction_table import row_sets as row_sets
    from gamlp.run.prediction_table import table_columns as table_columns
    from gamlp.run.prediction_table import table_schema as table_schema
    from gamlp.run.prediction_table import write_predictions as write_predictions
    from gamlp.run.prediction_table import write_probabilities as write_probabilities

    # A graph and a recipe → hops
    from gamlp.run.preparation import as_model_reads as as_model_reads
    from gamlp.run.preparation import hops_for as hops_for
    from gamlp.run.preparation import prepare as prepare
    from gamlp.run.preparation import prepare_split as prepare_split
    from gamlp.run.preparation import propagate as propagate

    # What a machine gives
    from gamlp.run.resources import LOCAL as LOCAL
    from gamlp.run.resources import Resources as Resources
    from gamlp.run.resources import engine_names as engine_names

    # Types and states of columns, of a file, a graph or a run
    from gamlp.run.schemas import schema_of as schema_of

    # Which rows are scored
    from gamlp.run.scoring import RowsOfPart as RowsOfPart

    # What training starts from
    from gamlp.run.source import Source as Source
    from gamlp.run.source import as_source as as_source
    from gamlp.run.source import check_one_model as check_one_model
    from gamlp.run.source import check_one_stage as check_one_stage
    from gamlp.run.source import default_recipe as default_recipe
    from gamlp.run.source import open_source as open_source
    from gamlp.run.source import published_default as published_default
    from gamlp.run.source import resolve_recipe as resolve_recipe
    from gamlp.run.tables import Tables as Tables
    from gamlp.run.tables import from_tables as from_tables

    # A trained run, and what it is asked
    from gamlp.run.trained import explain as explain
    from gamlp.run.trained import graph_if_found as graph_if_found
    from gamlp.run.trained import graph_of as graph_of
    from gamlp.run.trained import open_trained as open_trained
    from gamlp.run.trained import predict as predict
    from gamlp.run.training import Trained as Trained
    from gamlp.run.training import adopt_trained as adopt_trained
    from gamlp.run.training import check_start as check_start
    from gamlp.run.training import train as train
    from gamlp.run.training import train_run as train_run
    from gamlp.run.training import train_stages as train_stages

_PLACES = {
    "decision": ("LIKELIEST", "Decided", "Decision"),
    "engine": ("Engine", "LocalEngine", "Opened", "Opening"),
    "evaluation": ("evaluate", "evaluate_rows"),
    "newcomers": ("Newcomers",),
    "path": ("Outcome", "run_path"),
    "prediction_table": (
        "SUFFIXES", "Written", "asked_among", "batch_probabilities", "new_table",
        "no_rows", "not_kept", "row_sets", "table_columns",
        "table_schema", "write_probabilities", "write_predictions",
    ),
    "preparation": ("as_model_reads", "hops_for", "prepare", "prepare_split", "propagate"),
    "resources": ("LOCAL", "Resources", "engine_names"),
    "source": (
        "Source", "as_source", "check_one_model", "check_one_stage", "default_recipe", "open_source",
        "published_default", "resolve_recipe",
    ),
    "schemas": ("schema_of",),
    "scoring": ("RowsOfPart",),
    "tables": ("Tables", "from_tables"),
    "trained": ("explain", "graph_if_found", "graph_of", "open_trained", "predict"),
    "training": ("Trained", "adopt_trained", "check_start", "train", "train_run", "train_stages"),
}  # fmt: skip
_WHERE = {name: place for place, names in _PLACES.items() for name in names}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module '{__name__}' has no '{name}'")
    return getattr(import_module(f"gamlp.run.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
