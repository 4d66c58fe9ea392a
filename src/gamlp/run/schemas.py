"""Types and states of columns, from wherever they are kept: a schema.yaml, a graph folder, a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.graph import MANIFEST, FeatureSchema, Graph
from gamlp.graph.features.encoders import read_schema
from gamlp.graph.ingest import PlainSchema, plain_schema, states_schema


def schema_of(place: str) -> PlainSchema:
    """As options of an ingest keep it.

    A file says what each column is; a graph and a run know the columns that they use, and all others are left out.
    """
    path = Path(place)
    if path.is_file():
        return plain_schema(read_schema(path))
    if not path.exists():
        raise GamlpError("no such schema", file=place, hint="--schema takes a schema.yaml, a graph folder or a run")
    if (path / MANIFEST).exists():
        return _plain(Graph.open(path).columns, place)
    from gamlp.training import Bundle, RunFolder  # torch is loaded where a run is read, and not before

    return _plain(Bundle.load(RunFolder.open(path).bundle_path).columns, place)


def _plain(columns: Mapping[str, FeatureSchema], place: str) -> PlainSchema:
    if not columns:
        raise GamlpError("its features have no names", file=place, hint="--schema is for graphs that came from tables")
    return states_schema(columns)
