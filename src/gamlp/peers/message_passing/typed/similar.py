"""R-GSN: attention over the neighbours of a relation, relations weighed by how alike they are; FLAG in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.errors import GamlpError
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.dropping import dropped
from gamlp.peers.message_passing.heads import softmax, weighted
from gamlp.peers.message_passing.layers import InitialisedLinear
from gamlp.peers.message_passing.typed.layers import States, TypedInput, relation_matrix
from gamlp.peers.tensors import Heard, TypedShape, TypedTensors
from gamlp.recipe import Recipe

_SMALL = 1e-5  # added to lengths of means, which may be zero


class RGSN(nn.Module):
    """R-GSN (Wu et al., 2021): features of every type to one width and normed, then layers; the last gives classes.

    Training is regularised by FLAG (Kong et al., 2020): δ, added to what the first layer reads of the target type, is
    drawn within ±`step` and goes `ascents` - 1 times a `step` up the sign of the loss's gradient, and the loss is the
    mean of those at all `ascents` of these δ. It needs the labels of the rows whose loss is taken: `known`, which is
    read for that alone. `ascents` 1 or no known labels: no FLAG. Options: ascents, step.
    """

    def __init__(self, shape: TypedShape, recipe: Recipe) -> None:
        super().__init__()
        settings, options = recipe.model, options_of(recipe, {"ascents": 3, "step": 1e-4})
        self.ascents, self.step = max(1, options["ascents"]), float(options["step"])
        if self.ascents > 1 and recipe.training.class_weights != "none":
            raise GamlpError(
                "'r-gsn' takes the loss at features that are made harder, in which all classes weigh the same",
                hint="training.class_weights none, or model.options.ascents 1",
            )
        self.first = TypedInput(shape, settings.hidden, settings.input_dropout)
        self.norm = nn.LayerNorm(settings.hidden)
        widths = [settings.hidden] * (settings.layers - 1) + [shape.classes]
        heard = shape.heard(settings.layers)
        self.layers = nn.ModuleList([Similar(one, settings.hidden, width) for one, width in zip(heard, widths)])
        self.dropout = settings.dropout
        self._others: Tensor | None = None

    def penalty(self) -> Tensor:
        """What makes the loss of the last logits the mean of the losses at all δ."""
        return torch.zeros(()) if self._others is None else self._others

    def forward(self, tensors: TypedTensors, known: Tensor | None = None) -> Tensor:
        self._others = None
        if not self.training or known is None or self.ascents == 1:
            return self._logits(tensors, None)
        target, losses = tensors.asked(known), []
        count = tensors.shape.counts[tensors.shape.target]
        moved = torch.empty(count, self.norm.normalized_shape[0]).uniform_(-self.step, self.step).requires_grad_()
        for _ in range(self.ascents - 1):
            losses.append(_mean_loss(self._logits(tensors, moved), target))
            (gradient,) = torch.autograd.grad(losses[-1], moved, retain_graph=True)
            moved = (moved + self.step * gradient.sign()).detach().requires_grad_()
        logits = self._logits(tensors, moved.detach())
        last = _mean_loss(logits, target)
        self._others = (torch.stack([*losses, last]).mean()) - last
        return logits

    def _logits(self, tensors: TypedTensors, moved: Tensor | None) -> Tensor:
        hidden, target = self.first(tensors), tensors.shape.target
        if moved is not None:
            hidden[target] = hidden[target] + moved
        hidden = {node_type: self.norm(values) for node_type, values in hidden.items()}
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, tensors)
            if index + 1 < len(self.layers):
                hidden = {
                    node_type: dropped(functional.relu(values), self.dropout, self.training)
                    for node_type, values in hidden.items()
                }
        return tensors.asked(hidden[target])


class Similar(nn.Module):
    """One layer. For a node i of type τ, a relation r, unit(v) = v / ‖v‖:

    within: o_r,i = unit(Σ_j α_j W_r h_j), α = softmax over j in N_r(i) of a_r · unit(h_j). (The authors add a term of
    what i hears in all; it is the same for every j, and a softmax does not see it.)
    between: z_i = Σ_r β_r o_r,i, β = softmax over r into τ of cos(m_r, mean of m over r), m_r the mean of o_r,i over
    all nodes i of the type (the authors: over a sampled batch);
    update: u = W_τ h_i + b_τ, h_i ← LayerNorm_τ(u + s_τ ‖u‖ unit(z_i)), s_τ learnt from 1.
    A relation without edges takes no part; who hears none has z = 0.
    """

    def __init__(self, heard: Heard, inner: int, outer: int) -> None:
        super().__init__()
        self.heard = heard
        self.near = nn.ModuleList([InitialisedLinear(inner, outer, bias=False) for _ in heard.relations])
        self.attention = nn.ParameterList([nn.Parameter(torch.empty(1, inner)) for _ in heard.relations])
        for weight in self.attention:
            nn.init.xavier_uniform_(weight)
        self.own = nn.ModuleList([InitialisedLinear(inner, outer) for _ in heard.node_types])
        self.scale = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in heard.node_types])
        self.norms = nn.ModuleList([nn.LayerNorm(outer) for _ in heard.node_types])

    def forward(self, hidden: States, tensors: TypedTensors) -> States:
        said: dict[str, list[Tensor]] = {node_type: [] for node_type in self.heard.node_types}
        for name, layer, attention in zip(self.heard.relations, self.near, self.attention):
            if tensors.live((name,)):
                relation = tensors.shape.relations[name]
                pattern, values = relation_matrix(tensors, name).pattern, hidden[relation.source]
                scores = functional.normalize(values) @ attention.t()
                alpha = softmax(pattern, pattern.sources.times(scores))
                sums = weighted(pattern, alpha.t(), layer(values)[None])[0]
                said[relation.target].append(functional.normalize(sums))
        found = {}
        for place, node_type in enumerate(self.heard.node_types):
            own = self.own[place](hidden[node_type])
            if said[node_type]:
                heard = functional.normalize(alike(torch.stack(said[node_type])))
                own = own + self.scale[place] * own.norm(dim=1, keepdim=True) * heard
            found[node_type] = self.norms[place](own)
        return found


def alike(said: Tensor) -> Tensor:
    """Σ_r β_r said_r of `[r, n, d]`: β by the cosine of a relation's mean with the mean of all relations."""
    means = said.sum(1) / max(1, said.shape[1])
    units = [mean / (mean.norm(dim=1, keepdim=True) + _SMALL) for mean in (means, means.mean(0, keepdim=True))]
    beta = torch.softmax((units[0] * units[1]).sum(1), 0)
    return (beta[:, None, None] * said).sum(0)


def _mean_loss(logits: Tensor, target: Tensor) -> Tensor:
    """As the loop's: cross-entropy, or binary cross-entropy of many labels."""
    if target.ndim == 2:
        return functional.binary_cross_entropy_with_logits(logits, target.to(logits.dtype))
    return functional.cross_entropy(logits, target)
