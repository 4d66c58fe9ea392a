"""Tables of newcomers → their hops, as a trained model reads them, without ingesting the graph again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, TablePlaces, read_additions
from gamlp.io import work_folder
from gamlp.progress import Progress
from gamlp.propagation import newcomers_of, propagate_newcomers
from gamlp.run.engine import Opened
from gamlp.run.preparation import as_model_reads
from gamlp.run.resources import Resources
from gamlp.training import Bundle


@dataclass(frozen=True)
class Newcomers:
    """Tables of nodes that a graph has not, by type where it has several; and of edges that it has not, by relation."""

    nodes: TablePlaces
    edges: TablePlaces | None = None
    options: IngestOptions = field(default_factory=IngestOptions)


@contextmanager
def open_newcomers(
    bundle: Bundle, base: Graph, newcomers: Newcomers, beside: Path, resources: Resources, progress: Progress
) -> Iterator[Opened]:
    """The model with the newcomers' hops, made in `beside` for as long as they are needed: the bytes of hops are those
    of ingesting the grown tables, with old rows first."""
    directions = bundle.recipe.propagation.directions
    if directions != "in":
        raise GamlpError(
            f"the model hears edges in other directions than they lead (propagation.directions {directions})",
            hint="grow the graph with gamlp ingest --add, then gamlp predict --graph",
        )
    with work_folder(beside / ".newcomers") as own:
        found = read_additions(
            base, newcomers.nodes, newcomers.edges, own, newcomers.options, memory=resources.memory, progress=progress
        )
        growth = found.growth
        if base.target not in growth.nodes:
            raise GamlpError(
                f"no newcomer is of type '{base.target}', whose labels are asked for",
                hint=f"give some: --add-nodes {base.target}=PATH",
            )
        with closing(resources.open_engine()) as engine:
            graph, plan, notes = as_model_reads(bundle, growth.graph, own / "made", engine, progress)
        store = propagate_newcomers(
            growth, graph, plan, own / "hops", memory=resources.memory, threads=resources.threads, progress=progress
        )
        left_out = [f"{count:,} rows left out: {kind}" for kind, count in found.report.bad_rows.items()]
        yield Opened(bundle, store, newcomers_of(graph, growth.newcomers), (*notes, *found.notes, *left_out))
