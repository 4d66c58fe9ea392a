"""A graph and what is added to it: old rows keep their numbers, new rows follow."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.class_types import fits_type
from gamlp.graph.entries import RelationEntries
from gamlp.graph.graph import UNKNOWN, Features, Graph, Ids, Labels, Nodes, Split
from gamlp.graph.growth.lists import GrownRelation
from gamlp.graph.ingest.labels import class_numbers
from gamlp.graph.manifest import nodes_folder
from gamlp.graph.raw import RawColumns


@dataclass(frozen=True)
class GrownGraph:
    """`nodes`: newcomers by type, of types that the base has. `added`: further entries of its relations, by name."""

    base: Graph
    nodes: Mapping[str, Nodes]
    added: Mapping[str, RelationEntries]

    def before(self, node_type: str) -> int:
        return self.base.node_types[node_type].count

    def count(self, node_type: str) -> int:
        """Nodes of a type, newcomers among them."""
        return self.before(node_type) + (self.nodes[node_type].count if node_type in self.nodes else 0)

    @property
    def newcomers(self) -> Array:
        """Rows of the target type that are new."""
        return np.arange(self.before(self.base.target), self.count(self.base.target))

    @cached_property
    def relations(self) -> dict[str, GrownRelation]:
        """Every relation of the base as it is now, those without new entries too: their rows may be more."""
        nothing = np.zeros(0, np.int32)
        found = {}
        for name, relation in self.base.relations.items():
            none = RelationEntries(nothing, nothing, np.zeros(0, np.float32) if relation.weighted else None)
            before, count = self.before(relation.target), self.count(relation.target)
            found[name] = GrownRelation.of(relation, before, count, self.added.get(name, none))
        return found

    @cached_property
    def graph(self) -> Graph:
        """The grown graph. What did not change is that of the base, and what did is merged when it is read."""
        base = self.base
        return Graph(
            name=base.name,
            node_types={
                name: joined_nodes(nodes, self.nodes[name]) if name in self.nodes else nodes
                for name, nodes in base.node_types.items()
            },
            relations={name: grown.relation for name, grown in self.relations.items()},
            target=base.target,
            folder=None,
            source=base.source,
            checksums=self._checksums(),
        )

    def _checksums(self) -> dict[str, tuple[int, int]]:
        """Those of the base and of what is added: a fingerprint then changes with either, and nothing is merged."""
        found = dict(self.base.checksums)
        for name, relation in self.relations.items():
            found[f"relations/{name}/added"] = _sum(relation.changed.rows, *_arrays(relation))
        for node_type, nodes in self.nodes.items():
            for name in [name for name in found if name.startswith(f"{nodes_folder(node_type)}/")]:
                if not name.startswith(f"{nodes_folder(node_type)}/features"):
                    del found[name]  # labels, roles and ids are joined in memory
            if nodes.features is not None:
                found[f"{nodes_folder(node_type)}/features/added"] = _sum(np.asarray(nodes.features.values))
        return found


def joined_nodes(old: Nodes, new: Nodes) -> Nodes:
    """Old rows, then new ones."""
    return Nodes(
        old.name,
        old.count + new.count,
        joined_ids(old.ids, new.ids),
        _joined_features(old, new),
        joined_labels(old, new),
        _joined_split(old, new),
        _joined_raw(old, new),
    )


def joined_ids(old: Ids, new: Ids) -> Ids:
    """Integers as long as all are integers, else text; row numbers as long as they are."""
    count = old.count + new.count
    values: list[Any] = [ids.of(np.arange(ids.count)).values for ids in (old, new)]
    if all(isinstance(one, np.ndarray) for one in values):
        integers = np.concatenate(values)
        same = old.values is None and bool(np.array_equal(integers[old.count :], np.arange(old.count, count)))
        return Ids(count, None if same else integers)
    texts = [pa.array(one) if isinstance(one, np.ndarray) else one for one in values]
    return Ids(count, pa.concat_arrays([text.cast(pa.large_string()) for text in texts]))


def joined_labels(old: Nodes, new: Nodes) -> Labels | None:
    """Labels of all rows; classes of both, in the order in which a table with all rows would have them."""
    if old.labels is None and new.labels is None:
        return None
    given = [one for one in (old.labels, new.labels) if one is not None]
    if len({one.multi_label for one in given}) > 1:
        of, others = ("one label", "several") if given[1].multi_label else ("several labels", "one")
        raise GamlpError(f"nodes of the graph have {of} each, and newcomers {others}", hint="give both as the same")
    classes = given[0].classes
    unseen = [name for name in given[-1].classes if name not in classes]
    if unseen:
        texts = [*classes, *unseen]
        classes = class_numbers(texts, np.arange(len(texts)))[0]
    parts = [_numbered(one.labels, one.count, classes, given[0].multi_label) for one in (old, new)]
    fits = len({one.class_type for one in given}) == 1 and fits_type(classes, given[0].class_type)
    class_type = given[0].class_type if fits or not unseen else "string"
    return replace(given[0], values=np.concatenate(parts), classes=classes, class_type=class_type)


def _numbered(labels: Labels | None, count: int, classes: tuple[str, ...], multi_label: bool) -> Array:
    """Values of labels by the numbers of these classes."""
    if labels is None:
        shape = (count, len(classes)) if multi_label else (count,)
        return np.full(shape, UNKNOWN, np.int8 if multi_label else np.int32)
    if labels.classes == classes:
        return np.asarray(labels.values)
    number = np.asarray([*(classes.index(name) for name in labels.classes), UNKNOWN], np.int32)
    if not multi_label:
        return np.asarray(number[labels.values])
    values = np.zeros((count, len(classes)), np.int8)
    values[:, number[:-1]] = labels.values
    values[~labels.known()] = UNKNOWN
    return values


def _joined_split(old: Nodes, new: Nodes) -> Split | None:
    if old.split is None and new.split is None:
        return None
    parts = [np.zeros(one.count, np.int8) if one.split is None else one.split.roles for one in (old, new)]
    return Split(np.concatenate(parts))


def _joined_features(old: Nodes, new: Nodes) -> Features | None:
    if old.features is None or new.features is None:
        return old.features
    values: Any = JoinedRows(old.features.values, new.features.values)
    return replace(old.features, values=values)


def _joined_raw(old: Nodes, new: Nodes) -> RawColumns | None:
    if old.raw is None or new.raw is None:
        return None
    first, second = old.raw, new.raw

    def verify(index: int) -> None:
        count = len(first.places)
        first.verify(index) if index < count else second.verify(index - count)

    stops = (*first.stops, *(old.count + stop for stop in second.stops))
    return RawColumns((*first.places, *second.places), stops, verify)


class JoinedRows:
    """Rows of one array, then those of another: picked as they are read, so that nothing is copied."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self.shape = (len(first) + len(second), *first.shape[1:])
        self.dtype: np.dtype[Any] = np.dtype(first.dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        cut = len(self.first)
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            if step != 1:
                return self[np.arange(begin, end, step), columns]
            if end <= cut:
                return np.asarray(self.first[begin:end, columns])
            if begin >= cut:
                return np.asarray(self.second[begin - cut : end - cut, columns])
            parts = self.first[begin:cut, columns], self.second[: end - cut, columns]
            return np.concatenate([np.asarray(part) for part in parts])
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            numbers = np.flatnonzero(numbers)
        if numbers.ndim == 0:
            return np.asarray(self[numbers[None], columns][0])
        inside = numbers < cut
        if inside.all():
            return np.asarray(self.first[numbers, columns])
        out: Array = np.empty((len(numbers), *self.second[:0, columns].shape[1:]), self.dtype)
        out[inside] = self.first[numbers[inside], columns]
        out[~inside] = self.second[numbers[~inside] - cut, columns]
        return out


def _arrays(relation: GrownRelation) -> list[Array]:
    lists = relation.changed
    return [lists.offsets, lists.neighbours, *([] if lists.weights is None else [lists.weights])]


def _sum(*arrays: Array) -> tuple[int, int]:
    size = crc = 0
    for values in arrays:
        data = np.ascontiguousarray(values)
        size, crc = size + data.nbytes, zlib.crc32(data.view(np.uint8).reshape(-1).data, crc)
    return size, crc
