"""Graph: a folder of memory-mapped arrays with a manifest, or the same arrays held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.class_types import ClassType
from gamlp.graph.made_from import MadeFrom
from gamlp.graph.raw import RawColumns
from gamlp.graph.schema import FeatureSchema, PickedColumns
from gamlp.graph.text_ids import take_texts
from gamlp.graph.unread import reads_when_asked, shape_of
from gamlp.io import Place
from gamlp.kernel import FloatName, build_csr

if TYPE_CHECKING:
    from gamlp.graph.frames import FromFrames

ROLES = ("", "train", "valid", "test")
UNKNOWN = -1
_AT_ONCE = 1 << 17  # roles that are looked at


@reads_when_asked("roles")
@dataclass(frozen=True)
class Split:
    """Which rows train, validate and test: `roles[n]`, int8, an index into ROLES."""

    roles: Array

    @classmethod
    def of(cls, count: int, *, train: Any, valid: Any, test: Any) -> Split:
        """From row numbers or boolean masks."""
        roles = np.zeros(count, np.int8)
        for role, rows in enumerate((train, valid, test), start=1):
            if len(rows):
                roles[np.asarray(rows)] = role
        return cls(roles)

    def rows(self, *names: str) -> Array:
        """Row numbers, ascending, of the named parts: `split.rows("train", "valid")`; found some at a time."""
        found = np.empty(self.count(*names), np.int64)
        at = 0
        for rows in self.parts(*names):
            found[at : at + len(rows)] = rows
            at += len(rows)
        return found

    def parts(self, *names: str) -> Iterator[Array]:
        """The same some at a time, for who need not hold them all."""
        roles = [ROLES.index(name) for name in names]
        for begin in range(0, len(self.roles), _AT_ONCE):
            yield np.flatnonzero(self._are(roles, begin)) + begin

    def count(self, *names: str) -> int:
        """How many rows the named parts have."""
        roles = [ROLES.index(name) for name in names]
        return sum(int(np.count_nonzero(self._are(roles, at))) for at in range(0, len(self.roles), _AT_ONCE))

    def _are(self, roles: list[int], begin: int) -> Array:
        return np.isin(self.roles[begin : begin + _AT_ONCE], roles)

    @property
    def train(self) -> Array:
        return self.rows("train")

    @property
    def valid(self) -> Array:
        return self.rows("valid")

    @property
    def test(self) -> Array:
        return self.rows("test")


@reads_when_asked("values")
@dataclass(frozen=True)
class Labels:
    """One label a node (`values[n]` int32, -1 unknown) or many (`values[n, c]` int8 0/1, a row of -1 unknown)."""

    values: Array
    classes: tuple[str, ...]
    class_type: ClassType = field(default="string", repr=False)  # what the classes are that these names stand for

    @property
    def multi_label(self) -> bool:
        return len(shape_of(self, "values")) == 2

    def known(self) -> Array:
        """Boolean mask of labelled nodes."""
        return np.asarray((self.values[:, 0] if self.multi_label else self.values) != UNKNOWN)

    def known_at(self, rows: Array) -> Array:
        """Which of some rows are labelled; no others are looked at."""
        return np.asarray((self.values[rows, 0] if self.multi_label else self.values[rows]) != UNKNOWN)

    def hot(self, rows: Array) -> Array:
        """One-hot (multi-hot) float32 rows `[len(rows), c]`; an unknown label is a zero row."""
        values = self.values[rows]
        if self.multi_label:
            return np.maximum(values, 0).astype(np.float32)
        hot = np.zeros((len(rows), len(self.classes)), np.float32)
        known = np.flatnonzero(values != UNKNOWN)
        hot[known, values[known]] = 1.0
        return hot


@reads_when_asked("values")
@dataclass(frozen=True)
class Features:
    """`values[n, d]`, float32 or float16; bfloat16 is held as the uint16 of its bits.

    `columns` are those of the table that they were read from; None: they have no names.
    """

    values: Array
    dtype: FloatName = "float32"
    columns: FeatureSchema | None = None

    @property
    def width(self) -> int:
        return int(shape_of(self, "values")[1])

    @property
    def count(self) -> int:
        """Rows."""
        return int(shape_of(self, "values")[0])

    def read(self, rows: Any, columns: slice = slice(None)) -> Array:
        """Rows (slice or row numbers) as float32."""
        values = self.values[rows, columns]
        if self.dtype == "bfloat16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(values, np.float32)

    def arranged(self, order: Array, columns: FeatureSchema) -> Features:
        """The features at these places, in this order; they are picked when rows are read."""
        values: Any = PickedColumns(self.values, order)
        return Features(values, self.dtype, columns)


@reads_when_asked("values")
@dataclass(frozen=True)
class Ids:
    """A node's original id: the row number itself (`values=None`), an int64 array or Arrow strings, chunked or not."""

    count: int
    values: Array | pa.Array | pa.ChunkedArray | None = None

    def take(self, rows: Array) -> pa.Array:
        """Original ids of rows, as an Arrow array of int64 or string."""
        if self.values is None:
            return pa.array(np.asarray(rows, np.int64))
        if isinstance(self.values, np.ndarray):
            return pa.array(self.values[rows])
        return take_texts(self.values, rows)

    def of(self, rows: Array) -> Ids:
        """Those of some rows alone."""
        if self.values is None:
            return Ids(len(rows), np.asarray(rows, np.int64))
        integers = isinstance(self.values, np.ndarray)
        return Ids(len(rows), np.asarray(self.values[rows]) if integers else self.take(rows))


@dataclass(frozen=True)
class Nodes:
    """The nodes of one type."""

    name: str
    count: int
    ids: Ids
    features: Features | None = None
    labels: Labels | None = None
    split: Split | None = None
    raw: RawColumns | None = None  # feature columns as the table had them


@reads_when_asked("offsets", "neighbours", "weights")
@dataclass(frozen=True)
class Block:
    """CSR of the rows `start <= row < stop`: `neighbours[offsets[i]:offsets[i+1]]` ascending, no self-loops."""

    start: int
    stop: int
    offsets: Array
    neighbours: Array
    weights: Array | None = None

    @property
    def entries(self) -> int:
        return int(shape_of(self, "neighbours")[0])

    @property
    def weighted(self) -> bool:
        return self.__dict__["weights"] is not None  # without reading them

    @classmethod
    def from_edges(
        cls, targets: Array, sources: Array, weights: Array | None, *, start: int, stop: int, **options: Any
    ) -> Block:
        """The rows start..stop of a relation from its edges; see `gamlp.kernel.build_csr`."""
        offsets, neighbours, merged = build_csr(targets, sources, weights, start=start, stop=stop, **options)
        return cls(start, stop, offsets, neighbours, merged)


@dataclass(frozen=True)
class Relation:
    """Row = target node, neighbours = source nodes: an edge src → dst carries src's row to dst.

    `reverse` names the relation that holds the same edges the other way, where there is one.
    """

    name: str
    source: str
    target: str
    directed: bool
    blocks: tuple[Block, ...]
    reverse: str | None = None

    @property
    def entries(self) -> int:
        """Stored entries: an undirected edge counts twice."""
        return sum(block.entries for block in self.blocks)

    @property
    def weighted(self) -> bool:
        return any(block.weighted for block in self.blocks)

    @property
    def count(self) -> int:
        return self.blocks[-1].stop if self.blocks else 0

    def degrees(self) -> Array:
        """Number of stored neighbours of every row, int64."""
        return np.concatenate([np.zeros(0, np.int64), *(np.diff(block.offsets) for block in self.blocks)])

    def edges(self) -> Iterator[tuple[Array, Array, Array | None]]:
        """(row, neighbour, weight) arrays, block by block: for tests and peers, not for the hot loop."""
        for block in self.blocks:
            rows = np.repeat(np.arange(block.start, block.stop), np.diff(block.offsets))
            yield rows, np.asarray(block.neighbours), None if block.weights is None else np.asarray(block.weights)


@dataclass(frozen=True)
class Graph(MadeFrom):
    """Nodes by type and relations by name. Homogeneous: one type `node`, one relation `edge`.

    >>> graph = Graph.from_arrays([[0, 1], [1, 2]], np.eye(3))
    >>> graph.relation.entries, graph.nodes.count
    (4, 3)
    """

    name: str
    node_types: dict[str, Nodes]
    relations: dict[str, Relation]
    target: str = "node"
    folder: Path | Place | None = None
    source: dict[str, Any] = field(default_factory=dict)
    checksums: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    moved: dict[str, str] = field(default_factory=dict, repr=False)  # where files lie that came as the graph grew
    earlier: dict[str, dict[str, Relation]] = field(default_factory=dict, repr=False)  # of a split by time, see as_of
    made: FromFrames | None = field(default=None, repr=False, compare=False)  # keeps the arrays of frames alive

    def file(self, name: str) -> Place:
        """Where a file of the graph's folder lies."""
        assert self.folder is not None
        return Place.of(self.folder) / self.moved.get(name, name)

    @property
    def nodes(self) -> Nodes:
        """Nodes of the type whose labels are asked for."""
        return self.node_types[self.target]

    @property
    def relation(self) -> Relation:
        """The one relation of a homogeneous graph."""
        if len(self.relations) != 1:
            names = ", ".join(self.relations)
            raise GamlpError(
                f"graph '{self.name}' has {len(self.relations)} relations ({names}) where one is expected",
                hint="gamlp ingest --relation '' treats them as one",
            )
        return next(iter(self.relations.values()))

    @property
    def heterogeneous(self) -> bool:
        """Whether there are several relations, or one between different types."""
        return len(self.relations) != 1 or len(self.node_types) != 1

    @property
    def relation_pairs(self) -> dict[str, tuple[str, ...]]:
        """Relations that go together, by the name of the first: a relation alone, or with its reverse."""
        found: dict[str, tuple[str, ...]] = {}
        for name, relation in self.relations.items():
            if relation.reverse is None:
                found[name] = (name,)
            elif relation.reverse not in found:
                found[name] = (name, relation.reverse)
        return found

    def degrees(self) -> Array:
        """Number of stored neighbours of every target row, over all relations that lead to it."""
        degrees = np.zeros(self.nodes.count, np.int64)
        for relation in self.relations.values():
            if relation.target == self.target and relation.blocks:
                degrees += relation.degrees()
        return degrees

    @property
    def trainable(self) -> bool:
        """Whether there are labelled training rows."""
        labels, split = self.nodes.labels, self.nodes.split
        if labels is None or split is None:
            return False
        return any(bool(labels.known_at(rows).any()) for rows in split.parts("train"))

    def with_targets(self, **targets: Labels | Split | None) -> Graph:
        """With other `labels` or another `split`; edges and features stay, and keep their fingerprints.

        What is replaced is no longer what the folder holds, so its checksum goes. Edges as of the ends of a split by
        time go with that split.
        """
        nodes = replace(self.nodes, **targets)  # type: ignore[arg-type]
        gone = tuple(f"/{name}.npy" for name in targets)
        checksums = {name: value for name, value in self.checksums.items() if not name.endswith(gone)}
        earlier = {} if "split" in targets else self.earlier
        return replace(self, node_types={**self.node_types, self.target: nodes}, checksums=checksums, earlier=earlier)

    def as_of(self, part: str) -> Graph:
        """With the edges that were there when a part (train, valid) of a split by time ended; all nodes stay.

        It has no folder of its own.
        """
        if part not in self.earlier:
            raise GamlpError(
                f"graph '{self.name}' has no split by time", hint="make one: gamlp ingest --split-by COLUMN"
            )
        from gamlp.graph.manifest import earlier_folder

        own = earlier_folder(part)
        nodes = {name: facts for name, facts in self.checksums.items() if name.startswith("nodes/")}
        edges = {name.removeprefix(own): facts for name, facts in self.checksums.items() if name.startswith(own)}
        return replace(self, relations=self.earlier[part], earlier={}, folder=None, checksums=nodes | edges)

    def with_features(self, **features: Features | None) -> Graph:
        """With other features of some node types; what is replaced is no longer what the folder holds."""
        types = {
            node_type: replace(self.node_types[node_type], features=values) for node_type, values in features.items()
        }
        gone = tuple(f"nodes/{node_type}/features" for node_type in features)
        checksums = {name: value for name, value in self.checksums.items() if not name.startswith(gone)}
        return replace(self, node_types={**self.node_types, **types}, checksums=checksums)

    @property
    def columns(self) -> dict[str, FeatureSchema]:
        """Names and types of feature columns, of node types that have names."""
        found = ((name, nodes.features) for name, nodes in self.node_types.items())
        return {name: one.columns for name, one in found if one is not None and one.columns is not None}

    def with_arranged(self, node_type: str, order: Array, columns: FeatureSchema) -> Graph:
        """With some features of a type, in this order: they are picked from the same files."""
        nodes = self.node_types[node_type]
        assert nodes.features is not None
        arranged = replace(nodes, features=nodes.features.arranged(order, columns))
        return replace(self, node_types={**self.node_types, node_type: arranged})

    @classmethod
    def open(cls, folder: str | Path | Place) -> Graph:
        """Map a graph folder, or one behind any fsspec URL; an array is verified and read when it is asked for."""
        from gamlp.graph.opening import open_graph

        return open_graph(folder)

    def save(self, folder: str | Path, *, replace: bool = False) -> Graph:
        """Write the graph as a folder and open it."""
        from gamlp.graph.folder import save_graph

        return save_graph(self, Path(folder), replace=replace)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from gamlp.graph.summary import graph_html

        return graph_html(self)
