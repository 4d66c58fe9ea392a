"""Generated graphs of any size: planted communities, and a short-video service's users and videos."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.synthetic.matched import EDITION, Matched
from gamlp.graph.datasets.synthetic.planted import Group, Planted, generator
from gamlp.graph.folder import GraphWriter, writing
from gamlp.graph.graph import UNKNOWN, Graph, Labels, Split
from gamlp.graph.opening import open_graph
from gamlp.kernel import NUMPY_DTYPES, FloatName
from gamlp.progress import Progress, silent

_FEATURES, _SPLIT, _CENTRES, _GENRES = 2, 3, 4, 5  # streams of random numbers beside those of `planted`
_ROWS = 1 << 11  # rows of features made at a time

# The paper's Tencent Video graph; 600,000 videos and 400,000 users are our division of its 1,000,000 nodes.
_VIDEOS, _USERS, _VIEWS, _WIDTH, _CLASSES = 600_000, 400_000, 1_434_382, 64, 253
_VIDEO_SPLIT = (5_000, 10_000, 30_000)
_VIDEO_EDITION = 2  # raised when the same wishes give other bytes
# Fixed by what SGC alone reaches, before another method was run on such a graph (docs/datasets.md): depth matters, and
# SGC ends between 40 and 50 %.
_GENRE = 11  # classes that are alike; there are so many classes that 20 videos of each train, at any scale
_HOT = 0.2  # share of the videos that anybody watches
_TASTE = 0.5  # share of the views that are of one's own taste
_OF_GENRE, _OF_CLASS = 4.0, 1.6  # length of what features have of genre and class; noise has deviation 1


def communities(
    out: str | Path,
    *,
    nodes: int,
    edges: int,
    features: int = 64,
    classes: int = 10,
    homophily: float = 0.6,
    signal: float = 1.0,
    labelled: float = 1.0,
    train: float = 0.1,
    valid: float = 0.1,
    dtype: FloatName = "float32",
    seed: int = 0,
    threads: int | None = None,
    replace: bool = False,
    progress: Progress = silent,
) -> Graph:
    """Heavy-tailed degrees (exponent 2.6), classes as communities with small groups, features = class centre + noise.

    `edges` are undirected: about 2·edges entries are stored, within 1 %. A share `homophily` of the edges stays inside
    a class, the others ignore classes. Some of those inside are in groups of about eight nodes that mostly know each
    other: the average local clustering is 0.1 to 0.2 where nodes have some ten neighbours or more and homophily leaves
    room for them. Degrees end at 100,000. Node numbers say nothing: neighbours lie anywhere. `signal` is the length of
    a class's centre; noise has deviation 1. A share `labelled` of the nodes has a label and a part in the split;
    `train` and `valid` are shares of these, the others test. `dtype` is how features are stored.

    Memory: 8 bytes a node, and 1 byte for 16 entries, and some 100 MB. The disk holds the graph and nothing else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     communities(folder, nodes=1000, edges=5000, features=8, classes=4).nodes.features.width
    8
    """
    _check(nodes, edges, features, classes, homophily, seed)
    if min(train, valid) < 0 or train + valid > 1:
        raise GamlpError(f"a split of {train} train and {valid} valid", hint="give shares that add up to at most 1")
    if not 0 < labelled <= 1:
        raise GamlpError(f"labelled is {labelled}", hint="give a share above 0, at most 1")
    if dtype not in NUMPY_DTYPES:
        raise GamlpError(f"dtype is {dtype}", hint=f"give one of {', '.join(NUMPY_DTYPES)}")
    plan = Matched(nodes, edges, classes, homophily, seed)
    with writing(Path(out), "communities", replace=replace) as writer:
        writer.source = {
            "generator": "communities",
            "edition": EDITION,
            "nodes": nodes,
            "edges": edges,
            "features": features,
            "classes": classes,
            "homophily": homophily,
            "signal": signal,
            "labelled": labelled,
            "train": train,
            "valid": valid,
            "dtype": dtype,
            "seed": seed,
        }
        writer.nodes(nodes)
        count = thread_count(threads)
        plan.write_edges(writer, count, progress)
        plan.write_features(writer, class_centres(features, classes, signal, seed), dtype, count, progress)
        plan.write_targets(writer, labelled, train, valid)
    return open_graph(Path(out))


def short_video(
    out: str | Path,
    *,
    scale: float = 1.0,
    hot: float = _HOT,
    seed: int = 0,
    threads: int | None = None,
    replace: bool = False,
    progress: Progress = silent,
) -> Graph:
    """Users and the videos they watched, in the shape of the paper's Tencent Video graph times `scale`.

    Rows 0..videos-1 are videos, the others users. A user has a hidden taste, one of the classes; labels are known for
    the videos of the split alone. A share `hot` of the videos is watched by anybody, and by many: who watches says
    nothing of their class, and far hops drown what their own features say. The others are watched by few, all of
    their taste: one such user is noisy, and far hops average the noise away. Classes come in genres of 11 that are
    alike, 253 classes at scale 1 and at least 11.
    """
    if not 0 < scale <= 1000:
        raise GamlpError(f"scale {scale}", hint="give a number above 0; 1 is a million nodes")
    videos, users, views = (max(1, round(scale * number)) for number in (_VIDEOS, _USERS, _VIEWS))
    if not 0 < hot < 1:
        raise GamlpError(f"hot is {hot}", hint="give a share of the videos above 0 and below 1")
    genres = max(1, round(min(scale, 1.0) * _CLASSES / _GENRE))
    classes = genres * _GENRE
    _check(min(videos, users), views, _WIDTH, classes, 0.0, seed)
    plan = Planted([Group(videos, 2, hot), Group(users, 2)], views, classes, _TASTE, seed, between=True)
    with writing(Path(out), "short-video", replace=replace) as writer:
        writer.source = {
            "generator": "short-video",
            "edition": _VIDEO_EDITION,
            "scale": scale,
            "hot": hot,
            "seed": seed,
            "videos": videos,
            "users": users,
        }
        writer.nodes(videos + users)
        labels = plan.labels()
        centres = class_centres(_WIDTH, classes, _OF_CLASS, seed)
        centres += np.repeat(class_centres(_WIDTH, genres, _OF_GENRE, seed, _GENRES), _GENRE, axis=0)
        write_features(writer, labels, centres, seed, threads, progress)
        roles = np.zeros(videos + users, np.int8)
        chosen = generator(seed, _SPLIT).permutation(videos)
        ends = np.cumsum([max(1, round(scale * number)) for number in _VIDEO_SPLIT])
        for role, rows in enumerate(np.split(chosen, ends)[:3], start=1):
            roles[rows] = role
        writer.labels(named(np.where(roles > 0, labels, np.int32(UNKNOWN)), classes))
        writer.split(Split(roles))
        del labels, chosen
        _write_edges(writer, plan, thread_count(threads), progress)
    return open_graph(Path(out))


def class_centres(width: int, classes: int, length: float, seed: int, stream: int = _CENTRES) -> Array:
    """A random direction for every class, `[classes, width]`, each of this length."""
    drawn = generator(seed, stream).standard_normal((classes, width), dtype=np.float32)
    drawn *= length / np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def write_features(
    writer: GraphWriter,
    labels: Array,
    centres: Array,
    seed: int,
    threads: int | None,
    progress: Progress,
    *,
    node_type: str = "node",
    stream: tuple[int, ...] = (),
) -> None:
    """x = centre of the class + noise, by ranges of rows that each have their own random numbers."""
    width = centres.shape[1]
    values = writer.features(width, node_type=node_type)

    def fill(part: int) -> int:
        rows = slice(part * _ROWS, min((part + 1) * _ROWS, len(labels)))
        made = _noise(generator(seed, _FEATURES, *stream, part), (rows.stop - rows.start, width))
        made += centres.take(labels[rows], axis=0)
        values[rows] = made
        return rows.stop

    stage = "features" if node_type == "node" else f"features of {node_type}"
    with ThreadPoolExecutor(thread_count(threads)) as pool:
        for done in pool.map(fill, range(-(-len(labels) // _ROWS))):
            progress(stage, done, len(labels), "rows")


def _noise(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Mean 0, deviation 1: the sum of two uniform bytes, several times as fast as normal numbers."""
    count = shape[0] * shape[1]
    half = random.integers(0, 2**64, -(-count // 4), dtype=np.uint64).view(np.uint8)
    total = half[:count].astype(np.float32)
    total += half[count : 2 * count]
    total -= 255.0
    total *= 1 / np.sqrt(np.float32((256**2 - 1) / 6))
    return total.reshape(shape)


def _write_edges(writer: GraphWriter, plan: Planted, threads: int, progress: Progress) -> None:
    writer.relation(directed=False, weighted=False)
    stored = 0
    for index in range(len(plan.cells)):
        block = plan.block(index, threads)
        writer.block(block)
        stored += len(block.neighbours)
        progress("edges", stored / 2, plan.edges, "edges")


def named(labels: Array, classes: int) -> Labels:
    """Labels whose classes are named by their numbers."""
    return Labels(labels, tuple(str(number) for number in range(classes)), "integer")


def thread_count(threads: int | None) -> int:
    """The number given, or all cores."""
    return threads or os.cpu_count() or 1


def _check(nodes: int, edges: int, features: int, classes: int, homophily: float, seed: int) -> None:
    least: dict[str, tuple[Any, int]] = {
        "nodes": (nodes, 2),
        "edges": (edges, 1),
        "features": (features, 1),
        "classes": (classes, 1),
        "seed": (seed, 0),
    }
    for name, (value, low) in least.items():
        if value < low:
            raise GamlpError(f"{name} is {value}", hint=f"give at least {low}")
    if classes > min(nodes, 2**15 - 1):
        raise GamlpError(f"{classes} classes for {nodes} nodes of a kind", hint="give no more classes than nodes")
    if not 0 <= homophily <= 1:
        raise GamlpError(f"homophily is {homophily}", hint="give a share from 0 to 1")
