"""Every method by name."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.models.registry import is_own
from gamlp.peers.contract import Method, Place, Report, Run, Task
from gamlp.peers.hops import run_on_hops
from gamlp.peers.labels import propagate_labels, reuse_labels, smoothed
from gamlp.peers.message_passing.sampled import ClusterGCN, GraphSAINT, SampledSAGE
from gamlp.peers.samplers.clusters import clusters
from gamlp.peers.samplers.neighbours import neighbours
from gamlp.peers.samplers.saint import saint
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


def _as_the_recipe_says(task: Task, recipe: Recipe, seed: int, place: Place) -> Report:
    """For methods that are a recipe around another model: its `model.name` is that model's."""
    return run(task, recipe, seed, place)


def _method(name: str, title: str, family: str, paper: str, run: Run) -> tuple[str, Method]:
    return name, Method(name, title, family, paper, run)


_UNIMP = message_passing(_pyg("UniMP"), masked=0.375)  # its label rate is 0.625
_SAGE = message_passing(SampledSAGE, sampler=neighbours)
_CLUSTERS = message_passing(ClusterGCN, sampler=clusters)
_SAINT = message_passing(GraphSAINT, sampler=saint)

METHODS: dict[str, Method] = dict(
    [
        _method("gamlp", "GAMLP", "hops", "Zhang et al., KDD 2022", run_on_hops),
        _method("sgc", "SGC", "hops", "Wu et al., ICML 2019", run_on_hops),
        _method("sign", "SIGN", "hops", "Frasca et al., 2020", run_on_hops),
        _method("mlp", "MLP", "hops", "a baseline without the graph", run_on_hops),
        _method("s2gc", "S²GC", "hops", "Zhu and Koniusz, ICLR 2021", run_on_hops),
        _method("gbp", "GBP", "hops", "Chen et al., NeurIPS 2020", run_on_hops),
        _method("sign-xl", "SIGN-XL", "hops", "Frasca et al., 2020", run_on_hops),
        _method("sagn", "SAGN", "hops", "Sun et al., 2021", run_on_hops),
        _method("nars", "NARS", "hops", "Yu et al., 2020", run_on_hops),
        _method("sagn-labels", "SAGN+0-SLE", "hops", "Sun et al., 2021", _as_the_recipe_says),
        _method("gcn", "GCN", "message passing", "Kipf and Welling, ICLR 2017", message_passing(_pyg("GCN"))),
        _method("gat", "GAT", "message passing", "Veličković et al., ICLR 2018", message_passing(_pyg("GAT"))),
        _method("jk-net", "JK-Net", "message passing", "Xu et al., ICML 2018", message_passing(_pyg("JKNet"))),
        _method("resgcn", "ResGCN", "message passing", "Li et al., ICCV 2019", message_passing(_pyg("ResGCN"))),
        _method("appnp", "APPNP", "message passing", "Gasteiger et al., ICLR 2019", message_passing(_pyg("APPNP"))),
        _method("ap-gcn", "AP-GCN", "message passing", "Spinelli et al., 2020", message_passing(_pyg("APGCN"))),
        _method("unimp", "UniMP", "message passing", "Shi et al., IJCAI 2021", _UNIMP),
        _method("graphsage", "GraphSAGE", "message passing", "Hamilton et al., 2017", message_passing(_pyg("SAGE"))),
        _method("deepergcn", "DeeperGCN", "message passing", "Li et al., 2020", message_passing(_pyg("DeeperGCN"))),
        _method("r-gcn", "R-GCN", "types", "Schlichtkrull et al., 2018", typed_message_passing(_pyg("RGCN"))),
        _method("hgt", "HGT", "types", "Hu et al., WWW 2020", typed_message_passing(_pyg("HGT"))),
        _method("hgconv", "HGConv", "types", "Yu et al., 2020", typed_message_passing(_pyg("HGConv"))),
        _method("r-hgnn", "R-HGNN", "types", "Yu et al., TKDE 2022", typed_message_passing(_pyg("RHGNN"))),
        _method("graphsage-sampled", "GraphSAGE, sampled", "sampled", "Hamilton et al., NIPS 2017", _SAGE),
        _method("cluster-gcn", "Cluster-GCN", "sampled", "Chiang et al., KDD 2019", _CLUSTERS),
        _method("graphsaint", "GraphSAINT", "sampled", "Zeng et al., ICLR 2020", _SAINT),
        _method("label-propagation", "Label propagation", "labels", "Zhou et al., NIPS 2003", propagate_labels),
        _method("correct-and-smooth", "C&S", "labels", "Huang et al., ICLR 2021", _as_the_recipe_says),
        _method("label-reuse", "Label reuse", "labels", "Wang et al., 2021", _as_the_recipe_says),
    ]
)


def method(name: str) -> Method:
    """By name; an own module is a method on hops."""
    if is_own(name):
        return Method(name, name, "hops", "your own", run_on_hops)
    if name in METHODS:
        return METHODS[name]
    near = difflib.get_close_matches(name, METHODS, 1)
    raise GamlpError(
        f"there is no method '{name}'" + (f": did you mean '{near[0]}'?" if near else ""),
        hint=f"choose from {', '.join(METHODS)}",
    )


def recipe_for(name: str, dataset: str | None = None) -> Recipe:
    """The recipe of a method: a shipped one for this dataset, or the method's own, or the defaults."""
    shipped_as = recipe_name(name, dataset)
    return Recipe.of(shipped_as) if shipped_as else Recipe.of({"model": {"name": name}})


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


def has_bundle(recipe: Recipe) -> bool:
    """Whether a recipe's method leaves a bundle that predicts other graphs: a model on hops and nothing after it."""
    return method(recipe.model.name).family == "hops" and recipe.smoothing is None and recipe.training.reuse == 0


def run(task: Task | Graph, recipe: Recipe, seed: int, place: Place | None = None) -> Report:
    """One run of the recipe's method, with label reuse and Correct & Smooth where the recipe asks for them.

    Without a place hops are kept only as long as the run.

    >>> from gamlp.graph.datasets.load import load
    >>> quick = recipe_for("sgc").changed({"training.epochs": 5})
    >>> sorted(run(load("karate"), quick, seed=0).test)
    ['loss', 'macro_f1', 'roc_auc', 'score']
    """
    if place is None:
        with TemporaryDirectory() as folder:
            return run(task, recipe, seed, Place(Path(folder)))
    task = Task(task) if isinstance(task, Graph) else task
    base = method(recipe.model.name)
    if base.run is _as_the_recipe_says:
        raise GamlpError(f"'{base.name}' is a recipe around a model, not a model", hint=f"--recipe {base.name}")
    own = base.run
    if recipe.training.reuse:
        if own is not run_on_hops:
            raise GamlpError(f"'{base.name}' reads no hops of labels: it cannot reuse them", hint="training.reuse 0")
        own = reuse_labels
    if recipe.smoothing is not None:
        own = smoothed(own)
    return own(task, recipe, seed, place)
