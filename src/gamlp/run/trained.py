"""A trained run or bundle with the hops of the nodes it is asked about: opened, to predict, to explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest, fingerprint, rows_by_id
from gamlp.graph.datasets import is_dataset, load, open_or_load
from gamlp.io import Place, Trust, Untrusted, check_trusted, is_url, seen_by_all, work_folder
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.run.decision import LIKELIEST, Decision
from gamlp.run.engine import Opened
from gamlp.run.newcomers import Newcomers, open_newcomers
from gamlp.run.prediction_table import Written
from gamlp.run.preparation import hops_for
from gamlp.run.resources import LOCAL, Resources
from gamlp.training import Bundle, RunFolder, check_store, choose_device, matched, plan_of, without_folds

if TYPE_CHECKING:
    from gamlp.explanation import Explanation

_IN_RUN = "./"  # an origin that begins so lies inside the run folder, and moves with it


@contextmanager
def open_trained(
    place: Path,
    graph: Graph | None,
    beside: Path,
    *,
    own: Graph | None = None,
    newcomers: Newcomers | None = None,
    trust: Trust = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
    lacking: str | None = None,
) -> Iterator[Opened]:
    """A run folder with its own graph, or a run or a bare bundle with another one, whose hops are made in `beside`.

    `own`: the run's own graph, where it has no place to be found at. `lacking`: what a person can do where the run's
    graph or hops are gone. (default: name another graph)

    With `newcomers` to the one or the other graph, they alone are what the model is asked about.
    """
    run, bundle = _opened(place, trust)
    if newcomers is not None:
        if graph is None and run is not None:
            graph = graph_of(run, _store_of(run), progress)
        if graph is None:
            raise GamlpError("a bundle alone knows no graph", file=place, hint="say which: --graph GRAPH")
        with open_newcomers(bundle, graph, newcomers, beside, resources, progress) as opened:
            yield opened
        return
    if graph is not None:
        graph, notes = matched(graph, bundle)
        with hops_beside(bundle, graph, beside, resources, progress) as store:
            yield Opened(bundle, store, graph, tuple(notes))
        return
    if run is None:
        raise GamlpError("a bundle alone knows no nodes", file=place, hint="say which: --graph GRAPH")
    store = _store_of(run, lacking)
    check_store(store, without_folds(plan_of(bundle.recipe)))
    yield Opened(bundle, store, graph_of(run, store, progress, lacking) if own is None else own)


def _opened(place: Path, trust: Trust) -> tuple[RunFolder | None, Bundle]:
    """The run of a folder, none of a file, and the bundle."""
    run = None if place.is_file() else RunFolder.open(place, trust)
    return run, Bundle.load(place if run is None else run.bundle_path, trust)


def _store_of(run: RunFolder, lacking: str | None = None) -> HopStore:
    place = run.store_path()
    if not (place / "store.json").exists():
        raise GamlpError("the hops of the run are gone", file=place, hint=lacking or "give its graph: --graph GRAPH")
    return HopStore.open(place)


def graph_of(run: RunFolder, store: HopStore, progress: Progress = silent, lacking: str | None = None) -> Graph:
    """The graph that a run's hops were made of, opened again."""
    about = run.about()
    origin = about.valid_graph or about.graph
    if origin is None:
        raise GamlpError(
            "the run does not know its graph's place", file=run.path, hint=lacking or "say it: --graph GRAPH"
        )
    inside = origin.graph.startswith(_IN_RUN)
    place = str(seen_by_all(run.path / origin.graph)) if inside else origin.graph
    try:
        if is_url(place) and not inside:
            check_trusted(
                place, run.trust, f"the run's graph is at '{place}', which is asked only when you name it", run.path
            )
        # A dataset is one whatever folders lie where the command is run; folders are noted with their whole path.
        found = load if is_dataset(place) else open_or_load
        graph = found(place, origin.data_dir, origin.seed, progress)
    except Untrusted:
        raise
    except GamlpError as error:
        raise GamlpError(
            f"the run's graph '{place}' cannot be opened ({str(error).rstrip('.')})",
            file=run.path,
            hint=lacking or "give one with --graph GRAPH",
        ) from error
    if fingerprint.structure(graph) != store.manifest.structure:
        raise GamlpError(
            f"the run's graph '{place}' has changed since training",
            file=run.path,
            hint=lacking or "predict with --graph GRAPH",
        )
    return graph


def graph_if_found(run: RunFolder, progress: Progress = silent) -> Graph | None:
    """The same; None where it, or the hops, are not at hand."""
    try:
        return graph_of(run, _store_of(run), progress)
    except GamlpError:
        return None


@contextmanager
def hops_beside(
    bundle: Bundle, graph: Graph, place: Path, resources: Resources, progress: Progress
) -> Iterator[HopStore]:
    """Hops of another graph for as long as they are needed; an interrupted propagation is gone on with.

    Several processes may ask at once: each has a folder of its own.
    """
    settings = bundle.recipe.model_dump(mode="json")
    key = [fingerprint.structure(graph), graph.name, settings["propagation"], settings["relations"]]
    have = [node_type for node_type, nodes in graph.node_types.items() if nodes.features is not None]
    key += [[node_type, fingerprint.features(graph, node_type)] for node_type in have]
    if bundle.recipe.features.structural == "alone":
        key += [settings["features"], fingerprint.ids(graph)]
    key += [known.model_dump() for known in (bundle.statistics or {}).values()]
    with work_folder(place / f".hops-{digest(key)}", keep=True) as own:
        shared = seen_by_all(own)
        try:
            yield hops_for(bundle, graph, shared / "hops", resources, progress)
        except KeyboardInterrupt:
            raise  # what was propagated is gone on with
        except BaseException:
            _forget(shared)
            raise
        _forget(shared)


def _forget(place: Path | Place) -> None:
    """What lies behind a URL; a folder here goes by itself."""
    if isinstance(place, Place):
        place.remove()


def predict(
    place: str | Path,
    out: str | Path | Place,
    *,
    graph: Graph | str | Path | None = None,
    own: Graph | None = None,
    newcomers: Newcomers | None = None,
    rows: str = "all",
    ids: Sequence[str] = (),
    each_class: bool = True,
    batch_size: int | None = None,
    threshold: float | None = None,
    positive: str | None = None,
    abstain_below: float | None = None,
    keep_finished: bool = False,
    trust: Trust = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Written | None:
    """Predictions of a run's own graph, or of another one, for a run folder or a bare bundle.

    None: they were finished before, and `keep_finished` lets them stay.

    place: the run folder, or a bundle.safetensors with a `graph`.
    out: the table to write; its name ends with .parquet, .csv or .csv.gz.
    graph: another graph, its folder or a dataset's name. (default: the run's own)
    own: the run's own graph, where it is in memory alone.
    newcomers: tables of nodes that this graph has not, and of their edges: predictions are of these nodes alone.
    rows: all, labelled, unlabelled, split, train, valid, test, or some joined by '+'.
    ids: nodes by their original ids, in the place of `rows`; the table has them in the graph's order.
    each_class: whether every class has a column with its probability.
    batch_size: rows that are read at once. (default: 32 MiB of hops)
    threshold: of two classes, the positive one is said where it is at least so likely; of many labels a node, each.
    positive: that of two classes which the threshold is for. (default: the one that fewer training rows have)
    abstain_below: rows whose label would be less likely than this get none.
    trust: what files of the run may name: a model of one's own, whose code then runs; the URL of its graph.
    resources, progress: as in `train`.

    >>> from tempfile import TemporaryDirectory
    >>> from gamlp.run import train
    >>> with TemporaryDirectory() as folder:
    ...     _ = train("karate", {"training": {"epochs": 5}}, f"{folder}/run")
    ...     predict(f"{folder}/run", f"{folder}/labels.csv").rows
    34
    """
    place, graph = Path(place), graph if graph is None or isinstance(graph, Graph) else open_or_load(graph)
    decision = Decision(threshold, positive, abstain_below)
    if decision != LIKELIEST:  # refused before hops are made or an engine starts
        decision = decision.settled(_opened(place, trust)[1])

    if ids and (newcomers is not None or rows != "all"):
        raise GamlpError(
            "ids say which nodes are meant", hint="use gamlp predict with --ids, or with --rows or --add-nodes"
        )
    notes: tuple[str, ...] = ()

    @contextmanager
    def opening(beside: Path | None) -> Iterator[Opened]:
        nonlocal notes
        usual = place if place.is_dir() else place.parent
        with open_trained(
            place, graph, beside or usual, own=own, newcomers=newcomers, trust=trust, resources=resources,
            progress=progress,
        ) as opened:  # fmt: skip
            notes = opened.notes
            yield replace(opened, rows=np.sort(rows_by_id(opened.graph, ids))) if ids else opened

    with closing(resources.open_engine()) as engine:
        if (newcomers is not None or ids) and not engine.one_machine:
            raise GamlpError(
                f"{'single nodes' if ids else 'newcomers'} are labelled on this machine",
                hint=f"use gamlp predict without --engine {resources.engine}",
            )
        written = engine.predict(
            opening, out, rows=rows, each_class=each_class, batch_size=batch_size, decision=decision,
            keep_finished=keep_finished, progress=progress,
        )  # fmt: skip
    return None if written is None else replace(written, notes=(*notes, *written.notes))


def explain(
    place: str | Path,
    ids: Sequence[str] = (),
    *,
    graph: Graph | str | Path | None = None,
    beside: Path | None = None,
    trust: Trust = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Explanation:
    """Explain a run folder, or a bundle on a graph, and the nodes of these ids.

    place: the run folder, or a bundle.safetensors with a `graph`.
    ids: nodes to explain one by one.
    graph: another graph, its folder or a dataset's name. (default: the run's own)
    beside: where hops of another graph are made for as long as they are needed. (default: where the run or bundle is)
    trust, resources, progress: as in `predict`.

    >>> from tempfile import TemporaryDirectory
    >>> from gamlp.run import train
    >>> with TemporaryDirectory() as folder:
    ...     _ = train("karate", {"training": {"epochs": 5}}, f"{folder}/run")
    ...     explain(f"{folder}/run", ["0"]).nodes[0].id
    0
    """
    from gamlp.explanation import explain_model

    place, graph = Path(place), graph if graph is None or isinstance(graph, Graph) else open_or_load(graph)
    folder = beside or (place.parent if place.is_file() else place)
    if graph is not None:
        rows_by_id(graph, ids)  # a misspelt id is told before hops are made
    with open_trained(place, graph, folder, trust=trust, resources=resources, progress=progress) as read:
        found = explain_model(read.bundle, read.store, read.graph, ids, choose_device(resources.device))
        return replace(found, known_before=(*read.notes, *found.known_before))
