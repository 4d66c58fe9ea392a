"""JSON that knows its own digest: a changed bit is found, as is a careless edit. It is no signature."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_KEY = "digest"


def digest(content: Any) -> str:
    """A short, stable name for JSON content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its digest.

    >>> unsealed(json.dumps(sealed({"count": 3})).encode())
    {'count': 3}
    """
    return {**content, _KEY: digest(json.loads(json.dumps(content)))}


def unsealed(data: bytes, *, required: bool = False) -> dict[str, Any]:
    """The content of JSON; ValueError where it is no object, or is not what was sealed.

    Older files have no digest: they are read as they are, unless it is `required`.
    """
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    found = content.pop(_KEY, None)
    if (found is not None or required) and found != digest(content):
        raise ValueError("its content is not what was written")
    return content
