"""R-GCN and HGT: messages by relation, summed at every node or weighed by attention over all of them at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import HGTConv

from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.dropping import dropped
from gamlp.peers.message_passing.heads import scores, softmax, weighted
from gamlp.peers.message_passing.layers import InitialisedLinear
from gamlp.peers.message_passing.sparse import Pattern, from_triples
from gamlp.peers.message_passing.typed.layers import States, TypedInput, heads_of, relation_matrix
from gamlp.peers.tensors import Heard, TypedShape, TypedTensors
from gamlp.recipe import ModelSettings, Recipe


class RGCN(nn.Module):
    """R-GCN (Schlichtkrull et al., 2018): h_i ← relu(W_τ h_i + b_τ + Σ_r mean_{j in N_r(i)} W_r h_j), no relu at last.

    As OGB's R-GCN on ogbn-mag, and unlike PyG's RGCNConv, every node type τ has a W of its own for the node itself.
    Neighbours' means are sparse products by relation; where edges have weights, weighted means.
    """

    def __init__(self, shape: TypedShape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        options_of(recipe, {})
        self.first = TypedInput(shape, settings.hidden, settings.input_dropout)
        heard = shape.heard(settings.layers)
        widths = [settings.hidden] * (settings.layers - 1) + [shape.classes]
        self.layers = nn.ModuleList([_Relational(*pair, settings.hidden) for pair in zip(heard, widths)])
        self.dropout = settings.dropout

    def forward(self, tensors: TypedTensors, known: Tensor | None = None) -> Tensor:
        hidden = self.first(tensors)
        for index, layer in enumerate(self.layers):
            hidden = {node_type: dropped(values, self.dropout, self.training) for node_type, values in hidden.items()}
            hidden = layer(hidden, tensors)
            if index + 1 < len(self.layers):
                hidden = {node_type: functional.relu(values) for node_type, values in hidden.items()}
        return tensors.asked(hidden[tensors.shape.target])


class _Relational(nn.Module):
    def __init__(self, heard: Heard, outer: int, inner: int) -> None:
        super().__init__()
        self.heard = heard
        self.own = nn.ModuleList([InitialisedLinear(inner, outer) for _ in heard.node_types])
        self.near = nn.ModuleList([InitialisedLinear(inner, outer, bias=False) for _ in heard.relations])

    def forward(self, hidden: States, tensors: TypedTensors) -> States:
        found = {node_type: layer(hidden[node_type]) for node_type, layer in zip(self.heard.node_types, self.own)}
        for name, layer in zip(self.heard.relations, self.near):
            if tensors.live((name,)):
                relation = tensors.shape.relations[name]
                mean = relation_matrix(tensors, name, mean=True).times(layer(hidden[relation.source]))
                found[relation.target] = found[relation.target] + mean
        return found


class HGT(nn.Module):
    """HGT (Hu et al., 2020): layers of attention over all edges into a node at once, then a linear map.

    h = gelu(x W_τ + b_τ) at first. `model.hidden` is the width of all heads together. Options: heads.
    """

    def __init__(self, shape: TypedShape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, heads_of(recipe, {"heads": 8})
        width = settings.hidden
        self.first = TypedInput(shape, width, settings.input_dropout)
        self.layers = nn.ModuleList(
            [TypedTransformer(shape, heard, settings, options["heads"]) for heard in shape.heard(settings.layers)]
        )
        self.last = InitialisedLinear(width, shape.classes)

    def forward(self, tensors: TypedTensors, known: Tensor | None = None) -> Tensor:
        hidden = {node_type: functional.gelu(values) for node_type, values in self.first(tensors).items()}
        for layer in self.layers:
            hidden = layer(hidden, tensors)
        logits: Tensor = self.last(tensors.asked(hidden[tensors.shape.target]))
        return logits


class TypedTransformer(HGTConv):  # type: ignore[misc]
    """PyG's HGTConv with its parameters, its sums over edges done as sparse products. For a node i of type τ:

    h_i ← σ(s_τ) A_τ gelu(Σ_j α_ij M_r V h_j) + (1 - σ(s_τ)) h_i, α = softmax over all j by all relations r of
    μ_r (Q h_i) · (W_r K h_j) / √d; Q, K, V, A by type, W, M, μ by relation. Who hears none has a sum of zero.
    """

    def __init__(self, shape: TypedShape, heard: Heard, settings: ModelSettings, heads: int) -> None:
        # By number: PyG makes names of modules of them, and a type may be called what a module already has.
        number = {node_type: f"type{index}" for index, node_type in enumerate(shape.counts)}
        relations = [shape.relations[name] for name in heard.relations]
        edges = [
            (number[relation.source], f"relation{r}", number[relation.target]) for r, relation in enumerate(relations)
        ]
        super().__init__(settings.hidden, settings.hidden, (list(number.values()), edges), heads)
        self.heard, self.number, self.edge_of = heard, number, dict(zip(heard.relations, edges))
        self.dropout, self.attention_dropout = settings.dropout, settings.attention_dropout

    def forward(self, hidden: States, tensors: TypedTensors) -> States:
        names, node_types, each = (
            tensors.live(self.heard.relations),
            self.heard.node_types,
            self.out_channels // self.heads,
        )
        mapped = self.kqv_lin({self.number[node_type]: values for node_type, values in hidden.items()})
        parts = {
            node_type: [part.unflatten(1, (self.heads, each)) for part in values.chunk(3, 1)]
            for node_type, values in mapped.items()
        }
        query = torch.cat([parts[self.number[node_type]][1] for node_type in node_types])
        heard = torch.zeros_like(query)
        if names:
            keys, values = ({node_type: three[place] for node_type, three in parts.items()} for place in (0, 2))
            edges = {self.edge_of[name]: None for name in names}
            key, value, _ = self._construct_src_node_feat(keys, values, edges)
            counts = [tensors.shape.counts[tensors.shape.relations[name].source] for name in names]
            strength = [self.p_rel["__".join(edge)].expand(count, -1) for edge, count in zip(edges, counts)]
            heard = self._heard(union(tensors, names, node_types), query, key * torch.cat(strength)[..., None], value)
        found = {}
        for node_type, sums in zip(
            node_types, torch.split(heard.flatten(1), [tensors.shape.counts[node_type] for node_type in node_types])
        ):
            number = self.number[node_type]
            new = dropped(self.out_lin.lins[number](functional.gelu(sums)), self.dropout, self.training)
            share = torch.sigmoid(self.skip[number])
            found[node_type] = share * new + (1 - share) * hidden[node_type]
        return found

    def _heard(self, pattern: Pattern, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        alike = scores(pattern, query.transpose(0, 1), key.transpose(0, 1)) / math.sqrt(query.shape[2])
        alpha = dropped(softmax(pattern, alike.t()), self.attention_dropout, self.training)
        return weighted(pattern, alpha.t(), value.transpose(0, 1)).transpose(0, 1)


def union(tensors: TypedTensors, names: list[str], node_types: tuple[str, ...]) -> Pattern:
    """All edges of these relations in one pattern: rows are nodes type after type, columns sources by relation."""
    key = f"union {names} {node_types}"
    if key not in tensors.kept:
        counts, relations = tensors.shape.counts, tensors.shape.relations
        before = dict(zip(node_types, _starts([counts[node_type] for node_type in node_types])))
        widths = [counts[relations[name].source] for name in names]
        columns = torch.cat([tensors.edges[name][0] + start for name, start in zip(names, _starts(widths))])
        rows = torch.cat([tensors.edges[name][1] + before[relations[name].target] for name in names])
        size = (sum(counts[node_type] for node_type in node_types), sum(widths))
        tensors.kept[key] = from_triples(rows, columns, torch.ones(len(rows)), size).pattern
    found: Pattern = tensors.kept[key]
    return found


def _starts(sizes: list[int]) -> list[int]:
    return [sum(sizes[:index]) for index in range(len(sizes))]
