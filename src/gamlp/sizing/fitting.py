"""What training and prediction take: rows that are held, one true step of the model on random hops."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gamlp.models import Shape, is_model, is_solved, labels_used, model_of
from gamlp.recipe import Recipe
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.rates import Rates
from gamlp.training import READ_BYTES, ROW_NUMBERS

_ROWS = 512  # of the step that is timed
_LEAST = 1e-9
FORWARD = 1 / 3  # of a step: one way through the network in three
PROCESS = 420 << 20  # of a process that trains: torch, and what it keeps
_ID_BYTES = 12  # of a prediction, beside a probability a class


@dataclass(frozen=True)
class FitSizes:
    """Of one model of a recipe: `step_row` are seconds that a row of a training step takes, None: unknown."""

    recipe: Recipe
    shape: GraphShape
    parameters: int
    step_row: float | None
    source: str

    @classmethod
    def of(cls, recipe: Recipe, shape: GraphShape, rates: Rates, *, measure: bool) -> FitSizes:
        """The model is built, and a step of it timed where that is wanted."""
        if not shape.classes or not is_model(recipe.model.name) or is_solved(recipe) or recipe.model.name == "blend":
            return cls(recipe, shape, 0, None, f"the time of '{recipe.model.name}' is not foretold")
        wanted = recipe.propagation
        label_hops = wanted.label_hops if labels_used(recipe) else 0
        hops = Shape(max(1, shape.features), shape.classes, wanted.hops, label_hops, 1 + len(wanted.also_r))
        model = model_of(recipe, hops)
        parameters = sum(one.numel() for one in model.parameters())
        if not measure:
            return cls(recipe, shape, parameters, 6 * parameters / rates.flops, rates.sources["training"])
        rows = max(1, min(_ROWS, recipe.training.batch_size))
        seconds = _step(model, hops, rows, labels_used(recipe))
        return cls(recipe, shape, parameters, seconds / rows, f"measured now: a step of {rows} rows")

    @property
    def row_bytes(self) -> int:
        """Of one row's hops, held as they are stored (bfloat16 as float32)."""
        wanted = self.recipe.propagation
        item = 2 if wanted.dtype == "float16" else 4
        columns = (wanted.hops + 1) * self.shape.features * (1 + len(wanted.also_r))
        if labels_used(self.recipe):
            columns += (wanted.label_hops + 1) * self.shape.classes
        return columns * item

    @property
    def rows(self) -> int:
        """Held where memory allows: training and validation rows."""
        return self.shape.rows.get("train", 0) + self.shape.rows.get("valid", 0)

    @property
    def batch(self) -> int:
        return max(1, min(self.recipe.training.batch_size, self.shape.rows.get("train", 0)))

    def resident(self, budget: int) -> bool:
        return self.rows * (self.row_bytes + ROW_NUMBERS) + READ_BYTES <= budget

    def memory(self, budget: int) -> int:
        """Rows that are held, or batches that come and go; activations and their gradients; four copies of weights."""
        held = self.rows * ROW_NUMBERS + (self.rows * self.row_bytes if self.resident(budget) else 0)
        settings = self.recipe.model
        wanted = self.recipe.propagation
        hops = wanted.hops + 1 + (wanted.label_hops + 1 if labels_used(self.recipe) else 0)
        inside = settings.hidden * (settings.layers + settings.label_layers + settings.jk_layers + 2) * 3
        if settings.hop_mlp or settings.attention == "jk":
            inside += hops * settings.hidden
        item = 2 if wanted.dtype == "float16" else 4
        activations = self.batch * 4 * (3 * self.row_bytes // item + inside)
        return held + activations + 16 * self.parameters + PROCESS

    def epoch_seconds(self, rates: Rates, budget: int) -> float | None:
        """All training rows forth and back, validation rows forth; from disk where they are not held."""
        if self.step_row is None:
            return None
        work = self.step_row * (self.shape.rows.get("train", 0) + FORWARD * self.shape.rows.get("valid", 0))
        reading = 0.0 if self.resident(budget) else self.rows * self.row_bytes / rates.read
        return max(work, reading)

    def train_seconds(self, rates: Rates, budget: int) -> float | None:
        """All epochs of all seeds; patience may end it earlier."""
        epoch = self.epoch_seconds(rates, budget)
        settings = self.recipe.training
        times = settings.epochs * len(settings.seeds) * settings.members * settings.stages
        return None if epoch is None else epoch * times + self.rows * self.row_bytes / rates.read

    def predict_seconds(self, rows: int, rates: Rates) -> float | None:
        if self.step_row is None:
            return None
        return max(rows * self.step_row * FORWARD, rows * self.row_bytes / rates.read)

    def predict_memory(self, rows: int) -> int:
        return PROCESS + 4 * min(READ_BYTES, rows * self.row_bytes)

    def predictions(self, rows: int) -> int:
        """Bytes of the table: id, label, a probability a class."""
        return rows * (_ID_BYTES + 4 * self.shape.classes)

    @property
    def run_folder(self) -> int:
        """Weights in the bundle, of each seed, and in the checkpoint with those of the optimizer."""
        return 4 * self.parameters * (len(self.recipe.training.seeds) + 4)


def _step(model: object, shape: Shape, rows: int, labels: bool) -> float:
    """Seconds of the better of two training steps after a first one."""
    import torch

    assert isinstance(model, torch.nn.Module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(rows, shape.channels, shape.hops + 1, shape.features)
        y = torch.rand(rows, 1, shape.label_hops + 1, shape.classes) if labels else None
        target = torch.randint(shape.classes, (rows,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)  # Adam would import the compiler, for a second
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(model(x, y), target))
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
        if sum(seconds) > 1:
            break
    return max(_LEAST, min(seconds))
