"""A run as an MLflow model: a folder that MLflow loads, with the run in it; or logged to a tracking server."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError, MissingExtra
from gamlp.export.mlflow_flavour import FEATURES, ID, NEIGHBOURS, training_columns
from gamlp.graph import Graph, fingerprint
from gamlp.io import (
    Place,
    Trust,
    Untrusted,
    atomic_folder,
    format_size,
    sealed,
    unsealed,
    work_folder,
    write_json,
    write_text,
)
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.report import card_of
from gamlp.run import graph_of, table_schema
from gamlp.training import About, Bundle, Origin, RunFolder, tracked_run

_LOADER = "gamlp.export.mlflow_flavour"
_RUN = "run"  # the run folder inside the model's
_ARTIFACT = "model"  # its name among a run's artifacts
_FILES = ("recipe.yaml", "evaluation.json", "words.json", "timings.json", "metrics.jsonl", "leaderboard.json")
_SERVING = "serving"
_GROWING = ("newcomers.log",)  # written to in place: never linked
_MOST_LOGGED = 1 << 30  # bytes that are sent to a tracking server without being asked


def write_mlflow(
    run: RunFolder, out: Path, *, graph_in_place: bool = False, progress: Progress = silent
) -> tuple[Bundle, list[str]]:
    """The model's folder at `out`, and what a person should know of it.

    graph_in_place: the graph stays where it is, and the model knows its place; else it is in the folder too.
    """
    library()
    bundle = Bundle.load(run.bundle_path, run.trust)
    store = _store_of(run)
    graph = _graph_of(run, store, progress)
    with atomic_folder(out) as folder:
        notes = _copy_run(run, store, graph, folder / _RUN, graph_in_place)
        requirements = pinned(bundle)
        write_text(folder / "requirements.txt", "".join(f"{one}\n" for one in requirements))
        python = ".".join(str(part) for part in sys.version_info[:3])
        write_text(
            folder / "python_env.yaml",
            f"python: {python}\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n",
        )
        pip = "".join(f"  - {one}\n" for one in requirements)
        write_text(
            folder / "conda.yaml",
            f"name: gamlp\nchannels:\n- conda-forge\ndependencies:\n- python={python}\n- pip\n- pip:\n{pip}",
        )
        write_text(folder / "README.md", card_of(run, graph=graph))
        _write_model(bundle, graph, folder)
        progress("export", 1, 1, "model")
    return bundle, notes


def log_model(run: RunFolder, seed: int, *, progress: Progress = silent) -> str:
    """Log the run as `model` to the MLflow run that followed the training of a seed; the sentence that says so."""
    followed = tracked_run(run.path, seed)
    if followed is None:
        return f"no run of MLflow followed seed {seed}: the model was not logged"
    address, name = followed
    library()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    with work_folder(run.path / ".mlflow-model") as beside:  # on the same disk: files get further names, not copies
        folder = beside / _ARTIFACT
        try:
            write_mlflow(run, folder, progress=progress)
        except GamlpError as error:  # training has succeeded all the same
            return f"the model was not logged to MLflow: {str(error).rstrip('.')}"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > _MOST_LOGGED:
            return (
                f"the model was not logged to MLflow: with its hops and its graph it has {format_size(size)}; export "
                f"it with gamlp export {run.path} --to mlflow --out FOLDER, and log that"
            )
        try:
            MlflowClient(tracking_uri=address).log_artifacts(name, str(folder), _ARTIFACT)
        except (MlflowException, OSError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
            return f"the model was not logged to MLflow: {first}"
    return f"the model was logged to MLflow: runs:/{name}/{_ARTIFACT}"


def library() -> Any:
    """mlflow, told to report nothing home; said at once where it is not there."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        import mlflow.pyfunc
        import pandas  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtra("mlflow", "mlflow") from error
    return mlflow


def _store_of(run: RunFolder) -> HopStore:
    return HopStore.open(_hops_of(run))


def _hops_of(run: RunFolder) -> Path:
    place = Place.of(run.store_path()).local
    if place is None:
        raise GamlpError("the hops of the run are behind a URL", file=run.store_path(), hint="copy them to a folder")
    if not (place / "store.json").exists():
        raise GamlpError("the hops of the run are gone", file=place, hint="train again")
    return place


def _graph_of(run: RunFolder, store: HopStore, progress: Progress) -> Graph:
    """The run's own; other verbs can be given another one."""
    try:
        return graph_of(run, store, progress)
    except Untrusted:
        raise
    except GamlpError as error:
        raise GamlpError(
            error.problem, file=error.file, hint="an MLflow model answers about the nodes of the graph: put it back"
        ) from error


def _copy_run(run: RunFolder, store: HopStore, graph: Graph, to: Path, in_place: bool) -> list[str]:
    """What answers need: bundle, hops and graph; where they are here, as further names of the same files."""
    to.mkdir()
    notes = []
    link(run.bundle_path, to / run.bundle_path.name)
    for name in _FILES:
        if (run.path / name).exists():
            shutil.copyfile(run.path / name, to / name)
    link_tree(_hops_of(run), to / "hops")
    if (run.path / _SERVING).is_dir():
        link_tree(run.path / _SERVING, to / _SERVING)
    about = run.about()
    origin = about.valid_graph or about.graph
    assert origin is not None  # graph_of has found it
    folder = None if graph.folder is None else Place.of(graph.folder).local
    by_name = folder is None and graph.heterogeneous  # what was made for it knows it by its edges in memory
    if in_place or by_name:
        kept = origin
        if origin.graph.startswith("./"):
            kept = origin.model_copy(update={"graph": str((run.path / origin.graph).resolve())})
        notes.append(f"the graph stays at '{kept.graph}': the model needs it there")
    else:
        kept = Origin(graph="./graph")
        if folder is not None:
            link_tree(folder, to / "graph")
        else:
            graph.save(to / "graph")
        structure = fingerprint.structure(Graph.open(to / "graph"))
        _know_graph(to / "hops", structure)
        _grew_from(to / _SERVING / "current.json", structure)
    write_json(to / "run.json", sealed(About(graph=kept, store="hops").model_dump(mode="json")))
    return notes


def _grew_from(current: Path, structure: str) -> None:
    """A generation of a refreshed run knows by the same name what it grew from."""
    if current.exists():
        content = unsealed(current.read_bytes(), required=True) | {"structure": structure}
        current.unlink()  # a further name of the run's own
        write_json(current, sealed(content))


def _know_graph(store: Path, structure: str) -> None:
    """Let copied hops know the copied graph: as a folder, a graph that was in memory has another name for its edges."""
    path = store / "store.json"
    content = unsealed(path.read_bytes()) | {"structure": structure, "graph_folder": None}
    path.unlink()  # a further name of the run's own
    write_json(path, sealed(content))


def link(file: Path, name: Path) -> None:
    """A further name of the file where the disk allows one, else a copy. Files of a run are never written to again."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)


def link_tree(folder: Path, to: Path) -> None:
    """All files of a folder but hidden ones, which are locks and unfinished work."""
    to.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            link_tree(path, to / path.name)
        elif path.name in _GROWING:
            shutil.copyfile(path, to / path.name)
        else:
            link(path, to / path.name)


def pinned(bundle: Bundle) -> list[str]:
    """This gamlp, what it needs and what the model needs, by the versions that are here."""
    names = [_name(one) for one in requires("gamlp") or () if "extra ==" not in one]
    named = bundle.recipe.model.model_dump(mode="json")
    names += ["pandas", *(["lightgbm"] if "lightgbm" in str(named) else [])]
    found = [f"gamlp=={version('gamlp')}"]
    for name in dict.fromkeys(names):
        try:
            found.append(f"{name}=={version(name).partition('+')[0]}")  # no index has a local build, such as 2.4.0+cpu
        except PackageNotFoundError:
            continue
    return found


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found[0] if found else requirement


def _write_model(bundle: Bundle, graph: Graph, folder: Path) -> None:
    """The file MLmodel: who loads the folder, and what goes in and out."""
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType, Array

    columns = training_columns(bundle, graph) or [FEATURES]
    given = list(dict.fromkeys([ID, *columns, *edge_columns(graph)]))
    # Of any type: a column of training may hold whole numbers today and fractions or gaps tomorrow.
    anything: Any = AnyType()  # type: ignore[no-untyped-call]
    inputs = Schema([ColSpec(anything, name, required=False) for name in given])
    fields = table_schema(bundle, graph.nodes.ids, True, text=False)
    kinds: dict[str, Any] = {"float": DataType.float, "string": DataType.string, "int64": DataType.long}
    label: Any = kinds.get(str(fields.field("label").type), anything)
    outputs: list[Any] = []
    for field in fields:
        kind = Array(DataType.string) if field.name == "label" and bundle.multi_label else None
        kind = kind or (label if field.name == "label" else kinds.get(str(field.type), anything))
        outputs.append(ColSpec(kind, field.name, required=field.name != "id"))
    model = Model(signature=ModelSignature(inputs=inputs, outputs=Schema(outputs)))
    env = {"conda": "conda.yaml", "virtualenv": "python_env.yaml"}
    mlflow.pyfunc.add_to_model(model, loader_module=_LOADER, data=_RUN, env=env, model_config={"trust": None})
    model.add_flavor("gamlp", gamlp_version=version("gamlp"), data=_RUN, model=bundle.recipe.model.name)
    model.save(str(folder / "MLmodel"))


def edge_columns(graph: Graph) -> list[str]:
    """Names of the columns in which a newcomer brings its edges; of several relations each has its own."""
    found = []
    for name, pair in graph.relation_pairs.items():
        relation = graph.relations[pair[0]]
        after = f":{name}" if len(graph.relation_pairs) > 1 else ""
        directed = relation.directed and relation.source == relation.target
        for word, weights in NEIGHBOURS.items():
            if word == "neighbours" or directed:
                found += [f"{word}{after}", *([f"{weights}{after}"] if relation.weighted else [])]
    return found


def open_for_mlflow(place: Path, trust: Trust) -> RunFolder:
    """A run folder: a bundle alone knows no nodes."""
    if place.is_file():
        raise GamlpError(
            "a bundle alone knows no nodes, and an MLflow model answers about nodes", file=place,
            hint="give the run folder",
        )  # fmt: skip
    return RunFolder.open(place, trust)
