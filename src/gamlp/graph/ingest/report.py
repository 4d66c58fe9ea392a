"""What ingest tells when it is done."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gamlp.graph.ingest.labels import check_classes, unknown_labels
from gamlp.graph.ingest.uses import ColumnUse
from gamlp.graph.relations import ONE_TYPE


@dataclass
class IngestReport:
    """What was read, what became of it and what was left out."""

    folder: str
    nodes: int  # of all types
    features: int = 0  # of the target type
    dtype: str = ""
    edges_read: int = 0
    edges_later: int = 0  # left out by --before
    self_loops_dropped: int = 0
    duplicates_merged: int = 0
    entries: dict[str, int] = field(default_factory=dict)  # stored, by relation; an undirected edge counts twice
    classes: int = 0
    unknown_labels: dict[str, int] = field(default_factory=dict)  # by what the table says; '': nothing
    split: dict[str, int] = field(default_factory=dict)
    split_made: bool = False
    fractions: list[float] | None = None  # of a split that was drawn by ids
    split_by: str | None = None  # the column of times that made the split, and when its parts end
    entries_earlier: dict[str, dict[str, int]] = field(default_factory=dict)  # of a split by time: when a part ended
    bad_rows: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    target: str = ONE_TYPE
    types: dict[str, dict[str, int]] = field(default_factory=dict)  # nodes and features, where types have names
    columns: list[ColumnUse] = field(default_factory=list)  # what every column was used for
    delimiters: dict[str, str] = field(default_factory=dict)  # of tables that are text
    seconds: float = 0.0

    def count_entries(self, relation: str, entries: int, as_of: str | None) -> None:
        """Stored, or stored as they were when a part of a split by time ended."""
        stored = self.entries if as_of is None else self.entries_earlier.setdefault(as_of, {})
        stored[relation] = entries

    def warn(self, sentence: str) -> None:
        """Say it at once and keep it."""
        self.warnings.append(sentence)
        warnings.warn(sentence, UserWarning, stacklevel=3)

    def untrained(self, absent: Sequence[str]) -> None:
        """Warn of classes without training nodes."""
        if absent:
            shown = ", ".join(absent[:5]) + (" …" if len(absent) > 5 else "")
            self.warn(f"{len(absent)} of {self.classes} classes have no training nodes: {shown}")

    def labelled(
        self, classes: Sequence[str], known: int, unknown: Mapping[str, int], multi_label: bool, **place: Any
    ) -> None:
        """What the column of labels holds; refuses what cannot be classes, warns of what may not be meant."""
        self.unknown_labels = dict(sorted(unknown.items()))
        self.classes = len(classes)
        if sentence := unknown_labels(unknown, place["column"]):
            self.warn(f"{sentence}; --unknown-label '' makes classes of them")
        for sentence in [] if multi_label else check_classes(classes, known, **place):
            self.warn(sentence)

    def empty_parts(self, fractions: Sequence[float]) -> None:
        """Warn of parts that chance left empty where the split was made here."""
        asked = [role for role, part in zip(self.split, fractions) if part > 0]
        for role in (role for role in asked if self.split_made and not self.split[role]):
            self.warn(f"no node is in the part '{role}' of the split: where labels are so few, give a column 'split'")

    def unlabelled(self, count: int) -> None:
        """Warn of nodes that are in the split for nothing."""
        if count:
            self.warn(f"{count} nodes of the split have no label and are left out of it")

    def source(self, edges: Any, nodes: Any, seed: int) -> dict[str, Any]:
        """What the manifest keeps of how the graph was made; of tables the names alone."""
        return {
            "made_by": "ingest",
            "edges": edges,
            "nodes": nodes,
            "edges_read": self.edges_read,
            "self_loops_dropped": self.self_loops_dropped,
            "duplicates_merged": self.duplicates_merged,
            "bad_rows": self.bad_rows,
            "seed": seed if self.split_made else None,
            **({} if self.fractions is None else {"fractions": self.fractions}),
            **({} if self.split_by is None else {"split_by": self.split_by}),
        }
