"""A training run as it stands at the end of an epoch, on disk: safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.training.ranks.world import ALONE, World

Weights = dict[str, Tensor]


@dataclass
class TrainingState:
    """Where training stands: epochs done, the best of them, how long since.

    `recent` are validation numbers of the last epochs, `best_mean` the mean of so many at the best epoch,
    `lowest_loss` the lowest mean loss, reached in `lowest_epoch`.
    """

    epoch: int = 0
    best_epoch: int = 0
    best: dict[str, float] = field(default_factory=dict)
    best_weights: Weights = field(default_factory=dict)
    stopped: str = ""
    recent: list[dict[str, float]] = field(default_factory=list)
    best_mean: dict[str, float] = field(default_factory=dict)
    lowest_loss: float | None = None
    lowest_epoch: int = 0


def weights_of(model: nn.Module) -> Weights:
    """A copy of all parameters and buffers."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def save_tensors(place: Path | Place, tensors: Weights, about: dict[str, str]) -> None:
    """Write safetensors so that a reader sees all of it or nothing."""
    with Place.of(place).atomic_file(sync=True) as new:
        save_file({name: value.contiguous() for name, value in tensors.items()}, new, metadata=about)


def read_tensors(place: Path | Place) -> tuple[str, bool, Weights]:
    """The sealed text of a file, whether all bytes are those that were written, and its tensors."""
    with Place.of(place).as_file() as path, safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return *without_digest(file.metadata(), tensors), tensors


def with_digest(text: str, tensors: Weights) -> dict[str, str]:
    """Metadata of a file: the text after the digest of it and all tensors. One entry: the order of several varies."""
    return {"gamlp": f"{digest_of(text, tensors)} {text}"}


def without_digest(about: dict[str, str] | None, tensors: Weights) -> tuple[str, bool]:
    """The text, and whether all bytes are those that were written."""
    digest, _, text = (about or {})["gamlp"].partition(" ")
    return text, digest == digest_of(text, tensors)


def digest_of(text: str, tensors: Weights) -> str:
    """Of every byte that matters; finds damage and careless edits, it is no signature."""
    state = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        values = tensors[name].contiguous()
        state.update(f"{name} {values.dtype} {list(values.shape)}".encode())
        state.update(values.flatten().view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


@dataclass(frozen=True)
class RandomStreams:
    """What random numbers of the next epochs come from: the order of rows, and every rank's own stream."""

    shuffle: torch.Generator
    device: torch.device
    world: World = ALONE
    seed: int = 0

    def states(self) -> Weights:
        """Of all ranks; all must ask for it together."""
        found = {"random": torch.get_rng_state()}
        if self.device.type == "cuda":
            found["random_cuda"] = torch.cuda.get_rng_state(self.device)
        every: Weights = {"shuffle": self.shuffle.get_state()}
        for name, state in found.items():
            for rank, value in enumerate(self.world.gathered(state.to(self.device))):
                every[_ranked(name, rank)] = value.cpu()
        return every

    def restore(self, tensors: Weights, epoch: int) -> None:
        """As it was; a rank that was not there before begins a stream of its own."""
        self.shuffle.set_state(tensors["shuffle"])
        if (name := _ranked("random", self.world.rank)) in tensors:
            torch.set_rng_state(tensors[name])
        else:
            torch.manual_seed(self.world.random_seed(self.seed, epoch))
        if (name := _ranked("random_cuda", self.world.rank)) in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors[name], self.device)


def _ranked(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name


def save_checkpoint(
    path: Path | Place,
    training: TrainingState,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    streams: RandomStreams,
    averages: Mapping[str, nn.Module] | None = None,
) -> None:
    """All that the next epoch depends on; rank 0 writes it, and all must come here together.

    `averages` are models beside the one that trains, by name: averages of its weights.
    """
    tensors = {f"model.{name}": value for name, value in weights_of(model).items()}
    tensors |= {f"best.{name}": value for name, value in training.best_weights.items()}
    for beside, average in (averages or {}).items():
        tensors |= {f"{beside}.{name}": value for name, value in weights_of(average).items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value).cpu() for name, value in state.items()}
    tensors |= streams.states()
    if streams.world.rank:
        return
    kept = {one.name: getattr(training, one.name) for one in fields(training) if one.name != "best_weights"}
    text = json.dumps(kept)
    save_tensors(path, tensors, with_digest(text, tensors))


def load_checkpoint(
    path: Path | Place,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    streams: RandomStreams,
    averages: Mapping[str, nn.Module] | None = None,
) -> TrainingState:
    """Put everything back as it was."""
    try:
        text, unchanged, tensors = read_tensors(path)
        if not unchanged:
            raise ValueError("its bytes are not those that were written")
        kept: dict[str, Any] = json.loads(text)
        state = TrainingState(best_weights=tensors_under(tensors, "best."), **kept)
        model.load_state_dict(tensors_under(tensors, "model."))
        for beside, average in (averages or {}).items():
            average.load_state_dict(tensors_under(tensors, f"{beside}."))
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors_under(tensors, "optimizer.").items():
            index, _, key = name.partition(".")
            states.setdefault(int(index), {})[key] = value
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        streams.restore(tensors, state.epoch)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise GamlpError(
            "damaged or foreign checkpoint", file=str(path), hint="remove it to train this seed from the start"
        ) from error
    return state


def tensors_under(tensors: Weights, prefix: str) -> Weights:
    """Those whose names begin so, without the prefix."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
