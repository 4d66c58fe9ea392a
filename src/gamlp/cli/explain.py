"""`gamlp explain`: how far a trained model listens, and why a node got its label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.cli.options.recipe import (
    DataDirOption,
    DeviceOption,
    JsonOption,
    MemoryOption,
    SeedOption,
    ThreadsOption,
    TrustOption,
    resources_of,
    trusted,
)
from gamlp.cli.show import display
from gamlp.cli.show.scores import show_next, show_weights
from gamlp.errors import printable

if TYPE_CHECKING:
    from gamlp.explanation import Explanation, NodeExplanation, SubsetShares, WeightsByClass

_MOST_SUBSETS = 20
_MOST_CLASSES = 20
_MOST_NODES = 10


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(_explain)


def _explain(
    run: Annotated[Path, typer.Argument(help="Run folder, or a bundle.safetensors with --graph.", metavar="RUN")],
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            help="Ids of nodes to explain, between commas; an id with a comma in double quotes: '\"a,b\",c'.",
            metavar="ID,ID,…",
            show_default=False,
        ),
    ] = None,
    nodes_file: Annotated[
        Path | None, typer.Option(help="Text file with one id a line.", metavar="FILE", show_default=False)
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(help="Another graph. (default: the run's own)", metavar="GRAPH_OR_DATASET", show_default=False),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="File to write: .json, .csv, .png or .svg; as often as needed. One that is there is replaced.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    trust: TrustOption = None,
    device: DeviceOption = "auto",
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    data_dir: DataDirOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show how far a model listens, by number of neighbours and by class, and why nodes got their labels.

    Of a run, with a picture:

      gamlp explain run --out weights.png

    Of some of its nodes: the weight of every hop, what that hop alone would have said, and what known labels added:

      gamlp explain run --nodes p12,p40
    """
    from gamlp.explanation import check_file
    from gamlp.graph import ids_in_file, split_ids
    from gamlp.graph.datasets import open_or_load
    from gamlp.run import explain

    files = out or []
    for path in files:
        check_file(path)
    ids = split_ids(nodes or []) + (ids_in_file(nodes_file) if nodes_file is not None else [])
    resources = resources_of(device, memory, threads)
    trust = trusted(trust)
    with display.progress(as_json) as progress:
        other = None if graph is None else open_or_load(graph, data_dir, seed, progress)
        beside = files[0].parent if files else None
        found = explain(run, ids, graph=other, beside=beside, trust=trust, resources=resources, progress=progress)
    for path in files:
        found.write(path)
    if as_json:
        display.print_json(found.content() | {"files": [str(path) for path in files]})
        return
    _show(found, run)
    for path in files:
        display.say(f"\n{path}: written")


def _show(found: Explanation, place: Path) -> None:
    if found.subsets is not None:
        _show_subsets(found.subsets)
    if found.degree is not None:
        show_weights(found.degree)
    if found.predicted is not None:
        _show_classes(found.predicted)
    for node in found.nodes[:_MOST_NODES]:
        _show_node(node)
    if len(found.nodes) > _MOST_NODES:
        display.say(
            f"\nand {len(found.nodes) - _MOST_NODES:,} more nodes: all of them are in --out FILE.json or FILE.csv"
        )
    for note in found.notes:
        display.say(f"\nnote: {note}.")
    if not found.nodes:
        show_next(["gamlp", "explain", str(place), "--nodes", "ID,ID"])


def _show_subsets(shares: SubsetShares) -> None:
    for signal in ("features", "labels"):
        found = shares.by_subset(signal)
        if not found:
            continue
        ordered = sorted(found, key=lambda name: -sum(found[name]))[:_MOST_SUBSETS]
        rows = [(_cell(name.replace("+", " + ")), *(f"{share:.2f}" for share in found[name])) for name in ordered]
        what = "direction of edges" if shares.directions else "subset of relations"
        display.say(f"\nShare of each {what} in every hop of {signal}")
        display.table(
            "direction" if shares.directions else "relations",
            *(f"hop {hop}" for hop in range(len(rows[0]) - 1)),
            rows=rows,
        )
        if len(ordered) < len(found):
            display.say(f"the {len(ordered)} strongest of {len(found)}; all of them are in --out FILE.json")


def _show_classes(weights: WeightsByClass) -> None:
    from gamlp.explanation import SIGNALS, grouped_hops

    shown = weights.largest(_MOST_CLASSES)
    for name, first in zip(SIGNALS, (0, weights.first_label_hop)):
        if getattr(shown[0], name) is None or weights.flat(name) is not None:  # flat ones are said by degree
            continue
        columns = [grouped_hops(getattr(part, name), first) for part in shown]
        rows = [
            (_cell(part.name), part.rows, *(f"{weight:.2f}" for _, weight in row)) for part, row in zip(shown, columns)
        ]
        display.say(f"\nMean weight of each hop of {name}, by {weights.by} class")
        display.table("class", "nodes", *(f"hop {hops}" for hops, _ in columns[0]), rows=rows)
    if len(shown) < len(weights.classes):
        display.say(f"the {len(shown)} largest of {len(weights.classes)} classes; all of them are in --out FILE.json")


def _show_node(node: NodeExplanation) -> None:
    true = "not known" if node.true is None else " | ".join(node.true) or "none"
    role = f", {node.role} row" if node.role else ""
    predicted = f"{node.predicted.text} ({node.predicted.probability:.2f})"
    line = f"Node {node.id}: predicted {predicted}, true label {true}; {node.degree:,} neighbours{role}"
    display.say(f"\n{printable(line)}")
    labels = dict(enumerate(node.label_weights or (), node.first_label_hop))
    columns, rows = ["hop"], []
    alone, weighed = node.hops[0].alone is not None, node.hops[0].weight is not None
    columns += (["weight"] if weighed else []) + (["this hop alone says"] if alone else [])
    columns += ["weight of labels"] if labels else []
    for hop in range(max([len(node.hops), *(last + 1 for last in labels)])):
        part = node.hops[hop] if hop < len(node.hops) else None
        row: list[Any] = [str(hop)]
        if weighed:
            row.append("" if part is None or part.weight is None else f"{part.weight:.2f}")
        if alone:
            answer = None if part is None else part.alone
            row.append("" if answer is None else f"{_cell(answer.text)} ({answer.probability:.2f})")
        if labels:
            row.append(f"{labels[hop]:.2f}" if hop in labels else "")
        rows.append(tuple(row))
    if len(columns) > 1:
        display.table(*columns, rows=rows)
    if node.without_labels is not None:
        without = node.without_labels
        display.say(printable(f"without known labels around it: {without.text} ({without.probability:.2f})"))
    _show_answers(node)


def _show_answers(node: NodeExplanation) -> None:
    """The likeliest classes, and in logits what features and known labels say to each."""
    if node.without_labels is None:
        rows: list[tuple[Any, ...]] = [(_cell(part.name), f"{part.probability:.3f}") for part in node.classes]
        display.table("class", "probability", rows=rows)
        return
    rows = [
        (
            _cell(part.name),
            f"{part.probability:.3f}",
            f"{part.without_labels:.3f}",
            f"{part.from_features:+.2f}",
            f"{part.from_labels:+.2f}",
        )
        for part in node.classes
    ]
    display.table("class", "probability", "without labels", "features (logit)", "labels add (logit)", rows=rows)


def _cell(name: str) -> str:
    """A name inside a table: rich would read [brackets] as markup."""
    from rich.markup import escape

    return escape(name)
