"""Names → Graph: bundled, generated, or converted once from raw files and then mapped from the cache."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gamlp.errors import GamlpError
from gamlp.files import told_when_full
from gamlp.graph import bundled, synthetic, synthetic_types
from gamlp.graph.catalogue import DATASETS, Counts, Dataset, find
from gamlp.graph.folder import open_graph, writing
from gamlp.graph.graph import ROLES, Graph, Split
from gamlp.graph.manifest import digest
from gamlp.graph.sources import archive, download, hgb, npz, ogb, planetoid, sampled, twitch
from gamlp.graph.sources.conversion import Conversion
from gamlp.graph.splits import per_class_split
from gamlp.progress import Progress, silent
from gamlp.storage import is_url

READERS: dict[str, Callable[[Conversion], None]] = {
    "planetoid": planetoid.read,
    "npz": npz.read,
    "ppi": sampled.read_ppi,
    "flickr": sampled.read_flickr,
    "reddit": sampled.read_reddit,
    "ogb-csv": ogb.read_csv,
    "ogb-binary": ogb.read_binary,
    "ogb-types": ogb.read_types,
    "twitch": twitch.read,
    "hgb": hgb.read,
}
BUNDLED: dict[str, Callable[[], Graph]] = {"digits": bundled.digits, "karate": bundled.karate}
# Raised when a reader's or generator's result changes, so that what was cached before is not used; 1 for all others.
_READINGS = {"ogb-types": 2, "hgb": 2}


@dataclass(frozen=True)
class Presence:
    """Where a dataset's raw files are, or which are missing from where."""

    dataset: Dataset
    place: Path | None
    missing: tuple[str, ...] = ()
    wanted: Path | None = None

    @property
    def told(self) -> str:
        """`present`, or what to put where."""
        if not self.missing:
            return "present"
        names = ", ".join(self.missing[:3]) + (f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else "")
        return f"missing: put {names} into {self.wanted}"


def cache_folder() -> Path:
    """GAMLP_CACHE, or gamlp in the user's cache folder."""
    if chosen := os.environ.get("GAMLP_CACHE"):
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "gamlp"


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """The folder of raw files: the one given, or GAMLP_DATA."""
    chosen = data_dir or os.environ.get("GAMLP_DATA")
    return Path(chosen).expanduser() if chosen else None


def load(
    name: str,
    data_dir: str | Path | None = None,
    seed: int = 0,
    progress: Progress = silent,
    *,
    whole: bool = False,
    memory: int = 2 << 30,
) -> Graph:
    """A dataset as a graph, with its protocol's split (drawn by `seed` where the protocol says at random).

    `whole` keeps all nodes where the protocol takes the largest connected component.

    >>> load("karate").nodes.count
    34
    """
    dataset = find(name)
    if build := BUNDLED.get(dataset.reader):
        return build()
    if not dataset.raw:
        return _generated(dataset, seed, progress)
    if whole:
        if "component" not in dataset.options:
            raise GamlpError(f"{name} is always whole", hint="leave --whole out")
        dataset = dataclasses.replace(dataset, options={**dataset.options, "component": False})
    graph = _converted(dataset, _find_raw(dataset, data_dir), memory, progress)
    return _with_split(graph, dataset, seed)


def open_or_load(
    graph: str | Path, data_dir: str | Path | None = None, seed: int = 0, progress: Progress = silent
) -> Graph:
    """A graph folder, or one behind a URL, or a dataset by name; a folder is preferred where both are there."""
    if is_url(str(graph)):
        return open_graph(str(graph))
    if Path(graph).is_dir():
        return open_graph(Path(graph))
    if len(Path(graph).parts) > 1:
        raise GamlpError("there is no such graph folder", file=graph)
    return load(str(graph), data_dir, seed, progress)


def presence(data_dir: str | Path | None = None) -> list[Presence]:
    """Every dataset, and whether its files are here."""
    return [_look(dataset, data_dir) for dataset in DATASETS.values()]


def _look(dataset: Dataset, data_dir: str | Path | None) -> Presence:
    given = data_folder(data_dir)
    roots = [root for root in (given, cache_folder() / "raw") if root is not None]
    if not dataset.raw:
        return Presence(dataset, None)
    for root in roots:
        for place in (root / folder for folder in dataset.folders):
            if all((place / file).is_file() for file in dataset.files):
                return Presence(dataset, place)
        for place in (root / file for file in dataset.archives):
            if place.is_file():
                return Presence(dataset, place)
    # A folder that has some of the files is where the others belong; without a data folder, the cache.
    started = [root / folder for root in roots for folder in dataset.folders if (root / folder).is_dir()]
    wanted = started[0] if started else roots[0] / dataset.folders[0]
    missing = tuple(file for file in dataset.files if not (wanted / file).is_file())
    return Presence(dataset, None, missing, wanted)


def _find_raw(dataset: Dataset, data_dir: str | Path | None) -> Path:
    found = _look(dataset, data_dir)
    if found.place is not None:
        return found.place
    try:
        download.fetch(dataset, cache_folder() / "raw")
    except GamlpError as error:
        reason = str(error).rstrip(".")
        raise GamlpError(f"{dataset.name} is {found.told} ({reason})") from error
    found = _look(dataset, data_dir)
    if found.place is None:
        raise GamlpError(f"{dataset.name} is {found.told} (the download did not bring them)")
    return found.place


def _converted(dataset: Dataset, place: Path, memory: int, progress: Progress) -> Graph:
    """The graph folder in the cache, made now if it is not there or its raw files have changed."""
    files = [place] if place.is_file() else [place / file for file in dataset.files]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = digest([_READINGS.get(dataset.reader, 1), dataset.reader, dataset.options, stats])
    folder = cache_folder() / "graphs" / f"{dataset.name}-{key}"
    if folder.is_dir():
        try:
            return open_graph(folder)
        except GamlpError:
            shutil.rmtree(folder)  # damaged: the raw files are still there
    with tempfile.TemporaryDirectory(prefix="gamlp-") as unpacked:
        if place.is_file():
            with told_when_full(Path(unpacked)):
                archive.unpack(place, dataset.files, Path(unpacked))
            place = Path(unpacked)
        with writing(folder, dataset.name, target=dataset.target, replace=True) as writer:
            writer.source = {"dataset": dataset.name, "from": dataset.source, "split": dataset.split}
            READERS[dataset.reader](Conversion(place, writer, memory, dataset.options, progress))
    return open_graph(folder)


def _with_split(graph: Graph, dataset: Dataset, seed: int) -> Graph:
    """Draw what the protocol leaves to chance; rows, features and edges stay those of the cache."""
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None
    if dataset.per_class is not None:
        split = per_class_split(labels, *dataset.per_class, seed)
    elif dataset.valid_share is not None and split is not None:
        roles = np.array(split.roles)
        count = round(dataset.valid_share * len(split.train))
        roles[np.random.default_rng(seed).permutation(split.train)[:count]] = ROLES.index("valid")
        split = Split(roles)
    else:
        return graph
    return dataclasses.replace(graph.with_answers(split=split), source={**graph.source, "seed": seed})


def _generated(dataset: Dataset, seed: int, progress: Progress) -> Graph:
    counts = dataset.counts
    key = digest([_READINGS.get(dataset.reader, 1), dataclasses.asdict(counts), seed])
    folder = cache_folder() / "graphs" / f"{dataset.name}-{key}"
    if folder.is_dir():
        return open_graph(folder)
    return GENERATED[dataset.reader](folder, counts, seed, progress)


def _communities(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return synthetic.communities(folder, **dataclasses.asdict(counts), seed=seed, progress=progress)


def _short_video(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return synthetic.short_video(folder, seed=seed, progress=progress)


def _mag_like(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return synthetic_types.mag_like(folder, seed=seed, progress=progress)


GENERATED: dict[str, Callable[[Path, Counts, int, Progress], Graph]] = {
    "communities": _communities,
    "short-video": _short_video,
    "mag-like": _mag_like,
}
