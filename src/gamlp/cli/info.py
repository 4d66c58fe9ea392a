"""`gamlp info`: what is inside a store or a graph folder, and whether its bytes are intact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph import Graph
    from gamlp.propagation import HopStore, StoreManifest


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("info")(_info)


def _info(
    folder: Annotated[Path, typer.Argument(help="Store or graph folder.", metavar="STORE_OR_GRAPH")],
    verify: Annotated[bool, typer.Option(help="Read every byte and compare checksums.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what a store or a graph folder holds, and verify its checksums.

    Of the store that gamlp propagate wrote:

      gamlp info hops

    Damage ends with exit code 2 and the names of the damaged files.
    """
    from gamlp.graph import MANIFEST, Graph, damaged_files
    from gamlp.propagation import HopStore

    if (folder / MANIFEST).exists():
        graph = Graph.open(folder)
        damaged = damaged_files(graph) if verify else []
        _refuse(folder, damaged)
        show_graph(graph, as_json, verify)
        return
    store = HopStore.open(folder)
    _refuse(folder, store.damaged() if verify else [])
    show_store(store, as_json, verified=verify)


def _refuse(folder: Path, damaged: list[str]) -> None:
    if damaged:
        raise GamlpError(
            f"{len(damaged)} damaged: {', '.join(damaged[:5])}", file=folder, hint="remove the folder and make it again"
        )


def show_store(
    store: HopStore,
    as_json: bool,
    *,
    seconds: float | None = None,
    verified: bool | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print a store's views and signals."""
    from gamlp.io import format_size

    manifest = store.manifest
    size = sum(file.bytes for _, file in store.files())
    if as_json:
        content: dict[str, Any] = {
            "store": str(store.folder),
            "graph": manifest.graph,
            "nodes": manifest.nodes,
            "bytes": size,
            "signals": {
                name: entry.model_dump(include={"hops", "width", "dtype", "count", "settings", "key"})
                for name, entry in manifest.signals.items()
            },
        }
        if manifest.views:
            content |= {"views": {name: view.model_dump(exclude_none=True) for name, view in manifest.views.items()}}
        content |= {"notes": list(notes)} if notes else {}
        content |= {} if seconds is None else {"seconds": round(seconds, 3)}
        display.print_json(content | ({} if verified is None else {"verified": verified}))
        return
    for note in notes:
        display.say(f"note: {note}.")
    if manifest.views:
        listed = [(view.words, ", ".join(view.types)) for view in manifest.views.values()]
        display.table("view: its relations", "node types", rows=listed)
    _show_signals(manifest)
    ended = f" in {seconds:.1f} s" if seconds is not None else ""
    ended += "; every checksum is right" if verified else ""
    display.say(
        f"{store.folder}: hops of graph '{manifest.graph}', {manifest.nodes:,} nodes, {format_size(size)}{ended}",
    )


def _show_signals(manifest: StoreManifest) -> None:
    """A line for each signal; those of several views that are alike share one."""
    from gamlp.io import format_size

    alike: dict[tuple[Any, ...], list[int]] = {}
    for name, entry in manifest.signals.items():
        operator = entry.settings["operator"]
        about = f"r = {operator['r']:g}, {'with' if operator['loops'] else 'without'} self-loops"
        about += f", scaling {entry.settings['scaling']}" if entry.settings.get("scaling", "none") != "none" else ""
        signal, _, rest = name.partition("@")
        node_type = rest.partition("@")[2]
        named = f"{signal} of {node_type}" if node_type else signal
        key = (named, entry.hops, entry.width, entry.dtype, entry.count, about)
        alike.setdefault(key, []).append(sum(shard.bytes for shard in entry.shards))
    rows: list[tuple[Any, ...]] = []
    for (named, *middle, about), sizes in alike.items():
        views = [len(sizes)] if manifest.views else []
        rows.append((named, *views, *middle, format_size(sum(sizes)), about))
    columns = ["signal", *(["views"] if manifest.views else []), "hops", "columns", "stored as", "rows", "size"]
    display.table(*columns, "operator", rows=rows)


def show_graph(graph: Graph, as_json: bool, verified: bool = False) -> None:
    """Print a graph's node types and relations."""
    from gamlp.io import format_size

    size = sum(count for count, _ in graph.checksums.values())
    nodes = [
        {
            "type": node_type,
            "nodes": entry.count,
            "features": 0 if entry.features is None else entry.features.width,
            "classes": 0 if entry.labels is None else len(entry.labels.classes),
            "train": 0 if entry.split is None else len(entry.split.train),
            "valid": 0 if entry.split is None else len(entry.split.valid),
            "test": 0 if entry.split is None else len(entry.split.test),
        }
        for node_type, entry in graph.node_types.items()
    ]
    relations = [
        {
            "relation": name,
            "entries": entry.entries,
            "from": entry.source,
            "to": entry.target,
            "kind": ("directed" if entry.directed else "undirected") + (", weighted" if entry.weighted else ""),
            "blocks": len(entry.blocks),
            **{f"as of {part}": relations[name].entries for part, relations in graph.earlier.items()},
            "reverse": entry.reverse,
        }
        for name, entry in graph.relations.items()
    ]
    if as_json:
        content = {
            "graph": graph.name,
            "target": graph.target,
            "bytes": size,
            "nodes": nodes,
            "relations": relations,
            "verified": verified,
        }
        display.print_json(content | {"source": graph.source})
        return
    for row in nodes if len(nodes) > 1 else ():
        row["type"] = f"{row['type']} (target)" if row["type"] == graph.target else row["type"]
    for listing in (nodes, relations):
        labels = [key for key in (listing[0] if listing else ()) if any(row[key] is not None for row in listing)]
        if labels:
            display.table(
                *labels, rows=[tuple("" if row[key] is None else row[key] for key in labels) for row in listing]
            )
    ended = "; every checksum is right" if verified else ""
    display.say(f"{graph.folder or 'in memory'}: graph '{graph.name}', {format_size(size)}{ended}")
