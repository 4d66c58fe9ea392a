"""`gamlp export`: a trained run → a file or folder that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gamlp.cli.options.recipe import JsonOption, TrustOption, trusted
from gamlp.cli.show import display


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(_export)


def _export(
    run: Annotated[Path, typer.Argument(help="Run folder; but for mlflow, a bundle.safetensors too.", metavar="RUN")],
    to: Annotated[str, typer.Option(help="onnx, torchscript, torch or mlflow.", metavar="FORMAT")],
    out: Annotated[Path, typer.Option(help="File to write: .onnx, .pt or .pt2; of mlflow a folder.", metavar="PATH")],
    encoders: Annotated[
        bool, typer.Option(help="onnx: also write encoders of columns, into PATH's name with .encoders.onnx.")
    ] = True,
    graph_in_place: Annotated[
        bool, typer.Option("--graph-in-place", help="mlflow: leave the graph where it is, and name its place.")
    ] = False,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run for other programs: ONNX, TorchScript, a torch.export program, or an MLflow model.

    What is written is compared with the run on random hops, and left behind only where they agree to 1e-5. The network
    reads hops x (and y, of labels) and gives probabilities and logits:

      gamlp export runs/digits --to onnx --out digits.onnx

    With the hops and the graph, to be asked about ids and new nodes by mlflow.pyfunc:

      gamlp export runs/digits --to mlflow --out digits-model
    """
    from gamlp.export import export_run

    with display.progress(as_json) as progress:
        done = export_run(
            run, out, to, encoders=encoders, graph_in_place=graph_in_place, trust=trusted(trust), progress=progress
        )
    if as_json:
        display.print_json(done.as_json())
        return
    for note in done.notes:
        display.say(f"note: {note}.")
    if done.difference is None:
        display.say(f"{done.path}: MLflow model of '{done.model}'; mlflow.pyfunc.load_model reads it")
        return
    shapes = ", ".join(f"{name}[batch, {', '.join(map(str, shape))}]" for name, shape in done.inputs.items())
    display.say(
        f"{done.path}: {shapes} → probabilities, logits; at most {done.difference:.1g} from the run on random hops"
    )
    for one in done.encoders:
        of = f" of {one.node_type}" if len(done.encoders) > 1 else ""
        display.say(f"{one.path}: encoders of columns{of}; at most {one.difference:.1g} from the run's on random cells")
