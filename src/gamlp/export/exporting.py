"""A run → a file or folder of a format that others read, compared with the run before it is left behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from gamlp.errors import GamlpError
from gamlp.export.head import TOLERANCE, shapes_of
from gamlp.export.mlflow_folder import open_for_mlflow, write_mlflow
from gamlp.export.onnx_encoders import WrittenEncoders, write_encoders
from gamlp.export.onnx_file import OPSET, write_onnx
from gamlp.export.torch_files import write_program, write_torchscript
from gamlp.io import Trust
from gamlp.progress import Progress, silent
from gamlp.training import Bundle, RunFolder

Format = Literal["onnx", "torchscript", "torch", "mlflow"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES = {"onnx": (".onnx",), "torchscript": (".pt", ".ts"), "torch": (".pt2",)}
_WRITERS = {"onnx": write_onnx, "torchscript": write_torchscript, "torch": write_program}


@dataclass(frozen=True)
class Exported:
    """What was written. `difference`: the largest from the run's own answers; None of MLflow, which keeps the run."""

    path: Path
    to: Format
    model: str
    inputs: dict[str, tuple[int, ...]]
    difference: float | None = None
    encoders: list[WrittenEncoders] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "to": self.to,
            "model": self.model,
            "inputs": {name: ["batch", *shape] for name, shape in self.inputs.items()},
            "difference": self.difference,
            "tolerance": None if self.difference is None else TOLERANCE,
            "opset": OPSET if self.to == "onnx" else None,
            "encoders": [
                {
                    "path": str(one.path), "node_type": one.node_type, "difference": one.difference,
                    "encoded_before": list(one.encoded_before),
                }
                for one in self.encoders
            ],
            "notes": self.notes,
        }  # fmt: skip


def export_run(
    place: str | Path,
    out: str | Path,
    to: str,
    *,
    encoders: bool = True,
    graph_in_place: bool = False,
    trust: Trust = None,
    progress: Progress = silent,
) -> Exported:
    """Write a run, or a bundle alone, in a format that others read.

    place: the run folder, or a bundle.safetensors where the format is not mlflow.
    out: the file to write; of mlflow a folder.
    to: onnx, torchscript, torch or mlflow.
    encoders: of onnx: whether encoders of columns are written too, into files beside.
    graph_in_place: of mlflow: the graph stays where it is.
    trust: what files of the run may name: a model of one's own, whose code then runs; the URL of its graph.

    >>> from tempfile import TemporaryDirectory
    >>> from gamlp.run import train
    >>> with TemporaryDirectory() as folder:
    ...     _ = train("karate", {"training": {"epochs": 5}}, f"{folder}/run")
    ...     export_run(f"{folder}/run", f"{folder}/head.pt", "torchscript").difference < 1e-5
    True
    """
    place, out = Path(place), Path(out)
    if to not in FORMATS:
        raise GamlpError(f"there is no format '{to}'", hint=f"choose from {', '.join(FORMATS)}")
    if to == "mlflow":
        run = open_for_mlflow(place, trust)
        bundle, notes = write_mlflow(run, out, graph_in_place=graph_in_place, progress=progress)
        return Exported(out, to, bundle.recipe.model.name, {}, notes=notes)
    if graph_in_place:
        raise GamlpError(f"{to} holds no graph", hint="leave out --graph-in-place, or use --to mlflow")
    _check_name(out, to)
    bundle = Bundle.load(place if place.is_file() else RunFolder.open(place, trust).bundle_path, trust)
    difference = _WRITERS[to](bundle, out)
    progress("export", 1, 1, "model")
    written, notes = write_encoders(bundle, out) if to == "onnx" and encoders else ([], [])
    notes += [note for one in written for note in one.notes]
    return Exported(out, to, bundle.recipe.model.name, shapes_of(bundle), difference, written, notes)


def _check_name(out: Path, to: str) -> None:
    if out.suffix not in _SUFFIXES[to]:
        raise GamlpError(f"is no name of a {to} file", file=out, hint=f"end it with {' or '.join(_SUFFIXES[to])}")
    if out.is_dir():
        raise GamlpError("is a folder where a file is to be written", file=out, hint="choose another --out")
