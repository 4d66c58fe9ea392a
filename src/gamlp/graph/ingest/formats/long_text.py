"""Values that are too long to be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.errors import GamlpError
from gamlp.io import format_size

LONGEST_TEXT = 1 << 20  # bytes of one value


def refuse_long_text(file: Path, columns: pa.RecordBatch) -> None:
    """Refuse a value that no table of people's holds."""
    for name, column in zip(columns.schema.names, columns.columns):
        longest = longest_text(column)
        if longest > LONGEST_TEXT:
            most = format_size(LONGEST_TEXT)
            raise GamlpError(
                f"a value of {format_size(longest)}", file=file, column=name, hint=f"at most {most} are read"
            )


def longest_text(column: Any) -> int:
    """Bytes of the longest text; 0 where a column holds none."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    kind = values.type
    if pa.types.is_string_view(kind):  # 16 bytes a value, of which the first four are its length
        views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
        return int(views[values.offset : values.offset + len(values), 0].max(initial=0))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return int(pc.max(pc.binary_length(values)).as_py() or 0)
    return 0
