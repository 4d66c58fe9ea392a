"""A run that answers: its model, the hops of all nodes, and the newcomers that came since."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import NodeFacts, explain_hops, true_classes
from gamlp.graph import ROLES
from gamlp.io import Trust
from gamlp.progress import Progress, silent
from gamlp.propagation import side_by_side
from gamlp.run import LOCAL, Resources
from gamlp.serve.edges import NodeEdges
from gamlp.serve.frozen_hops import HeardSignal
from gamlp.serve.generation import SERVING, Generation, heard_signals, label_names, look, open_generation
from gamlp.serve.known_nodes import KnownNodes
from gamlp.serve.overlay import OVERLAY, Newcomer, Overlay, read_overlay
from gamlp.serve.questions import Answered, Id, NewNode, Question, Refusal
from gamlp.serve.support import Support, nearest_support
from gamlp.serve.traced import traced
from gamlp.training import READ_BYTES, HopRows, to_probabilities

MOST_NEWCOMERS = 100_000


@dataclass
class _Asked:
    """A question on its way: ids and hops of the rows that are answered, newcomers that are written down."""

    ids: list[Id | None]
    x: list[Array]
    y: list[Array]
    notes: list[str]
    new: list[NewNode]
    rows: list[int]  # of the target; -1: a newcomer that is not kept
    edges: list[NodeEdges | None]


class ServedRun:
    """One generation of a run. `answer` and `explain` may be called from any thread, one at a time.

    >>> from tempfile import TemporaryDirectory
    >>> from gamlp.run import train
    >>> with TemporaryDirectory() as folder:
    ...     _ = train("karate", {"training": {"epochs": 5}}, f"{folder}/run")
    ...     served = ServedRun.open(Path(folder) / "run")
    ...     [found] = served.answer([Question(ids=(0, 33))])
    ...     served.close()
    >>> found.ids, found.probabilities.shape
    ((0, 33), (2, 4))
    """

    def __init__(
        self,
        generation: Generation,
        signals: list[HeardSignal],
        overlay: Overlay | None,
        *,
        most_newcomers: int = MOST_NEWCOMERS,
        trust: Trust = None,
        resources: Resources = LOCAL,
    ) -> None:
        self.generation_opened, self.overlay = generation, overlay
        self.bundle, self.graph, self.name = generation.bundle, generation.graph, generation.run.resolve().name
        self.most_newcomers, self._trust, self._resources = most_newcomers, trust, resources
        self.nodes = KnownNodes(generation, signals)
        self._rows: HopRows = generation.rows()
        self._model = self.bundle.model()
        reads_labels = self._rows.label_hops is not None
        self._answer = traced(self._model, self.bundle.shape, reads_labels, self.bundle.multi_label)
        self._lock = threading.Lock()
        self._loaded = generation.current.folded  # newcomers up to this number are here

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        trust: Trust = None,
        resources: Resources = LOCAL,
        progress: Progress = silent,
        most_newcomers: int = MOST_NEWCOMERS,
        read_only: bool = False,
    ) -> ServedRun:
        """The newest generation of a run, with the newcomers that were kept.

        place: the run folder.
        trust: what files of the run may name: a model of one's own, whose code then runs; the URL of its graph.
        resources, progress: for hops of nodes that training did not keep, and of other types, which are made once.
        most_newcomers: kept at a time; more are refused until a refresh makes them nodes of the graph.
        read_only: nothing is kept, and several processes may serve the run.
        """
        place = Path(place)
        generation = open_generation(place, trust=trust, resources=resources, progress=progress)
        overlay = None if read_only else Overlay(place / SERVING, generation.current.folded)
        try:
            return cls._made(generation, overlay, most_newcomers, trust, resources, progress)
        except BaseException:
            if overlay is not None:
                overlay.close()
            raise

    @classmethod
    def _made(
        cls,
        generation: Generation,
        overlay: Overlay | None,
        most_newcomers: int,
        trust: Trust,
        resources: Resources,
        progress: Progress,
    ) -> ServedRun:
        signals = heard_signals(generation, resources, progress)
        made = cls(generation, signals, overlay, most_newcomers=most_newcomers, trust=trust, resources=resources)
        made.catch_up(progress)
        return made

    @property
    def generation(self) -> int:
        return self.generation_opened.current.generation

    @property
    def newcomers(self) -> int:
        """Kept since the graph was last refreshed."""
        return self.nodes.newcomers

    def changed_on_disk(self) -> bool:
        """Whether a refresh, or another run under the same name, is there; `reopened` then gives it."""
        return look(self.generation_opened.run) != self.generation_opened.seen

    def reopened(self, progress: Progress = silent) -> ServedRun:
        """What the run folder holds now, beside this one, which goes on answering.

        Before it takes over, `catch_up` on it; then `close` this one: the file of newcomers stays with the new one.
        """
        run = self.generation_opened.run
        generation = open_generation(run, trust=self._trust, resources=self._resources, progress=progress)
        same = generation.seen[0] == self.generation_opened.seen[0]
        overlay = self.overlay
        if overlay is not None and not same:
            overlay = Overlay(run / SERVING, generation.current.folded)
        return self._made(generation, overlay, self.most_newcomers, self._trust, self._resources, progress)

    def hand_over(self, other: ServedRun) -> None:
        """Close this one; the file of newcomers stays open where the other one has it too."""
        if self.overlay is not None and self.overlay is not other.overlay:
            self.overlay.close()
        self.overlay = None

    def catch_up(self, progress: Progress = silent) -> None:
        """Take in newcomers that were written down since."""
        if self.overlay is not None:
            found = self.overlay.since(self._loaded)
        else:
            path = self.generation_opened.run / SERVING / OVERLAY
            found = [one for one in read_overlay(path)[0] if one.number > self._loaded]
        with self._lock:
            for place, one in enumerate(found, start=1):
                self._replay(one)
                progress("newcomers", place, len(found), "nodes")

    def _replay(self, one: Newcomer) -> None:
        try:
            node_type = self.nodes.type_of(one.node)
            if self.nodes.kept_before(node_type, one.node) is None:
                self.nodes.hops_of(node_type, one.node, keep=True)
        except Refusal as refusal:  # of another generation: the graph has lost what it names
            raise GamlpError(
                f"newcomer '{one.node.id}' no longer fits the run ({str(refusal).rstrip('.')})",
                file=self.generation_opened.run / SERVING / OVERLAY,
                hint="move the file away: its newcomers are then unknown",
            ) from refusal
        self._loaded = one.number

    def close(self) -> None:
        if self.overlay is not None:
            self.overlay.close()
        self.overlay = None

    def about(self) -> dict[str, Any]:
        """What a person or a form asks first."""
        recipe, graph = self.bundle.recipe, self.graph
        relations = [
            {
                "name": name, "source": graph.relations[pair[0]].source, "target": graph.relations[pair[0]].target,
                "directed": graph.relations[pair[0]].directed, "weighted": graph.relations[pair[0]].weighted,
            }
            for name, pair in graph.relation_pairs.items()
        ]  # fmt: skip
        return {
            "run": self.name,
            "model": recipe.model.name,
            "graph": graph.name,
            "nodes": graph.nodes.count,
            "newcomers": self.newcomers,
            "generation": self.generation,
            "classes": list(self.bundle.classes),
            "multi_label": self.bundle.multi_label,
            "hops": recipe.propagation.hops,
            "dtype": recipe.propagation.dtype,
            "target": graph.target,
            "types": {name: reader.about() for name, reader in self.nodes.readers.items()},
            "relations": relations,
            "notes": list(self.generation_opened.notes),
        }

    def answer(self, questions: Sequence[Question]) -> list[Answered | Refusal]:
        """An answer or a refusal for each, by one pass of the model; kept newcomers are on the disk by then."""
        with self._lock, torch.inference_mode():
            found = self._asked(questions)
            probabilities = self._probabilities([one for one in found if isinstance(one, _Asked)])
            answers: list[Answered | Refusal] = []
            at = 0
            for one in found:
                if isinstance(one, Refusal):
                    answers.append(one)
                    continue
                part = probabilities[at : at + len(one.ids)]
                at += len(one.ids)
                answers.append(Answered(tuple(one.ids), part, tuple(dict.fromkeys(one.notes))))
            return answers

    def explain(self, question: Question) -> list[dict[str, Any]]:
        """Why each node of a question gets its answer: weights of its hops, what each alone says, labels around it."""
        if question.keep:
            raise Refusal(422, "a question of why keeps nothing", hint="leave keep out")
        with self._lock, torch.inference_mode():
            [asked] = self._asked([question])
            if isinstance(asked, Refusal):
                raise asked
            if not asked.ids:
                return []
            x, y = self._tensors([asked])
            known = [self._facts(*one) for one in zip(asked.ids, asked.rows, asked.edges)]
            found = explain_hops(self.bundle, self._model, x, y, known)
            supports = [self._support(*one) for one in zip(asked.rows, asked.edges)]
            notes = list(dict.fromkeys(asked.notes))
        return [
            asdict(one) | {"id": name} | support.content(self.nodes.ids, self.graph) | {"notes": notes}
            for one, name, support in zip(found, asked.ids, supports)
        ]

    def _asked(self, questions: Sequence[Question]) -> list[_Asked | Refusal]:
        """All of them read; newcomers are written down together, and where that fails none of them is known."""
        counts, loaded = self.nodes.counts(), self._loaded
        found: list[_Asked | Refusal] = []
        for question in questions:
            before = self.nodes.counts()
            try:
                one = self._read(question)
            except Refusal as refusal:
                found.append(refusal)
                self.nodes.shorten(before)
                continue
            if not question.keep:
                self.nodes.shorten(before)
            found.append(one)
        new = [node for one in found if isinstance(one, _Asked) for node in one.new]
        if new:
            assert self.overlay is not None
            try:
                self.overlay.append(new)
            except Refusal as refusal:  # others may have heard these newcomers
                self.nodes.shorten(counts)
                self._loaded = loaded
                return [refusal if question.nodes else one for question, one in zip(questions, found)]
            self._loaded = self.overlay.last
        return found

    def _read(self, question: Question) -> _Asked:
        asked = _Asked([], [], [], [], [], [], [])
        if question.ids:
            self._read_known(question.ids, asked)
        if question.keep:
            self._check_room(question)
        for place, node in enumerate(question.nodes):
            node_type = self.nodes.type_of(node)
            at = self.nodes.kept_before(node_type, node)
            if at is not None:
                if node_type == self.graph.target:
                    self._add_kept(asked, at, node.id)
                continue
            later = place + 1 < len(question.nodes)  # which may hear it
            hops, edges, notes = self.nodes.hops_of(node_type, node, keep=question.keep or later)
            asked.notes += notes
            if question.keep:
                asked.new.append(node)
                if self.nodes.ids.is_foreign(node_type, node.id):
                    asked.notes.append(f"'{node.id}' is no integer: gamlp refresh makes texts of all ids of the graph")
            if node_type == self.graph.target:
                self._add(asked, hops, node.id, -1, edges)
        return asked

    def _check_room(self, question: Question) -> None:
        if self.overlay is None:
            raise Refusal(409, "this server only reads, and keeps no newcomers", hint="leave keep out")
        if any(node.id is None or not str(node.id).strip() for node in question.nodes):
            raise Refusal(422, "a node that is kept needs an id")
        if self.newcomers + len(question.nodes) > self.most_newcomers:
            raise Refusal(
                507, f"{self.newcomers:,} newcomers are kept, and no more than {self.most_newcomers:,} may be",
                hint="make them nodes of the graph: gamlp refresh RUN",
            )  # fmt: skip

    def _read_known(self, names: Sequence[Id], asked: _Asked) -> None:
        target = self.graph.target
        rows = self.nodes.ids.rows(target, names)
        if (rows < 0).any():
            raise self.nodes.ids.unknown(target, [names[int(place)] for place in np.flatnonzero(rows < 0)])
        before = self.nodes.ids.counts[target]
        if (rows < before).all():
            x, y = replace(self._rows, rows=rows).gather(np.arange(len(rows)))
            asked.x.append(np.asarray(x, np.float32))
            if y is not None:
                asked.y.append(np.asarray(y, np.float32))
            asked.ids += self.nodes.ids.names(target, rows)
            asked.rows += rows.tolist()
            asked.edges += [None] * len(rows)
            return
        for place, row in enumerate(rows):
            if row < before:
                self._read_known([names[place]], asked)
            else:
                self._add_kept(asked, int(row) - before, self.nodes.ids.plain(target, names[place]))

    def _add_kept(self, asked: _Asked, at: int, name: Id | None) -> None:
        target = self.graph.target
        self._add(
            asked, self.nodes.kept_hops(at), name, self.nodes.ids.counts[target] + at, self.nodes.edges[target][at]
        )

    def _add(self, asked: _Asked, hops: dict[str, Array], name: Id | None, row: int, edges: NodeEdges) -> None:
        """A row with hops of its own, as the model reads them."""
        width = max(signal.width for signal in self.nodes.signals if signal.name in self._rows.channels)
        x = side_by_side([hops[channel][None] for channel in self._rows.channels], width)
        assert x is not None
        asked.x.append(x)
        if self._rows.label_hops is not None:
            y = side_by_side([hops[one][None] for one in label_names(self._rows)])
            assert y is not None
            asked.y.append(y * np.float32(self._rows.label_factor))
        asked.ids.append(name)
        asked.rows.append(row)
        asked.edges.append(edges)

    def _probabilities(self, asked: Sequence[_Asked]) -> Array:
        parts = [np.zeros((0, len(self.bundle.classes)), np.float32)]
        for x, y in self._pieces(asked):
            parts.append(to_probabilities(self._answer(x, y), self.bundle.multi_label).float().numpy())
        return np.concatenate(parts)

    def _pieces(self, asked: Sequence[_Asked]) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        """All rows in order, as many at a time as prediction reads."""
        if not any(one.ids for one in asked):
            return
        x, y = self._tensors(asked)
        size = int(np.clip(READ_BYTES // max(1, x[0].nbytes), 64, 10_000))
        for begin in range(0, len(x), size):
            yield x[begin : begin + size], None if y is None else y[begin : begin + size]

    def _tensors(self, asked: Sequence[_Asked]) -> tuple[torch.Tensor, torch.Tensor | None]:
        xs, ys = ([part for one in asked for part in getattr(one, name)] for name in ("x", "y"))
        x = xs[0] if len(xs) == 1 else np.concatenate(xs)
        y = None if not ys else ys[0] if len(ys) == 1 else np.concatenate(ys)
        return torch.from_numpy(x), None if y is None else torch.from_numpy(y)

    def _facts(self, name: Id | None, row: int, edges: NodeEdges | None) -> NodeFacts:
        if edges is not None:
            return NodeFacts("" if name is None else name, row, edges.degree, "", None)
        assert name is not None
        store, role = self.generation_opened.store, ""
        if store.split is not None:
            role = ROLES[int(store.split.roles[row])]
        return NodeFacts(name, row, self.nodes.degree(row), role, true_classes(store, row))

    def _support(self, row: int, edges: NodeEdges | None) -> Support:
        return nearest_support(self.graph, row, edges, self.nodes.edges, self.bundle.recipe.propagation.hops)


@contextmanager
def serving(place: str | Path, **options: Any) -> Iterator[ServedRun]:
    """A served run for as long as it is asked."""
    served = ServedRun.open(place, **options)
    try:
        yield served
    finally:
        served.close()
