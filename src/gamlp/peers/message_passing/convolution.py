"""Stacks of graph convolutions: GCN, ResGCN, JK-Net, GraphSAGE and DeeperGCN."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import JumpingKnowledge

from gamlp.errors import GamlpError
from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.dropping import Among
from gamlp.peers.message_passing.layers import Convolution, InitialisedLinear, Mean, Softmaxed, dropout
from gamlp.peers.message_passing.reach import reach
from gamlp.peers.message_passing.sparse import Matrix
from gamlp.peers.tensors import GraphTensors
from gamlp.recipe import Recipe


class _Stack(nn.Module):
    """h ← relu(layer(h)), the last without relu, over one matrix of the graph."""

    layer: type[nn.Module]
    matrix: str

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1), shape.classes]
        self.layers = nn.ModuleList([self.layer(inner, outer) for inner, outer in itertools.pairwise(widths)])
        self.norms = _norms(settings.hidden, settings.layers - 1 if settings.batch_norm else 0)
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        reached = reach(tensors, self.matrix, len(self.layers), bool(self.norms) and self.training)
        hidden, drawn = reached.features, reached.drawn
        sums = reached.first_sums(self.training and self.dropout > 0)
        for index, (layer, near) in enumerate(zip(self.layers, reached.layers)):
            read = dropout(hidden, self.dropout, self.training, near.inputs if index else drawn)
            hidden = layer(read, near, None if index else sums)
            if index + 1 < len(self.layers):
                hidden = functional.relu(self.norms[index](hidden) if self.norms else hidden)
        assert isinstance(hidden, Tensor)
        return reached.asked(tensors, hidden)


class GCN(_Stack):
    """GCN (Kipf and Welling, 2017): h ← relu(Â h W + b), the last without relu. Only the first layer decays, as there.

    `model.options.decay: all` lets every layer decay.
    """

    layer, matrix = Convolution, "symmetric"

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe)
        self.first_alone = options_of(recipe, {"decay": "first"})["decay"] == "first"

    def decayed(self) -> Iterator[nn.Parameter]:
        return self.layers[0].parameters() if self.first_alone else self.parameters()


class ResGCN(nn.Module):
    """GCN with residual connections (Li et al., 2019): h ← h + relu(Â h W + b) between the first and the last layer."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        options_of(recipe, {})
        if settings.layers < 2:
            raise GamlpError("'resgcn' has a first and a last layer", hint="set model.layers to at least 2")
        width = settings.hidden
        self.first, self.last = Convolution(shape.features, width), Convolution(width, shape.classes)
        self.layers = nn.ModuleList([Convolution(width, width) for _ in range(settings.layers - 2)])
        self.norms = _norms(width, settings.layers - 1 if settings.batch_norm else 0)
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        reached = reach(tensors, "symmetric", len(self.layers) + 2, bool(self.norms) and self.training)
        first, *between, last = reached.layers
        hidden = self._active(0, self.first(self._read(reached.features, reached.drawn), first))
        for index, (layer, near) in enumerate(zip(self.layers, between)):
            hidden = near.kept(hidden) + self._active(index + 1, layer(self._read(hidden, near.inputs), near))
        return reached.asked(tensors, self.last(self._read(hidden, last.inputs), last))

    def _read(self, hidden: Tensor | Matrix, among: Among | None) -> Any:
        return dropout(hidden, self.dropout, self.training, among)

    def _active(self, index: int, hidden: Tensor) -> Tensor:
        return functional.relu(self.norms[index](hidden) if self.norms else hidden)


class JKNet(nn.Module):
    """JK-Net (Xu et al., 2018): h^(l) = relu(Â h^(l-1) W + b), then a linear map of all h joined, or of their maximum.

    `model.options.jump` is `cat` or `max`.
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, options_of(recipe, {"jump": "cat"})
        if options["jump"] not in ("cat", "max"):
            raise GamlpError(f"'model.options.jump' is '{options['jump']}'", hint="choose from cat, max")
        widths = [shape.features, *[settings.hidden] * settings.layers]
        self.layers = nn.ModuleList([Convolution(inner, outer) for inner, outer in itertools.pairwise(widths)])
        self.norms = _norms(settings.hidden, settings.layers if settings.batch_norm else 0)
        self.jump = JumpingKnowledge(options["jump"])
        joined = settings.hidden * (settings.layers if options["jump"] == "cat" else 1)
        self.last = InitialisedLinear(joined, shape.classes)
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        reached = reach(tensors, "symmetric", len(self.layers), bool(self.norms) and self.training)
        hidden, drawn = reached.features, reached.drawn
        sums, found = reached.first_sums(self.training and self.dropout > 0), list[Tensor]()
        for index, (layer, near) in enumerate(zip(self.layers, reached.layers)):
            read = dropout(hidden, self.dropout, self.training, near.inputs if index else drawn)
            passed = layer(read, near, None if index else sums)
            hidden = functional.relu(self.norms[index](passed) if self.norms else passed)
            # Only rows that are asked for are joined: a hundred layers of a big graph are never copied together.
            found.append(reached.after(tensors, index, hidden))
        logits: Tensor = self.last(dropout(self.jump(found), self.dropout, self.training))
        return logits


class SAGE(_Stack):
    """GraphSAGE on the whole graph, mean (Hamilton et al., 2017): h ← relu(W₁ mean_j h_j + b + W₂ h)."""

    layer, matrix = Mean, "mean"

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        options_of(recipe, {})
        super().__init__(shape, recipe)


class DeeperGCN(nn.Module):
    """DeeperGCN (Li et al., 2020): h ← h + GEN(dropout(relu(norm(h)))), the res+ order, with softmax aggregation.

    `model.options.temperature` is the first value of the softmax's t, which is learnt.
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, options_of(recipe, {"temperature": 1.0})
        width = settings.hidden
        self.first, self.last = InitialisedLinear(shape.features, width), InitialisedLinear(width, shape.classes)
        temperature = float(options["temperature"])
        self.layers = nn.ModuleList([Softmaxed(width, width, temperature) for _ in range(settings.layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(settings.layers)])
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        # Batch norm inside of the layers is over all nodes while they train.
        reached = reach(tensors, "plain", len(self.layers), self.training)
        hidden = self.first(dropout(reached.features, self.dropout, self.training, reached.drawn))
        for index, (layer, near) in enumerate(zip(self.layers, reached.layers)):
            read = self._ready(index - 1, hidden, near.inputs) if index else hidden
            hidden = near.kept(hidden) + layer(read, near) if index else layer(read, near)
        logits: Tensor = self.last(self._ready(-1, reached.asked(tensors, hidden), None))
        return logits

    def _ready(self, index: int, hidden: Tensor, among: Among | None) -> Tensor:
        found: Tensor = dropout(functional.relu(self.norms[index](hidden)), self.dropout, self.training, among)
        return found


def _norms(width: int, count: int) -> nn.ModuleList | None:
    return nn.ModuleList([nn.BatchNorm1d(width) for _ in range(count)]) if count else None
