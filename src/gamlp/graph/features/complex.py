"""ComplEx embeddings of all nodes, trained on the graph's relations alone: score(h, r, t) = Re⟨e_h, w_r, conj(e_t)⟩.

Trouillon et al., Complex Embeddings for Simple Link Prediction (2016); the model is PyG's. Its gradients are sparse: a
batch touches its own rows only, and Adagrad keeps one number a weight. Memory: 2 · 4 · n · d bytes of weights and their
state, and 20 bytes an edge (the triple, and the order of an epoch); for ogbn-mag (n 1.94 M, d 128, 21.1 M edges)
2.0 GB and 0.42 GB. The best weights so far lie on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch_geometric.nn.kge import ComplEx

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.io import Place
from gamlp.progress import Progress


@dataclass(frozen=True)
class Triples:
    """One triple an edge of one direction of each relation: 8 bytes each; its place says its relation.

    `heads`, `tails`: int32 entities; those of relation i end at `stops[i]`. `starts[i]` and `counts[i]` are the first
    entity and the number of entities of the two types, (head, tail), that link i joins.
    """

    heads: Array
    tails: Array
    stops: Array
    starts: Array
    counts: Array

    def __len__(self) -> int:
        return len(self.heads)

    def batches(self, rows: Array, size: int, draws: np.random.Generator) -> Iterator[tuple[int, Array]]:
        """(relation, rows) of all ascending `rows` in random order, one relation a batch: it shares negatives."""
        bounds = np.searchsorted(rows, np.concatenate([[0], self.stops]))
        parts = list(pairwise(bounds.tolist()))
        order = np.concatenate([draws.permutation(rows[begin:end]) for begin, end in parts])
        cuts = [
            (relation_index, at, min(at + size, end))
            for relation_index, (begin, end) in enumerate(parts)
            for at in range(begin, end, size)
        ]
        for which in draws.permutation(len(cuts)):
            relation_index, begin, end = cuts[which]
            yield relation_index, order[begin:end]

    def others(self, relation_index: int, number: int, draws: np.random.Generator) -> tuple[Array, Array]:
        """Heads and tails to corrupt triples with: of the relation's two types, all of them where they are few."""
        heads, tails = (
            start + (np.arange(count) if count <= number else draws.integers(0, count, number))
            for start, count in zip(self.starts[relation_index], self.counts[relation_index])
        )
        return heads, tails


def entity_starts(graph: Graph) -> dict[str, int]:
    """The first entity of every type."""
    counts = [nodes.count for nodes in graph.node_types.values()]
    return dict(zip(graph.node_types, np.concatenate([[0], np.cumsum(counts)]).tolist()))


def triples_of(graph: Graph) -> Triples:
    """Heads are a relation's sources, tails its targets; weights do not matter."""
    first = entity_starts(graph)
    total = sum(nodes.count for nodes in graph.node_types.values())
    if total >= 1 << 31:
        raise GamlpError(f"{total} nodes are too many to train embeddings of", hint="set relations.missing: mean")
    chosen = [graph.relations[names[0]] for names in graph.relation_pairs.values()]
    most = sum(relation.entries for relation in chosen)
    heads, tails, stops, done = np.empty(most, np.int32), np.empty(most, np.int32), [], 0
    for relation in chosen:
        for rows, neighbours, _ in relation.edges():
            if not relation.directed and relation.source == relation.target:
                # Both directions are stored: one of them, by parity, so that neither end is mostly the lower number.
                once = (neighbours < rows) == ((neighbours + rows) % 2 == 0)
                rows, neighbours = rows[once], neighbours[once]
            upto = done + len(rows)
            heads[done:upto] = neighbours + first[relation.source]
            tails[done:upto] = rows + first[relation.target]
            done = upto
        stops.append(done)
    ends = [(relation.source, relation.target) for relation in chosen]
    starts = np.array([[first[node_type] for node_type in pair] for pair in ends], np.int64).reshape(-1, 2)
    counts = np.array([[graph.node_types[node_type].count for node_type in pair] for pair in ends], np.int64).reshape(
        -1, 2
    )
    return Triples(heads[:done], tails[:done], np.asarray(stops, np.int64), starts, counts)


BATCH = 1024
NEGATIVES = 256  # heads, and as many tails, that a batch's triples are corrupted with
PENALTY = 1.0  # of N3: without it the edges of one node are learned by heart within an epoch
RATE = 0.1
SPREAD = 0.1  # of first weights; PyG's depends on the number of nodes and is next to nothing for millions
PATIENCE = 5  # epochs without a better loss of held-out edges
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
class _TrainingState:
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = float("inf")


def embeddings(graph: Graph, training: Training, node_types: list[str], progress: Progress) -> dict[str, Array]:
    """`[count, width]` float32 of every kind asked for: real parts, then imaginary ones, of the best epoch.

    For an odd width one column more is trained, and the last imaginary one left out.
    """
    triples = triples_of(graph)
    if not len(triples):
        raise GamlpError(
            f"graph '{graph.name}' has no edges to train embeddings on", hint="set relations.missing: none"
        )
    nodes = sum(each.count for each in graph.node_types.values())
    _train(triples, nodes, training, progress)
    first = entity_starts(graph)
    ranges = {
        node_type: slice(first[node_type], first[node_type] + graph.node_types[node_type].count)
        for node_type in node_types
    }
    with safe_open(training.best.local_copy(), "np") as file:
        parts = [file.get_slice(name) for name in ("node_emb.weight", "node_emb_im.weight")]
        return {
            node_type: np.concatenate([part[rows] for part in parts], axis=1)[:, : training.width]
            for node_type, rows in ranges.items()
        }


def _train(triples: Triples, nodes: int, training: Training, progress: Progress) -> None:
    """Epochs until the loss of held-out edges no longer falls; a file holds the weights of the best."""
    model = new_model(nodes, len(triples.stops), (training.width + 1) // 2, training.seed)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE)
    held_out, trained = _parted(len(triples), training.seed)
    state = _resumed(training, model, optimizer)
    while state.epoch < training.epochs and state.epoch - state.best_epoch < PATIENCE:
        state.epoch += 1
        stage = f"ComplEx embeddings, epoch {state.epoch} of at most {training.epochs}"
        report_progress = partial(progress, stage, total=len(trained), unit="edges")
        # Draws of an epoch come from its number: who goes on needs no state of theirs.
        _epoch(model, optimizer, triples, trained, np.random.default_rng([training.seed, state.epoch]), report_progress)
        loss = held_out_loss(model, triples, held_out, training.seed)
        report_progress(len(trained), note=f"loss of held-out edges {loss:.4f}")
        if state.epoch == 1 or loss < state.best_loss:
            state.best_epoch, state.best_loss = state.epoch, loss
            _put(training.best, model.state_dict())
        _save(training, state, model, optimizer)


def _parted(count: int, seed: int) -> tuple[Array, Array]:
    """Rows of triples, ascending: held out, and trained on; a single one is both."""
    held_out = np.zeros(count, bool)
    held_out[np.random.default_rng([seed, 0]).choice(count, max(1, count // HELD_OUT), replace=False)] = True
    rows = np.arange(count, dtype=np.int32 if count < 1 << 31 else np.int64)
    return rows[held_out], rows[~held_out] if count > 1 else rows


def new_model(nodes: int, relations: int, hidden: int, seed: int) -> ComplEx:
    """PyG's ComplEx with first weights drawn from N(0, SPREAD²)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ComplEx(nodes, relations, hidden, sparse=True)
        for weights in model.parameters():
            torch.nn.init.normal_(weights, std=SPREAD)
    return model


def _epoch(
    model: ComplEx,
    optimizer: torch.optim.Optimizer,
    triples: Triples,
    rows: Array,
    draws: np.random.Generator,
    report: Callable[[int], None],
) -> None:
    done = 0
    for relation_index, some in triples.batches(rows, BATCH, draws):
        loss, penalty = batch_loss(
            model, triples, relation_index, some, triples.others(relation_index, NEGATIVES, draws)
        )
        optimizer.zero_grad()
        (loss + PENALTY * penalty).backward()  # type: ignore[no-untyped-call]
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
            optimizer.step()
        done += len(some)
        report(done)


def batch_loss(
    model: ComplEx, triples: Triples, relation_index: int, rows: Array, others: tuple[Array, Array]
) -> tuple[Tensor, Tensor]:
    """−mean log softmax of the true tail among other tails, and of the true head among other heads; and N3.

    N3 = mean Σ|e_h|³ + |e_t|³ (Lacroix et al., 2018). All triples of the batch share the others, so that their scores
    are products of matrices: Re⟨e_h, w, conj(e_t)⟩ is the real product of e_h w with e_t, and of e_t conj(w) with e_h.
    """
    relation = torch.tensor([relation_index])
    heads, tails = (torch.from_numpy(ends[rows].astype(np.int64)) for ends in (triples.heads, triples.tails))
    wrong_heads, wrong_tails = map(torch.from_numpy, others)
    true = model(heads, relation, tails)[:, None]
    head, tail, weight = (
        _entity(model, heads),
        _entity(model, tails),
        _complex(model.rel_emb, model.rel_emb_im, relation),
    )
    loss = torch.zeros(())
    for query, right, wrong in ((head * weight, tails, wrong_tails), (tail * weight.conj(), heads, wrong_heads)):
        scores = _sides(query) @ _sides(_entity(model, wrong)).T
        scores = scores.masked_fill(right[:, None] == wrong, -torch.inf)
        loss = loss + (torch.cat([true, scores], 1).logsumexp(1, keepdim=True) - true).mean() / 2
    # |e|³ by squares: a modulus has no gradient at zero.
    both = torch.cat([head, tail])
    squares = both.real.square() + both.imag.square() + 1e-12
    return loss, 2 * squares.pow(1.5).sum(1).mean()


def _entity(model: ComplEx, numbers: Tensor) -> Tensor:
    return _complex(model.node_emb, model.node_emb_im, numbers)


def _complex(real: Callable[[Tensor], Tensor], imaginary: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    return torch.complex(real(numbers), imaginary(numbers))


def _sides(values: Tensor) -> Tensor:
    """Real parts, then imaginary ones."""
    return torch.cat([values.real, values.imag], 1)


@torch.no_grad()
def held_out_loss(model: ComplEx, triples: Triples, rows: Array, seed: int) -> float:
    """The same loss of edges that are not trained on, beside the same negatives after every epoch."""
    draws = np.random.default_rng([seed, 0])
    total = 0.0
    for relation_index, some in triples.batches(rows, BATCH, draws):
        loss, _ = batch_loss(model, triples, relation_index, some, triples.others(relation_index, NEGATIVES, draws))
        total += float(loss) * len(some)
    return total / len(rows)


def _save(training: Training, state: _TrainingState, model: ComplEx, optimizer: torch.optim.Optimizer) -> None:
    """All that the next epoch depends on. Adagrad's count of steps is none of it: its rate does not decay."""
    sums = {f"sum.{name}": optimizer.state[weights]["sum"] for name, weights in model.named_parameters()}
    about = {
        "epochs": torch.tensor([state.epoch, state.best_epoch]),
        "best_loss": torch.tensor([state.best_loss], dtype=torch.float64),
    }
    _put(training.checkpoint, {**model.state_dict(), **sums, **about})


def _resumed(training: Training, model: ComplEx, optimizer: torch.optim.Optimizer) -> _TrainingState:
    """Where an earlier run stopped; from the start where there was none, or its files are damaged."""
    if training.checkpoint.size() is None or training.best.size() is None:
        return _TrainingState()
    try:
        with training.best.as_file() as path, safe_open(path, "pt"):  # refuses a file that was cut off
            pass
        tensors = _read(training.checkpoint)
        parameters = dict(model.named_parameters())
        if any(
            tensors[f"{part}{name}"].shape != own.shape for name, own in parameters.items() for part in ("", "sum.")
        ):
            return _TrainingState()
        epoch, best_epoch = tensors["epochs"].tolist()
        state = _TrainingState(epoch, best_epoch, float(tensors["best_loss"]))
    except (SafetensorError, KeyError, ValueError):
        return _TrainingState()
    with torch.no_grad():
        for name, own in parameters.items():
            own.copy_(tensors[name])
            optimizer.state[own]["sum"].copy_(tensors[f"sum.{name}"])
    return state


def _put(place: Place, tensors: dict[str, Any]) -> None:
    with place.atomic_file() as new:
        save_file({name: values.detach() for name, values in tensors.items()}, new)


def _read(place: Place) -> dict[str, Tensor]:
    with place.as_file() as path:
        found: dict[str, Tensor] = load_file(path)
    return found
