"""ComplEx embeddings of all nodes, trained on the graph's links alone: score(h, r, t) = Re⟨e_h, w_r, conj(e_t)⟩.

Trouillon et al., Complex Embeddings for Simple Link Prediction (2016); the model is PyG's. It has sparse gradients, so a
batch touches its own rows only, and Adagrad keeps one number a weight. Memory: 2 · 4 · n · d bytes of weights and their
state, 16 bytes an edge (the triple and the order of an epoch); for ogbn-mag (n 1.94 M, d 128, 21.1 M edges) 2.0 GB
and 0.34 GB. The best weights so far lie on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, save_file
from torch import Tensor
from torch.nn.functional import softplus
from torch_geometric.nn.kge import ComplEx

from gamlp.errors import GamlpError
from gamlp.graph.embeddings.triples import Batch, Triples, entity_starts, triples_of
from gamlp.graph.graph import Array, Graph
from gamlp.progress import Progress
from gamlp.storage import Place

BATCH = 1024
NEGATIVES = 8  # corrupted heads of every triple, and as many corrupted tails
RATE = 0.1
SPREAD = 0.1  # of first weights; PyG's depends on the number of nodes and is next to nothing for millions
PATIENCE = 3  # epochs without a better loss of held-out edges
HELD_OUT = 50  # one edge of so many


@dataclass(frozen=True)
class Training:
    """Columns, epochs at most, seed, and where a run that is interrupted goes on from."""

    width: int
    epochs: int
    seed: int
    place: Place

    @property
    def checkpoint(self) -> Place:
        return Place(f"{self.place}.checkpoint.safetensors")

    @property
    def best(self) -> Place:
        return Place(f"{self.place}.best.safetensors")

    def forget(self) -> None:
        self.checkpoint.remove()
        self.best.remove()


@dataclass
class _Standing:
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = float("inf")


def embeddings(graph: Graph, training: Training, kinds: list[str], progress: Progress) -> dict[str, Array]:
    """`[count, width]` float32 of every kind asked for: real parts, then imaginary ones, of the best epoch.

    For an odd width one column more is trained, and the last imaginary one left out.
    """
    triples = triples_of(graph)
    if not len(triples):
        raise GamlpError(f"graph '{graph.name}' has no edges to train embeddings on", hint="set relations.missing: none")
    nodes = sum(each.count for each in graph.node_types.values())
    _train(triples, nodes, training, progress)
    first = entity_starts(graph)
    ranges = {kind: slice(first[kind], first[kind] + graph.node_types[kind].count) for kind in kinds}
    with safe_open(training.best.fetched(), "np") as file:
        parts = [file.get_slice(name) for name in ("node_emb.weight", "node_emb_im.weight")]
        return {
            kind: np.concatenate([part[rows] for part in parts], axis=1)[:, : training.width]
            for kind, rows in ranges.items()
        }


def _train(triples: Triples, nodes: int, training: Training, progress: Progress) -> None:
    """Epochs until the loss of held-out edges no longer falls; a file holds the weights of the best."""
    model = new_model(nodes, len(triples.stops), (training.width + 1) // 2, training.seed)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE)
    order = np.random.default_rng([training.seed, 0]).permutation(len(triples)).astype(np.int32, copy=False)
    held = max(1, len(order) // HELD_OUT)
    trained, apart = order[held:] if len(order) > 1 else order, np.sort(order[:held])
    standing = _resumed(training, model, optimizer)
    while standing.epoch < training.epochs and standing.epoch - standing.best_epoch < PATIENCE:
        standing.epoch += 1
        # Draws of an epoch come from its number: who goes on needs no state of theirs.
        draws = np.random.default_rng([training.seed, standing.epoch])
        stage = f"ComplEx embeddings, epoch {standing.epoch} of at most {training.epochs}"
        _epoch(model, optimizer, triples, draws.permutation(trained), draws, stage, progress)
        loss = held_out_loss(model, triples, apart, training.seed)
        progress(stage, len(trained), len(trained), "edges", f"loss of held-out edges {loss:.4f}")
        if standing.epoch == 1 or loss < standing.best_loss:
            standing.best_epoch, standing.best_loss = standing.epoch, loss
            _put(training.best, model.state_dict())
        _save(training, standing, model, optimizer)


def new_model(nodes: int, links: int, hidden: int, seed: int) -> ComplEx:
    """PyG's ComplEx with first weights drawn from N(0, SPREAD²)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ComplEx(nodes, links, hidden, sparse=True)
        for weights in model.parameters():
            torch.nn.init.normal_(weights, std=SPREAD)
    return model


def _epoch(
    model: ComplEx,
    optimizer: torch.optim.Optimizer,
    triples: Triples,
    order: Array,
    draws: np.random.Generator,
    stage: str,
    progress: Progress,
) -> None:
    for begin in range(0, len(order), BATCH):
        batch = triples.take(order[begin : begin + BATCH])
        loss = batch_loss(model, batch, triples.corrupted(batch, NEGATIVES, draws))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        progress(stage, begin, len(order), "edges")


def batch_loss(model: ComplEx, batch: Batch, others: tuple[Array, Array]) -> Tensor:
    """−mean log σ(s⁺) − mean log σ(−s⁻): both kinds weigh the same, however many negatives there are."""
    heads, links, tails = (torch.from_numpy(part)[:, None] for part in batch)
    other_heads, other_tails = (torch.from_numpy(part) for part in others)
    wrong = torch.cat([model(other_heads, links, tails), model(heads, links, other_tails)], 1)
    return softplus(-model(heads, links, tails)).mean() + softplus(wrong).mean()


@torch.no_grad()
def held_out_loss(model: ComplEx, triples: Triples, rows: Array, seed: int) -> float:
    """The same loss of edges that are not trained on, beside the same negatives after every epoch."""
    draws = np.random.default_rng([seed, 0])
    total = 0.0
    for begin in range(0, len(rows), BATCH):
        batch = triples.take(rows[begin : begin + BATCH])
        total += float(batch_loss(model, batch, triples.corrupted(batch, NEGATIVES, draws))) * len(batch[0])
    return total / len(rows)


def _save(training: Training, standing: _Standing, model: ComplEx, optimizer: torch.optim.Optimizer) -> None:
    """All that the next epoch depends on. Adagrad's count of steps is none of it: its rate does not decay."""
    sums = {f"sum.{name}": optimizer.state[weights]["sum"] for name, weights in model.named_parameters()}
    about = {
        "epochs": torch.tensor([standing.epoch, standing.best_epoch]),
        "best_loss": torch.tensor([standing.best_loss], dtype=torch.float64),
    }
    _put(training.checkpoint, {**model.state_dict(), **sums, **about})


def _resumed(training: Training, model: ComplEx, optimizer: torch.optim.Optimizer) -> _Standing:
    """Where an earlier run stopped; from the start where there was none, or its files are damaged."""
    if training.checkpoint.size() is None or training.best.size() is None:
        return _Standing()
    try:
        tensors = _read(training.checkpoint)
        parameters = dict(model.named_parameters())
        if any(tensors[f"{part}{name}"].shape != own.shape for name, own in parameters.items() for part in ("", "sum.")):
            return _Standing()
        epoch, best_epoch = tensors["epochs"].tolist()
        standing = _Standing(epoch, best_epoch, float(tensors["best_loss"]))
    except (SafetensorError, KeyError, ValueError):
        return _Standing()
    with torch.no_grad():
        for name, own in parameters.items():
            own.copy_(tensors[name])
            optimizer.state[own]["sum"].copy_(tensors[f"sum.{name}"])
    return standing


def _put(place: Place, tensors: dict[str, Any]) -> None:
    with place.writing() as stream:  # the file that becomes the place when it is whole
        save_file({name: values.detach() for name, values in tensors.items()}, stream.name)


def _read(place: Place) -> dict[str, Tensor]:
    found: dict[str, Tensor] = load_file(place.local) if place.local is not None else load(place.read())
    return found
