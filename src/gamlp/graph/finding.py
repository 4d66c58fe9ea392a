"""Original ids, as a person writes them → row numbers."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.graph.ingest import IdMap
from gamlp.kernel import UNKNOWN_ROW

_MOST_COMPARED = 100_000  # ids that a misspelt one is compared with: more would take seconds
_LONGEST = 60


def rows_by_id(graph: Graph, ids: Sequence[str]) -> Array:
    """Rows of these ids, each once and in their order; an id that no node has is refused with the nearest one."""
    if not ids:
        return np.zeros(0, np.int64)
    nodes = graph.nodes
    values = np.arange(nodes.count) if nodes.ids.values is None else nodes.ids.values
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    # A person writes " 7" for 7; spaces may be part of a text.
    wanted = list(dict.fromkeys(name.strip() if isinstance(values, np.ndarray) else name for name in ids))
    rows = IdMap(values).rows(pa.array(wanted, pa.large_string()))
    unknown = [name for name, row in zip(wanted, rows) if row == UNKNOWN_ROW]
    if unknown:
        others = f" and {len(unknown) - 1} more of those asked for" if len(unknown) > 1 else ""
        raise GamlpError(
            f"graph '{graph.name}' has no node '{_short(unknown[0])}'{others}", hint=_hint(values, unknown[0])
        )
    return rows.astype(np.int64)


def split_ids(texts: Sequence[str]) -> list[str]:
    """Ids between commas; one that has a comma itself stands in double quotes, as in CSV.

    >>> split_ids(['p1,p2', '"a, b",c'])
    ['p1', 'p2', 'a, b', 'c']
    """
    lines = (line for text in texts for line in io.StringIO(text))  # `--ids "$(cat ids.txt)"` has an id a line
    try:
        return [name for fields in csv.reader(lines, skipinitialspace=True) for name in fields if name]
    except csv.Error as error:
        raise GamlpError(f"ids cannot be read ({error})", hint="give them between commas, or one a line") from error


def ids_in_file(path: Path) -> list[str]:
    """Ids of a text file, one a line, as they stand there; empty lines are passed over."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise GamlpError("there is no such file of ids", file=path) from error
    except UnicodeDecodeError as error:
        raise GamlpError("is no UTF-8 text", file=path, hint="give a text file with one id a line") from error
    names = [line.removesuffix("\r") for line in text.split("\n")]
    if not any(names):
        raise GamlpError("has no ids", file=path, hint="give one id a line")
    return [name for name in names if name]


def _hint(values: Array | pa.Array, unknown: str) -> str:
    if isinstance(values, np.ndarray):
        if not len(values):
            return "it has no nodes"
        return f"its ids are integers from {values.min()} to {values.max()}"
    known = [value.as_py() for value in values[:_MOST_COMPARED]]
    near = difflib.get_close_matches(unknown, known, 1)
    if near:
        return f"the nearest is '{_short(near[0])}'"
    return f"its ids look like {', '.join(repr(_short(name)) for name in known[:3])}"


def _short(name: str) -> str:
    plain = " ".join(name.split())
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
