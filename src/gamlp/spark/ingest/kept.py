"""Rows that tasks keep in Arrow files of their own from one step to the next: nothing becomes a row of Java's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True)
class KeptFiles:
    """Files of a folder. Every attempt of a task writes a file of its own: only those that were answered for count."""

    folder: Place
    names: Sequence[str]

    @classmethod
    def new_folder(cls, beside: Place) -> Place:
        return beside / f"kept-{uuid.uuid4().hex[:12]}"

    def map(self, spark: Any, work: Work, schema: Any) -> Any:
        """A frame of what `work` makes of the rows, a task for each file."""

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from work(self.read(index))

        return spark.range(0, len(self.names), 1, max(1, len(self.names))).mapInArrow(read, schema)

    def read(self, index: int) -> Iterator[Any]:
        """Batches of a file."""
        return read_batches(self.folder / self.names[index])

    def remove(self) -> None:
        self.folder.remove()


def keep(batches: Iterator[Any], folder: Place) -> str | None:
    """Write batches to a new file, and tell its name; None where there are no rows."""
    some = (batch for batch in batches if batch.num_rows)
    first = next(some, None)
    if first is None:
        return None
    name = f"{uuid.uuid4().hex}.arrow"
    with (
        (folder / name).writing() as stream,
        pa.ipc.new_file(pa.PythonFile(stream, mode="w"), first.schema) as writer,
    ):
        for batch in chain([first], some):
            writer.write_batch(batch)
    return name


def read_batches(place: Place) -> Iterator[Any]:
    with place.as_file() as path:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def keep_good(batches: Iterator[Any], folder: Place, parts: Work | None = None) -> Iterator[Any]:
    """Keep the rows of batches that have no `note`; answers names of files, and what the notes say together.

    `parts` makes batches of the rows that are a file each; without it all are one.
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
        names = [keep(some, folder) for some in files]
        return {"names": [name for name in names if name is not None], "notes": vars(Notes.merged(notes))}

    yield pa.RecordBatch.from_arrays([pa.array([as_result(work, 0)])], names=["answer"])


def kept_rows(spark: Any, frame: Any, folder: Place, stage: str, progress: Progress) -> tuple[KeptFiles, Notes]:
    """What a frame of answers of `keep_good` kept, and all notes."""
    found = [result for _, result in collect_results(spark, frame, stage, 1, progress)]
    names = sorted(name for result in found for name in result["names"])
    refuse_unseen(folder, names)
    return KeptFiles(folder, names), Notes.merged(Notes.of(result["notes"]) for result in found)


def refuse_unseen(folder: Place, names: Sequence[str]) -> None:
    """Executors and driver must see one folder; behind a URL they do."""
    if folder.local is not None and any((folder / name).size() is None for name in names):
        raise GamlpError(
            "executors write where the driver does not read", file=folder, hint="choose an --out that all of them share"
        )
