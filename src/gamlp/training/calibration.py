"""A temperature by which logits are divided, so that probabilities mean what they say; validation rows decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.training.batches import Batches, HopRows
from gamlp.training.reliability import calibration_error, reliability_of, said_and_true
from gamlp.training.scores import logits_of

MOST_ROWS = 50_000  # of validation that a temperature is fitted on: one number needs no more
_HOTTEST = 20.0  # T is between its inverse and itself
_STEPS = 100
_BATCH = 10_000
_SMALLEST = 1e-4  # of log-loss: less is rounding


@dataclass(frozen=True)
class Calibration:
    """T, and what it does to validation rows: mean log-loss and expected calibration error before and with it.

    `temperature` is 1 where no other lowers the log-loss; before and after are equal then.
    """

    temperature: float
    rows: int
    loss_before: float
    loss: float
    ece_before: float
    ece: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Calibration:
        """From its fields in their order, all as floats."""
        temperature, rows, *others = numbers
        return cls(temperature, int(rows), *others)


def calibrate(model: nn.Module, valid: HopRows, *, most_rows: int = MOST_ROWS) -> Calibration | None:
    """The temperature of a trained model by its validation rows; of many, by some evenly among them.

    None: its logits are no finite numbers.
    """
    valid = calibration_rows(valid, most_rows)
    device = next((value.device for value in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    parts = [(logits.double().cpu(), batch.target.cpu()) for batch, logits in logits_of(model, _batches(valid, device))]
    logits, target = (torch.cat(part) for part in zip(*parts))
    if not bool(logits.isfinite().all()):
        return None
    before = log_loss(logits, target)
    # Four digits: the same bytes where the last bits of sums differ.
    temperature = float(f"{fit_temperature(logits, target):.4g}")
    loss = log_loss(logits / temperature, target)
    if loss > before - _SMALLEST * max(before, 1e-12):
        temperature, loss = 1.0, before
    answers = target.numpy()
    found = [said_and_true(_probabilities(logits / heat, target), answers) for heat in (1.0, temperature)]
    eces = [calibration_error(reliability_of(*one)) for one in found]
    return Calibration(temperature, len(target), before, loss, *eces)


def calibration_rows(valid: HopRows, most_rows: int = MOST_ROWS) -> HopRows:
    """All, or so many evenly among them."""
    if len(valid) <= most_rows:
        return valid
    return replace(valid, rows=valid.rows[np.linspace(0, len(valid) - 1, most_rows).astype(np.int64)])


def _batches(rows: HopRows, device: torch.device) -> Batches:
    return rows.batches(_BATCH, device, 0)  # read once: none is held


def fit_temperature(logits: Tensor, target: Tensor) -> float:
    """T > 0 that minimises the log-loss of softmax(logits / T), or of sigmoids where a node has many labels.

    To the n rows one is added that has every answer in equal parts, as Platt did: where all n are right no T would be
    cold enough, and a handful of rows is no reason to be sure. It counts 1 / (n + 1).
    The loss is convex in s = 1 / T, so Newton's steps inside a bracket end at the one minimum.
    """
    multi_label = target.ndim == 2
    count, classes = logits.shape
    wanted = target.double() if multi_label else nn.functional.one_hot(target, classes).double()
    wanted = (count * wanted + (0.5 if multi_label else 1 / classes)) / (count + 1)
    z = logits if multi_label else logits - logits.amax(1, keepdim=True)

    def slopes(s: float) -> tuple[float, float]:
        """First and second derivative of the loss."""
        if multi_label:
            p = torch.sigmoid(s * z)
            return float(((p - wanted) * z).mean()), float((p * (1 - p) * z * z).mean())
        p = torch.softmax(s * z, 1)
        mean = (p * z).sum(1)
        return float((mean - (wanted * z).sum(1)).mean()), float(((p * z * z).sum(1) - mean * mean).mean())

    low, high, s = 1 / _HOTTEST, _HOTTEST, 1.0
    for _ in range(_STEPS):
        first, second = slopes(s)
        low, high = (low, s) if first > 0 else (s, high)
        step = s - first / second if second > 0 else 0.0
        after = step if low < step < high else (low * high) ** 0.5
        if abs(after - s) <= 1e-9 * s:
            break
        s = after
    return 1 / s


def log_loss(logits: Tensor, target: Tensor) -> float:
    """Mean log-loss, of every class's sigmoid where a node has many labels."""
    if target.ndim == 2:
        return float(nn.functional.binary_cross_entropy_with_logits(logits, target.to(logits.dtype)))
    return float(nn.functional.cross_entropy(logits, target))


def _probabilities(logits: Tensor, target: Tensor) -> Array:
    found: Array = (torch.sigmoid(logits) if target.ndim == 2 else torch.softmax(logits, 1)).numpy()
    return found


def with_temperature(model: nn.Module, temperature: float) -> nn.Module:
    """The model with its logits divided by T, whoever calls it."""
    if temperature != 1.0:
        model.register_forward_hook(lambda _module, _given, logits: logits / temperature)
    return model
