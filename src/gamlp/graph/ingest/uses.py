"""What every column of a table is used for: none is left out in silence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph.ingest.edges import EdgeNames
    from gamlp.graph.ingest.nodes import NodeNames
    from gamlp.graph.ingest.time_split import TimeSplit

# Names that pandas gives to an index: none in a CSV, which it reads again as Unnamed: 0; its own in Parquet.
_INDEX = re.compile(r"|Unnamed: \d+(_level_\d+)?|__index_level_\d+__")


@dataclass(frozen=True)
class ColumnUse:
    """One column: `use` is id, label, split, feature, source, target, weight, relation, time or ignored."""

    table: str  # nodes or edges, with the type or relation where there are several
    column: str
    use: str
    about: str = ""  # of a feature what it holds, of an ignored column why


@dataclass(frozen=True)
class FeatureColumns:
    """The columns that are features, in order, and why other columns that nothing else uses are not."""

    names: list[str]
    ignored: list[tuple[str, str]]
    index: list[str]  # of those ignored, what looks like the row numbers of another program


def feature_columns(
    columns: Sequence[str], names: NodeNames, label: str | None, split: str | None, time: str | None = None
) -> FeatureColumns:
    """Which columns of a node table are features: those that are named, else all that are not something else.

    `time`: the column that makes the split, a feature only where it is named.
    """
    taken = {names.id, label, split} - {None}
    others = [name for name in columns if name not in taken]
    if names.features is not None:
        chosen = [] if names.features.endswith(".npy") else feature_names(names.features)
        for own, option in ((label, "--label"), (split, "--split")):
            if own in chosen:  # a model that reads the answer learns nothing else
                raise GamlpError(
                    f"--features names column '{own}', which is that of {option[2:]}s",
                    hint=f"leave it out, or say {option} '' as well",
                )
        why = f"features are those of {names.features}" if names.features.endswith(".npy") else "not in --features"
        return FeatureColumns(chosen, [(name, why) for name in others if name not in (*chosen, time)], [])
    # A label that is left out must not come back as a feature.
    asked = {"label" if label is None else label: "--label", "split" if split is None else split: "--split"}
    features: list[str] = []
    ignored: list[tuple[str, str]] = []
    index: list[str] = []
    for name in others:
        if name == time:
            continue
        if time is not None and asked.get(name) == "--split":
            ignored.append((name, f"the split is by {time}"))
        elif name in names.left_out:
            ignored.append((name, "labels and split are those of the target type"))
        elif name in asked:
            ignored.append((name, f"{asked[name]} is empty"))
        elif _is_index(name, columns):
            index.append(name)
            ignored.append((name, "row numbers of another program"))
        else:
            features.append(name)
    return FeatureColumns(features, ignored, index)


def _is_index(name: str, columns: Sequence[str]) -> bool:
    # Spark calls a first column without a name _c0; a table whose columns all have such names has no header.
    return bool(_INDEX.fullmatch(name)) or (name == "_c0" and columns[0] == name and "_c1" not in columns)


def index_left_out(names: Sequence[str], file: object) -> str | None:
    """What is said of columns that look like row numbers; None where there are none."""
    if not names:
        return None
    told = " and ".join(f"'{name}'" if name else "without a name" for name in dict.fromkeys(names))
    hint = "--features names the columns to use" if any(names) else "a name in the header makes it one"
    return f"{file}: column {told} looks like row numbers that another program wrote, and is no feature; {hint}"


def feature_names(given: str) -> list[str]:
    """Columns that --features names."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise GamlpError(f"--features names column '{twice}' twice")
    return names


def node_uses(
    table: str,
    names: NodeNames,
    chosen: FeatureColumns,
    label: str | None,
    split: str | None,
    lists: Mapping[str, int],
    split_by: TimeSplit | None = None,
    done: Mapping[str, tuple[str, str]] | None = None,
) -> list[ColumnUse]:
    """Of every column of a node table; `lists`: the columns of lists, with their lengths.

    `done`: (use, what became of it) of feature columns that were not taken as they are.
    """
    found = [(names.id, "id", "")]
    found += [(label, "label", "")] if label else []
    found += [(split, "split", "")] if split else []
    found += [(split_by.column, "split", str(split_by))] if split_by else []
    if names.features is not None and names.features.endswith(".npy"):
        found.append((names.features.rsplit("/", 1)[-1], "feature", "an array, a row for each node"))
    for name in chosen.names:
        plain = "feature", f"list of {lists[name]} numbers" if name in lists else "number"
        found.append((name, *(done or {}).get(name, plain)))
    found += [(name, "ignored", why) for name, why in chosen.ignored]
    return [ColumnUse(table, *one) for one in found]


def edge_uses(
    table: str,
    columns: Sequence[str],
    names: EdgeNames,
    weight: str | None,
    relation: str | None,
    name: str | None,
    time: str | None = None,
) -> list[ColumnUse]:
    """Of every column of an edge table; `name`: the one relation that all of it is."""
    found = [(names.src, "source", ""), (names.dst, "target", "")]
    found += [(weight, "weight", "")] if weight else []
    found += [(relation, "relation", "")] if relation else []
    found += [(time, "time", "")] if time else []
    used = {column for column, _, _ in found}
    for column in columns:
        if column in used:
            continue
        why = "edges have ends, weight, relation, time"
        if column == "weight" and names.weight is not None:
            why = "--weight is empty" if not names.weight else f"the weight is {names.weight}"
        elif column == "relation" and name is not None:
            why = f"all edges of this table are {name}"
        elif column == "relation" and names.relation is not None:
            why = "--relation is empty" if not names.relation else f"the relation is {names.relation}"
        found.append((column, "ignored", why))
    return [ColumnUse(table, *one) for one in found]
