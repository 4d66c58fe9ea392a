"""Feature columns of any type: kept as they are while the table is read, fitted, then encoded from what was kept.

The table is read once. A first pass checks what can be checked of a row alone, writes blocks of raw columns and adds
them to fittings; when all rows are known, types are settled, and a second pass over the raw blocks writes features.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import (
    FittedColumn,
    Inference,
    Unseen,
    finish,
    infer,
    refusal_hint,
    unreadable,
)
from gamlp.graph.folder import GraphWriter
from gamlp.graph.ingest.cells import CellChecks, fit_dtype, is_no, kept_raw
from gamlp.graph.ingest.columns import BadRows, CheckedRows
from gamlp.graph.ingest.features import PlaceOf
from gamlp.graph.ingest.tables import TableBatch
from gamlp.graph.ingest.wanted import ColumnPlan
from gamlp.graph.raw import read_block, write_block
from gamlp.io import Place, parallel_map, usable_cores
from gamlp.kernel import FloatName, cannot_hold, store_as
from gamlp.progress import Progress


class EncodedColumns:
    """The feature columns of one node table on their way into a graph.

    `fitted`, after `finish`: all columns that were read, also those that turned out to be left out.
    """

    def __init__(
        self, plan: ColumnPlan, arrow_types: Mapping[str, pa.DataType], dtype: FloatName, scratch: Path, size: int
    ) -> None:
        self.plan = plan
        self.columns = list(plan.wanted)
        self.dtype = dtype
        self.fitted: list[FittedColumn] = []
        self.gaps: dict[str, int] = {}
        self.unseen: dict[str, Unseen] = {}
        self.cells = CellChecks(plan, arrow_types)
        self._scratch = scratch
        self._size = size  # bytes of a block, about
        self._pending: list[pa.RecordBatch] = []  # small batches make a block together
        self._sizes: list[int] = []  # rows of every block
        self._kept: list[Array] = []  # which of them stay
        self._fittings = self.cells.fittings()
        scratch.mkdir()

    def read(self, batch: TableBatch, at: int, rows: CheckedRows, bad: BadRows) -> None:
        """Keep the good rows of a batch; a row with a value that is not of its column's type is no longer good."""
        columns = [self.cells.checked(rows, name) for name in self.columns]
        if not rows.good.any():
            return
        block = pa.RecordBatch.from_arrays(columns, self.columns)
        if not rows.good.all():
            block = block.filter(pa.array(rows.good))
        self._pending.append(block)
        if sum(one.nbytes for one in self._pending) >= self._size:
            self._write_pending()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        block = pa.Table.from_batches(self._pending).combine_chunks().to_batches()[0]
        self._pending = []
        path = self._path(len(self._sizes))
        self._sizes.append(block.num_rows)
        self._fit(block, [lambda: write_block(path, block)])

    def _fit(self, block: pa.RecordBatch, more: list[Callable[[], None]]) -> None:
        """Columns are independent of each other; Arrow and numpy let other threads work meanwhile."""

        def add(name: str) -> None:
            self._fittings[name].add(block.column(name))

        tasks: list[Callable[[], None]] = [*more, *(partial(add, name) for name in self._fittings)]
        for _ in parallel_map(min(usable_cores(), len(tasks)), _call, tasks):
            pass

    def finish(self, kept: Array, place: PlaceOf, bad: BadRows, table: Path) -> Array:
        """Settle what every column is, from the rows that are marked; returns which rows that were read are good.

        Only the whole column shows what its cells are meant to be: a word among numbers is told here.
        """
        self._write_pending()
        whole = bool(kept.all())
        while True:
            if not whole:
                self._fit_again(kept)
            found = {name: infer(fitting) for name, fitting in self._fittings.items()}
            refused = next((name for name, one in found.items() if one.refusal is not None), None)
            if refused is None or not kept.any():
                break
            kept = kept & ~self._wrong_rows(refused, found[refused], kept, place, bad, table)
            whole = False
        if kept.any():
            self.fitted = [self.plan.fitted.get(name) or finish(self._fittings[name]) for name in self.columns]
            self.gaps = {name: fitting.gaps for name, fitting in self._fittings.items()}
        self._kept = np.split(kept, np.cumsum(self._sizes)[:-1])
        return kept

    def _fit_again(self, kept: Array) -> None:
        self._fittings = self.cells.fittings()
        for start, block in self._blocks():
            some = kept[start : start + block.num_rows]
            self._fit(block if some.all() else block.filter(pa.array(some)), [])

    def _wrong_rows(self, name: str, found: Inference, kept: Array, place: PlaceOf, bad: BadRows, table: Path) -> Array:
        """Rows whose cell is not what the column is; the first one is told, unless such rows are skipped."""
        wrong = np.zeros(len(kept), bool)
        hint = refusal_hint(name, found)
        for start, block in self._blocks():
            column = block.column(name)
            some = unreadable(column, found.type) & kept[start : start + block.num_rows]
            if some.any() and not bad.skip:
                row = int(np.argmax(some))
                file, number = place(start + row)
                problem = f"{is_no(column, row, found.type)} ({found.refusal})"
                raise GamlpError(problem, file=file, row=number, column=name, hint=hint)
            wrong[start : start + block.num_rows] = some
        if not wrong.any():
            raise GamlpError(found.refusal or "", file=table, column=name, hint=hint)
        bad.counts[f"no {found.type}"] += int(np.count_nonzero(wrong))
        return wrong

    def _blocks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        start = 0
        for index, rows in enumerate(self._sizes):
            yield start, read_block(Place.of(self._path(index)), rows)
            start += rows

    def _path(self, block: int) -> Path:
        return self._scratch / f"{block:05d}.arrow"

    def write(
        self,
        writer: GraphWriter,
        node_type: str,
        size: int,
        place: PlaceOf,
        stage: Callable[[str], str],
        progress: Progress,
    ) -> int:
        """Features and raw columns of the rows that are good; returns how many features a node has.

        size: bytes of features that a thread makes at a time.
        """
        used = [column for column in self.fitted if column.width]
        writer.fitted[node_type] = self.fitted
        if used:
            schema = self.plan.kept(used)
            width = sum(column.width for column in used)
            out = writer.features(width, self.dtype, node_type, schema)
            blocks = self._raw_blocks()
            if raw := kept_raw(self.fitted):
                folder = writer.raw_blocks([block.start + block.count for block in blocks], node_type)
                blocks = [replace(block, target=folder / f"{n:05d}.arrow") for n, block in enumerate(blocks)]
            step = min(len(out), max(1, size // (4 * width)))
            second = _SecondPass(used, raw, self.dtype, out, step, place)
            done = 0
            for block, unseen in parallel_map(min(usable_cores(), len(blocks)), second.encode, blocks):
                done += block.count
                self.unseen = {name: self.unseen.get(name, Unseen()) + unseen[name] for name in unseen}
                progress(stage("encode"), done, len(out), "nodes")
        shutil.rmtree(self._scratch)
        return sum(column.width for column in used)

    def _raw_blocks(self) -> list[_RawBlock]:
        """Blocks that hold a good row."""
        found = []
        first = start = 0
        for index, kept in enumerate(self._kept):
            block = _RawBlock(self._path(index), first, start, kept)
            first += len(kept)
            start += block.count
            found += [block] if block.count else []
        return found

    def close(self) -> None:
        """Nothing is held open; files go with the folder that they are in."""


@dataclass(frozen=True)
class _RawBlock:
    """A block of rows as they were read: `first` of all that were, `start` of those that are nodes."""

    path: Path
    first: int
    start: int
    kept: Array
    target: Path | None = None  # where the graph keeps it

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.kept))


class _SecondPass:
    """Raw blocks → features, `step` rows at a time; blocks are independent of each other."""

    def __init__(
        self, columns: list[FittedColumn], raw: list[str], dtype: FloatName, out: Array, step: int, place: PlaceOf
    ) -> None:
        self.columns, self.dtype, self.out, self.step, self.place = columns, dtype, out, step, place
        self.raw = raw  # columns that the graph keeps as they are
        self._rooms: list[Array] = []  # memory that a thread has done with: fresh pages cost more than features

    def encode(self, block: _RawBlock) -> tuple[_RawBlock, dict[str, Unseen]]:
        rows = read_block(Place.of(block.path), len(block.kept))
        whole = block.count == len(block.kept)
        names = self.raw or [column.name for column in self.columns]
        kept = rows.select(names) if whole else rows.select(names).filter(pa.array(block.kept))
        if block.target is not None:
            if whole and rows.schema.names == self.raw:
                block.path.rename(block.target)
            else:
                write_block(block.target, kept)
        unseen = dict.fromkeys(names, Unseen())
        try:
            room = self._rooms.pop()
        except IndexError:
            room = np.empty((self.step, self.out.shape[1]), np.float32)
        for begin in range(0, block.count, self.step):
            part = kept.slice(begin, self.step)
            values = room[: part.num_rows]
            at = 0
            for column in self.columns:
                own = values[:, at : at + column.width]
                at += column.width
                unseen[column.name] += column.apply(part.column(column.name), own)[1]
                self._check_held(column, own, block, begin)
            start = block.start + begin
            self.out[start : start + part.num_rows] = (
                values if self.dtype == "float32" else store_as(values, self.dtype)
            )
        self._rooms.append(room)
        return block, unseen

    def _check_held(self, column: FittedColumn, values: Array, block: _RawBlock, begin: int) -> None:
        """What a half type cannot hold: numbers of the table are told, scaled ones are cut off or become zero."""
        if (wrong := fit_dtype(column, values, self.dtype)) is not None:
            row, feature = wrong
            file, number = self.place(block.first + int(np.flatnonzero(block.kept)[begin + row]))
            raise cannot_hold(values[row, feature], self.dtype, file=file, row=number, column=column.name)


def _call(task: Callable[[], None]) -> None:
    task()


def what_was_done(column: FittedColumn, gaps: Mapping[str, int]) -> tuple[str, str]:
    """(use, what became of it) of a column that was read, for people."""
    about = f"{column.type}: {column.reason}" if column.reason else column.type
    if not column.width:
        return "ignored", about
    missing = gaps.get(column.name, 0)
    if missing:
        about += f"; {missing:,} {'gap' if missing == 1 else 'gaps'} filled, a feature says where"
    return "feature", about


def unseen_sentences(unseen: Mapping[str, Unseen]) -> list[str]:
    """What is said of values that the state of a schema does not know."""
    found = []
    for name, one in unseen.items():
        if one.values:
            known = ", ".join(f"'{value}'" for value in one.examples)
            found.append(f"column '{name}': {one.values:,} cells hold what the schema does not know, such as {known}")
        if one.gaps:
            found.append(
                f"column '{name}': {one.gaps:,} gaps where the schema was fitted without: filled, no feature says where"
            )
    return found
