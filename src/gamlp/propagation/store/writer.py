"""A store being written: locked, refused when it belongs to another graph or plan, manifest last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import FeatureColumn, Graph, View, fingerprint
from gamlp.io import Place, put_rows, sealed, sole_writer
from gamlp.propagation.plan import Statistics
from gamlp.propagation.signals import Signal
from gamlp.propagation.store.manifest import (
    MANIFEST,
    ShardEntry,
    SignalEntry,
    StoredFile,
    StoreManifest,
    TargetsEntry,
    ViewEntry,
    read_manifest,
)
from gamlp.propagation.store.shards import Shard
from gamlp.propagation.store.store import verified_array

PLAN = "plan.json"  # what a run in progress is for; gone when the manifest is there
_NAMES = ("features", "labels", "crossfit")
_SIGNALS = tuple(f"{name}{mark}" for name in _NAMES for mark in "-@")
_BESIDE = (f".{MANIFEST}.", f".{PLAN}.", ".labels.npy", ".split.npy")  # not yet renamed when a run was killed
_ROWS = 1 << 20


class StoreWriter:
    """Decides what is missing and records what was written. Use `writing(...)`."""

    def __init__(self, place: Place, graph: Graph, signals: Sequence[Signal]) -> None:
        self.place = place
        self.work = place / "work"
        self._graph = graph
        self._signals = signals
        self._structure = fingerprint.structure(graph)
        self.statistics: dict[str, Statistics] = {}  # of `standard` scaling, by node type; whoever reads features says
        self._entries: dict[str, SignalEntry] = {}
        self._views: dict[str, ViewEntry] = {}
        self._columns: dict[str, list[FeatureColumn]] = {}

    def begin(self) -> list[Signal]:
        """Signals that are still to be written, after refusing a store of another graph or plan."""
        wanted = {signal.name: _wanted(signal) for signal in self._signals}
        if (self.place / MANIFEST).exists():
            manifest = read_manifest(self.place)
            self._refuse_other(manifest.structure, manifest.graph)
            self._entries, self._views = dict(manifest.signals), dict(manifest.views)
            self._columns = dict(manifest.columns)  # of features that are there; labels alone may be added to them
            self.statistics = manifest.statistics | self.statistics
            missing = [signal for signal in self._signals if not self._serves(signal)]
        else:
            missing = list(self._signals)
        self._check_plan(wanted)
        return missing

    def start(self) -> None:
        """Note what the run is for, so that the same command goes on when it is interrupted."""
        wanted = {signal.name: _wanted(signal) for signal in self._signals}
        plan = {"structure": self._structure, "graph": self._graph.name, "signals": wanted}
        _put_json(self.place / PLAN, plan)  # first: what lies there without a plan is taken for somebody's own files
        self.work.make()

    def folder_of(self, signal: Signal) -> Place:
        """A folder of its own for every key: an old one stays valid until the manifest names the new one."""
        return self.place / f"{signal.name}-{signal.key}"

    def record(self, signal: Signal, shards: Sequence[Shard]) -> None:
        """Note a signal whose shards are all on disk."""
        folder, rows = self.folder_of(signal), None
        if signal.rows is not None:
            rows = _file(folder / "rows.npy", put_rows(folder / "rows.npy", signal.rows))
        self._entries[signal.name] = SignalEntry(
            key=signal.key,
            settings=signal.settings,
            hops=signal.hops,
            width=signal.width,
            dtype=signal.dtype,  # type: ignore[arg-type]
            folder=folder.name,
            count=self._graph.nodes.count if signal.rows is None else len(signal.rows),
            rows=rows,
            shards=[ShardEntry(**vars(shard)) for shard in sorted(shards, key=lambda shard: shard.start)],
        )

    def finish(self) -> None:
        """Labels and roles, the manifest, then what is no longer needed."""
        manifest = StoreManifest(
            graph=self._graph.name,
            graph_folder=None if self._graph.folder is None else Place.of(self._graph.folder).resolved().url,
            structure=self._structure,
            nodes=self._graph.nodes.count,
            targets=self._write_targets(),
            signals=dict(sorted(self._entries.items(), key=lambda entry: _place(entry[0]))),
            views=self._views | {view.name: _view_entry(view) for view in self._wanted_views()},
            columns=self._columns | {name: list(columns) for name, columns in self._graph.columns.items()},
            statistics=self.statistics,
            structural=self._graph.source.get("structural"),
        )
        _put_json(self.place / MANIFEST, sealed(manifest.model_dump(mode="json")))
        self.tidy()

    def _wanted_views(self) -> list[View]:
        views = (signal.view for signal in self._signals)
        return list({view.name: view for view in views if view is not None and view.name}.values())

    def tidy(self) -> None:
        """Remove what a finished store does not need, left by this run or by one that was killed at its very end."""
        (self.place / PLAN).remove()
        self.work.remove()
        used = {entry.folder for entry in self._entries.values()}
        for name in self.place.names():
            if (name.startswith(_SIGNALS) and name not in used) or name.startswith(_BESIDE):
                (self.place / name).remove()
        for name in used:
            for file in (self.place / name).names():
                if file.startswith("."):  # of a task that was killed
                    (self.place / name / file).remove()

    def up_to_date(self) -> bool:
        """Whether the copied labels and roles are those of the graph, and statistics are there if they were used."""
        manifest = read_manifest(self.place)
        return manifest.targets.key == fingerprint.targets(self._graph) and manifest.statistics == self.statistics

    def _refuse_other(self, structure: str, name: str) -> None:
        if structure != self._structure:
            raise GamlpError(
                f"holds hops of another graph ('{name}')",
                file=self.place,
                hint="choose another --out or remove it",
            )

    def _serves(self, signal: Signal) -> bool:
        """A stored signal serves the same key, as deep or deeper, for the same rows or some of them."""
        entry = self._entries.get(signal.name)
        if entry is None:
            return False
        different = [
            f"{field} {stored} where {asked} is asked for"
            for field, stored, asked in _differences(entry.settings, signal.settings)
            if field not in ("folds", "fold_seed")  # part of the key: other folds are made anew
        ]
        if different:
            self._refuse_plan(f"{signal.name} with {', '.join(different)}")
        if entry.key != signal.key:
            if _kind(signal.name) == "features":
                self._refuse_plan("other features")
            return False  # other training labels or folds: these hops alone are made anew
        if entry.hops < signal.hops:
            self._refuse_plan(f"{entry.hops} hops of {signal.name} where {signal.hops} are asked for")
        if entry.rows is not None:
            stored = verified_array(self.place / entry.folder, entry.rows, entry.count)
            if signal.rows is None or not np.isin(signal.rows, stored, assume_unique=True).all():
                self._refuse_plan(f"{entry.count:,} rows of {signal.name} and lacks some that are asked for")
        return True

    def _refuse_plan(self, what: str) -> None:
        raise GamlpError(f"holds {what}", file=self.place, hint="choose another --out or remove it")

    def _check_plan(self, wanted: dict[str, Any]) -> None:
        path = self.place / PLAN
        if not path.exists():
            from gamlp.graph.features import FOLDER as MADE  # imported here: it needs scikit-learn

            known = (MANIFEST, MADE)  # features that were made for a graph that nothing can be kept with
            foreign = [name for name in self.place.names() if name not in known and not name.startswith(".lock")]
            if foreign and not (self.place / MANIFEST).exists():
                raise GamlpError(
                    f"is not empty and not a store (it holds {sorted(foreign)[0]})",
                    file=self.place,
                    hint="choose another --out",
                )
            return
        try:
            plan = json.loads(path.read())
            structure, name, signals = plan["structure"], plan["graph"], plan["signals"]
        except (ValueError, KeyError, TypeError) as error:
            raise GamlpError("not a plan of a store", file=path, hint="remove the folder") from error
        self._refuse_other(structure, name)
        for name, asked in wanted.items():
            if name in signals and {**signals[name], "key": ""} != {**asked, "key": ""}:
                self._refuse_plan(f"an unfinished run of another plan for {name}")
            if _kind(name) == "features" and name in signals and signals[name]["key"] != asked["key"]:
                self._refuse_plan("an unfinished run of other features")

    def _write_targets(self) -> TargetsEntry:
        labels, split = self._graph.nodes.labels, self._graph.nodes.split
        files = []
        for name, values in (("labels.npy", labels and labels.values), ("split.npy", split and split.roles)):
            if values is None:
                (self.place / name).remove()
                continue
            files.append(_file(self.place / name, put_rows(self.place / name, np.asanyarray(values))))
        key = fingerprint.targets(self._graph)
        if labels is None:
            return TargetsEntry(key=key, classes=None, files=files)
        return TargetsEntry(key=key, classes=list(labels.classes), class_type=labels.class_type, files=files)


@contextmanager
def writing(folder: str | Path | Place, graph: Graph, signals: Sequence[Signal]) -> Iterator[StoreWriter]:
    """Lock the store (made if need be) while it is written; a second writer is refused."""
    place = Place.of(folder)
    with sole_writer(place, refused="another run is writing this store"):
        yield StoreWriter(place, graph, signals)


def _wanted(signal: Signal) -> dict[str, Any]:
    rows = None if signal.rows is None else _mixed(signal.rows)
    return {"key": signal.key, "settings": signal.settings, "hops": signal.hops, "rows": rows}


def _differences(stored: dict[str, Any], asked: dict[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    found = []
    for field in asked | stored:  # a field may be on one side alone: statistics are left out where there are none
        have, want = stored.get(field), asked.get(field)
        if isinstance(want, dict):
            found += _differences(have or {}, want, f"{field}.")
        elif have != want:
            found.append((prefix + field, have, want))
    return found


def _view_entry(view: View) -> ViewEntry:
    return ViewEntry(relation_pairs=list(view.relation_pairs), types=list(view.types), direction=view.direction)


def _kind(name: str) -> str:
    """`features-r0` are features too, by a further operator, and `features@cites` on a view."""
    return re.split("[-@]", name, maxsplit=1)[0]


def _place(name: str) -> tuple[int, str]:
    return _NAMES.index(_kind(name)), name


def _mixed(rows: Array) -> int:
    """A number that hardly two sets of rows share."""
    mixed = 0
    for begin in range(0, len(rows), _ROWS):
        mixed ^= int(np.bitwise_xor.reduce(rows[begin : begin + _ROWS] * 0x9E3779B1 + 1))
    return mixed


def _put_json(place: Place, content: Any) -> None:
    place.put(json.dumps(content, indent=1).encode(), sync=True)


def _file(place: Place, facts: list[int]) -> StoredFile:
    return StoredFile(name=place.name, bytes=facts[0], crc32=facts[1])
