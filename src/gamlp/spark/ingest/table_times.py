"""A column of times on Spark: what its first value is, all others must be, whichever task reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gamlp.graph.ingest import BadRows, CheckedRows, Cut, TableBatch, TimeColumn
from gamlp.spark.ingest.tables import SparkTable


@dataclass(frozen=True)
class TableTimes:
    """The column, and what is known of it by its first value; every task reads with a clock of its own."""

    column: str
    first: TimeColumn

    @classmethod
    def of(cls, table: SparkTable, column: str, cuts: Sequence[Cut]) -> TableTimes:
        """Looked at by the driver; cuts that cannot be compared with these times are refused."""
        clock = TimeColumn(column, cuts)
        for batch in table.first([column], 1).combine_chunks().to_batches():
            times = clock.read(CheckedRows(TableBatch(batch, Path(table.name), 0), BadRows("skip")), needed=False)
            for cut in cuts if times.known.any() else ():
                cut.keeps(times)
        return cls(column, clock)

    def clock(self, name: str | None = None) -> TimeColumn:
        """For one task, which calls the column `name`."""
        return self.first.called(name or self.column)

    def notes(self, naive: int) -> list[str]:
        """What was taken for granted, of so many times that name no zone."""
        return self.first.called(self.column, naive).notes()
