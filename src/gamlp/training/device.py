"""Where tensors live."""

from __future__ import annotations

import torch

from gamlp.errors import GamlpError


def choose_device(name: str = "auto") -> torch.device:
    """`auto` is CUDA, then MPS, then the processor; one that is named and not there is told."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind = name.partition(":")[0]
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(kind, False):
        present = ", ".join(known for known, yes in there.items() if yes)
        raise GamlpError(f"device '{name}' is not here", hint=f"here are: {present}")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise GamlpError(f"'{name}' is no device", hint="write cpu, cuda, cuda:1 or mps") from error
