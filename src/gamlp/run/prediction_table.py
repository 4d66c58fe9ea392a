"""Hops and a trained model → a table of predictions, written batch by batch: memory does not grow with the nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, ClassType, Ids, Labels, Split, arrow_classes
from gamlp.io import Place, atomic_file
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.run.decision import LIKELIEST, Decided, Decision
from gamlp.training import Bundle, read_batches, rows_of, to_probabilities

SUFFIXES = (".parquet", ".csv", ".csv.gz")
ROW_SETS = ("all", "labelled", "unlabelled", "split", *ROLES[1:])
_GROUP_CELLS = 4 << 20  # of a Parquet row group: many small ones would make the file's footer grow


@dataclass(frozen=True)
class Written:
    """A finished file of predictions. `notes` are sentences a person should read.

    `decided`: the threshold and the like that were asked for, and how many rows they are about.
    """

    path: Path | Place
    rows: int
    seconds: float
    notes: tuple[str, ...] = ()
    decided: dict[str, Any] = field(default_factory=dict)


class LabelSpace(Protocol):
    """What labels can be: a bundle, or a graph's labels. `multi_label`: a node may have several."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def multi_label(self) -> bool: ...

    @property
    def class_type(self) -> ClassType: ...


def check_suffix(path: Path) -> None:
    """Refuse a file name that says no format we write."""
    if not path.name.endswith(SUFFIXES):
        raise GamlpError("is no kind of table that is written", file=path, hint=f"end it with {', '.join(SUFFIXES)}")
    if path.is_dir():
        raise GamlpError("is a folder where a file is to be written", file=path, hint="choose another --out")


def choose_rows(store: HopStore, names: str = "all") -> range | Array:
    """Row numbers by name: `all`, or some of ROW_SETS joined by '+'; all of them must be in the store."""
    chosen = row_sets(names)
    count = store.manifest.nodes
    rows: range | Array = range(count)
    if "all" not in chosen:
        rows = np.flatnonzero(asked_for(chosen, count, store.labels, store.split))
    if not len(rows):
        raise no_rows(names)
    check_kept(store, rows, names)
    return rows


def check_kept(store: HopStore, rows: range | Array, names: str) -> None:
    """Refuse rows whose hops were not kept."""
    kept = store.kept
    if kept is not None and len(np.setdiff1d(np.asarray(rows), kept, assume_unique=True)):
        raise not_kept(store, names)


def row_sets(names: str) -> list[str]:
    """Names of ROW_SETS that are joined by '+'."""
    chosen = [name.strip() for name in names.split("+")]
    if unknown := [name for name in chosen if name not in ROW_SETS]:
        raise GamlpError(f"unknown rows '{unknown[0]}'", hint=f"choose from {', '.join(ROW_SETS)}, joined by '+'")
    return chosen


def asked_for(chosen: list[str], count: int, labels: Labels | None, split: Split | None) -> Array:
    """Mask of the rows, of `count` with these labels and roles, that are in one of the named sets."""
    keep = np.full(count, "all" in chosen)
    for name in chosen:
        if name in ("labelled", "unlabelled"):
            known = np.zeros(count, bool) if labels is None else labels.known()
            keep |= known if name == "labelled" else ~known
        elif name != "all" and split is None:
            raise GamlpError("the graph has no split", hint="use --rows all, labelled or unlabelled")
        elif name != "all" and split is not None:
            keep |= split.roles > 0 if name == "split" else split.roles == ROLES.index(name)
    return keep


def asked_among(store: HopStore, chosen: tuple[str, ...], rows: slice | Array) -> Array:
    """Mask of a store's rows that are in one of the named sets; only their labels and roles are read."""
    count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    if "all" in chosen:
        return np.ones(count, bool)
    labels = split = None
    if {"labelled", "unlabelled"} & set(chosen) and store.manifest.targets.classes is not None:
        labels = Labels(np.asarray(store.targets_file("labels.npy")[rows]), tuple(store.manifest.targets.classes))
    if "split.npy" in {file.name for file in store.manifest.targets.files}:
        split = Split(np.asarray(store.targets_file("split.npy")[rows]))
    return asked_for(list(chosen), count, labels, split)


def no_rows(names: str) -> GamlpError:
    """What is said where no row has the name."""
    return GamlpError(f"no rows are '{names}'", hint="use --rows all")


_FEWER = "choose fewer with --rows (split, labelled, test, …), or give the graph anew with --graph"


def not_kept(store: HopStore, names: str, hint: str = _FEWER) -> GamlpError:
    """What is said where hops of a row were not kept."""
    kept = store.signals[store.channels()[0].signal].entry.count
    return GamlpError(
        f"hops of {kept:,} of {store.manifest.nodes:,} nodes were kept, and others are among '{names}'",
        file=store.folder,
        hint=hint,
    )


def write_predictions(
    bundle: Bundle,
    store: HopStore,
    ids: Ids,
    out: Path,
    *,
    rows: range | Array | None = None,
    each_class: bool = True,
    batch_size: int | None = None,
    decision: Decision = LIKELIEST,
    device: torch.device | None = None,
    progress: Progress = silent,
) -> Written:
    """Id, label, its probability and that of every class, for rows of a store; nothing is left where it fails."""
    rows, decision, decided = range(store.manifest.nodes) if rows is None else rows, decision.settled(bundle), Decided()

    def choose(probabilities: Array) -> Array:
        chosen = decision.chosen(bundle, probabilities)
        decided.add(decision, bundle, chosen)
        return chosen

    parts = batch_probabilities(bundle, store, rows, batch_size, device)
    written = write_probabilities(
        parts, len(rows), bundle, ids, out,
        each_class=each_class, choose=None if decision == LIKELIEST else choose, progress=progress,
    )  # fmt: skip
    return replace(written, notes=decided.sentences(decision), decided=decided.as_json(decision))


def write_probabilities(
    parts: Iterable[tuple[Array, Array]],
    total: int,
    space: LabelSpace,
    ids: Ids,
    out: Path,
    *,
    each_class: bool = True,
    choose: Callable[[Array], Array] | None = None,
    progress: Progress = silent,
) -> Written:
    """The same table of (row numbers, probabilities) that come from anywhere; `choose` gives `table_columns` labels."""
    check_suffix(out)
    begun = time.monotonic()
    schema = table_schema(space, ids, each_class, text=".csv" in out.suffixes)
    done = 0
    with new_table(out, schema) as write:
        for some, probabilities in parts:
            chosen = None if choose is None else choose(probabilities)
            write(table_columns(space, schema, ids.take(some), probabilities, each_class, chosen))
            done += len(some)
            progress("predict", done, total, "rows")
    return Written(out, done, time.monotonic() - begun)


@torch.no_grad()
def batch_probabilities(
    bundle: Bundle,
    store: HopStore,
    rows: range | Array,
    batch_size: int | None = None,
    device: torch.device | None = None,
) -> Iterator[tuple[Array, Array]]:
    """(row numbers, probabilities `[b, classes]`) of batches in order."""
    model = bundle.model().to(device or torch.device("cpu"))
    source = rows_of(store, bundle.recipe, np.zeros(0, np.int64))
    for part, x, y in read_batches(source, rows, size=batch_size, device=device):
        yield np.asarray(rows[part], np.int64), to_probabilities(model(x, y), bundle.multi_label).float().cpu().numpy()


def table_schema(space: LabelSpace, ids: Ids, each_class: bool, text: bool) -> pa.Schema:
    """Columns of a table of predictions; `text`: of a CSV."""
    multi_label = space.multi_label and not text  # a CSV cell is no list: its labels are joined
    as_text = text and (space.multi_label or space.class_type == "boolean")  # a CSV spells booleans as they were given
    kind = arrow_classes(space.classes, "string" if as_text else space.class_type).type
    fields = [
        ("id", pa.int64() if pa.types.is_integer(ids.take(np.zeros(0, np.int64)).type) else pa.string()),
        ("label", pa.list_(kind) if multi_label else kind),
    ]
    if not space.multi_label:
        fields.append(("probability", pa.float32()))
    if each_class:
        fields += [(name, pa.float32()) for name in class_columns(space.classes)]
    return pa.schema(fields)


def class_columns(classes: tuple[str, ...]) -> list[str]:
    """`p_<class>`, without control characters and each once."""
    names: list[str] = []
    taken: set[str] = set()
    for name in classes:
        plain = wanted = "p_" + re.sub(r"[\x00-\x1f\x7f]", "_", name)
        again = 1
        while wanted in taken:
            again += 1
            wanted = f"{plain}_{again}"
        taken.add(wanted)
        names.append(wanted)
    return names


def table_columns(
    space: LabelSpace,
    schema: pa.Schema,
    ids: pa.Array,
    probabilities: Array,
    each_class: bool,
    chosen: Array | None = None,
) -> pa.Table:
    """Rows of it: ids and what follows from probabilities `[b, classes]`.

    chosen: what `Decision.chosen` gave. (default: the likeliest class, or all labels above one half)
    `probability` is that of the label; where there is none, of the likeliest class.
    """
    label = schema.field("label").type
    texts = pa.types.is_string(label.value_type if pa.types.is_list(label) else label)
    classes = arrow_classes(space.classes, "string" if texts else space.class_type)
    columns: list[Any] = [ids.cast(schema.field("id").type)]
    if space.multi_label:
        chosen = probabilities > 0.5 if chosen is None else chosen
        ends = np.concatenate([[0], np.cumsum(chosen.sum(1))]).astype(np.int32)
        names = classes.take(pa.array(np.nonzero(chosen)[1]))
        lists = pa.ListArray.from_arrays(pa.array(ends), names)
        columns.append(lists if pa.types.is_list(label) else _joined(lists))
    else:
        likeliest = probabilities.argmax(1)
        chosen = likeliest if chosen is None else chosen
        said = chosen >= 0
        shown = np.where(said, chosen, likeliest)
        columns += [classes.take(pa.array(chosen, mask=~said)), pa.array(probabilities[np.arange(len(shown)), shown])]
    if each_class:
        columns += [pa.array(column) for column in np.ascontiguousarray(probabilities.T)]
    return pa.Table.from_arrays(columns, schema=schema)


def _joined(lists: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join(lists, "|")


@contextmanager
def new_table(out: Path, schema: pa.Schema, *, sole: bool = True) -> Iterator[Any]:
    """A function that appends a table; the file gets its name when all is written, and vanishes when it is not."""
    with atomic_file(out, sole=sole) as new, ExitStack() as stack:
        yield _parquet(stack, new, schema) if out.suffix == ".parquet" else _csv(stack, new, schema)


def _parquet(stack: ExitStack, path: Path, schema: pa.Schema) -> Any:
    return stack.enter_context(_Groups(path, schema)).write


class _Groups:
    """Gathers tables into row groups of a size that suits readers."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        # Probabilities hardly repeat: a dictionary of them would cost time and save nothing.
        self._writer = ParquetWriter(path, schema, use_dictionary=["label"])
        self._waiting: list[pa.Table] = []
        self._most = max(1, _GROUP_CELLS // len(schema))

    def __enter__(self) -> _Groups:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        if sum(len(part) for part in self._waiting) >= self._most:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting.clear()


def _csv(stack: ExitStack, path: Path, schema: pa.Schema) -> Any:
    from pyarrow.csv import CSVWriter

    sink: Any = stack.enter_context(pa.OSFile(str(path), "wb"))
    if path.suffix == ".gz":
        sink = stack.enter_context(pa.CompressedOutputStream(sink, "gzip"))
    return stack.enter_context(CSVWriter(sink, schema)).write_table
