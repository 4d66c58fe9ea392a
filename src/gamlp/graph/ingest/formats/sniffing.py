"""Which delimiter a text has, from its first records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection

from gamlp.errors import GamlpError

_CANDIDATES = ",\t;|\x01"  # the last is Hive's
_BYTES, _RECORDS = 1 << 16, 200
_WORDS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_NUMBER = re.compile(r"[+-]?[0-9]+(?:[,.][0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NAMES = {"\t": "tab", " ": "space"}


def sniffed(start: bytes, usual: str) -> str:
    r"""The delimiter of a text that starts so; `usual` where several are as good, or none is there.

    One that is in the header counts, and of several the one that cuts most records into as many values as the header.

    >>> sniffed(b'id;note\n1;"a,b;c"\n', ",")
    ';'
    """
    found: list[tuple[float, bool, int, str]] = []
    for delimiter in _CANDIDATES:
        records = first_records(start, delimiter)
        width = len(records[0]) if records else 0
        if width > 1:
            agreeing = sum(len(record) == width for record in records[1:]) / max(1, len(records) - 1)
            found.append((agreeing, delimiter == usual, width, delimiter))
    return max(found)[3] if found else usual


def first_records(start: bytes, delimiter: str) -> list[list[str]]:
    """Values of the first records, the header too; blank lines are none."""
    text = start[:_BYTES].decode("utf-8", "replace")
    records: list[list[str]] = []
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if record:
                records.append(record)
            if len(records) > _RECORDS:
                return records
    except csv.Error:  # what is wrong with it is told when it is read
        return records
    return records[:-1] if len(start) > _BYTES and len(records) > 1 else records  # the last one may be cut


def refuse_decimal_commas(file: object, start: bytes, delimiter: str, names: Collection[str] | None = None) -> None:
    """Refuse columns (of these names) of numbers with a comma: they would be taken for text, or for categories."""
    header, *rows = first_records(start, delimiter) or [[]]
    for index, name in enumerate(header):
        cells = [row[index].strip() for row in rows if len(row) == len(header) and row[index].strip()]
        with_comma = next((cell for cell in cells if "," in cell), None)
        wanted = names is None or name in names
        if wanted and with_comma is not None and all(_NUMBER.fullmatch(cell) for cell in cells):
            raise GamlpError(
                f"numbers with a comma in them, such as '{with_comma}'",
                file=file,
                column=name,
                hint="if it is a decimal comma, say --decimal ',', else --decimal '.' leaves them as they are",
            )


def parse_delimiter(text: str) -> str:
    """What --delimiter says: a character, or a word for one that is hard to type."""
    delimiter = _WORDS.get(text.lower(), text)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\x00':
        raise GamlpError(
            f"--delimiter '{text}' is not one character", hint="write for example ';', '|' or tab; quotes are \""
        )
    return delimiter


def delimiter_name(delimiter: str) -> str:
    """As people call it."""
    return _NAMES.get(delimiter, f"'{delimiter}'")
