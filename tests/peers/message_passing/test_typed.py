"""Peers by type against their equations, written out as plain loops over the nodes of a small typed graph."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, layer_norm

pytest.importorskip("torch_geometric")

from torch_geometric.nn import HGTConv

from gamlp.errors import GamlpError
from gamlp.peers import message_passing as peers
from gamlp.recipe import Recipe
from tests.peers.typed_hand import (
    ALONE,
    CLASSES,
    COUNTS,
    Small,
    first_states,
    leaky,
    neighbours,
    small,
    softmaxed,
    stacked,
)

ALL = {"r-gcn": peers.RGCN, "hgt": peers.HGT, "hgconv": peers.HGConv, "r-hgnn": peers.RHGNN, "r-gsn": peers.RGSN}
OPTIONS: dict[str, dict[str, int]] = {
    "r-gcn": {}, "hgt": {"heads": 2}, "hgconv": {"heads": 2}, "r-hgnn": {"heads": 2, "relation_width": 3},
    "r-gsn": {},
}  # fmt: skip
HIDDEN, HEADS = 6, 2


def made(name: str, graph: Small, **settings: Any) -> Any:
    torch.manual_seed(0)
    content = {"name": name, "hidden": HIDDEN, "layers": 2, "options": OPTIONS[name], **settings}
    model = ALL[name](graph.shape, Recipe.of({"model": content}))
    for value in model.parameters():  # biases begin at zero: an equation that forgot one would still agree
        value.data += 0.1 * torch.randn_like(value)
    return model.eval()


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-4)


def into(graph: Small, node_type: str, heard: tuple[str, ...]) -> list[str]:
    """Relations with edges that lead to a type."""
    return [name for name in heard if graph.shape.relations[name].target == node_type and bool(graph.near[name].any())]


def test_r_gcn() -> None:
    graph = small()
    graph.near["writes"] *= torch.arange(1.0, 1 + COUNTS["author"])  # weights of edges count in the mean
    model = made("r-gcn", graph)
    hidden = first_states(model, graph)
    for place, layer in enumerate(model.layers):
        found = {}
        for node_type, own in zip(layer.heard.node_types, layer.own):
            rows = []
            for node in range(COUNTS[node_type]):
                value = own.weight @ hidden[node_type][node] + own.bias
                for name in into(graph, node_type, layer.heard.relations):
                    weights = graph.near[name][node]
                    if weights.any():
                        map_ = layer.near[layer.heard.relations.index(name)].weight
                        source = hidden[graph.shape.relations[name].source]
                        near = [weights[j] * (map_ @ source[j]) for j in neighbours(graph, name, node)]
                        value = value + torch.stack(near).sum(0) / weights.sum()
                rows.append(value if place + 1 == len(model.layers) else value.relu())
            found[node_type] = stacked(rows, HIDDEN)
        hidden = found
    same(model(graph.view()), hidden["paper"])


def test_hgt() -> None:
    graph = small()
    model = made("hgt", graph)
    hidden = {node_type: gelu(values) for node_type, values in first_states(model, graph).items()}
    for layer in model.layers:
        hidden = transformed(layer, graph, hidden)
    same(model(graph.view()), hidden["paper"] @ model.last.weight.T + model.last.bias)


def transformed(layer: Any, graph: Small, hidden: dict[str, Tensor]) -> dict[str, Tensor]:
    """One softmax over all neighbours by all relations."""
    each, count = HIDDEN // HEADS, len(layer.heard.relations)
    mapped = {node_type: layer.kqv_lin.lins[layer.number[node_type]](values) for node_type, values in hidden.items()}
    found = {}
    for node_type in layer.heard.node_types:
        rows = []
        for node in range(COUNTS[node_type]):
            heads = []
            for head in range(HEADS):
                part = slice(head * each, (head + 1) * each)
                query = mapped[node_type][node, HIDDEN : 2 * HIDDEN][part]
                alike, messages = [torch.tensor(-math.inf)], [torch.zeros(each)]
                for name in into(graph, node_type, layer.heard.relations):
                    place = layer.heard.relations.index(name)
                    of_key, of_value = (one.weight[head * count + place] for one in (layer.k_rel, layer.v_rel))
                    strength = layer.p_rel["__".join(layer.edge_of[name])][0, head]
                    source = mapped[graph.shape.relations[name].source]
                    for j in neighbours(graph, name, node):
                        key, value = source[j, :HIDDEN][part], source[j, 2 * HIDDEN :][part]
                        alike.append(query @ (key @ of_key) * strength / math.sqrt(each))
                        messages.append(value @ of_value)
                alpha = softmaxed(alike) if len(alike) > 1 else [torch.tensor(0.0)]
                heads.append(torch.stack([a * m for a, m in zip(alpha, messages)]).sum(0))
            number = layer.number[node_type]
            new = layer.out_lin.lins[number](gelu(torch.cat(heads)))
            share = torch.sigmoid(layer.skip[number])
            rows.append(share * new + (1 - share) * hidden[node_type][node])
        found[node_type] = stacked(rows, HIDDEN)
    return found


def test_a_layer_of_hgt_is_pygs_where_every_type_hears() -> None:
    graph = small()
    layer = made("hgt", graph).layers[0]
    states = {node_type: torch.randn(count, HIDDEN) for node_type, count in COUNTS.items()}
    edges = {layer.edge_of[name]: graph.view().edges[name] for name in layer.heard.relations}
    theirs = HGTConv.forward(layer, {layer.number[node_type]: value for node_type, value in states.items()}, edges)
    for node_type, value in layer(states, graph.view()).items():
        same(value, theirs[layer.number[node_type]])


def attention(own: Tensor, near: list[Tensor], query: Tensor) -> Tensor:
    """relu Σ_j α_j near_j for one node and head, α = softmax LeakyReLU(query · [own ‖ near_j])."""
    if not near:
        return torch.zeros_like(own)
    alpha = softmaxed([leaky(query @ torch.cat([own, one])) for one in near])
    return torch.stack([a * one for a, one in zip(alpha, near)]).sum(0).relu()


def test_hgconv() -> None:
    graph = small()
    model = made("hgconv", graph)
    hidden = first_states(model, graph)
    for layer in model.layers:
        hidden = hybrid(layer, graph, hidden)
    same(model(graph.view()), hidden["paper"] @ model.last.weight.T + model.last.bias)


def hybrid(layer: Any, graph: Small, hidden: dict[str, Tensor]) -> dict[str, Tensor]:
    found, each = {}, HIDDEN // HEADS
    for place, node_type in enumerate(layer.heard.node_types):
        rows = []
        for node in range(COUNTS[node_type]):
            own, parts = hidden[node_type][node], []
            for name in into(graph, node_type, layer.heard.relations):
                source = graph.shape.relations[name].source
                micro = []
                for head in range(HEADS):
                    part = slice(head * each, (head + 1) * each)
                    mapped = hidden[source] @ layer.node[layer.place[source]][:, part]
                    near = [mapped[j] for j in neighbours(graph, name, node)]
                    query = layer.attention[layer.place[source]][head]
                    micro.append(attention(own @ layer.node[layer.place[node_type]][:, part], near, query))
                parts.append(torch.cat(micro) @ layer.relation[layer.heard.relations.index(name)])
            macro = []
            for head in range(HEADS):
                part = slice(head * each, (head + 1) * each)
                centre, query = own @ layer.centre[place][:, part], layer.over_relations[head]
                beta = softmaxed([leaky(query @ torch.cat([centre, one[part]])) for one in parts])
                macro.append(sum((b * one[part] for b, one in zip(beta, parts)), torch.zeros(each)))
            residual = layer.residual[place]
            share = torch.sigmoid(residual.share)
            rows.append(share * torch.cat(macro) + (1 - share) * residual.map(own))
        found[node_type] = stacked(rows, HIDDEN)
    return found


def test_r_hgnn() -> None:
    graph = small()
    model = made("r-hgnn", graph, layers=3)
    first = first_states(model, graph)
    typed = graph.shape.relations
    live = [name for name in model.names if bool(graph.near[name].any())]
    states = {name: first[typed[name].target] for name in live}
    relations = {name: value.flatten() for name, value in zip(model.names, model.relations)}
    for layer in model.layers:
        states, relations = aware(layer, graph, states, relations)
    rows, each = [], HIDDEN // HEADS
    names = into(graph, "paper", model.fused)
    for node in range(COUNTS["paper"]):
        fused = []
        for head in range(HEADS):
            parts, raw = [], []
            for name in names:
                place = model.fused.index(name)
                parts.append(states[name][node, head * each : (head + 1) * each] @ model.of_node[place][head])
                wanted = relations[name].view(HEADS, -1)[head] @ model.of_relation[place][head]
                raw.append(leaky(parts[-1] @ wanted))
            fused.append(torch.stack([g * part for g, part in zip(softmaxed(raw), parts)]).sum(0))
        rows.append(model.last.weight @ torch.cat(fused) + model.last.bias)
    same(model(graph.view()), torch.stack(rows))


def aware(layer: Any, graph: Small, states: dict[str, Tensor], relations: dict[str, Tensor]) -> Any:
    typed, each = graph.shape.relations, HIDDEN // HEADS
    convolved = {}
    for name in [one for one in layer.heard.relations if one in states]:
        relation = typed[name]
        query = (relations[name] @ layer.query[layer.heard.relations.index(name)]).view(HEADS, 2 * each)
        near = states.get(relation.reverse) if relation.reverse else None
        if near is None:  # "likes": authors as they are by the mean of what they hear
            near = torch.stack(
                [value for other, value in states.items() if typed[other].target == relation.source]
            ).mean(0)
        residual = layer.residual[layer.heard.node_types.index(relation.target)]
        rows = []
        for node in range(COUNTS[relation.target]):
            own, heads = states[name][node], []
            for head in range(HEADS):
                part = slice(head * each, (head + 1) * each)
                of_own, of_near = (
                    layer.node[layer.place[node_type]][:, part] for node_type in (relation.target, relation.source)
                )
                around = [near[j] @ of_near for j in neighbours(graph, name, node)]
                heads.append(attention(own @ of_own, around, query[head]))
            share = torch.sigmoid(residual.share)
            rows.append(share * torch.cat(heads) + (1 - share) * residual.map(own))
        convolved[name] = torch.stack(rows)
    crossed = {}
    for name in convolved:
        cross = layer.cross[layer.heard.relations.index(name)]
        others = [convolved[other] for other in convolved if typed[other].target == typed[name].target]
        rows = []
        for node in range(COUNTS[typed[name].target]):
            heads = []
            for head in range(HEADS):
                parts = [other[node, head * each : (head + 1) * each] for other in others]
                beta = softmaxed([leaky(cross[head] @ part) for part in parts])
                heads.append(torch.stack([b * part for b, part in zip(beta, parts)]).sum(0))
            rows.append(torch.cat(heads))
        crossed[name] = torch.stack(rows)
    later = {name: part.weight @ relations[name] + part.bias for name, part in zip(layer.later, layer.relation)}
    return crossed, later


def unit(value: Tensor) -> Tensor:
    return value / value.norm() if value.norm() > 0 else value


def test_r_gsn() -> None:
    graph = small()
    model = made("r-gsn", graph)
    hidden = {
        node_type: layer_norm(values, (HIDDEN,), model.norm.weight, model.norm.bias)
        for node_type, values in first_states(model, graph).items()
    }
    for index, layer in enumerate(model.layers):
        hidden = similar(layer, graph, hidden)
        if index == 0:
            hidden = {node_type: values.clamp(min=0) for node_type, values in hidden.items()}
    same(model(graph.view()), hidden["paper"])


def similar(layer: Any, graph: Small, hidden: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for place, node_type in enumerate(layer.heard.node_types):
        names = into(graph, node_type, layer.heard.relations)
        said = {name: [one_relation(layer, graph, hidden, name, i) for i in range(COUNTS[node_type])] for name in names}
        means = [sum(rows, torch.zeros(())) / len(rows) for rows in said.values()]
        middle = sum(means, torch.zeros(())) / max(1, len(means))
        weights = softmaxed([one @ middle / (one.norm() + 1e-5) / (middle.norm() + 1e-5) for one in means])
        own, norm, rows = layer.own[place], layer.norms[place], []
        for i in range(COUNTS[node_type]):
            mapped = hidden[node_type][i] @ own.weight.T + own.bias
            heard = sum((beta * said[name][i] for beta, name in zip(weights, names)), torch.zeros_like(mapped))
            mixed = mapped + layer.scale[place] * mapped.norm() * unit(heard)
            rows.append(layer_norm(mixed, mixed.shape, norm.weight, norm.bias))
        found[node_type] = stacked(rows, len(own.bias))
    return found


def one_relation(layer: Any, graph: Small, hidden: dict[str, Tensor], name: str, node: int) -> Tensor:
    place, near = layer.heard.relations.index(name), neighbours(graph, name, node)
    values = hidden[graph.shape.relations[name].source]
    alpha = softmaxed([unit(values[j]) @ layer.attention[place][0] for j in near])
    return unit(sum((a * layer.near[place].weight @ values[j] for a, j in zip(alpha, near)), torch.zeros(())))


def test_r_gsn_in_training_takes_the_mean_of_losses_at_features_that_are_made_harder() -> None:
    """FLAG written out: δ within ±step, then up the sign of the gradient; all three losses weigh the same."""
    graph, rows, step = small(), torch.tensor([0, 1, 3, 5]), 0.05
    labels = torch.tensor([0, 1, -1, 2, -1, 1])
    model = made("r-gsn", graph, dropout=0.0, options={"ascents": 3, "step": step}).train()
    torch.manual_seed(3)
    logits = model(graph.view(rows), labels)
    (cross_entropy(logits, labels[rows]) + model.penalty()).backward()
    found = [None if value.grad is None else value.grad.clone() for value in model.parameters()]
    model.zero_grad()
    torch.manual_seed(3)
    moved = torch.empty(COUNTS["paper"], HIDDEN).uniform_(-step, step).requires_grad_()
    losses = []
    for _ in range(3):
        loss = cross_entropy(model._logits(graph.view(rows), moved), labels[rows])
        losses.append(loss.item())
        (loss / 3).backward()
        moved = (moved + step * moved.grad.sign()).detach().requires_grad_()  # type: ignore[union-attr]
    assert losses[0] < losses[1] < losses[2]  # harder each time
    for one, value in zip(found, model.parameters()):
        assert (one is None) == (value.grad is None)
        if one is not None:
            same(one, value.grad)
    model.eval()
    same(model(graph.view(rows), labels), model(graph.view(rows)))  # labels are read in training alone


def test_r_gsn_refuses_weights_of_classes_that_its_own_losses_do_not_have() -> None:
    recipe = Recipe.of({"model": {"name": "r-gsn"}, "training": {"class_weights": "balanced"}})
    with pytest.raises(GamlpError, match="all classes weigh the same"):
        peers.RGSN(small().shape, recipe)
    peers.RGSN(small().shape, recipe.changed({"model.options.ascents": 1}))


@pytest.mark.parametrize("name", ALL)
def test_permuting_nodes_of_every_type_permutes_logits(name: str) -> None:
    graph = small()
    model, (turned, order) = made(name, graph), graph.permuted(1)
    before = model(graph.view())
    table = model.first.maps[list(COUNTS).index("type")].weight  # learnt of nodes, so it goes with them
    table.data = table.data[order["type"]]
    same(model(turned.view()), before[order["paper"]])
    assert not torch.allclose(before[order["paper"]], before, atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_without_any_edge_a_node_knows_itself_alone(name: str) -> None:
    graph = small()
    model = made(name, graph)
    bare = replace(graph, near={key: torch.zeros_like(matrix) for key, matrix in graph.near.items()})
    logits = model(bare.view())
    assert logits.shape == (COUNTS["paper"], CLASSES) and bool(logits.isfinite().all())
    x = {**bare.x, "paper": bare.x["paper"].clone(), "author": torch.zeros(COUNTS["author"], 3)}  # type: ignore[union-attr]
    x["paper"][0] += 1  # type: ignore[index]
    changed = (model(replace(bare, x=x).view()) - logits).abs().amax(1) > 1e-6
    assert changed.tolist() == [True, *[False] * (COUNTS["paper"] - 1)]


@pytest.mark.parametrize("name", ALL)
def test_who_hears_nothing_knows_itself_alone_and_who_hears_does_not(name: str) -> None:
    graph = small()
    model = made(name, graph, layers=1)
    x = {
        node_type: None if value is None or node_type == "paper" else value + 1 for node_type, value in graph.x.items()
    }
    x["paper"] = graph.x["paper"]
    changed = (model(replace(graph, x=x).view()) - model(graph.view())).abs().amax(1) > 1e-6
    assert not changed[ALONE] and int(changed.sum()) >= 3


@pytest.mark.parametrize(
    ("name", "still"),
    [
        ("r-gcn", ""),
        ("hgt", r"layers.1.(out_lin.lins|skip).type[12]"),  # what the last layer would give of other types
        ("hgconv", r"layers.0.centre.2"),  # a type that hears one relation has nothing to weigh
        ("r-hgnn", r"layers.0.cross.5"),
        ("r-gsn", r"norm"),
    ],
)
def test_every_parameter_of_what_is_heard_learns(name: str, still: str) -> None:
    graph = small().without("never", "not by", "from nowhere", "to nowhere")
    model = made(name, graph)
    (model(graph.view()) * torch.randn(COUNTS["paper"], CLASSES)).sum().backward()
    lazy = [key for key, value in model.named_parameters() if value.grad is None or not value.grad.abs().sum()]
    nowhere = r"(first.maps|layers.\d.(node|attention)).3|.*type3"  # the type without nodes
    assert all(re.match(f"{still}|{nowhere}" if still else nowhere, key) for key in lazy), lazy
    assert len(lazy) < len(list(model.parameters())) / 2


@pytest.mark.parametrize("name", ALL)
def test_sparse_features_give_the_logits_and_gradients_of_dense_ones(name: str) -> None:
    found = []
    for sparse in (False, True):
        graph = small()
        model = made(name, graph)
        logits = model(graph.view(sparse=sparse))
        (logits * torch.arange(1.0, 1 + logits.numel()).view_as(logits)).sum().backward()
        found.append([logits, *(value.grad for value in model.parameters() if value.grad is not None)])
    assert len(found[0]) == len(found[1]) > 4
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_rows_that_are_asked_for(name: str) -> None:
    graph, rows = small(), torch.tensor([5, 0, 5])
    model = made(name, graph)
    same(model(graph.view(rows)), model(graph.view())[rows])


@pytest.mark.parametrize("name", ALL)
def test_dropout_is_for_training_alone(name: str) -> None:
    graph = small()
    model = made(name, graph, dropout=0.5, input_dropout=0.2, attention_dropout=0.3)
    assert torch.equal(model(graph.view()), model(graph.view()))
    model.train()
    assert not torch.allclose(model(graph.view()), model(graph.view()))


@pytest.mark.parametrize("name", ALL)
def test_wrong_options_are_refused(name: str) -> None:
    with pytest.raises(GamlpError, match=f"'{name}' has no option 'headz'"):
        made(name, small(), options={"headz": 3})
    if OPTIONS[name]:
        with pytest.raises(GamlpError, match="is 6, which 4 heads do not divide"):
            made(name, small(), options={"heads": 4})
