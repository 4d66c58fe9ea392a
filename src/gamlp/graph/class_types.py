"""What classes were before they got names: texts, integers or booleans. Predictions give them back as such."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

ClassType = Literal["string", "integer", "boolean"]
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,18})")
_BOOLEANS = {"false": False, "true": True, "0": False, "1": True}  # 0 and 1: names that arrays give to booleans
_ARROW = {"string": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}


def class_type_of(names: Sequence[str], texts: bool = False) -> ClassType:
    """Of classes by their names; `texts`: a typed column held them as texts, and texts they stay.

    >>> class_type_of(["3", "10"]), class_type_of(["False", "True"]), class_type_of(["3", "x"])
    ('integer', 'boolean', 'string')
    """
    if texts or not names:
        return "string"
    if all(_INTEGER.fullmatch(name) and -(2**63) <= int(name) < 2**63 for name in names):
        return "integer"
    spelled = [name.lower() for name in names]
    return "boolean" if set(spelled) <= {"false", "true"} and len(set(spelled)) == len(spelled) else "string"


def class_values(names: Sequence[str], class_type: ClassType) -> list[str] | list[int] | list[bool]:
    """Classes as they were given.

    >>> class_values(["3", "10"], "integer"), class_values(["False", "True"], "boolean")
    ([3, 10], [False, True])
    """
    if class_type == "integer":
        return [int(name) for name in names]
    return [_BOOLEANS[name.lower()] for name in names] if class_type == "boolean" else list(names)


def fits_type(names: Sequence[str], class_type: ClassType) -> bool:
    """Whether these names can be values of the type: a file may say anything."""
    if class_type == "boolean":
        return all(name.lower() in _BOOLEANS for name in names)
    return class_type == "string" or class_type_of(names) == "integer"


def arrow_classes(names: Sequence[str], class_type: ClassType) -> pa.Array:
    """The same as an Arrow array of string, int64 or boolean."""
    return pa.array(class_values(names, class_type), _ARROW[class_type])
