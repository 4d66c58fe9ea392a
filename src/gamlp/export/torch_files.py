"""A head as a file that torch alone reads: TorchScript, and a program of torch.export."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.export.head import cannot_hold, check_agrees, example, head_of, input_names, metadata_of
from gamlp.io import atomic_file
from gamlp.training import Bundle

_FROM_SOURCE = ("stack_trace", "nn_module_stack", "source_fn_stack")  # of a node: where in whose folders it was written


def write_torchscript(bundle: Bundle, out: Path) -> float:
    """`torch.jit.load(out)(x, y)` gives probabilities and logits, without gamlp; the largest difference."""
    head = head_of(bundle)
    with torch.no_grad(), quietly():
        try:
            traced: Any = torch.jit.trace(head, example(bundle), check_trace=False)  # type: ignore[no-untyped-call]
        except GamlpError:
            raise
        except Exception as error:  # of torch, or of a model of somebody's own: anything may go wrong
            raise cannot_hold(bundle, "TorchScript", error) from error
        with atomic_file(out) as new:
            traced.save(str(new), _extra_files=metadata_of(bundle))
            loaded: Any = torch.jit.load(str(new), map_location="cpu")  # type: ignore[no-untyped-call]
            return check_agrees(bundle, _answers_of(loaded), "TorchScript")


def write_program(bundle: Bundle, out: Path) -> float:
    """`torch.export.load(out).module()(x, y)` does the same; the largest difference."""
    program = exported_program(bundle)
    with torch.no_grad(), quietly():
        for node in program.graph.nodes:
            for name in _FROM_SOURCE:
                node.meta.pop(name, None)
        with atomic_file(out) as new:
            torch.export.save(program, new, extra_files=metadata_of(bundle))
            return check_agrees(bundle, _answers_of(torch.export.load(new).module()), "a torch.export program")


def exported_program(bundle: Bundle, what: str = "a torch.export program") -> torch.export.ExportedProgram:
    """The head's operations, for batches of any size."""
    head = head_of(bundle)
    batch = torch.export.Dim("batch")
    with torch.no_grad(), quietly():
        try:
            return torch.export.export(
                head, example(bundle), dynamic_shapes=tuple({0: batch} for _ in input_names(bundle)), strict=False
            )
        except GamlpError:
            raise
        except Exception as error:
            raise cannot_hold(bundle, what, error) from error


def _answers_of(module: nn.Module) -> Any:
    def answer(*hops: Tensor) -> tuple[Array, Array]:
        probabilities, logits = module(*hops)
        return probabilities.numpy(), logits.numpy()

    return answer


@contextmanager
def quietly() -> Iterator[None]:
    """Without what torch's exporters say on the way: whether they succeeded is found out by comparing."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
