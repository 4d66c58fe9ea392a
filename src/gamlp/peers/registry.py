"""Every peer by name, and the one that a recipe asks for."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.models import check_operators, is_model
from gamlp.peers.contract import Peer, Report, Task, Workspace
from gamlp.peers.hops import run_on_hops
from gamlp.peers.labels import propagate_labels, reuse_labels, smoothed
from gamlp.peers.samplers import (
    ClusterGCN,
    FastGCN,
    GraphSAINT,
    SampledSAGE,
    cluster_sampler,
    layer_sampler,
    neighbour_sampler,
    saint_sampler,
)
from gamlp.peers.whole_graph import message_passing, typed_message_passing
from gamlp.recipe import Recipe, shipped_names


def _pyg(name: str) -> Any:
    """A model of gamlp.peers.message_passing, imported when it is made: PyG is an extra."""

    def make(shape: Any, recipe: Recipe) -> Any:
        try:
            module = importlib.import_module("gamlp.peers.message_passing")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch_geometric":
                raise
            raise GamlpError(
                f"'{recipe.model.name}' needs PyG, which is not installed", hint='pip install "gamlp[bench]"'
            ) from error
        return getattr(module, name)(shape, recipe)

    return make


def _refuse(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
    """For peers that are a recipe around another model: a recipe's `model.name` is that model's."""
    name = recipe.model.name
    raise GamlpError(f"'{name}' is a recipe around a model, not a model", hint=f"--recipe {name}")


def _hops(name: str, title: str, paper: str) -> Peer:
    """A model of gamlp.models."""
    return Peer(name, title, "hops", paper, run_on_hops, leaves_bundle=True, run_with_reuse=reuse_labels)


def _solved(name: str, title: str, paper: str) -> Peer:
    """A model of gamlp.models that finds its weights without epochs."""
    return Peer(name, title, "solved", paper, run_on_hops, leaves_bundle=True, run_with_reuse=reuse_labels)


def _recipe(name: str, title: str, family: str, paper: str) -> Peer:
    return Peer(name, title, family, paper, _refuse, run_with_reuse=_refuse)


def _messages(name: str, title: str, paper: str, model: str, masked: float | None = None) -> Peer:
    return Peer(name, title, "message passing", paper, message_passing(_pyg(model), masked=masked))


def _types(name: str, title: str, paper: str, model: str, taught: bool = False) -> Peer:
    return Peer(name, title, "types", paper, typed_message_passing(_pyg(model), taught=taught))


_SAGE = message_passing(SampledSAGE, sampler=neighbour_sampler)
_LAYERS = message_passing(FastGCN, sampler=layer_sampler)
_CLUSTERS = message_passing(ClusterGCN, sampler=cluster_sampler)
_SAINT = message_passing(GraphSAINT, sampler=saint_sampler)


METHODS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        _hops("gamlp", "GAMLP", "Zhang et al., KDD 2022"),
        _hops("sgc", "SGC", "Wu et al., ICML 2019"),
        _hops("sign", "SIGN", "Frasca et al., 2020"),
        _hops("mlp", "MLP", "a baseline without the graph"),
        _hops("s2gc", "S²GC", "Zhu and Koniusz, ICLR 2021"),
        _hops("gbp", "GBP", "Chen et al., NeurIPS 2020"),
        _hops("sign-xl", "SIGN-XL", "Frasca et al., 2020"),
        _hops("sagn", "SAGN", "Sun et al., 2021"),
        _hops("nars", "NARS", "Yu et al., 2020"),
        _solved("majority", "Commonest class", "a baseline, of training labels alone"),
        _solved("logistic", "Logistic regression", "a baseline, on hops side by side"),
        _solved("logistic-labels", "Logistic regression, labels", "a baseline, on hops of features and labels"),
        _solved("lightgbm", "LightGBM", "Ke et al., NIPS 2017"),
        _solved("label-spreading", "Label spreading", "Zhou et al., NIPS 2003"),
        _recipe("sagn-labels", "SAGN+0-SLE", "hops", "Sun et al., 2021"),
        _messages("gcn", "GCN", "Kipf and Welling, ICLR 2017", "GCN"),
        _messages("gat", "GAT", "Veličković et al., ICLR 2018", "GAT"),
        _messages("jk-net", "JK-Net", "Xu et al., ICML 2018", "JKNet"),
        _messages("resgcn", "ResGCN", "Li et al., ICCV 2019", "ResGCN"),
        _messages("appnp", "APPNP", "Gasteiger et al., ICLR 2019", "APPNP"),
        _messages("ap-gcn", "AP-GCN", "Spinelli et al., 2020", "APGCN"),
        _messages("unimp", "UniMP", "Shi et al., IJCAI 2021", "UniMP", masked=0.375),  # its label rate is 0.625
        _messages("graphsage", "GraphSAGE", "Hamilton et al., 2017", "SAGE"),
        _messages("deepergcn", "DeeperGCN", "Li et al., 2020", "DeeperGCN"),
        _types("r-gcn", "R-GCN", "Schlichtkrull et al., 2018", "RGCN"),
        _types("hgt", "HGT", "Hu et al., WWW 2020", "HGT"),
        _types("hgconv", "HGConv", "Yu et al., 2020", "HGConv"),
        _types("r-hgnn", "R-HGNN", "Yu et al., TKDE 2022", "RHGNN"),
        _types("r-gsn", "R-GSN", "Wu et al., 2021", "RGSN", taught=True),
        Peer("graphsage-sampled", "GraphSAGE, sampled", "sampled", "Hamilton et al., NIPS 2017", _SAGE),
        Peer("fastgcn", "FastGCN", "sampled", "Chen et al., ICLR 2018", _LAYERS),
        Peer("cluster-gcn", "Cluster-GCN", "sampled", "Chiang et al., KDD 2019", _CLUSTERS),
        Peer("graphsaint", "GraphSAINT", "sampled", "Zeng et al., ICLR 2020", _SAINT),
        Peer("label-propagation", "Label propagation", "labels", "Zhou et al., NIPS 2003", propagate_labels),
        _recipe("correct-and-smooth", "C&S", "labels", "Huang et al., ICLR 2021"),
        _recipe("label-reuse", "Label reuse", "labels", "Wang et al., 2021"),
    )
}


def method(name: str) -> Peer:
    """By name; your own module, or a model that another package brings, is a peer on hops."""
    if name in METHODS:
        return METHODS[name]
    if is_model(name):
        return _hops(name, name, "your own")
    near = difflib.get_close_matches(name, METHODS, 1)
    raise GamlpError(
        f"there is no method '{name}'" + (f": did you mean '{near[0]}'?" if near else ""),
        hint=f"choose from {', '.join(METHODS)}",
    )


def recipe_for(name: str, dataset: str | None = None) -> Recipe:
    """The recipe of a method: a shipped one for this dataset, or the method's own, or the defaults."""
    shipped_as = recipe_name(name, dataset)
    return Recipe.of(shipped_as) if shipped_as else Recipe.of({"model": {"name": name}}, trust=name)


def recipe_name(name: str, dataset: str | None = None) -> str | None:
    """What a method's shipped recipe is called: `<dataset>-<name>` or `<name>`; None where there is neither."""
    method(name)
    return _shipped_for(name, dataset)


def recipe_named(name: str, dataset: str | None = None) -> Recipe:
    """The shipped recipe `<dataset>-<name>` where there is one, else `<name>`."""
    return Recipe.of(_shipped_for(name, dataset) or name)


def _shipped_for(name: str, dataset: str | None) -> str | None:
    known = shipped_names()
    wanted = [f"{dataset}-{name}", name] if dataset else [name]
    return next((one for one in wanted if one in known), None)


def peer_of(recipe: Recipe) -> Peer:
    """The recipe's peer, with label reuse and Correct & Smooth around it where the recipe asks for them."""
    check_operators(recipe)
    peer = method(recipe.model.name)
    if recipe.reads_unlabelled and peer.family != "hops":
        raise GamlpError(
            f"consistency and stages train models on hops, and '{peer.name}' is none that is trained in steps",
            hint="leave out consistency and training.stages",
        )
    if recipe.training.members > 1 and peer.family not in ("hops", "solved"):
        raise GamlpError(
            f"'{peer.name}' is no model on hops: seeds of it are not blended", hint="set training.members to 1"
        )
    if recipe.training.reuse:
        if peer.run_with_reuse is None:
            raise GamlpError(f"'{peer.name}' reads no hops of labels: it cannot reuse them", hint="training.reuse 0")
        peer = replace(peer, run=peer.run_with_reuse, leaves_bundle=False)
    if recipe.smoothing is not None:
        peer = replace(peer, run=smoothed(peer.run), leaves_bundle=False)
    return peer


def run(task: Task | Graph, recipe: Recipe, seed: int, workspace: Workspace | None = None) -> Report:
    """One run of the recipe's peer; without a workspace hops are kept only as long as the run.

    >>> from gamlp.graph.datasets.loading import load
    >>> quick = recipe_for("sgc").changed({"training.epochs": 5})
    >>> sorted(run(load("karate"), quick, seed=0).test)
    ['average_precision', 'balanced_accuracy', 'ece', 'loss', 'macro_f1', 'roc_auc', 'score']
    """
    if workspace is None:
        with TemporaryDirectory() as folder:
            return run(task, recipe, seed, Workspace(Path(folder)))
    task = Task(task) if isinstance(task, Graph) else task
    return peer_of(recipe).run(task, recipe, seed, workspace)
