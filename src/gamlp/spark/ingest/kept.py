"""Rows that tasks keep in Arrow files of their own from one step to the next: nothing becomes a row of Java's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.ingest import is_null
from gamlp.io import Place
from gamlp.progress import Progress
from gamlp.spark.ingest.notes import Notes
from gamlp.spark.ingest.parquet import Work
from gamlp.spark.tasks import as_result, collect_results

_WIDE = ".wide"  # ends the name of a file with the columns that most passes do not read


@dataclass(frozen=True)
class KeptFiles:
    """Files of a folder. Every attempt of a task writes a file of its own: only those that were answered for count.

    apart: the columns that some passes read alone are in files of their own, the others beside: behind a URL files are
    fetched whole.
    """

    folder: Place
    names: Sequence[str]
    apart: bool = False

    @classmethod
    def new_folder(cls, beside: Place) -> Place:
        return beside / f"kept-{uuid.uuid4().hex[:12]}"

    def map(self, spark: Any, work: Work, schema: Any, *, alone: bool = False) -> Any:
        """A frame of what `work` makes of the rows, a task for each file; `alone`: of the columns that lie apart."""

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from work(self.read(index, alone=alone))

        return spark.range(0, len(self.names), 1, max(1, len(self.names))).mapInArrow(read, schema)

    def read(self, index: int, *, alone: bool = False) -> Iterator[Any]:
        """Batches of a file, and of that beside it unless some columns are read alone."""
        name = self.names[index]
        if alone or not self.apart:
            yield from read_batches(self.folder / name)
            return
        beside = read_batches(self.folder / f"{name}{_WIDE}")
        for one, other in zip(read_batches(self.folder / name), beside, strict=True):
            yield pa.RecordBatch.from_arrays(
                [*one.columns, *other.columns], names=[*one.schema.names, *other.schema.names]
            )

    def remove(self) -> None:
        self.folder.remove()


def keep(batches: Iterator[Any], folder: Place, apart: Sequence[str] = ()) -> str | None:
    """Write batches to a new file, and tell its name; None where there are no rows.

    apart: columns that are a file by themselves, the others are one beside it.
    """
    some = (batch for batch in batches if batch.num_rows)
    first = next(some, None)
    if first is None:
        return None
    name = f"{uuid.uuid4().hex}.arrow"
    rest = [column for column in first.schema.names if column not in apart]
    parts = [(name, list(apart)), (f"{name}{_WIDE}", rest)] if apart else [(name, rest)]
    with ExitStack() as stack:
        writers = []
        for file, columns in parts:
            sink = pa.PythonFile(stack.enter_context((folder / file).writing()), mode="w")
            schema = pa.schema([first.schema.field(column) for column in columns])
            writers.append((stack.enter_context(pa.ipc.new_file(sink, schema)), columns))
        for batch in chain([first], some):
            for writer, columns in writers:
                writer.write_batch(batch.select(columns))
    return name


def read_batches(place: Place) -> Iterator[Any]:
    with place.as_file() as path:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def keep_good(
    batches: Iterator[Any], folder: Place, parts: Work | None = None, apart: Sequence[str] = ()
) -> Iterator[Any]:
    """Keep the rows of batches that have no `note`; answers names of files, and what the notes say together.

    `parts` makes batches of the rows that are a file each; without it all are one. `apart`: as in `keep`.
    """
    notes: list[Notes] = []

    def good() -> Iterator[Any]:
        for batch in batches:
            column = batch.column("note")
            notes.extend(Notes.read(text) for text in column.drop_null().to_pylist())
            if 0 < column.null_count < len(column):
                batch = batch.filter(pa.array(is_null(column)))
            if column.null_count:
                yield batch.drop_columns(["note"])

    def work(_: int) -> dict[str, Any]:
        files = [good()] if parts is None else (iter([part]) for part in parts(good()))
        names = [keep(some, folder, apart) for some in files]
        return {"names": [name for name in names if name is not None], "notes": vars(Notes.merged(notes))}

    yield pa.RecordBatch.from_arrays([pa.array([as_result(work, 0)])], names=["answer"])


def kept_rows(
    spark: Any, frame: Any, folder: Place, stage: str, progress: Progress, *, apart: bool = False
) -> tuple[KeptFiles, Notes]:
    """What a frame of answers of `keep_good` kept, with columns `apart` or all together, and all notes."""
    found = [result for _, result in collect_results(spark, frame, stage, 1, progress)]
    names = sorted(name for result in found for name in result["names"])
    refuse_unseen(folder, names)
    return KeptFiles(folder, names, apart), Notes.merged(Notes.of(result["notes"]) for result in found)


def refuse_unseen(folder: Place, names: Sequence[str]) -> None:
    """Executors and driver must see one folder; behind a URL they do."""
    if folder.local is not None and any((folder / name).size() is None for name in names):
        raise GamlpError(
            "executors write where the driver does not read", file=folder, hint="choose an --out that all of them share"
        )
