"""Names → Graph: bundled, generated, or converted once from raw files and then mapped from the cache."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets import download, hgb, npz, ogb, planetoid, sampled, twitch
from gamlp.graph.datasets.catalogue import Counts, Dataset, all_datasets, find_dataset
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.datasets.synthetic import communities, mag_like, short_video
from gamlp.graph.folder import writing
from gamlp.graph.graph import ROLES, Graph, Labels, Split
from gamlp.graph.opening import open_graph
from gamlp.graph.splits import per_class_split
from gamlp.io import digest, disk_full_as_error, is_url, load_plugin, locked, temporary_folder
from gamlp.progress import Progress, silent

_NEIGHBOURS = 10

# Zachary's karate club (1977): for every member the friends with a higher number, from 0.
_FRIENDS = (
    "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31|2 3 7 13 17 19 21 30|3 7 8 9 13 27 28 32|7 12 13|6 10|6 10 16|16"
    "||30 32 33|33||||33|32 33|32 33|||32 33|33|32 33||32 33|25 27 29 32 33|25 27 31|31|29 33|33|31 33|32 33|"
    "32 33|32 33|33|"
)
# The four communities of largest modularity, the labels that Kipf and Welling and PyG use.
_COMMUNITIES = "1111333101311100310101002200200200"


def digits() -> Graph:
    """scikit-learn's 1797 handwritten digits, each joined with its 10 nearest; features are pixels / 16.

    An edge is there when either end has the other among its nearest; of equals the lower row is nearer.
    Split, always the same: 20 images of each digit train, 30 validate, the others test.
    """
    from sklearn.datasets import load_digits  # imported here: it takes a second

    data = load_digits()
    pixels = np.asarray(data.data, np.float64)
    near = _nearest(pixels, _NEIGHBOURS)
    edges = np.stack([near.ravel(), np.repeat(np.arange(len(pixels)), _NEIGHBOURS)])
    labels = Labels(np.asarray(data.target, np.int32), tuple(str(digit) for digit in range(10)), "integer")
    return Graph.from_arrays(
        edges,
        (pixels / 16).astype(np.float32),
        labels,
        split=per_class_split(labels, 20, 30, seed=0),
        name="digits",
    )


def karate() -> Graph:
    """Zachary's karate club: 34 members, 78 friendships; one-hot features, four communities as labels.

    Split, always the same: of each community the first member trains, the second validates, the others test.
    """
    edges = [(row, int(friend)) for row, friends in enumerate(_FRIENDS.split("|")) for friend in friends.split()]
    values = np.asarray([int(digit) for digit in _COMMUNITIES], np.int32)
    members = [np.flatnonzero(values == community) for community in range(4)]
    roles = np.full(len(values), 3, np.int8)
    for role in (1, 2):
        roles[[rows[role - 1] for rows in members]] = role
    labels = Labels(values, tuple(str(community) for community in range(4)), "integer")
    features = np.eye(len(values), dtype=np.float32)
    return Graph.from_arrays(np.asarray(edges).T, features, labels, split=Split(roles), name="karate")


def _nearest(points: Array, count: int) -> Array:
    """Rows of the `count` nearest other points; of whole numbers, so that distances and ties are exact."""
    square = (points**2).sum(1)
    distance = square[:, None] + square[None, :] - 2 * points @ points.T
    np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, :count]


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
BUNDLED: dict[str, Callable[[], Graph]] = {"digits": digits, "karate": karate}
# Raised when a reader's or generator's result changes, so that what was cached before is not used; 1 for all others.
_READINGS = {"ogb-types": 2, "hgb": 2, "communities": 2, "short-video": 2}


@dataclass(frozen=True)
class Presence:
    """Where a dataset's raw files are, or which are missing from where."""

    dataset: Dataset
    place: Path | None
    missing: tuple[str, ...] = ()
    wanted: Path | None = None

    @property
    def status(self) -> str:
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
    dataset = find_dataset(name)
    if dataset.plugin is not None:
        return _brought(dataset.plugin, data_dir, seed)
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
    """A graph: of a folder, behind a URL, or a dataset by name; a folder is preferred where both are there.

    graph: the folder, the URL or the name; `gamlp datasets` lists names.
    data_dir: raw files of datasets. (default: the environment's GAMLP_DATA)
    seed: draws the split of a dataset whose protocol says at random.
    progress: is told how far the conversion of raw files is.

    >>> open_or_load("karate").nodes.count
    34
    """
    if is_url(str(graph)) or Path(graph).is_dir():
        return open_graph(graph)
    if len(Path(graph).parts) > 1:
        raise GamlpError("there is no such graph folder", file=graph)
    return load(str(graph), data_dir, seed, progress)


def presence(data_dir: str | Path | None = None) -> list[Presence]:
    """Every dataset, and whether its files are here."""
    return [_look(dataset, data_dir) for dataset in all_datasets().values()]


def _brought(plugin: EntryPoint, data_dir: str | Path | None, seed: int) -> Graph:
    graph = load_plugin(plugin)(data_dir=data_folder(data_dir), seed=seed)
    if not isinstance(graph, Graph):
        raise GamlpError(
            f"the plug-in '{plugin.name}' gives no graph but a {type(graph).__name__}",
            hint="let it return a gamlp.Graph",
        )
    return graph


def _look(dataset: Dataset, data_dir: str | Path | None) -> Presence:
    given = data_folder(data_dir)
    roots = [root for root in (given, cache_folder() / "raw") if root is not None]
    if not dataset.raw:
        return Presence(dataset, None)
    for root in roots:
        for place in (root / folder for folder in dataset.folders):
            if all((place / file).is_file() for file in dataset.files_in(place)):
                return Presence(dataset, place)
        for place in (root / file for file in dataset.archives):
            if place.is_file():
                return Presence(dataset, place)
    # A folder that has some of the files is where the others belong; without a data folder, the cache.
    started = [root / folder for root in roots for folder in dataset.folders if (root / folder).is_dir()]
    wanted = started[0] if started else roots[0] / dataset.folders[0]
    missing = tuple(file for file in dataset.files_in(wanted) if not (wanted / file).is_file())
    return Presence(dataset, None, missing, wanted)


def _check_release(dataset: Dataset, place: Path) -> None:
    """OGB marks a folder with its release; numbers of another release are those of another graph."""
    found = sorted(path.stem.removeprefix("RELEASE_v") for path in place.glob("RELEASE_v*.txt"))
    wanted = dataset.options.get("release")
    if wanted is not None and found and str(wanted) not in found:
        raise GamlpError(
            f"holds release {found[-1]} of {dataset.name}, and release {wanted} is read", file=place,
            hint="fetch the newer one, or move this folder away",
        )  # fmt: skip


def _find_raw(dataset: Dataset, data_dir: str | Path | None) -> Path:
    found = _look(dataset, data_dir)
    if found.place is not None:
        _check_release(dataset, found.place)
        return found.place
    try:
        download.fetch(dataset, cache_folder() / "raw")
    except GamlpError as error:
        reason = str(error).rstrip(".")
        raise GamlpError(f"{dataset.name} is {found.status} ({reason})") from error
    found = _look(dataset, data_dir)
    if found.place is None:
        raise GamlpError(f"{dataset.name} is {found.status} (the download did not bring them)")
    return found.place


def _converted(dataset: Dataset, place: Path, memory: int, progress: Progress) -> Graph:
    """The graph folder in the cache, made now if it is not there or its raw files have changed."""
    files = [place] if place.is_file() else [place / file for file in dataset.files_in(place)]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = digest([_READINGS.get(dataset.reader, 1), dataset.reader, dataset.options, stats])
    folder = cache_folder() / "graphs" / f"{dataset.name}-{key}"
    if (found := _in_cache(folder)) is not None:
        return found
    with locked(folder), temporary_folder() as unpacked:
        if (found := _in_cache(folder)) is not None:  # by another process, meanwhile
            return found
        if place.is_file():
            with disk_full_as_error(unpacked):
                download.unpack(place, dataset.files, unpacked)
            place = unpacked
        with writing(folder, dataset.name, target=dataset.target, replace=True) as writer:
            writer.source = {"dataset": dataset.name, "from": dataset.source, "split": dataset.split}
            _read(dataset, Conversion(place, writer, memory, dataset.options, progress))
    return open_graph(folder)


def _read(dataset: Dataset, raw: Conversion) -> None:
    """Files of others: whatever a reader stumbles over is told as what it is, a file that is not the dataset's."""
    try:
        READERS[dataset.reader](raw)
    except (GamlpError, MemoryError, AssertionError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of what the files hold
            raise
        message = " ".join(str(error).split())[:200]
        raise GamlpError(
            f"these are not the files of {dataset.name} ({type(error).__name__}: {message})",
            file=raw.raw, hint="fetch them again",
        ) from error  # fmt: skip


def _in_cache(folder: Path) -> Graph | None:
    """The graph there; None where there is none, or a damaged one: the raw files are still there."""
    try:
        return open_graph(folder) if folder.is_dir() else None
    except GamlpError:
        return None


def _with_split(graph: Graph, dataset: Dataset, seed: int) -> Graph:
    """Draw what the protocol leaves to chance; rows, features and edges stay those of the cache."""
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None
    if dataset.per_class is not None:
        split = per_class_split(labels, *dataset.per_class, seed)
    elif dataset.valid_share is not None and (split is not None or dataset.test_share is not None):
        split = _split_by_shares(labels, split, dataset.test_share or 0.0, dataset.valid_share, seed)
    else:
        return graph
    return dataclasses.replace(graph.with_targets(split=split), source={**graph.source, "seed": seed})


def _split_by_shares(labels: Labels, split: Split | None, test: float, valid: float, seed: int) -> Split:
    """Of rows that train (where there is no split yet, all labelled ones) a share tests; of the rest one validates."""
    generator = np.random.default_rng(seed)
    begin = np.where(labels.known(), ROLES.index("train"), 0) if split is None else split.roles
    roles = np.array(begin, np.int8)
    for role, share in (("test", test), ("valid", valid)):
        if share:
            train = np.flatnonzero(roles == ROLES.index("train"))
            roles[generator.permutation(train)[: round(share * len(train))]] = ROLES.index(role)
    return Split(roles)


def _generated(dataset: Dataset, seed: int, progress: Progress) -> Graph:
    counts = dataset.counts
    assert counts is not None
    key = digest([_READINGS.get(dataset.reader, 1), dataclasses.asdict(counts), seed])
    folder = cache_folder() / "graphs" / f"{dataset.name}-{key}"
    if folder.is_dir():
        return open_graph(folder)
    with locked(folder):  # another process may be at it, or have just ended
        return open_graph(folder) if folder.is_dir() else GENERATED[dataset.reader](folder, counts, seed, progress)


def _communities(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return communities(folder, **dataclasses.asdict(counts), seed=seed, progress=progress)


def _short_video(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return short_video(folder, seed=seed, progress=progress)


def _mag_like(folder: Path, counts: Counts, seed: int, progress: Progress) -> Graph:
    return mag_like(folder, seed=seed, progress=progress)


GENERATED: dict[str, Callable[[Path, Counts, int, Progress], Graph]] = {
    "communities": _communities,
    "short-video": _short_video,
    "mag-like": _mag_like,
}
