"""Bytes as people write them: 2GiB, 512MB, 300m."""

from __future__ import annotations

import re

from gamlp.errors import GamlpError

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Read a size in bytes.

    >>> parse_size("2GiB"), parse_size("512 MB"), parse_size("1.5k")
    (2147483648, 512000000, 1500)
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise GamlpError(f"'{text}' is not a size", hint="write a number with a unit, such as 4GiB or 800MB")
    size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise GamlpError(f"'{text}' is not a size above zero", hint="write for example 4GiB")
    return size


def format_size(count: float) -> str:
    """Write a number of bytes for people.

    >>> format_size(3 * 2**30), format_size(900)
    ('3.0 GiB', '900 B')
    """
    if count < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024 or unit == "GiB":
            break
    return f"{count:.1f} {unit}"
