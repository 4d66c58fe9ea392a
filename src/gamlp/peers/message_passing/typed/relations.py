"""R-HGNN: a representation of every node for each relation that it hears, and one of the relation itself."""

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
    glorot_linear,
    heads_of,
    mixed,
    relation_matrix,
)
from gamlp.peers.tensors import Heard, TypedShape, TypedTensors
from gamlp.recipe import ModelSettings, Recipe


class RHGNN(nn.Module):
    """R-HGNN (Yu et al., 2021): layers, then the target's representations fused and mapped to classes.

    Fusing, every head: h_i = Σ_r γ_r F_r h_i,r, γ = softmax over r of LeakyReLU((F_r h_i,r) · (G_r e_r)).
    `model.hidden` is the width of all heads together. Options: heads, relation_width (of e_r, every head).
    """

    def __init__(self, shape: TypedShape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, heads_of(recipe, {"heads": 8, "relation_width": 8})
        self.heads, narrow = options["heads"], max(1, options["relation_width"])
        each = settings.hidden // self.heads
        heard = shape.heard(settings.layers)
        self.first = TypedInput(shape, settings.hidden, settings.input_dropout)
        self.names = heard[0].relations  # every layer listens to some of these
        self.relations = nn.ParameterList([glorot(narrow, 1) for _ in self.names])
        widths = [narrow, *[narrow * self.heads] * settings.layers]
        self.layers = nn.ModuleList(
            [
                Aware(shape, one, after.relations, settings, self.heads, (inner, outer))
                for one, after, inner, outer in zip(heard, [*heard[1:], heard[-1]], widths, widths[1:])
            ]
        )
        self.fused = heard[-1].relations
        self.of_node = nn.ParameterList([glorot(self.heads, each, each) for _ in self.fused])
        self.of_relation = nn.ParameterList([glorot(self.heads, narrow, each) for _ in self.fused])
        self.last = InitialisedLinear(settings.hidden, shape.classes)
        self.dropout = settings.dropout

    def forward(self, tensors: TypedTensors, known: Tensor | None = None) -> Tensor:
        first = self.first(tensors)
        states = {name: first[tensors.shape.relations[name].target] for name in tensors.live(self.names)}
        relations = {name: value.flatten() for name, value in zip(self.names, self.relations)}
        for layer in self.layers:
            states, relations = layer(states, relations, first, tensors)
        fused = self._fused(states, relations, tensors)
        if fused is None:  # no relation leads to the target
            fused = first[tensors.shape.target]
        logits: Tensor = self.last(tensors.asked(fused))
        return logits

    def _fused(self, states: States, relations: States, tensors: TypedTensors) -> Tensor | None:
        parts, scores = [], []
        for name, of_node, of_relation in zip(self.fused, self.of_node, self.of_relation):
            if name in states:
                values = states[name].view(tensors.shape.counts[tensors.shape.target], self.heads, of_node.shape[1])
                part = torch.einsum("nhd,hde->nhe", values, of_node)
                wanted = torch.einsum("hd,hde->he", relations[name].view(self.heads, -1), of_relation)
                parts.append(part)
                scores.append((part * wanted).sum(2))
        return dropped(mixed(parts, scores).flatten(1), self.dropout, self.training) if parts else None


class Aware(nn.Module):
    """One layer. For a node i of type τ, a relation r from nodes of type s, every head, r' the reverse of r:

    c_r = relu(Σ_j α_j W_s h_j,r'), α = softmax over j in N_r(i) of LeakyReLU((V_r e_r) · [W_τ h_i,r ‖ W_s h_j,r']);
    c_r ← σ(λ_τ) c_r + (1 - σ(λ_τ)) (R_τ h_i,r + b_τ);
    crossing: h_i,r ← Σ_ρ β_ρ c_ρ, β = softmax over all ρ that i's type hears of LeakyReLU(q_r · c_ρ);
    e_r ← P_r e_r + b_r. A relation without edges takes no part.
    """

    def __init__(
        self,
        shape: TypedShape,
        heard: Heard,
        later: tuple[str, ...],
        settings: ModelSettings,
        heads: int,
        relation_widths: tuple[int, int],
    ) -> None:
        super().__init__()
        self.heard, self.later, self.heads = heard, later, heads  # `later`: relations that are heard after this layer
        self.dropout, self.attention_dropout = settings.dropout, settings.attention_dropout
        width, (inner, outer) = settings.hidden, relation_widths
        self.place = {node_type: place for place, node_type in enumerate(shape.counts)}
        self.node = nn.ParameterList([glorot(width, width) for _ in self.place])
        self.query = nn.ParameterList([glorot(inner, 2 * width) for _ in heard.relations])
        self.cross = nn.ParameterList([glorot(heads, width // heads) for _ in heard.relations])
        self.residual = nn.ModuleList([Residual(width) for _ in heard.node_types])
        self.relation = nn.ModuleList([glorot_linear(inner, outer) for _ in later])

    def forward(self, states: States, relations: States, first: States, tensors: TypedTensors) -> tuple[States, States]:
        found: States = {}
        for name, query in zip(self.heard.relations, self.query):
            if name in states:
                found[name] = self._convolved(name, relations[name] @ query, states, first, tensors)
        crossed = {}
        for name, weight in zip(self.heard.relations, self.cross):
            if name in found:
                node_type = tensors.shape.relations[name].target
                parts = [
                    self._in_heads(found[other])
                    for other in found
                    if tensors.shape.relations[other].target == node_type
                ]
                mix = mixed(parts, [(part * weight).sum(2) for part in parts]).flatten(1)
                crossed[name] = dropped(mix, self.dropout, self.training)
        return crossed, {name: layer(relations[name]) for name, layer in zip(self.later, self.relation)}

    def _convolved(self, name: str, query: Tensor, states: States, first: States, tensors: TypedTensors) -> Tensor:
        relation, before = tensors.shape.relations[name], states[name]
        own = self._mapped(before, relation.target)
        near = self._mapped(self._of_source(name, states, first, tensors), relation.source)
        of_own, of_near = query.view(self.heads, -1).chunk(2, 1)
        heard = attended(
            relation_matrix(tensors, name).pattern, (own * of_own).sum(2), (near * of_near).sum(2), near,
            self.attention_dropout, self.training,
        )  # fmt: skip
        found: Tensor = self.residual[self.heard.node_types.index(relation.target)](
            functional.relu(heard.flatten(1)), before
        )
        return found

    def _of_source(self, name: str, states: States, first: States, tensors: TypedTensors) -> Tensor:
        """h_j,r': without a reverse, the mean of what the source hears, or its features where it hears nothing."""
        relation = tensors.shape.relations[name]
        if relation.reverse is not None and relation.reverse in states:
            return states[relation.reverse]
        heard = [value for other, value in states.items() if tensors.shape.relations[other].target == relation.source]
        return torch.stack(heard).mean(0) if heard else first[relation.source]

    def _mapped(self, values: Tensor, node_type: str) -> Tensor:
        return self._in_heads(dropped(values, self.dropout, self.training) @ self.node[self.place[node_type]])

    def _in_heads(self, values: Tensor) -> Tensor:
        return values.view(len(values), self.heads, values.shape[1] // self.heads)
