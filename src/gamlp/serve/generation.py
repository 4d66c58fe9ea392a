"""What is served: a run's model, a graph, and the hops of all its nodes; made anew with every refresh.

Generation 0 is the run as it was trained. A refresh leaves a graph that has grown and its hops in
`serving/generation-N`, then says so in `serving/current.json`: who serves the run sees the one or the other.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, Nodes, union_graphs
from gamlp.io import Trust, create_array, digest, sealed, unsealed, write_json
from gamlp.progress import Progress, silent
from gamlp.propagation import FeatureSignal, HopStore, Plan, Signal, StoredSignal, degree_sums, outline
from gamlp.run import LOCAL, Resources, as_model_reads, hops_for, open_trained, propagate
from gamlp.serve.frozen_hops import HeardSignal
from gamlp.training import Bundle, HopRows, RunFolder, check_store, plan_of, rows_of, without_folds

SERVING = "serving"  # inside the run folder
_CURRENT = "current.json"
_LACKING = "put back what is gone, or train again: gamlp train GRAPH --out RUN"
_CHUNK = 1 << 16  # rows of first values that are written at a time


class Current(BaseModel):
    """What current.json holds. `folded`: newcomers up to this number are nodes of the graph.

    `structure` tells the graph that the run was trained on, of which this one is a later state.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["gamlp-serving"] = "gamlp-serving"
    version: Literal[1] = 1
    generation: NonNegativeInt = 0
    folded: NonNegativeInt = 0
    structure: str | None = None

    @classmethod
    def of(cls, run: Path) -> Current:
        """Of a run; generation 0 where it was never refreshed."""
        path = run / SERVING / _CURRENT
        try:
            return cls.model_validate(unsealed(path.read_bytes(), required=True))
        except FileNotFoundError:
            return cls()
        except (ValidationError, ValueError) as error:
            raise GamlpError(
                "is damaged or foreign", file=path, hint="remove it: the run as trained is served"
            ) from error

    def write(self, run: Path) -> None:
        write_json(run / SERVING / _CURRENT, sealed(self.model_dump(mode="json")))

    def folder(self, run: Path) -> Path:
        return run / SERVING / f"generation-{self.generation}"


@dataclass(frozen=True)
class Generation:
    """A trained model with a graph and the hops of all target rows. `given`: the graph as it was ingested.

    `graph` is as the model reads it: columns in its order, what was made for it added. `seen`: what would be another
    where the run changes on disk.
    """

    run: Path
    current: Current
    bundle: Bundle
    given: Graph
    graph: Graph
    store: HopStore
    plan: Plan
    seen: tuple[object, ...]
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where what is made for serving lies."""
        return self.current.folder(self.run)

    def rows(self) -> HopRows:
        """No rows yet: how the model reads them."""
        return rows_of(self.store, self.bundle.recipe, np.zeros(0, np.int64))


def look(run: Path) -> tuple[object, ...]:
    """What tells one state of a run folder from another, without reading it; a link to a run may be turned."""
    found: list[object] = [os.path.realpath(run)]
    for path in (RunFolder(run).bundle_path, run / SERVING / _CURRENT):
        try:
            facts = path.stat()
            found.append((facts.st_ino, facts.st_mtime_ns, facts.st_size))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def open_generation(
    run: Path, *, trust: Trust = None, resources: Resources = LOCAL, progress: Progress = silent
) -> Generation:
    """The newest; hops of nodes that training did not keep are made, and kept in the run folder."""
    seen, current = look(run), Current.of(run)
    RunFolder.open(run, trust)  # a sentence where there is none
    notes: tuple[str, ...] = ()
    if current.generation:
        bundle = Bundle.load(RunFolder(run).bundle_path, trust)
        given, store = Graph.open(current.folder(run) / "graph"), HopStore.open(current.folder(run) / "hops")
        _check_same_run(run, trust, current, bundle, store)
    else:
        with open_trained(
            run, None, run / SERVING, trust=trust, resources=resources, progress=progress, lacking=_LACKING
        ) as opened:
            bundle, given, store, notes = opened.bundle, opened.graph, opened.store, opened.notes
        if store.kept is not None:
            _check_labels(bundle)
            store = hops_for(bundle, given, current.folder(run) / "hops", resources, progress)
    with closing(resources.open_engine()) as engine:
        # What is said of another graph than that of training is left aside: this is the same one, or grew from it.
        graph, plan, _ = as_model_reads(bundle, given, current.folder(run) / "made", engine, progress)
    return Generation(run, current, bundle, given, graph, store, plan, seen, notes)


def trained_structure(run: Path, trust: Trust = None) -> str | None:
    """What tells the graph that a run was trained on; None where its own hops are gone."""
    try:
        return HopStore.open(RunFolder(run, trust=trust).store_path()).manifest.structure
    except GamlpError:
        return None


def _check_same_run(run: Path, trust: Trust, current: Current, bundle: Bundle, store: HopStore) -> None:
    """Refuse a generation that was made before the run was trained anew on another graph, or by another recipe."""
    trained = trained_structure(run, trust)
    try:
        check_store(store, without_folds(plan_of(bundle.recipe)))
        if trained is not None and current.structure not in (None, trained):
            raise GamlpError("it grew from another graph")
    except GamlpError as error:
        raise GamlpError(
            f"generation {current.generation} is not of the run as it was trained last ({error.problem})",
            file=run / SERVING,
            hint="remove the folder: its newcomers go with it",
        ) from error


def _check_labels(bundle: Bundle) -> None:
    """Hops of a later stage have what its teacher said, which only training has."""
    if bundle.report.get("stage"):
        raise GamlpError(
            "the run kept the hops of some nodes alone, and those of a later stage cannot be made again",
            hint="train with propagation.rows all",
        )


def heard_signals(
    generation: Generation, resources: Resources = LOCAL, progress: Progress = silent
) -> list[HeardSignal]:
    """Every signal that the model reads, with hops of all nodes that newcomers may hear."""
    rows, graph, plan = generation.rows(), generation.graph, generation.plan
    signals = {signal.name: signal for signal in outline(graph, without_folds(plan), None)}
    names = [*rows.channels, *label_names(rows)]
    wanted = [signals[name] for name in names]
    views = {signal.view.name: signal.view for signal in wanted if signal.view is not None}
    if graph.heterogeneous:
        folder = generation.folder / "views"
        unions = union_graphs(graph, list(views.values()), folder, resources.memory, progress)
        stored = {
            signal.name: _all_rows(signal, unions[signal.view.name], folder, resources, progress)
            for signal in wanted
            if signal.view is not None
        }
    else:
        unions = dict.fromkeys(views, graph)
        stored = {name: generation.store.signals[name] for name in names}
    for place, name in enumerate(names, start=1):
        stored[name].check()
        generation.store.signals[name].check()
        progress("verify hops", place, len(names), "signals")
    found = []
    sums = {name: degree_sums(unions[name].relation, view.count) for name, view in views.items()}
    for signal in wanted:
        assert signal.view is not None
        row_sums, column_sums = sums[signal.view.name]
        enter, loop, r = None, 1.0 if signal.operator.loops else 0.0, signal.operator.r
        if r > 0:
            degrees = (row_sums if signal.view.turned else column_sums) + loop
            enter = np.where(degrees > 0, np.power(np.maximum(degrees, 1e-38), -r), 1.0).astype(np.float32)
        hops = rows.hops if signal.name in rows.channels else (rows.label_hops or 0)
        found.append(
            HeardSignal(
                signal.name, graph, signal.view, signal.operator, hops, stored[signal.name], enter, signal.node_types
            )
        )
    return found


def label_names(rows: HopRows) -> list[str]:
    """Signals of labels that a model reads; none where it reads no labels."""
    return [] if rows.label_hops is None else [f"labels@{view}" if view else "labels" for view in rows.views]


def _all_rows(signal: Signal, union: Graph, folder: Path, resources: Resources, progress: Progress) -> StoredSignal:
    """Hops of every node of a view of several types; the run's own store has those of the target alone."""
    own = folder / f"all-{digest([signal.name, signal.key])}"
    first = own / "first.npy"
    if not first.exists():
        own.mkdir(parents=True, exist_ok=True)
        values = create_array(own / ".first.npy", (signal.nodes, signal.width), np.float32)
        for begin in range(0, signal.nodes, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, signal.nodes))
            values[part] = signal.parts[0].first.read(part, slice(None))
        values.flush()  # type: ignore[attr-defined]
        del values
        (own / ".first.npy").rename(first)
    mapped = np.load(first, mmap_mode="r", allow_pickle=False)
    name, nodes = union.target, union.nodes
    alone = Nodes(name, nodes.count, nodes.ids, Features(mapped))
    graph = Graph(union.name, {name: alone}, union.relations, name, checksums=union.checksums)
    plan = Plan(features=FeatureSignal(hops=signal.hops, operator=signal.operator, dtype=signal.dtype), labels=None)  # type: ignore[arg-type]
    return propagate(graph, plan, own / "hops", resources, progress).signals["features"]
