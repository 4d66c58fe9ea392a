"""What peers of several node types share: features brought to one width, and sums over the edges of a relation."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.errors import GamlpError
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.dropping import dropped
from gamlp.peers.message_passing.heads import attention, weighted
from gamlp.peers.message_passing.layers import InitialisedLinear, dropout
from gamlp.peers.message_passing.sparse import Matrix, Pattern, from_triples, sparse
from gamlp.peers.tensors import TypedShape, TypedTensors
from gamlp.recipe import Recipe

States = dict[str, Tensor]  # by type, or by relation: its target nodes, `[n, width]`
SLOPE = 0.2  # of LeakyReLU in attention


class TypedInput(nn.Module):
    """h = x W_τ + b_τ for a type τ with features, a learnt row a node for one without (as a one-hot feature is)."""

    def __init__(self, shape: TypedShape, width: int, input_dropout: float) -> None:
        super().__init__()
        self.node_types, self.input_dropout = tuple(shape.widths), input_dropout
        # By position: a type may be called what a module already has ("type", "a.b").
        self.maps = nn.ModuleList(
            [
                InitialisedLinear(own, width) if own else _Table(shape.counts[node_type], width)
                for node_type, own in shape.widths.items()
            ]
        )

    def forward(self, tensors: TypedTensors) -> States:
        return {
            node_type: layer(dropout(typed_features(tensors, node_type), self.input_dropout, self.training))
            for node_type, layer in zip(self.node_types, self.maps)
        }


class _Table(nn.Module):
    """A row of its own for every node."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width))
        if count:
            nn.init.xavier_uniform_(self.weight)

    def forward(self, ones: Tensor) -> Tensor:
        """`ones[count, 1]` after dropout: a node without its feature has none of its row."""
        return self.weight * ones


def typed_features(tensors: TypedTensors, node_type: str) -> Tensor | Matrix:
    """x of a type, as a sparse matrix where it is one; a column of ones where the type has no features."""
    key = f"features {node_type}"
    if key not in tensors.kept:
        x = tensors.x[node_type]
        found = torch.ones(tensors.shape.counts[node_type], 1) if x is None else sparse(x)
        tensors.kept[key] = found
    known: Tensor | Matrix = tensors.kept[key]
    return known


def relation_matrix(tensors: TypedTensors, name: str, mean: bool = False) -> Matrix:
    """A_r `[targets, sources]`, row i = what node i hears by the relation; `mean`: rows sum to one. Made once."""
    key = f"relation {name} {mean}"
    if key not in tensors.kept:
        tensors.kept[key] = _relation_matrix(tensors, name, mean)
    found: Matrix = tensors.kept[key]
    return found


def _relation_matrix(tensors: TypedTensors, name: str, mean: bool) -> Matrix:
    relation, counts = tensors.shape.relations[name], tensors.shape.counts
    source, target = tensors.edges[name]
    weights = tensors.weights.get(name, torch.ones(len(source)))
    matrix = from_triples(target, source, weights, (counts[relation.target], counts[relation.source]))
    if not mean:
        return matrix
    rows = matrix.pattern.targets
    sums = rows.transposed.times(matrix.values[:, None])
    return Matrix(matrix.pattern, matrix.values * rows.times(torch.where(sums > 0, 1 / sums, 0.0)).ravel())


def attended(pattern: Pattern, own: Tensor, near: Tensor, values: Tensor, share: float, training: bool) -> Tensor:
    """Σ_j α_ij values_j, α_ij = softmax_j LeakyReLU(own_i + near_j); a node that hears none gets zeros.

    own `[targets, heads]`, near `[sources, heads]`, values `[sources, heads, d]` → `[targets, heads, d]`; `share` of
    the α is dropped.
    """
    alpha = dropped(attention(pattern, near, own, SLOPE), share, training)
    return weighted(pattern, alpha.t(), values.transpose(0, 1)).transpose(0, 1)


def mixed(parts: Iterable[Tensor], scores: Iterable[Tensor]) -> Tensor:
    """Σ_r β_r part_r, β = softmax over r of LeakyReLU(score_r): parts `[n, heads, d]`, scores `[n, heads]`."""
    beta = torch.softmax(functional.leaky_relu(torch.stack(list(scores)), SLOPE), 0)
    return (beta[..., None] * torch.stack(list(parts))).sum(0)


def glorot(*sizes: int) -> nn.Parameter:
    """Normal with Glorot's deviation and the gain of relu."""
    weight = nn.Parameter(torch.empty(*sizes))
    nn.init.xavier_normal_(weight, nn.init.calculate_gain("relu"))
    return weight


def glorot_linear(inner: int, outer: int) -> nn.Linear:
    """A linear layer with such weights."""
    layer = nn.Linear(inner, outer)
    nn.init.xavier_normal_(layer.weight, nn.init.calculate_gain("relu"))
    return layer


class Residual(nn.Module):
    """σ(λ) h' + (1 - σ(λ)) (h W + b): λ is learnt, and begins as a normal number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = glorot_linear(width, width)
        self.share = nn.Parameter(torch.randn(1))

    def forward(self, found: Tensor, before: Tensor) -> Tensor:
        share = torch.sigmoid(self.share)
        mapped: Tensor = self.map(before)
        return share * found + (1 - share) * mapped


def heads_of(recipe: Recipe, defaults: dict[str, int]) -> dict[str, int]:
    """Options with `heads`, which divide `model.hidden`."""
    options = options_of(recipe, defaults)
    heads, hidden = options["heads"], recipe.model.hidden
    if not heads or hidden % heads:
        raise GamlpError(
            f"'model.hidden' of '{recipe.model.name}' is {hidden}, which {heads} heads do not divide",
            hint="choose a multiple of model.options.heads",
        )
    return options
