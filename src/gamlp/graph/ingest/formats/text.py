"""Bytes of text files, plain or compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}  # by ending, as Arrow calls them
_LEAST_RATIO = 4  # of compressed to plain text, about


def open_text(file: Path) -> Any:
    """The bytes of a file, decompressed."""
    return pa.input_stream(str(file), compression_of(file))


def compression_of(file: Path) -> str | None:
    """By its ending."""
    return COMPRESSIONS.get(file.suffix.lower())


def plain_size(file: Path) -> int:
    """Bytes of its text, about; rarely too low."""
    return file.stat().st_size * (1 if compression_of(file) is None else _LEAST_RATIO)


def refuse_utf16(file: Path, start: bytes) -> None:
    """Text of two bytes a letter, which other programs write under the same endings."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GamlpError("is UTF-16 text", file=file, hint="save it as UTF-8")


def text_format(name: str, file: Path) -> str:
    """What a format of text is called in this file."""
    return {"gzip": "gzipped ", "zstd": "zstd-compressed "}.get(compression_of(file) or "", "") + name
