"""Which delimiter a text has, from its first records."""

from __future__ import annotations

import csv
import io

from gamlp.errors import GamlpError

_CANDIDATES = ",\t;|\x01"  # the last is Hive's
_BYTES, _RECORDS = 1 << 16, 200
_WORDS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
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
