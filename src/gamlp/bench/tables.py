"""The paper's tables and figures as data: one YAML file each, checked when it is read."""

from __future__ import annotations

import difflib
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gamlp.errors import GamlpError
from gamlp.recipe import load_yaml

Kind = Literal["grid", "curve", "efficiency", "cost", "complexity", "hop-weights", "sgc-steps"]
NAMES = (
    "citation", "co-purchase", "ogbn-products", "ogbn-papers100m", "inductive", "inductive-nodes", "ogbn-mag",
    "heterogeneous", "ablation-labels", "ablation-reference", "ablation-alpha", "efficiency", "efficiency-epochs",
    "edge-sparsity", "label-sparsity", "depth", "complexity", "hop-weights", "sgc-steps", "beyond",
    "label-branch",
)  # fmt: skip


class _TableModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PaperSource(_TableModel):
    """Where published values stand: the paper and the LaTeX label of its table or figure."""

    paper: str
    label: str


class TableDataset(_TableModel):
    """A column. `note` says why a cell is empty, or what a stand-in stands for.

    `label`, `metrics` and `methods` (all of them: None) are the column's own where they are not the table's.
    With `stand_in`, published values are of another graph than ours: both are shown, no difference is given.
    `recipes` are names of rows' recipes → those that this column uses in their place.
    """

    title: str
    note: str = ""
    label: str | None = None
    metrics: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    stand_in: bool = False
    recipes: dict[str, str] = Field(default_factory=dict)
    like: str | None = None  # the dataset whose recipes are used, where that is not its own name


class TableMethod(_TableModel):
    """A row: the shipped recipe `<dataset>-<recipe>` or else `<recipe>`, with changes; None: published values alone.

    In its place, as it is, stands `<dataset>-<tuned>` or else `<dataset>-<recipe>-<tuned>`, where one is shipped.
    `axis` is the recipe's key that the table's axis sets for this method, where it is not the table's own.
    """

    recipe: str | None = None
    changes: dict[str, Any] = Field(default_factory=dict)
    tuned: str | None = None
    axis: str | None = None
    note: str = ""


class Axis(_TableModel):
    """What a curve sweeps: a key of recipes, or `graph.edges_removed` (a share), `graph.labels_per_class`."""

    title: str
    key: str
    values: tuple[float | int, ...]


class Value(_TableModel):
    """A published value with its deviation, None where the paper gives none.

    `bound` is `above` where the paper says only that a value is exceeded; `at` is the value of a curve's axis.
    """

    mean: float
    deviation: float | None = Field(default=None, ge=0)
    bound: Literal["equal", "above"] = "equal"
    at: float | int | None = None


class PaperTable(_TableModel):
    """One table or figure; `published[method][dataset][metric]`.

    Metrics are `test.score`, `valid.score`, `test.roc_auc`, `test.macro_f1`, `test.micro_f1`,
    `test.accuracy_at_threshold` in %, `seconds.*` (`seconds.epoch` is training's by epochs) and `relative.peak_memory`
    relative to the first method, and `peak_memory` in bytes. Differences from the row `reference` are shown with their
    error, seed by seed. In kinds `efficiency` and `cost` every run makes its hops anew, so that its time is its own;
    in a table of cost it has a process of its own too. Options that name datasets which no catalogue has:
    `generated[dataset]`, arguments of `generator` in graph/datasets/synthetic; `tasks[dataset]`, the graphs that train,
    valid and tests are.
    """

    name: str
    title: str
    kind: Kind = "grid"
    source: PaperSource
    metrics: tuple[str, ...] = ("test.score",)
    datasets: dict[str, TableDataset]
    methods: dict[str, TableMethod]
    axis: Axis | None = None
    reference: str | None = None
    seeds: int = 10
    budget_minutes: float = 60
    published: dict[str, dict[str, dict[str, Value]]] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict, description="what a special kind measures")
    footnotes: tuple[str, ...] = ()

    @field_validator("published", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """`cora: [81.8, 0.5]` is short for `cora: {test.score: {mean: 81.8, deviation: 0.5}}`."""

        def value(one: Any) -> Any:
            numbers = one if isinstance(one, list) else [one]
            return {"mean": numbers[0], "deviation": numbers[1] if len(numbers) > 1 else None}

        def cell(one: Any) -> Any:
            if isinstance(one, dict):
                return {metric: inner if isinstance(inner, dict) else value(inner) for metric, inner in one.items()}
            return {"test.score": value(one)}

        if not isinstance(given, dict):
            return given
        return {
            method: {dataset: cell(one) for dataset, one in cells.items()} if isinstance(cells, dict) else cells
            for method, cells in given.items()
        }

    @model_validator(mode="after")
    def _refers(self) -> PaperTable:
        if (self.axis is None) is (self.kind == "curve"):
            raise ValueError("a curve has an axis, and nothing else has one")
        if self.reference is not None and self.reference not in self.methods:
            raise ValueError(f"differences from '{self.reference}', which is no method of the table")
        for method, cells in self.published.items():
            if method not in self.methods:
                raise ValueError(f"published values of '{method}', which is no method of the table")
            for dataset, values in cells.items():
                if dataset not in self.datasets:
                    raise ValueError(f"published values on '{dataset}', which is no dataset of the table")
                for metric, value in values.items():
                    if metric not in self.metrics_of(dataset):
                        raise ValueError(f"published values of '{metric}', which is no metric of '{dataset}'")
                    if value.at is not None and (self.axis is None or value.at not in self.axis.values):
                        raise ValueError(f"a published value at {value.at}, which is no value of the axis")
        for dataset, column in self.datasets.items():
            for method in column.methods or ():
                if method not in self.methods:
                    raise ValueError(f"'{dataset}' runs '{method}', which is no method of the table")
        return self

    def metrics_of(self, dataset: str) -> tuple[str, ...]:
        """What a column shows."""
        return self.datasets[dataset].metrics or self.metrics

    def runs_of(self, dataset: str) -> tuple[str, ...]:
        """Methods that run on a dataset, in the table's order."""
        chosen = self.datasets[dataset].methods
        return tuple(
            name for name, row in self.methods.items() if row.recipe is not None and (chosen is None or name in chosen)
        )

    def published_at(self, method: str, dataset: str, metric: str, at: float | None = None) -> Value | None:
        """The paper's value of a cell, at a value of the axis where the table is a curve."""
        value = self.published.get(method, {}).get(dataset, {}).get(metric)
        return value if value is not None and value.at == at else None


def table_of(name: str) -> PaperTable:
    """A shipped table by its name."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        raise GamlpError(
            f"there is no table '{name}'" + (f": did you mean '{near[0]}'?" if near else ""), hint="gamlp bench list"
        )
    return read_table(load_yaml((resources.files("gamlp.bench") / "tables" / f"{name}.yaml").read_text("utf-8")))


def read_table(content: Any) -> PaperTable:
    """A table from what its file holds."""
    try:
        return PaperTable.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise GamlpError(f"'{key}': {first['msg']}") from error
