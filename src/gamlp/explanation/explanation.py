"""What is explained of a model: weights over hops by degree and class, and chosen nodes; as JSON, CSV or picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gamlp.errors import GamlpError
from gamlp.explanation.nodes import NodeExplanation, check_kept, explain_nodes
from gamlp.explanation.page import explanation_html
from gamlp.explanation.plots import check_matplotlib, save_figure, weights_figure
from gamlp.explanation.subsets import SubsetShares, shares_by_subset
from gamlp.explanation.weights import SIGNALS, WeightsByClass, WeightsByDegree, weights_by_class, weights_by_degree
from gamlp.graph import Graph, rows_by_id
from gamlp.io import write_json, write_text
from gamlp.propagation import HopStore, structural_words
from gamlp.training import Bundle, rows_of

PICTURES = (".png", ".svg")
SUFFIXES = (".json", ".csv", *PICTURES)
_HEADER = ["by", "name", "nodes", "signal", "hop", "weight", "alone", "alone_probability"]


@dataclass(frozen=True)
class Explanation:
    """Weights are None for a model that weighs no hops; `true` is None, too, where no label is known."""

    model: str
    graph: str
    degree: WeightsByDegree | None
    predicted: WeightsByClass | None
    true: WeightsByClass | None
    nodes: tuple[NodeExplanation, ...]
    subsets: SubsetShares | None = None  # of a graph of several relations
    known_before: tuple[str, ...] = ()  # what was to be said of the graph when it was opened

    @property
    def notes(self) -> list[str]:
        """What a person should know of the graph, and what the model cannot tell."""
        sentences = list(self.known_before)
        if self.degree is None:
            sentences.append(f"model '{self.model}' weighs no hops: it mixes them by matrices of its own")
        else:
            sentences += [said for signal in SIGNALS if (said := self.degree.flat(signal)) is not None]
        if any(part.alone is None for node in self.nodes for part in node.hops):
            sentences.append(f"model '{self.model}' reads all hops at once: none has a prediction of its own")
        return sentences

    def content(self) -> dict[str, Any]:
        """For JSON."""
        groups = {"by_degree": self.degree, "by_predicted_class": self.predicted, "by_true_class": self.true}
        return {
            "model": self.model,
            "graph": self.graph,
            "hop_weights": {name: None if found is None else asdict(found) for name, found in groups.items()},
            "subsets": None if self.subsets is None else self.subsets.content(),
            "nodes": [asdict(node) for node in self.nodes],
            "notes": self.notes,
        }

    def lines(self) -> Iterator[list[Any]]:
        """Rows of a long table, one for each group or node, signal and hop."""
        groups: list[tuple[str, Any, int]] = []
        if self.degree is not None:
            groups += [("degree", part, self.degree.first_label_hop) for part in self.degree.ranges]
        for by, found in (("predicted class", self.predicted), ("true class", self.true)):
            if found is not None:
                groups += [(by, part, found.first_label_hop) for part in found.classes]
        for by, part, first in groups:
            for signal, weights, start in (("features", part.features, 0), ("labels", part.labels, first)):
                for hop, weight in enumerate(weights or (), start):
                    yield [by, part.text, part.rows, signal, hop, weight, "", ""]
        for signal in ("features", "labels") if self.subsets is not None else ():
            for channel in getattr(self.subsets, signal) or ():
                named = channel.subset if channel.node_type is None else f"{channel.subset} ({channel.node_type})"
                for hop, share in enumerate(channel.shares):
                    yield ["subset", named, self.subsets.rows, signal, hop, share, "", ""]  # type: ignore[union-attr]
        for node in self.nodes:
            for hop_part in node.hops:
                alone = hop_part.alone
                prediction = ["", ""] if alone is None else [alone.text, alone.probability]
                weight = "" if hop_part.weight is None else hop_part.weight
                yield ["node", node.id, 1, "features", hop_part.hop, weight, *prediction]
            for hop, share in enumerate(node.label_weights or (), node.first_label_hop):
                yield ["node", node.id, 1, "labels", hop, share, "", ""]

    def _repr_html_(self) -> str:
        """For notebooks."""
        return explanation_html(self)

    def write(self, path: Path) -> None:
        """A file of the kind its name says."""
        check_file(path)
        if path.suffix == ".json":
            write_json(path, self.content())
        elif path.suffix == ".csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([_HEADER, *self.lines()])
            write_text(path, text.getvalue())
        else:
            title = f"How far {self.model} listens on {self.graph}"
            figure = weights_figure(self.degree, self.predicted, self.nodes, self.subsets, title=title)
            save_figure(figure, path)


def check_file(path: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path.suffix not in SUFFIXES:
        raise GamlpError("is no kind of file that is written", file=path, hint=f"end it with {', '.join(SUFFIXES)}")
    if path.is_dir():
        raise GamlpError("is a folder where a file is to be written", file=path, hint="choose another --out")
    if path.suffix in PICTURES:
        check_matplotlib()


def explain_model(
    bundle: Bundle, store: HopStore, graph: Graph, ids: Sequence[str] = (), device: torch.device | None = None
) -> Explanation:
    """Explain a trained model on the hops of a graph, and the nodes of these ids."""
    nodes, degrees = graph.nodes, graph.degrees()
    chosen = rows_by_id(graph, ids)
    check_kept(store, chosen, nodes.ids)
    kept = store.kept
    source = rows_of(store, bundle.recipe, np.arange(nodes.count) if kept is None else np.asarray(kept))
    model = bundle.model().to(device or torch.device("cpu"))

    def by_class(by: Any) -> WeightsByClass | None:
        return weights_by_class(model, source, bundle.classes, by=by, multi_label=bundle.multi_label, device=device)

    made = [structural_words(tuple(columns)) for columns in store.manifest.columns.values()]
    notes = tuple(f"features are made of edges: {words}" for words in made if store.manifest.structural is not None)
    return Explanation(
        model=bundle.recipe.model.name,
        graph=graph.name,
        degree=weights_by_degree(model, source, degrees, device=device),
        predicted=by_class("predicted"),
        true=by_class("true"),
        nodes=tuple(explain_nodes(bundle, store, chosen, ids=nodes.ids, degrees=degrees, device=device)),
        subsets=shares_by_subset(model, source, device=device),
        known_before=notes,
    )
