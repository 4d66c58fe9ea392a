"""Frames that Python holds → Graph, by the rules of ingest: the same checks, sentences and bytes as of files."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.graph.ingest import (
    UNKNOWN_LABELS,
    EdgeNames,
    FrameTable,
    IngestOptions,
    IngestReport,
    NodeNames,
    OnBad,
    PlainSchema,
    TimeSplit,
    ingest,
)
from gamlp.io import parse_size
from gamlp.kernel import FloatName
from gamlp.progress import Progress, silent

Found = TypeVar("Found")
ByTable = str | None | Mapping[str, str | None]  # a column's name, or one for every table that has another
_OPTION = re.compile(r"(?:gamlp \w+ )?--([a-z][a-z-]*)(?: (?=[A-Z]{2,}|''|TYPE))?")
_COLUMN, _DROP = re.compile(r"--column (\S+)=(\w[\w:-]*)"), re.compile(r"--drop (\w\S*)")
_ARGUMENTS = {"out": "folder"}  # that are called otherwise
_JOINS = "join=NAME=SOURCE:TARGET"


def graph_from_frames(
    nodes: Any,
    edges: Any,
    *,
    id: ByTable = "id",
    label: ByTable = None,
    split: ByTable = None,
    features: str | Sequence[str] | None = None,
    many_labels: str | None = None,
    unknown_label: str | Sequence[str] = UNKNOWN_LABELS,
    src: ByTable = "src",
    dst: ByTable = "dst",
    weight: ByTable = None,
    relation: str | None = None,
    time: ByTable = None,
    before: str | None = None,
    join: Mapping[str, tuple[str, str]] | None = None,
    target: str | None = None,
    directed: bool = False,
    dtype: FloatName = "float32",
    on_bad: OnBad = "stop",
    split_by: str | None = None,
    train_until: str | None = None,
    valid_until: str | None = None,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    max_rows: int | None = None,
    column: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    schema: PlainSchema | None = None,
    name: str = "frames",
    folder: str | Path | None = None,
    memory: int | str | None = None,
    progress: Progress = silent,
) -> Graph:
    """See `Graph.from_frames`."""
    listed = features if features is None or isinstance(features, str) else ",".join(features)
    unknown = (unknown_label,) if isinstance(unknown_label, str) else tuple(unknown_label)

    def node_names(table: str | None) -> NodeNames:
        return NodeNames(
            id=_of(id, table, "id") or "id",
            label=_of(label, table),
            split=_of(split, table),
            features=listed,
            separator=many_labels,
            unknown=unknown,
        )

    def edge_names(table: str | None) -> EdgeNames:
        return EdgeNames(
            src=_of(src, table, "src") or "src",
            dst=_of(dst, table, "dst") or "dst",
            weight=_of(weight, table),
            relation=relation,
            time=_of(time, table),
        )

    options = IngestOptions(
        edge_names=edge_names(None),
        node_names=node_names(None),
        names_of={one: node_names(one) for one in nodes} if isinstance(nodes, Mapping) else {},
        edge_names_of={one: edge_names(one) for one in edges} if isinstance(edges, Mapping) else {},
        relation_ends=dict(join or {}),
        target=target,
        directed=directed,
        before=before,
        split_by=_told(lambda: TimeSplit.given(split_by, train_until, valid_until)),
        dtype=dtype,
        on_bad=on_bad,
        fractions=fractions,
        seed=seed,
        max_rows=max_rows,
        columns=dict(column or {}),
        drop=tuple(drop),
        schema=schema,
        name=name,
    )
    return ingest_frames(nodes, edges, options, folder=folder, memory=memory, progress=progress)


@dataclass(frozen=True)
class FromFrames:
    """What a graph of frames brings: what was read, and the temporary folder that lives as long as the graph."""

    report: IngestReport
    folder: TemporaryFolder | None


class TemporaryFolder:
    """A folder that goes with the last graph that was made from it, or with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="gamlp-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def ingest_frames(
    nodes: Any,
    edges: Any,
    options: IngestOptions,
    *,
    folder: str | Path | None = None,
    memory: int | str | None = None,
    progress: Progress = silent,
) -> Graph:
    """The graph of frames, in a folder of its own; what ingest says of options is said of arguments."""
    temporary = TemporaryFolder() if folder is None else None
    out = Path(folder) if folder is not None else temporary.path / "graph"  # type: ignore[union-attr]
    budget = parse_size(memory) if isinstance(memory, str) else memory

    def read() -> IngestReport:
        by_relation, by_type = _tables(edges, "edges", options.max_rows), _tables(nodes, "nodes", options.max_rows)
        return ingest(by_relation, by_type, out, options, memory=budget, progress=progress)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = _told(read)
    for warning in told:
        warnings.warn(in_python(str(warning.message)), warning.category, stacklevel=4)
    report.columns = [replace(use, about=in_python(use.about)) for use in report.columns]
    graph = replace(Graph.open(out), made=FromFrames(report, temporary))
    return graph if temporary is None else replace(graph, folder=None)


def _told(step: Callable[[], Found]) -> Found:
    """What a step finds; its error speaks of arguments."""
    try:
        return step()
    except GamlpError as error:
        hint = None if error.hint is None else in_python(error.hint)
        raise GamlpError(
            in_python(error.problem), file=error.file, row=error.row, column=error.column, hint=hint
        ) from error


def in_python(sentence: str) -> str:
    """What names an option of the command line, for people who give arguments.

    >>> in_python("no --join says it; add --join NAME=SOURCE:TARGET, or gamlp ingest --label ''")
    "no join= says it; add join={'NAME': ('SOURCE', 'TARGET')}, or label=''"
    >>> in_python("--column note=text makes features of it, and --drop note none")
    "column={'note': 'text'} makes features of it, and drop=['note'] none"
    """
    found = _COLUMN.sub(r"column={'\1': '\2'}", _DROP.sub(r"drop=['\1']", sentence))
    found = _OPTION.sub(lambda option: _ARGUMENTS.get(option[1], option[1].replace("-", "_")) + "=", found)
    return found.replace(_JOINS, "join={'NAME': ('SOURCE', 'TARGET')}").replace(
        "edges=NAME=PATH", "edges={'NAME': frame}"
    )


def _of(names: ByTable, table: str | None, usual: str | None = None) -> str | None:
    """The name of a column in a table; of a table that a mapping leaves out, the usual one."""
    if not isinstance(names, Mapping):
        return names
    return usual if table is None else names.get(table, usual)


def _tables(frames: Any, name: str, max_rows: int | None) -> Any:
    if not isinstance(frames, Mapping):
        return FrameTable(frames, name, max_rows)
    if not frames:
        raise GamlpError(f"{name} are an empty mapping", hint="give one frame, or several by name")
    return {str(one): FrameTable(frame, f"{name} {one}", max_rows) for one, frame in frames.items()}
