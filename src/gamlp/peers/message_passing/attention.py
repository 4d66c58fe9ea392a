"""Attention over neighbours: GAT, and UniMP, which reads known labels beside features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.layers import Attention, InitialisedLinear, Transformer, dropout
from gamlp.peers.message_passing.reach import reach
from gamlp.peers.tensors import GraphTensors
from gamlp.recipe import Recipe

MASKED = 0.375  # share of training rows hidden each epoch: UniMP's label rate of 0.625, section 4


class GAT(nn.Module):
    """GAT (Veličković et al., 2018): heads side by side, elu between layers, the last layer's heads averaged.

    `model.hidden` is the width of one head. Options: heads, output_heads.
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, options_of(recipe, {"heads": 8, "output_heads": 1})
        heads, width = max(1, options["heads"]), settings.hidden
        last = max(1, options["output_heads"])
        inner = [shape.features, *[heads * width] * (settings.layers - 1)]
        self.layers = nn.ModuleList(
            [Attention(size, width, heads, True, settings.attention_dropout) for size in inner[:-1]]
            + [Attention(inner[-1], shape.classes, last, False, settings.attention_dropout)]
        )
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        reached = reach(tensors, "loops", len(self.layers))
        hidden, drawn = reached.features, reached.drawn
        for index, (layer, near) in enumerate(zip(self.layers, reached.layers)):
            hidden = layer(dropout(hidden, self.dropout, self.training, near.inputs if index else drawn), near)
            if index + 1 < len(self.layers):
                hidden = functional.elu(hidden)
        assert isinstance(hidden, Tensor)
        return reached.asked(tensors, hidden)


class UniMP(nn.Module):
    """UniMP (Shi et al., 2021): graph transformer layers on features + an embedding of the known labels.

    h = W x + E[known], nothing added where the label is hidden; then h ← relu(norm(layer(h))). A row whose loss is
    taken is hidden in that step, so that no answer is read. Options: heads, masked (share hidden each epoch).
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, options_of(recipe, {"heads": 2, "masked": MASKED})
        heads, width = max(1, options["heads"]), settings.hidden
        inner = heads * width
        self.first = InitialisedLinear(shape.features, inner)
        self.labels = nn.Parameter(torch.empty(shape.classes, inner))
        nn.init.xavier_uniform_(self.labels)
        self.layers = nn.ModuleList(
            [Transformer(inner, width, heads, True, settings.attention_dropout) for _ in range(settings.layers - 1)]
            + [Transformer(inner, shape.classes, heads, False, settings.attention_dropout)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(inner) for _ in range(settings.layers - 1)])
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        reached = reach(tensors, "plain", len(self.layers))
        hidden = self.first(dropout(reached.features, self.input_dropout, self.training, reached.drawn))
        if known is not None:
            inputs = reached.layers[0].inputs
            known = known if inputs is None else known[torch.from_numpy(inputs.places)]
            labelled = torch.nonzero(known >= 0).ravel()
            hidden = hidden.index_add(0, labelled, self.labels[known[labelled]])
        for index, (layer, near) in enumerate(zip(self.layers, reached.layers)):
            hidden = layer(dropout(hidden, self.dropout, self.training, near.inputs), near)
            if index + 1 < len(self.layers):
                hidden = functional.relu(self.norms[index](hidden))
        return reached.asked(tensors, hidden)
