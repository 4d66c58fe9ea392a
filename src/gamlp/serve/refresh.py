"""`gamlp refresh`: newcomers that were kept become nodes of the graph, and hops are made anew where they changed.

What is made lies in `serving/generation-N`, and current.json names it at the end: killed at any moment, the generation
before is served, and the same command goes on. A server may answer and keep newcomers meanwhile; those that came too
late follow with the next refresh.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph
from gamlp.graph.growth import GrownGraph, grow_beside
from gamlp.graph.ingest import read_additions
from gamlp.io import Trust, checksum, create_array, digest, locked, sealed, unsealed, work_folder, write_json
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, Plan, Regrown, propagate_growth
from gamlp.run import LOCAL, Resources, as_model_reads
from gamlp.run import propagate as propagate_all
from gamlp.serve.drift import Drift, measure
from gamlp.serve.generation import SERVING, Current, Generation, heard_signals, look, open_generation, trained_structure
from gamlp.serve.newcomer_tables import NewcomerTables, write_tables
from gamlp.serve.overlay import OVERLAY, Newcomer, content_of, read_overlay
from gamlp.serve.questions import NewNode
from gamlp.serve.served import ServedRun
from gamlp.training import RunFolder

_NOTE = "refresh.json"  # in the folder of a generation that is being made: of which newcomers
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did. `newcomers` 0: there were none, and no generation was made.

    made, copied: rows of the type that is classified whose hops were computed anew, and taken from before.
    waiting: newcomers that came meanwhile.
    """

    generation: int
    newcomers: int = 0
    edges: int = 0
    made: int = 0
    copied: int = 0
    waiting: int = 0
    seconds: float = 0.0
    drift: Drift | None = None
    notes: tuple[str, ...] = ()


def refresh_run(
    run: str | Path, *, trust: Trust = None, resources: Resources = LOCAL, progress: Progress = silent
) -> Refreshed:
    """Make the newcomers of a served run nodes of its graph.

    run: the run folder.
    trust: what files of the run may name: a model of one's own, whose code then runs; the URL of its graph.
    resources, progress: for hops; memory and threads change no byte of them.
    """
    run, begun = Path(run), time.monotonic()
    RunFolder.open(run, trust)  # a sentence where there is none
    if not (run / SERVING / OVERLAY).exists():
        return Refreshed(Current.of(run).generation)
    with locked(run / SERVING / "refresh", wait=False) as ours:
        if not ours:
            raise GamlpError("another refresh of this run is under way", file=run, hint="wait for it to end")
        current = Current.of(run)
        kept = [one for one in read_overlay(run / SERVING / OVERLAY)[0] if one.number > current.folded]
        if not kept:
            return Refreshed(current.generation)
        found = _Next(run, current, kept, trust, resources, progress).made()
    return replace(found, seconds=round(time.monotonic() - begun, 3))


@dataclass
class _Next:
    """The next generation of a run, with the newcomers in `kept` that are not folded yet."""

    run: Path
    current: Current
    kept: list[Newcomer]
    trust: Trust
    resources: Resources
    progress: Progress

    def __post_init__(self) -> None:
        self.number = self.current.generation + 1
        self.folder = self.run / SERVING / f"generation-{self.number}"
        self.notes: list[str] = []

    def made(self) -> Refreshed:
        nodes, folded = self._begin()
        before = open_generation(self.run, trust=self.trust, resources=self.resources, progress=self.progress)
        try:
            tables, regrown, after = self._fold(before, nodes, folded)
            drift = self._drift(before, after, nodes, regrown.changed)
        except Exception:  # not a kill, nor an interruption: the same command would end here again
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        after.current.write(self.run)
        self._tidy()
        waiting = sum(one.number > folded for one in read_overlay(self.run / SERVING / OVERLAY)[0])
        return Refreshed(
            self.number, tables.count, tables.edge_count, regrown.made, regrown.copied, waiting,
            drift=drift, notes=tuple(dict.fromkeys([*tables.notes, *self.notes])),
        )  # fmt: skip

    def _begin(self) -> tuple[list[NewNode], int]:
        """Newcomers to fold, and the number of the last: those of an attempt that was killed, or all."""
        path, kept = self.folder / _NOTE, self.kept
        try:
            noted = unsealed(path.read_bytes(), required=True)
            earlier = [one for one in kept if one.number <= int(noted["folded"])]
            if noted == self._note(earlier):
                return [one.node for one in earlier], earlier[-1].number
        except (FileNotFoundError, ValueError, KeyError, TypeError, IndexError):
            pass  # nothing was begun, or something else
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        write_json(path, sealed(self._note(kept)))
        return [one.node for one in kept], kept[-1].number

    def _note(self, kept: Sequence[Newcomer]) -> dict[str, Any]:
        content = digest([[one.number, content_of(one.node)] for one in kept])
        model = checksum(RunFolder(self.run).bundle_path)
        return {"folded": kept[-1].number, "newcomers": content, "model": model}

    def _fold(
        self, before: Generation, nodes: Sequence[NewNode], folded: int
    ) -> tuple[NewcomerTables, Regrown, Generation]:
        """Graph and hops of the next generation."""
        bundle, memory = before.bundle, self.resources.memory
        tables = write_tables(before.given, bundle.classes, nodes, self.folder / "tables")
        with work_folder(self.folder / ".reading") as scratch:
            growth = self._growth(before.given, tables, scratch)
            given = grow_beside(growth, self.folder / "graph", tables.files)
            with closing(self.resources.open_engine()) as engine:
                graph, plan, _ = as_model_reads(bundle, given, self.folder / "made", engine, self.progress)
            taught = bool(bundle.report.get("stage")) and labels_used(bundle.recipe)
            regrown = propagate_growth(
                replace(growth, base=before.graph), before.store, graph,
                plan.model_copy(update={"labels": None}) if taught else plan, self.folder / "hops",
                memory=memory, threads=self.resources.threads, progress=self.progress,
            )  # fmt: skip
        if taught:
            regrown = replace(regrown, store=self._taught_labels(before, graph, plan), changed=None)
        structure = before.current.structure or trained_structure(self.run)
        current = Current(generation=self.number, folded=folded, structure=structure)
        return (
            tables,
            regrown,
            Generation(self.run, current, bundle, given, graph, regrown.store, plan, look(self.run), before.notes),
        )

    def _growth(self, given: Graph, tables: NewcomerTables, scratch: Path) -> GrownGraph:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they are notes here
                found = read_additions(
                    given, tables.nodes, tables.edges or None, scratch, tables.options,
                    memory=self.resources.memory, progress=self.progress,
                )  # fmt: skip
        except GamlpError as error:
            raise GamlpError(
                f"newcomers cannot become nodes of graph '{given.name}' ({str(error).rstrip('.')})",
                file=self.run / SERVING / OVERLAY,
                hint="they are answered as before",
            ) from error
        self.notes += [*found.notes, *found.report.warnings]
        return found.growth

    def _taught_labels(self, before: Generation, graph: Graph, plan: Plan) -> HopStore:
        """Label hops of a later stage: what its teacher said of older nodes is hop 0 of their labels."""
        self.notes.append(
            "the model hears what its teacher said in training: of older nodes that stays as it was, and of newcomers "
            "the teacher said nothing"
        )
        name = next(name for name in before.store.signals if name.partition("@")[0] == "labels")
        stored, old = before.store.signals[name], before.graph.nodes.count
        said = create_array(self.folder / "said.npy", (graph.nodes.count, stored.entry.width), np.float32)
        said[old:] = 0
        for begin in range(0, old, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, old))
            said[part] = stored.read(part.start, part.stop, 0)[:, 0]
        labelled = stored.entry.settings.get("labelled")
        if labelled is not None and graph.nodes.split is not None:
            labelled += int(np.count_nonzero(graph.nodes.split.train >= old))
        assert plan.labels is not None
        labels = plan.labels.model_copy(update={"soft": True, "labelled": labelled})
        own = plan.model_copy(update={"features": None, "labels": labels})
        graph = graph.with_features(**{graph.target: Features(said)})
        return propagate_all(graph, own, self.folder / "hops", self.resources, self.progress)

    def _drift(self, before: Generation, after: Generation, nodes: Sequence[NewNode], reached: Array | None) -> Drift:
        """What answers were and are; views of several types are made on the way, for whoever serves the run next."""
        old, new = (
            ServedRun(one, heard_signals(one, self.resources, self.progress), None, resources=self.resources)
            for one in (before, after)
        )
        old.catch_up(self.progress)
        target = before.graph.target
        names = [node.id for node in nodes if node.id is not None and (node.node_type or target) == target]
        found = measure(old, new, list(dict.fromkeys(names)), reached)
        found.write(self.folder)
        return found

    def _tidy(self) -> None:
        """Remove what was needed on the way, and generations that nobody serves; the one before may be mapped."""
        for name in ("tables", _NOTE, "said.npy"):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for folder in (self.run / SERVING).glob("generation-*"):
            number = folder.name.removeprefix("generation-")
            if number.isdigit() and int(number) < self.number - 1:
                shutil.rmtree(folder, ignore_errors=True)
