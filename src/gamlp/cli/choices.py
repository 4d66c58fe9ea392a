"""Choices that several verbs offer."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"
