"""Every dataset by name, as data: counts, protocol, which raw files lie where, who can download them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.io import find_plugins

GROUP = "gamlp.datasets"  # the entry points by which other packages bring datasets


@dataclass(frozen=True)
class Counts:
    """As loaded: an undirected edge counts once; of heterogeneous graphs all types and relations count."""

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class Download:
    """The library that knows where the files come from: a PyG class and its attributes, or an OGB name."""

    library: str
    name: str
    root: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """One name. `reader` is a key of `gamlp.graph.datasets.loading.READERS`; folders are below the data folder.

    `split_file`, where it lies, stands for those of `files` that are in its folder or below.
    Of what the files leave to chance: `per_class` rows train and validate; or a share `test_share` of the labelled rows
    tests; and of the rows that train, a share `valid_share` validates.
    `plugin` names what another package brings, `load(data_dir, seed) → Graph`; its counts are not known before.
    """

    name: str
    source: str
    counts: Counts | None
    split: str
    reader: str
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    split_file: str | None = None
    archives: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    target: str = "node"
    per_class: tuple[int, int] | None = None
    valid_share: float | None = None
    test_share: float | None = None
    download: Download | None = None
    plugin: EntryPoint | None = None

    @property
    def raw(self) -> bool:
        """Whether it is made from files, rather than bundled or generated."""
        return bool(self.files)

    def files_in(self, place: Path) -> tuple[str, ...]:
        """The files that are read there, or would be if they were there."""
        if self.split_file is None or not (place / self.split_file).is_file():
            return self.files
        folder = self.split_file.rpartition("/")[0] + "/"
        others = [file for file in self.files if file.startswith(folder)]
        if all((place / file).is_file() for file in others):
            return self.files
        return (*(file for file in self.files if file not in others), self.split_file)


PUBLIC = "public"
PER_CLASS = "largest component; 20 / 30 / rest a class by seed"
BY_NODES = "largest component; 50 / 25 / 25 % of all rows by seed"


def _planetoid(name: str, folder: str, counts: Counts) -> Dataset:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return Dataset(
        name=name,
        source="PyG",
        counts=counts,
        split=PUBLIC,
        reader="planetoid",
        folders=(f"Planetoid/{folder}/raw",),
        files=tuple(f"ind.{name}.{part}" for part in parts),
        options={"prefix": name},
        download=Download("torch_geometric", "Planetoid", "Planetoid", {"name": folder, "split": "public"}),
    )


def _npz(name: str, kind: str, folder: str, file: str, counts: Counts) -> Dataset:
    return Dataset(
        name=name,
        source="PyG",
        counts=counts,
        split=PER_CLASS,
        reader="npz",
        folders=(f"{kind}/{folder}/raw",),
        files=(file,),
        options={"file": file, "component": True},
        per_class=(20, 30),
        download=Download("torch_geometric", kind, kind, {"name": folder}),
    )


def _by_nodes(dataset: Dataset, name: str) -> Dataset:
    """The same graph, split as Flickr is: half of the rows train, the graph of which is large enough to learn from."""
    return replace(dataset, name=name, split=BY_NODES, per_class=None, test_share=0.25, valid_share=1 / 3)


_OGB_ARCHIVES = {
    "ogbn-arxiv": "arxiv",
    "ogbn-products": "products",
    "ogbn-mag": "mag",
    "ogbn-papers100M": "papers100M-bin",
}


def _ogb(name: str, reader: str, counts: Counts, split: str, files: Iterable[str], **settings: Any) -> Dataset:
    folder = name.replace("-", "_")
    archive = _OGB_ARCHIVES[name]  # what its zip unpacks to
    return Dataset(
        name=name.lower(),
        source="OGB",
        counts=counts,
        split=f"OGB's, by {split.replace('_', ' ')}",
        reader=reader,
        folders=(folder, f"{folder}_pyg", archive),
        files=tuple(files),
        split_file=f"split/{split}/split_dict.pt",
        options={"split": split, "classes": counts.classes, "release": 1, **settings.pop("options", {})},
        **settings,
    )


def _twitch(country: str, nodes: int, edges: int, role: str) -> Dataset:
    return Dataset(
        name=f"twitch-{country.lower()}",
        source="MUSAE",
        counts=Counts(nodes, edges, 3170, 2),
        split=f"every row: {role}",
        reader="twitch",
        folders=(f"Twitch/{country}",),
        files=("edges.csv", "features.json", "target.csv"),
        options={"width": 3170, "role": role, "classes": ["general", "mature"]},
    )


def _hgb(name: str, folder: str, counts: Counts, target: str, multi_label: bool = False) -> Dataset:
    return Dataset(
        name=f"hgb-{name}",
        source="PyG",
        counts=counts,
        split="HGB's test rows; a fifth of its training rows validates, by seed",
        reader="hgb",
        folders=(f"HGBDataset/{name}/raw/{folder}", f"HGBDataset/{name}/raw"),
        files=("info.dat", "node.dat", "link.dat", "label.dat", "label.dat.test"),
        archives=(f"HGBDataset/{name}.zip", f"HGBDataset/{name}/{name}.zip"),
        options={"target_type": 0, "many": multi_label},
        target=target,
        valid_share=0.2,
        download=Download("torch_geometric", "HGBDataset", "HGBDataset", {"name": name}),
    )


_TABLES = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
_PARTS = ("train", "valid", "test")
_MAG = (
    "author___affiliated_with___institution",
    "author___writes___paper",
    "paper___cites___paper",
    "paper___has_topic___field_of_study",
)


def _tables(split: str) -> list[str]:
    return [f"raw/{table}.csv.gz" for table in _TABLES] + [f"split/{split}/{part}.csv.gz" for part in _PARTS]


_COMPUTERS = _npz(
    "amazon-computers", "Amazon", "Computers", "amazon_electronics_computers.npz", Counts(13381, 245_778, 767, 10)
)
_COAUTHOR_CS = _npz("coauthor-cs", "Coauthor", "CS", "ms_academic_cs.npz", Counts(18333, 81_894, 6805, 15))

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "digits",
            "bundled",
            Counts(1797, 12_339, 64, 10),
            "20 / 30 / rest a class, fixed",
            "digits",
        ),
        Dataset("karate", "bundled", Counts(34, 78, 34, 4), "1 / 1 / rest a class, fixed", "karate"),
        _planetoid("cora", "Cora", Counts(2708, 5278, 1433, 7)),
        _planetoid("citeseer", "CiteSeer", Counts(3327, 4552, 3703, 6)),
        _planetoid("pubmed", "PubMed", Counts(19717, 44324, 500, 3)),
        _COMPUTERS,
        _npz("amazon-photo", "Amazon", "Photo", "amazon_electronics_photo.npz", Counts(7487, 119_043, 745, 8)),
        _COAUTHOR_CS,
        _npz("coauthor-physics", "Coauthor", "Physics", "ms_academic_phy.npz", Counts(34493, 247_962, 8415, 5)),
        _by_nodes(_COMPUTERS, "amazon-inductive"),
        _by_nodes(_COAUTHOR_CS, "cs-inductive"),
        Dataset(
            "ppi",
            "PyG",
            Counts(56_944, 818_716, 50, 121),
            "20 / 2 / 2 graphs",
            "ppi",
            ("PPI/raw", "PPI", "ppi"),
            tuple(
                f"{part}_{name}"
                for part in _PARTS
                for name in ("feats.npy", "graph_id.npy", "graph.json", "labels.npy")
            ),
            download=Download("torch_geometric", "PPI", "PPI"),
        ),
        Dataset(
            "flickr",
            "PyG",
            Counts(89_250, 449_878, 500, 7),
            PUBLIC,
            "flickr",
            ("Flickr/raw", "Flickr", "flickr"),
            ("adj_full.npz", "feats.npy", "class_map.json", "role.json"),
            options={"classes": 7},
            download=Download("torch_geometric", "Flickr", "Flickr"),
        ),
        Dataset(
            "reddit",
            "PyG",
            Counts(232_965, 57_307_946, 602, 41),
            PUBLIC,
            "reddit",
            ("Reddit/raw", "Reddit", "reddit"),
            ("reddit_data.npz", "reddit_graph.npz"),
            options={"classes": 41},
            download=Download("torch_geometric", "Reddit", "Reddit"),
        ),
        _ogb(
            "ogbn-arxiv",
            "ogb-csv",
            Counts(169_343, 1_157_799, 128, 40),
            "time",
            _tables("time"),
            download=Download("ogb", "ogbn-arxiv"),
        ),
        _ogb(
            "ogbn-products",
            "ogb-csv",
            Counts(2_449_029, 61_859_140, 100, 47),
            "sales_ranking",
            _tables("sales_ranking"),
            download=Download("ogb", "ogbn-products"),
        ),
        _ogb(
            "ogbn-mag",
            "ogb-types",
            Counts(1_939_743, 21_111_007, 128, 349),
            "time",
            [
                "raw/num-node-dict.csv.gz",
                "raw/triplet-type-list.csv.gz",
                "raw/node-feat/paper/node-feat.csv.gz",
                "raw/node-label/paper/node-label.csv.gz",
                *(f"raw/relations/{relation}/edge.csv.gz" for relation in _MAG),
                *(f"split/time/paper/{part}.csv.gz" for part in _PARTS),
            ],
            options={"target": "paper", "release": 2},
            target="paper",
            download=Download("ogb", "ogbn-mag"),
        ),
        # 57 GB: nobody wants that fetched without being asked, so there is no download.
        _ogb(
            "ogbn-papers100M",
            "ogb-binary",
            Counts(111_059_956, 1_615_685_872, 128, 172),
            "time",
            ["raw/data.npz", "raw/node-label.npz", *(f"split/time/{part}.csv.gz" for part in _PARTS)],
        ),
        _twitch("DE", 9498, 153_138, "train"),
        _twitch("ENGB", 7126, 35_324, "valid"),
        _twitch("ES", 4648, 59_382, "test"),
        _twitch("FR", 6549, 112_666, "test"),
        _twitch("PTBR", 1912, 31_299, "test"),
        _twitch("RU", 4385, 37_304, "test"),
        _twitch("ZHTW", 2772, 63_462, "test"),
        _hgb("acm", "ACM", Counts(10_942, 547_856, 1902, 3), "paper"),
        _hgb("dblp", "DBLP", Counts(26_128, 239_566, 334, 4), "author"),
        _hgb("imdb", "IMDB", Counts(21_420, 86_642, 3489, 5), "movie", multi_label=True),
        Dataset(
            "communities",
            "generated",
            Counts(100_000, 1_000_000, 64, 10),
            "10 / 10 / 80 % by seed",
            "communities",
        ),
        Dataset(
            "short-video",
            "generated",
            Counts(1_000_000, 1_434_382, 64, 253),
            "5k / 10k / 30k by seed",
            "short-video",
        ),
        Dataset(
            "mag-like",
            "generated",
            Counts(19_397, 211_111, 128, 15),
            "ogbn-mag's shares by seed",
            "mag-like",
            target="paper",
        ),
    )
}


def all_datasets() -> dict[str, Dataset]:
    """By name: those of the catalogue, then those that other packages bring."""
    found = dict(DATASETS)
    for name, plugin in find_plugins(GROUP, DATASETS).items():
        package = "plug-in" if plugin.dist is None else plugin.dist.name
        found[name] = Dataset(name, package, None, "its own", "plug-in", plugin=plugin)
    return found


def is_dataset(name: str) -> bool:
    return name in DATASETS or name in find_plugins(GROUP, DATASETS)


def find_dataset(name: str) -> Dataset:
    """The dataset of this name; another name is refused with the nearest ones."""
    if (dataset := DATASETS.get(name.lower())) is not None:
        return dataset
    known = all_datasets()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else "gamlp datasets lists the names"
    raise GamlpError(f"'{name}' is neither a dataset nor a graph folder", hint=hint)
