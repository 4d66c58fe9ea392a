"""Bytes and JSON that are no longer what was written."""

from __future__ import annotations

import json
import random
from typing import Any

STRANGE_NUMBERS = (
    "0", "-0", "1e400", "-1e400", "nan", "inf", "1e-300", "9223372036854775807", "9223372036854775808", "3.0", "",
    "18446744073709551616", "0x10", "007", "1_000", "1,5", "\u0661\u0662", "1e5", "+3", " 4 ",
)  # fmt: skip
STRANGE_TEXTS = (
    "", " ", "NA", "null", "None", "a|b", "a,b", 'say "no"', "two\nlines", "tab\there", "\x1b[31mred", "\x00",
    "true", "-", "na\u00efve", "\u65e5\u672c\u8a9e", "\u202eright to left", "x" * 5000, "../../etc", "=1+1", "%s%n",
)  # fmt: skip


def damage_bytes(draw: random.Random, data: bytes) -> bytes:
    """A bit, a byte or a run of them changed; cut, doubled, or lengthened."""
    if not data:
        return draw.randbytes(4)
    at = draw.randrange(len(data))
    way = draw.randrange(9)
    if way <= 3:
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
    if way == 4:
        return data[:at] + draw.randbytes(1) + data[at + 1 :]
    if way == 5:
        return data[:at]
    if way == 6:
        return data + draw.randbytes(draw.randrange(1, 40))
    if way == 7:
        size = draw.randrange(1, 64)
        return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
    return data[:at] + data[at // 2 : at] + data[at:]


def damage_json(draw: random.Random, text: bytes) -> bytes:
    """One value of a JSON document replaced, removed or added; now and then its bytes."""
    if draw.random() < 0.15:
        return damage_bytes(draw, text)
    content = json.loads(text)
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in list(items):
            places.append((part, key))
            walk(value)

    walk(content)
    if not places:
        return strange_json(draw)
    holder, key = draw.choice(places)
    way = draw.randrange(6)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder["unheard-of"] = holder[key]
    else:
        holder[key] = json.loads(strange_json(draw))
    return json.dumps(content).encode()


def strange_json(draw: random.Random) -> bytes:
    """A value of any sort."""
    return draw.choice(
        [b"null", b"true", b"-1", b"0", b"1", b"1e308", b"12345678901234567890123", b'""', b'"text"', b"[]", b"{}",
         b"[[[[]]]]", b'{"a": {"b": []}}', b'"\\u0000"', b'"../../x"', b"[1, 2, 3]", b'["a", "a"]', b"0.5"]
    )  # fmt: skip
