"""The oracle: GAMLP's equations as they stand on paper, with concatenated vectors and the whole history each time.

Every function reads parameters by the names of the model's state dict, so that values and gradients of the very same
tensors can be compared. Nothing of the package is called.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]


def delta(score: Tensor, activation: str) -> Tensor:
    if activation == "sigmoid":
        return 1 / (1 + torch.exp(-score))
    if activation == "relu":
        return torch.where(score > 0, score, torch.zeros_like(score))
    return torch.where(score > 0, score, 0.2 * score)


def recursive_weights(x: Tensor, s: Tensor, activation: str) -> Tensor:
    """score_0 = δ(s·[x_0 ‖ x_0]); score_l = δ(s·[x_l ‖ Σ_{k<l} softmax(score_{<l})_k x_k]): O(K²) vectors."""
    scores: list[Tensor] = []
    for hop in range(x.shape[1]):
        if hop == 0:
            history = x[:, 0]
        else:
            before = torch.softmax(torch.stack(scores, 1), 1)
            history = sum((before[:, k : k + 1] * x[:, k] for k in range(hop)), torch.zeros_like(x[:, 0]))
        scores.append(delta(torch.cat([x[:, hop], history], 1) @ s, activation))
    return torch.softmax(torch.stack(scores, 1), 1)


def jk_weights(x: Tensor, s: Tensor, reference: Tensor, activation: str) -> Tensor:
    """score_l = δ(s·[x_l ‖ reference])."""
    scores = [delta(torch.cat([x[:, hop], reference], 1) @ s, activation) for hop in range(x.shape[1])]
    return torch.softmax(torch.stack(scores, 1), 1)


def alphas(kind: str, hops: int) -> list[float]:
    """α_1 … α_L."""
    if kind in ("cosine", "uniform"):
        return [math.cos(math.pi * hop / (2 * hops)) for hop in range(1, hops + 1)]
    if kind == "linear":
        return [(hops - hop) / hops for hop in range(1, hops + 1)]
    return [{"fixed": 0.7, "none": 0.0}[kind]] * hops


def smoothed(y: Tensor, kind: str, label_zero: bool) -> Tensor:
    """Ŷ^(l) = (1 - α_l) Y^(l) + α_l Y^(L) (uniform: 1/c in place of Y^(L)), after Y^(0) where it is used."""
    last = y.shape[1] - 1
    found = [y[:, 0]] if label_zero else []
    for hop, alpha in zip(range(1, last + 1), alphas(kind, last)):
        towards = torch.full_like(y[:, last], 1 / y.shape[2]) if kind == "uniform" else y[:, last]
        found.append((1 - alpha) * y[:, hop] + alpha * towards)
    return torch.stack(found, 1)


def norm(state: State, name: str, h: Tensor, training: bool) -> Tensor:
    mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    if training:
        mean, variance = h.mean(0), ((h - h.mean(0)) ** 2).mean(0)
    return (h - mean) / torch.sqrt(variance + 1e-5) * state[f"{name}.weight"] + state[f"{name}.bias"]


def input_norm(state: State, x: Tensor, training: bool) -> Tensor:
    """Every feature of every hop by its mean and deviation over rows, of the batch or of those that were kept.

    What is farther than 10 deviations is read as that far.
    """
    mean = state["norm.norm.running_mean"].view(x.shape[1:])
    variance = state["norm.norm.running_var"].view(x.shape[1:])
    if training:
        mean, variance = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
    return ((x - mean) / torch.sqrt(variance + 1e-5)).clamp(-10, 10)


def with_high_pass(state: State, x: Tensor) -> Tensor:
    """w_k ∘ X^(k) + v_k ∘ (X^(k) - X^(k-1)), the difference being zero at the first hop."""
    low, high = state["mixing.weight"]
    hops = [low[0] * x[:, 0]]
    for hop in range(1, x.shape[1]):
        hops.append(low[hop] * x[:, hop] + high[hop] * (x[:, hop] - x[:, hop - 1]))
    return torch.stack(hops, 1)


def divided_by_sums(y: Tensor) -> Tensor:
    """Row by row, hop by hop; what sums to nothing stays."""
    rows = [row / row.sum() if row.sum() > 0 else row for row in y.flatten(0, 1)]
    return torch.stack(rows).view_as(y)


def mlp(state: State, name: str, h: Tensor, training: bool, initial_residual: float = 0.0) -> Tensor:
    """Linear maps; between them batch norm where there is one, and ReLU; later layers read (1 - α) h_(l-1) + α h_1."""
    depth = len([key for key in state if key.startswith(f"{name}.linear.") and key.endswith(".weight")])
    first = None
    for layer in range(depth):
        if first is not None:
            h = (1 - initial_residual) * h + initial_residual * first
        h = h @ state[f"{name}.linear.{layer}.weight"].T + state[f"{name}.linear.{layer}.bias"]
        if layer == depth - 1:
            return h
        if f"{name}.norms.{layer}.weight" in state:
            h = norm(state, f"{name}.norms.{layer}", h, training)
        h = torch.where(h > 0, h, torch.zeros_like(h))
        first = h if first is None else first
    raise AssertionError("an MLP has a layer")


def hop_mlp(state: State, x: Tensor, training: bool) -> Tensor:
    """A linear map of its own for every hop, batch norm where there is one, ReLU."""
    hops = [x[:, hop] @ state["hop_mlp.weight"][hop] + state["hop_mlp.bias"][hop, 0] for hop in range(x.shape[1])]
    if "hop_mlp.norm.weight" in state:
        joined = norm(state, "hop_mlp.norm", torch.cat(hops, 1), training)
        hops = list(joined.split(hops[0].shape[1], 1))
    return torch.stack([torch.where(hop > 0, hop, torch.zeros_like(hop)) for hop in hops], 1)


def attention_weights(state: State, name: str, x: Tensor, options: dict[str, Any], first: int) -> Tensor:
    """Of either kind, told by its parameters; `first` is the first hop that the jk reference reads."""
    activation = options["activation"]
    if f"{name}.vectors" in state:
        return recursive_weights(
            x, torch.cat([state[f"{name}.vectors"][:, 0], state[f"{name}.vectors"][:, 1]]), activation
        )
    s1 = state[f"{name}.vector"]
    if f"{name}.reference_vector" not in state:
        return jk_weights(x, s1, x[:, 0, :0], activation)
    if f"{name}.noise" in state:
        reference = state[f"{name}.noise"].expand(len(x), -1)
    elif f"{name}.mlp.linear.0.weight" in state:
        joined = torch.cat([x[:, hop] for hop in range(first, x.shape[1])], 1)
        reference = mlp(state, f"{name}.mlp", joined, options["training"])
    else:
        reference = x[:, 0]
    return jk_weights(x, torch.cat([s1, state[f"{name}.reference_vector"]]), reference, activation)


def forward(state: State, options: dict[str, Any], x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """(logits, weights over hops of features, weights over hops of labels) of x `[b, 1, K + 1, d]`, without dropout."""
    training = options["training"]
    own = with_high_pass(state, x[:, 0]) if options["high_pass"] else x[:, 0]
    own = input_norm(state, own, training) if options["input_norm"] else own
    hops = hop_mlp(state, own, training) if options["hop_mlp"] else own
    weights = attention_weights(state, "attention", hops, options, 1)
    mixed = sum((weights[:, k : k + 1] * hops[:, k] for k in range(hops.shape[1])), torch.zeros_like(hops[:, 0]))
    if options["residual"]:
        mixed = mixed + own[:, 0] @ state["residual.weight"].T
    logits = mlp(state, "mlp", mixed, training, options["initial_residual"])
    if options["beta"] == 0:
        return logits, weights, None
    assert y is not None
    heard_hops = divided_by_sums(y[:, 0]) if options["label_scale"] == "hop" else y[:, 0]
    labels = smoothed(heard_hops, options["last_residual"], options["label_zero"])
    first = 1 if options["label_zero"] and y.shape[2] > 1 else 0
    label_weights = attention_weights(state, "label_attention", labels, options, first)
    heard = sum(
        (label_weights[:, k : k + 1] * labels[:, k] for k in range(labels.shape[1])), torch.zeros_like(labels[:, 0])
    )
    return logits + options["beta"] * mlp(state, "label_mlp", heard, training), weights, label_weights
