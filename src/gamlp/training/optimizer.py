"""The recipe's optimiser: which parameters decay and learn how fast, and the learning rate of an epoch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from gamlp.recipe import TrainingSettings


def make_optimizer(
    groups: list[dict[str, Any]], settings: TrainingSettings, device: torch.device
) -> torch.optim.Optimizer:
    """Over groups of parameters, each with its `weight_decay` and its `rate`."""
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return _uncompiled(kind)(groups, lr=settings.learning_rate, fused=device.type in ("cpu", "cuda"))


@lru_cache
def _uncompiled(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """The same optimiser, made of the functions that torch has wrapped for its compiler.

    The wrappers import the compiler when they are first called, for a second or more in every process that trains, to
    tell it what to leave alone. Nothing is compiled here.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    plain: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**plain, "step": torch.no_grad()(inspect.unwrap(kind.step))})


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of all groups, each times its own."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Parameters by their weight decay and by what their learning rate is multiplied with.

    All decay, or those that the model's `decayed()` names: some papers decay the first layer alone. Those that its
    `attention_vectors()` names have a rate and a decay of their own, where the settings say so.
    """
    decayed: Callable[[], Iterable[nn.Parameter]] | None = getattr(model, "decayed", None)
    vectors: Callable[[], Iterable[nn.Parameter]] | None = getattr(model, "attention_vectors", None)
    chosen = None if decayed is None else {id(value) for value in decayed()}
    attending = set() if vectors is None else {id(value) for value in vectors()}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for value in model.parameters():
        decay = settings.weight_decay if chosen is None or id(value) in chosen else 0.0
        rate = 1.0
        if id(value) in attending:
            rate = settings.attention_rate
            decay = decay if settings.attention_decay is None else settings.attention_decay
        if value.requires_grad:
            groups.setdefault((decay, rate), []).append(value)
    return [{"params": values, "weight_decay": decay, "rate": rate} for (decay, rate), values in groups.items()]


def learning_rate(settings: TrainingSettings, epoch: int) -> float:
    """Of an epoch, from 0: rising through `warmup`, then constant, or falling to zero by cosine or line."""
    if epoch < settings.warmup:
        return settings.learning_rate * (epoch + 1) / (settings.warmup + 1)
    done = (epoch - settings.warmup) / max(1, settings.epochs - settings.warmup)
    share = {"constant": 1.0, "cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done}[settings.schedule]
    return settings.learning_rate * share
