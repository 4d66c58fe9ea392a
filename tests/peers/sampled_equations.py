"""The sampled peers' equations, written out plainly on dense matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gamlp.peers.samplers.networks import ClusterGCN, GraphSAINT


def dense_logits(model: nn.Module, x: Tensor, adjacency: Tensor) -> Tensor:
    """The papers' equations, written out in float64."""
    degrees = adjacency.sum(1, keepdim=True)
    mean = torch.where(degrees > 0, adjacency / degrees.clamp(min=1e-9), 0.0)
    if isinstance(model, ClusterGCN):
        with_loops = (adjacency + torch.eye(len(x))) / (degrees + 1)
        matrix = with_loops + model.diagonal * torch.diag(torch.diag(with_loops))
        first = torch.relu(matrix @ x @ model.layers[0].weight.double().T + model.bias[0])
        return matrix @ first @ model.layers[1].weight.double().T + model.bias[1]
    hidden = x
    for layer in range(2):
        own = hidden @ model.own[layer].weight.double().T + model.own[layer].bias
        near = mean @ hidden @ model.near[layer].weight.double().T
        if isinstance(model, GraphSAINT):
            near = near + model.bias[layer]
            both = [_row_norm(torch.relu(own)), _row_norm(torch.relu(near))]
            norms = [model.norms[2 * layer], model.norms[2 * layer + 1]]
            hidden = torch.cat([value * norm.weight + norm.bias for value, norm in zip(both, norms)], 1)
        else:
            hidden = torch.relu(own + near)
            hidden = hidden / hidden.norm(dim=1, keepdim=True).clamp(min=1e-12)
    hidden = hidden / hidden.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return hidden @ model.last.weight.double().T + model.last.bias


def _row_norm(values: Tensor) -> Tensor:
    return (values - values.mean(1, keepdim=True)) / (values.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
