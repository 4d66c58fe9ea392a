"""Plan: what to propagate: signals × hops × operator × rows × dtype. Propagator: who does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Directions, Graph, Labels, View, directed_views, view_of
from gamlp.io import Place, mapped_rows
from gamlp.kernel import FloatName
from gamlp.progress import Progress, silent
from gamlp.propagation.operator import Operator
from gamlp.recipe import Recipe

if TYPE_CHECKING:
    from gamlp.propagation.store.store import HopStore

Scaling = Literal["none", "row", "l2", "standard"]
_CHUNK = 1 << 20  # rows looked at at a time
ROW_SETS = ("all", "labelled", "split", "train", "valid", "test")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Statistics(_Frozen):
    """Mean and deviation of every column, to scale one graph as another was: (x - mean) / deviation."""

    mean: tuple[FiniteFloat, ...]
    deviation: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _parts_fit(self) -> Statistics:
        if len(self.mean) != len(self.deviation):
            raise GamlpError(f"statistics have {len(self.mean)} means and {len(self.deviation)} deviations")
        if wrong := [value for value in self.deviation if value <= 0]:
            raise GamlpError(f"deviation {wrong[0]:g} cannot scale a column", hint="use 1 where a column is constant")
        return self


class FeatureSignal(_Frozen):
    """X^(k) = Â X^(k-1), k = 0..hops, from features scaled before propagation.

    `row`: rows whose absolute values sum to one; `l2`: rows of unit length; `standard`: columns of mean 0 and
    deviation 1 over all rows, or by the `statistics` given, by node type where there are several; the other scalings
    leave them aside. `also` are further operators, each of whose hops are a signal of its own, as deep.
    """

    hops: int = Field(default=5, ge=0, le=1000)
    operator: Operator = Operator()
    scaling: Scaling = "none"
    dtype: FloatName = "float32"
    statistics: Statistics | dict[str, Statistics] | None = None
    also: tuple[Operator, ...] = ()

    @property
    def names(self) -> dict[str, Operator]:
        """Signals by name: `features`, and one for each further operator."""
        return {"features": self.operator, **{f"features-r{operator.r}": operator for operator in self.also}}


class LabelSignal(_Frozen):
    """Y^(l) = Â Y^(l-1), l = 0..hops; Y^(0) is one-hot on training rows and zero elsewhere.

    `folds` > 1 also stores cross-fitted hops of the training rows: each from the other folds' labels alone.
    `soft`: instead of zero, the graph's features, which are then what a model said of each row, one column a class.
    `labelled` counts the rows of Y^(0) that have something, where that is not the number of training rows.
    """

    hops: int = Field(default=5, ge=0, le=1000)
    operator: Operator = Operator()
    dtype: FloatName = "float32"
    folds: int = Field(default=0, ge=0, le=100)
    fold_seed: int = 0
    soft: bool = False
    labelled: int | None = None


class Plan(_Frozen):
    """Both signals on every view, over the kept rows: names out of ROW_SETS, joined by '+'.

    `subsets` of a heterogeneous graph's relations are its views; None: one view of all relations.
    `separate_types`: the features of each type of nodes are a signal of their own.
    A homogeneous graph is one view, and leaves both aside. `directions` of its edges: along them (`in`: a node hears
    those that lead to it, A), against them (`out`, Aᵀ), or both, each a view.
    """

    features: FeatureSignal | None = FeatureSignal()
    labels: LabelSignal | None = None
    rows: str = "all"
    subsets: tuple[tuple[str, ...], ...] | None = None
    separate_types: bool = False
    directions: Directions = "in"

    @classmethod
    def of(
        cls, recipe: Recipe, statistics: Statistics | dict[str, Statistics] | None = None, *, labels: bool = True
    ) -> Plan:
        """What a recipe asks to be propagated."""
        wanted = recipe.propagation
        features = FeatureSignal(
            hops=wanted.hops,
            operator=Operator(r=wanted.r, loops=wanted.loops),
            scaling=wanted.scaling,
            dtype=wanted.dtype,
            statistics=statistics,
            also=tuple(Operator(r=r, loops=wanted.loops) for r in wanted.also_r),
        )
        r = wanted.r if wanted.label_r is None else wanted.label_r
        label_signal = LabelSignal(
            hops=wanted.label_hops,
            operator=Operator(r=r, loops=wanted.loops),
            dtype=wanted.dtype,
            folds=wanted.folds,
            fold_seed=wanted.fold_seed,
        )
        subsets = recipe.relations.subsets
        return cls(
            features=features,
            labels=label_signal if labels else None,
            rows=wanted.rows,
            subsets=subsets if isinstance(subsets, tuple) else None,
            separate_types=isinstance(subsets, tuple) and recipe.relations.separate_types == "yes",
            directions=wanted.directions,
        )

    def views(self, graph: Graph) -> list[View]:
        """The graphs of one kind of node and edge that hops are computed on."""
        if not graph.heterogeneous:
            return directed_views(graph, self.directions)
        subsets = (tuple(graph.relation_pairs),) if self.subsets is None else self.subsets
        found = {view.name: view for view in (view_of(graph, subset) for subset in subsets)}
        return list(found.values())

    def kept_rows(self, graph: Graph) -> Array | None:
        """Row numbers to keep, ascending; None for all."""
        if self.keeps_all:
            return None
        rows = mapped_rows(self.kept_parts(graph))
        return None if len(rows) == graph.nodes.count else rows

    @property
    def keeps_all(self) -> bool:
        names = [name.strip() for name in self.rows.split("+")]
        unknown = [name for name in names if name not in ROW_SETS]
        if unknown:
            raise GamlpError(f"unknown rows '{unknown[0]}'", hint=f"choose from {', '.join(ROW_SETS)}, joined by '+'")
        return "all" in names

    def kept_parts(self, graph: Graph) -> Iterator[Array]:
        """The same a part at a time, in order: memory does not grow with the nodes."""
        names, nodes = [name.strip() for name in self.rows.split("+")], graph.nodes
        if "labelled" in names and nodes.labels is None:
            raise GamlpError(f"graph '{graph.name}' has no labels", hint="use --rows all")
        if names != ["labelled"] and nodes.split is None:
            raise GamlpError(f"graph '{graph.name}' has no split", hint="use --rows all or --rows labelled")
        roles = [index - 2 for index, name in enumerate(ROW_SETS) if index > 2 and name in names]
        found = 0
        for begin in range(0, nodes.count, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, nodes.count))
            keep = np.zeros(part.stop - begin, bool)
            if "labelled" in names and nodes.labels is not None:
                keep |= Labels(nodes.labels.values[part], nodes.labels.classes).known()
            if nodes.split is not None:
                keep |= np.isin(nodes.split.roles[part], [1, 2, 3] if "split" in names else roles)
            found += int(np.count_nonzero(keep))
            yield np.flatnonzero(keep) + begin
        if not found:
            raise GamlpError(f"no rows are '{self.rows}' in graph '{graph.name}'", hint="use --rows all")


class Propagator(Protocol):
    """What every engine does on the way from a graph to its hops. Interrupted and run again: the same bytes."""

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        """Write the hops that a plan asks for and the store lacks."""

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        """Write the graph of some rows alone; see `gamlp.graph.induced`."""
