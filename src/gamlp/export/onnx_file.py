"""A head as an ONNX file: x and y → probabilities and logits, for batches of any size; checked by onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError, MissingExtra
from gamlp.export.head import OUTPUTS, cannot_hold, check_agrees, input_names, metadata_of
from gamlp.export.torch_files import exported_program, quietly
from gamlp.io import atomic_file
from gamlp.training import Bundle

OPSET = 18  # of ai.onnx: the one that torch's exporter is written for
_LARGEST = (1 << 31) - (1 << 20)  # bytes of a protobuf


def write_onnx(bundle: Bundle, out: Path) -> float:
    """Write the file, compare its answers with the bundle's, and give the largest difference."""
    onnx = library()
    program = exported_program(bundle, "ONNX")
    with torch.no_grad(), quietly():
        try:
            made: Any = torch.onnx.export(
                program, dynamo=True, opset_version=OPSET, input_names=list(input_names(bundle)),
                output_names=list(OUTPUTS), verbose=False, external_data=False,
            )  # fmt: skip
            model = made.model_proto
        except Exception as error:  # of torch or onnxscript: an operation without a form in ONNX
            raise cannot_hold(bundle, "ONNX", error) from error
    tidy(model)
    stamp(onnx, model, metadata_of(bundle))
    with atomic_file(out) as new:
        save(onnx, model, new, bundle.recipe.model.name)
        session = opened(new)
        names = [one.name for one in session.get_inputs()]

        def answer(*hops: Tensor) -> tuple[Array, Array]:
            given = dict(zip(input_names(bundle), (one.numpy() for one in hops)))
            probabilities, logits = session.run(list(OUTPUTS), {name: given[name] for name in names})
            return probabilities, logits

        return check_agrees(bundle, answer, "ONNX")


def library() -> Any:
    """onnx; said at once where it, its runtime or torch's exporter is not there.

    onnxruntime reports its use home from the moment it is imported, unless it is told not to.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra("onnx", "onnx") from error
    return onnx


def opened(path: Path) -> Any:
    """The file in onnxruntime, on this machine's processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def tidy(model: Any) -> None:
    """Without what names folders and lines of source, and with `batch` for the only size that is not fixed."""
    graph = model.graph
    for one in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        one.ClearField("metadata_props")
        one.ClearField("doc_string")
    graph.ClearField("metadata_props")
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del graph.value_info[:]


def stamp(onnx: Any, model: Any, about: Mapping[str, str]) -> None:
    """Who made the file, and what it says of itself."""
    model.producer_name = "gamlp"
    model.producer_version = about["gamlp.version"]
    model.ClearField("metadata_props")
    onnx.helper.set_model_props(model, dict(about))


def save(onnx: Any, model: Any, path: Path, name: str) -> None:
    """Check and write."""
    if model.ByteSize() > _LARGEST:
        raise GamlpError(
            f"ONNX holds 2 GiB in one file, and model '{name}' is larger", hint="use gamlp export --to torch"
        )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
