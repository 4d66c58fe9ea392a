"""What every format of tables answers, and what it is told."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

# Called with the kind of fault of a row that is to be passed over.
PassOver = Callable[[str], None]

# What a small file may unfold to: tables of edges take more than a byte a row, those of nodes too.
_ROWS_ALWAYS, _ROWS_A_BYTE = 10_000_000, 16


@dataclass(frozen=True)
class ReadingRules:
    """What a person says of tables that do not say it themselves."""

    delimiter: str | None = None  # between columns of text; None: found from the first lines
    decimal: str | None = None  # ',': numbers of text have a decimal comma; None: such numbers are refused
    max_rows: int | None = None  # of a table; None: by the size of its files

    def most_rows(self, size: int) -> int:
        """Rows that files of this size may have."""
        return max(_ROWS_ALWAYS, _ROWS_A_BYTE * size) if self.max_rows is None else self.max_rows


class TableFile(Protocol):
    """A file with rows of a table, or a table in a file of several."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def format(self) -> str:
        """As people call it."""
        ...

    @property
    def typed(self) -> bool:
        """Whether columns have types of their own; all columns of a CSV are text."""
        ...

    @property
    def delimiter(self) -> str | None:
        """Between columns of text."""
        ...

    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        ...

    def count(self) -> int | None:
        """Number of rows, where the file says it."""
        ...

    def count_at_most(self) -> int:
        """A guess at the number of rows that is rarely too low."""
        ...

    def batches(self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]) -> Iterator[Any]:
        """Rows of these columns, about `size` bytes at a time.

        With `pass_over`, rows that cannot be read are left out and their numbers (from 1) are added to `passed`.
        """
        ...


def file_row(number: int, passed: array[int]) -> int:
    """The number in its file of what is row `number` without the rows that were passed over."""
    for other in sorted(passed):
        if other > number:
            break
        number += 1
    return number
