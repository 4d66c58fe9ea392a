"""Tensors as streams of Arrow record batches, one tensor each, its name, type and shape beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from gamlp.training.checkpoint import Weights

SCHEMA = pa.schema([("bytes", pa.uint8())])
_TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
Kinds = dict[str, tuple[str, list[int]]]  # type and shape by name


class StreamError(ValueError):
    """A stream that does not hold what it should."""


def kinds_of(tensors: Mapping[str, Tensor]) -> Kinds:
    """Type and shape of each."""
    return {name: (str(value.dtype).removeprefix("torch."), list(value.shape)) for name, value in tensors.items()}


def send_tensors(writer: Any, tensors: Mapping[str, Tensor]) -> None:
    """Write them one after another."""
    for name, value in tensors.items():
        held = value.detach().cpu().contiguous()
        about = json.dumps({"name": name, "type": str(held.dtype).removeprefix("torch."), "shape": list(held.shape)})
        data = pa.array(held.flatten().view(torch.uint8).numpy())
        writer.write_with_metadata(pa.record_batch([data], schema=SCHEMA), about.encode())


def receive_tensors(reader: Any, kinds: Kinds | None = None) -> tuple[dict[str, Any], Weights]:
    """What was said first, and all tensors; with `kinds` only those, of just these types and shapes."""
    said: dict[str, Any] = {}
    found: Weights = {}
    for data, about in _chunks(reader):
        if data is None:
            said = about
            continue
        name, kind = str(about["name"]), (str(about["type"]), [int(size) for size in about["shape"]])
        if kind[0] not in _TYPES or name in found or (kinds is not None and kinds.get(name) != kind):
            raise StreamError(f"'{name}' of type {kind[0]} and shape {kind[1]} is not expected")
        values = data.column(0).to_numpy(zero_copy_only=True).copy()
        found[name] = torch.from_numpy(values).view(getattr(torch, kind[0])).reshape(kind[1])
    return said, found


def drain(reader: Any) -> None:
    """Read what is left, and forget it: a writer that is not read to its end does not know why."""
    with suppress(StreamError):
        for _ in _chunks(reader):
            pass


def _chunks(reader: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        try:
            about = json.loads(chunk.app_metadata.to_pybytes())
        except (AttributeError, ValueError) as error:
            raise StreamError("a tensor without a name") from error
        yield chunk.data, about
