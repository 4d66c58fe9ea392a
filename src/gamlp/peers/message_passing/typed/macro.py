"""HGConv: attention within every relation (micro), then over the relations of a node (macro)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.peers.message_passing.dropping import dropped
from gamlp.peers.message_passing.layers import InitialisedLinear
from gamlp.peers.message_passing.typed.layers import (
    Residual,
    States,
    TypedInput,
    attended,
    glorot,
    heads_of,
    mixed,
    relation_matrix,
)
from gamlp.peers.tensors import Heard, TypedShape, TypedTensors
from gamlp.recipe import ModelSettings, Recipe


class HGConv(nn.Module):
    """HGConv (Yu et al., 2020): features of every type to one width, layers of both convolutions, a linear map.

    `model.hidden` is the width of all heads together. Options: heads.
    """

    def __init__(self, shape: TypedShape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, heads_of(recipe, {"heads": 8})
        self.first = TypedInput(shape, settings.hidden, settings.input_dropout)
        self.layers = nn.ModuleList(
            [Hybrid(shape, heard, settings, options["heads"]) for heard in shape.heard(settings.layers)]
        )
        self.last = InitialisedLinear(settings.hidden, shape.classes)

    def forward(self, tensors: TypedTensors, known: Tensor | None = None) -> Tensor:
        hidden = self.first(tensors)
        for layer in self.layers:
            hidden = layer(hidden, tensors)
        logits: Tensor = self.last(tensors.asked(hidden[tensors.shape.target]))
        return logits


class Hybrid(nn.Module):
    """One layer. For a node i of type τ, a relation r from nodes of type s, every head:

    micro: c_r = relu(Σ_j α_j W_s h_j), α = softmax over j in N_r(i) of LeakyReLU(a_s · [W_τ h_i ‖ W_s h_j]);
    macro: z = Σ_r β_r E_r c_r, β = softmax over r of LeakyReLU(q · [Q_τ h_i ‖ E_r c_r]), E_r over all heads at once;
    then h_i ← σ(λ_τ) z + (1 - σ(λ_τ)) (R_τ h_i + b_τ). A relation without edges takes no part.
    """

    def __init__(self, shape: TypedShape, heard: Heard, settings: ModelSettings, heads: int) -> None:
        super().__init__()
        self.heard, self.heads = heard, heads
        self.dropout, self.attention_dropout = settings.dropout, settings.attention_dropout
        self.place = node_types = {node_type: place for place, node_type in enumerate(shape.counts)}
        width, each = settings.hidden, settings.hidden // heads
        self.node = nn.ParameterList([glorot(width, width) for _ in node_types])
        self.attention = nn.ParameterList([glorot(heads, 2 * each) for _ in node_types])
        self.relation = nn.ParameterList([glorot(width, width) for _ in heard.relations])
        self.centre = nn.ParameterList([glorot(width, width) for _ in heard.node_types])
        self.over_relations = glorot(heads, 2 * each)
        self.residual = nn.ModuleList([Residual(width) for _ in heard.node_types])

    def forward(self, hidden: States, tensors: TypedTensors) -> States:
        heard: dict[str, list[Tensor]] = {node_type: [] for node_type in self.heard.node_types}
        read = {node_type: dropped(values, self.dropout, self.training) for node_type, values in hidden.items()}
        mapped = {
            node_type: self._in_heads(values @ self.node[self.place[node_type]]) for node_type, values in read.items()
        }
        for name, weight in zip(self.heard.relations, self.relation):
            if tensors.live((name,)):
                micro = self._micro(tensors, name, mapped)
                heard[tensors.shape.relations[name].target].append(self._in_heads(micro @ weight))
        found = {}
        for node_type, centre, residual in zip(self.heard.node_types, self.centre, self.residual):
            macro = self._macro(hidden[node_type] @ centre, heard[node_type])
            found[node_type] = residual(dropped(macro, self.dropout, self.training), hidden[node_type])
        return found

    def _micro(self, tensors: TypedTensors, name: str, mapped: States) -> Tensor:
        relation = tensors.shape.relations[name]
        own, near = mapped[relation.target], mapped[relation.source]
        of_own, of_near = self.attention[self.place[relation.source]].chunk(2, 1)
        found = attended(
            relation_matrix(tensors, name).pattern, (own * of_own).sum(2), (near * of_near).sum(2), near,
            self.attention_dropout, self.training,
        )  # fmt: skip
        return functional.relu(found.flatten(1))

    def _macro(self, centre: Tensor, parts: list[Tensor]) -> Tensor:
        if not parts:
            return torch.zeros_like(centre)
        of_centre, of_part = self.over_relations.chunk(2, 1)
        own = (self._in_heads(centre) * of_centre).sum(2)
        return mixed(parts, [own + (part * of_part).sum(2) for part in parts]).flatten(1)

    def _in_heads(self, values: Tensor) -> Tensor:
        return values.view(len(values), self.heads, values.shape[1] // self.heads)
