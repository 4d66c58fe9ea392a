"""The encoders of a node type as an ONNX file: cells by column → features, and hop 0 as the model reads it.

Numbers, booleans, lists of numbers and one-hot categories are encoded by the file. ONNX has no calendar, no words of a
text and no hash: dates, texts and categories that share features by hash are inputs that are encoded already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.export.head import metadata_of
from gamlp.export.onnx_file import OPSET, library, opened, save, stamp
from gamlp.graph import Features, name_some, total_width
from gamlp.graph.features.encoders import (
    GAP_WORDS,
    LARGEST,
    CategoryState,
    FittedColumn,
    RankedState,
    ScaledState,
    TruthState,
    VectorState,
    number_key,
)
from gamlp.io import atomic_file
from gamlp.propagation import Statistics, scaled_features
from gamlp.training import Bundle

TOLERANCE = 1e-6
_ROWS = 500  # of random cells
_ML_OPSET = 3
_FEATURES, _HOP_0 = "features", "hop_0"
_NEW = "a value that training never saw"
_UNKNOWN, _GAP = -1, -2  # places of categories


@dataclass(frozen=True)
class WrittenEncoders:
    """A file for one node type, its largest difference, and columns that it is given encoded."""

    path: Path
    node_type: str
    difference: float
    encoded_before: tuple[str, ...]
    notes: tuple[str, ...] = ()


def write_encoders(bundle: Bundle, out: Path) -> tuple[list[WrittenEncoders], list[str]]:
    """A file beside `out` for every node type whose columns have names, and why there is none."""
    if bundle.recipe.features.structural == "alone":
        return [], ["features are made of the graph's edges: there are no encoders to export"]
    if not bundle.columns:
        return [], ["columns of features have no names: there are no encoders to export"]
    found = []
    for node_type in bundle.columns:
        of = f"-{quote(node_type, safe='')}" if len(bundle.columns) > 1 else ""
        found.append(_write(bundle, node_type, out.with_name(f"{out.stem}.encoders{of}.onnx")))
    return found, []


def _write(bundle: Bundle, node_type: str, out: Path) -> WrittenEncoders:
    onnx = library()
    columns = [FittedColumn.of(column) for column in bundle.columns[node_type]]
    scaling, refused = _scaling(bundle, node_type)
    graph = _Graph(onnx, [column.name for column in columns])
    parts = [part for column in columns for part in _Encoding(graph, column).parts()]
    features = graph.op("Concat", *parts, axis=1)
    outputs = {graph.free(_FEATURES): features}
    if scaling is not None:
        outputs[graph.free(_HOP_0)] = _scaled(graph, features, *scaling)
    before = tuple(column.name for column in columns if not held(column))
    about = metadata_of(bundle) | {
        "gamlp.node_type": node_type,
        "gamlp.columns": json.dumps([{"name": one.name, "type": one.type, "width": one.width} for one in columns]),
        "gamlp.feature_names": json.dumps([name for one in columns for name in one.feature_names()]),
        "gamlp.encoded_before": json.dumps(before),
    }
    model = graph.model(outputs)
    stamp(onnx, model, about)
    with atomic_file(out) as new:
        save(onnx, model, new, "encoders")
        difference = _checked(opened(new), columns, scaling, list(outputs))
    notes = [] if refused is None else [refused]
    if before:
        are = "is" if len(before) == 1 else "are"
        notes.append(
            f"{'column' if len(before) == 1 else 'columns'} {name_some(before)} {are} given encoded: ONNX has no "
            "calendar, no words of a text and no hash"
        )
    return WrittenEncoders(out, node_type, difference, before, tuple(notes))


def held(column: FittedColumn) -> bool:
    """Whether ONNX can encode the column."""
    state = column.state
    return isinstance(state, ScaledState | RankedState | TruthState | VectorState) or (
        isinstance(state, CategoryState) and not state.buckets
    )


Scaled = tuple[str, Statistics | None]


def _scaling(bundle: Bundle, node_type: str) -> tuple[Scaled | None, str | None]:
    """What makes hop 0 of features, or why it is not known."""
    scaling, statistics = bundle.recipe.propagation.scaling, bundle.statistics or {}
    known = next(iter(statistics.values())) if len(statistics) == 1 else statistics.get(node_type)
    widths = {part.node_type: part.width for part in bundle.shape.parts} or {None: bundle.shape.features}
    width = widths.get(node_type, widths.get(None))
    if width is not None and width != total_width(bundle.columns[node_type]):
        return None, f"features of {node_type} are brought to fewer columns for the model: hop 0 is not exported"
    if scaling == "standard" and known is None:
        return None, "the model was saved without its scaling statistics: hop 0 is not exported"
    return (scaling, known), None


class _Graph:
    """A graph of ONNX as it grows; inputs have the names of columns, and nothing else has."""

    def __init__(self, onnx: Any, names: Sequence[str]) -> None:
        self.onnx, self.taken = onnx, set(names)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def free(self, name: str) -> str:
        """The name, or one like it that no column has."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def input(self, name: str, kind: str, *shape: int) -> str:
        number = getattr(self.onnx.TensorProto, kind)
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, number, ["batch", *shape]))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = self.free(f"constant {len(self.constants)}")
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def op(self, kind: str, *given: str, domain: str = "", **settings: Any) -> str:
        name = self.free(f"{kind} {len(self.nodes)}")
        self.nodes.append(self.onnx.helper.make_node(kind, list(given), [name], domain=domain, **settings))
        return name

    def cast(self, value: str, kind: str) -> str:
        return self.op("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def column(self, value: str) -> str:
        """`[batch]` → `[batch, 1]`."""
        return self.op("Unsqueeze", value, self.constant([1], np.int64))

    def model(self, outputs: Mapping[str, str]) -> Any:
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        infos = [helper.make_tensor_value_info(name, kind, ["batch", None]) for name in outputs]
        graph = helper.make_graph(self.nodes, "gamlp encoders", self.inputs, infos, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


class _Encoding:
    """Operations of one column: what FittedColumn.apply does, in float64 as there."""

    def __init__(self, graph: _Graph, column: FittedColumn) -> None:
        self.graph, self.column, self.state = graph, column, column.state

    def parts(self) -> list[str]:
        """float32 `[batch, …]`, side by side the features of the column."""
        graph, name, state = self.graph, self.column.name, self.state
        if isinstance(state, CategoryState) and not state.buckets:
            features, gap = self._category(state, graph.input(name, "STRING"))
        elif isinstance(state, VectorState):
            features, gap = self._vector(state, graph.input(name, "DOUBLE", state.width))
        elif isinstance(state, ScaledState | RankedState | TruthState):
            given = graph.input(name, "DOUBLE")
            gap = graph.op("IsNaN", given)
            filled = graph.op("Where", gap, graph.constant(state.fill), given)
            features = graph.column(graph.cast(self._number(state, filled), "FLOAT"))
        else:
            return [graph.input(name, "FLOAT", self.column.width)]
        return [features, *([graph.column(graph.cast(gap, "FLOAT"))] if state.gaps else [])]

    def _number(self, state: ScaledState | RankedState | TruthState, value: str) -> str:
        if isinstance(state, RankedState):
            return self._ranked(state, value)
        if isinstance(state, TruthState) or (state.center == 0 and state.scale == 1):
            return value
        graph = self.graph
        moved = graph.op("Sub", value, graph.constant(state.center))
        return self._limited(graph.op("Div", moved, graph.constant(state.scale)))

    def _limited(self, value: str) -> str:
        return self.graph.op("Clip", value, self.graph.constant(-LARGEST), self.graph.constant(LARGEST))

    def _ranked(self, state: RankedState, value: str) -> str:
        """Between two quantiles by a line; of equal quantiles the middle, from below and from above."""
        graph = self.graph
        quantiles = np.asarray(state.quantiles)
        shares = np.linspace(0, 1, len(quantiles))
        rise = np.diff(quantiles)
        slopes = np.divide(np.diff(shares), rise, out=np.zeros_like(rise), where=rise > 0)
        wide, last = graph.constant(quantiles[None]), len(quantiles) - 2
        sides = []
        for kind, first in (("LessOrEqual", 1), ("Less", 1)):
            below = graph.cast(graph.op(kind, wide, graph.column(value)), "INT64")
            count = graph.op("ReduceSum", below, graph.constant([1], np.int64), keepdims=0)
            place = graph.op("Sub", count, graph.constant(first, np.int64))
            place = graph.op("Max", graph.constant(0, np.int64), place)
            place = graph.op("Min", graph.constant(last, np.int64), place)
            start = graph.op("Gather", graph.constant(quantiles), place)
            slope = graph.op("Gather", graph.constant(slopes), place)
            share = graph.op("Gather", graph.constant(shares), place)
            sides.append(graph.op("Add", share, graph.op("Mul", slope, graph.op("Sub", value, start))))
        ranks = graph.op("Add", *sides)
        top = graph.op("GreaterOrEqual", value, graph.constant(quantiles[-1]))
        ranks = graph.op("Where", top, graph.constant(2.0), ranks)
        bottom = graph.op("LessOrEqual", value, graph.constant(quantiles[0]))
        ranks = graph.op("Where", bottom, graph.constant(0.0), ranks)
        middle = graph.op("Sub", ranks, graph.constant(1.0))
        return graph.op("Mul", middle, graph.constant(np.sqrt(3)))

    def _category(self, state: CategoryState, value: str) -> tuple[str, str]:
        graph = self.graph
        places = dict.fromkeys((*GAP_WORDS, ""), _GAP)
        for place, name in enumerate(state.values):
            places |= dict.fromkeys(spellings(name), place)
        found = graph.op(
            "LabelEncoder", value, domain="ai.onnx.ml", keys_strings=list(places), values_int64s=list(places.values()),
            default_int64=_UNKNOWN,
        )  # fmt: skip
        every = graph.constant(np.arange(len(state.values))[None], np.int64)
        hot = graph.cast(graph.op("Equal", graph.column(found), every), "FLOAT")
        return hot, graph.op("Equal", found, graph.constant(_GAP, np.int64))

    def _vector(self, state: VectorState, value: str) -> tuple[str, str]:
        graph = self.graph
        unknown = graph.cast(graph.op("IsNaN", value), "INT64")
        gap = graph.op("Greater", graph.op("ReduceMax", unknown, _rows(graph), keepdims=0), graph.constant(0, np.int64))
        filled = graph.op("Where", graph.column(gap), graph.constant(0.0), value)
        if state.l2:
            filled = _over_length(graph, filled, by_squares=True)
        return graph.cast(filled, "FLOAT"), gap


def spellings(name: str) -> list[str]:
    """How a category may be written: 3 as 3 and as 3.0. Texts are to be given without blanks around them."""
    try:
        number = float(name)
    except ValueError:
        return [name]
    called_so = np.isfinite(number) and number_key(number) == name  # 007 is a code and no number
    return list(dict.fromkeys([name, repr(number)])) if called_so else [name]


def _rows(graph: _Graph) -> str:
    """Over the columns of a row."""
    return graph.constant([1], np.int64)


def _over_length(graph: _Graph, value: str, *, by_squares: bool) -> str:
    """Rows over their length, or over the sum of their sizes; zero rows stay so. Squares are of what is at most one."""
    sizes = graph.op("Abs", value)
    if by_squares:
        largest = graph.op("ReduceMax", sizes, _rows(graph), keepdims=1)
        unit = graph.op("Where", _positive(graph, largest), largest, graph.constant(1.0))
        small = graph.op("Div", value, unit)
        squares = graph.op("ReduceSum", graph.op("Mul", small, small), _rows(graph), keepdims=1)
        length = graph.op("Mul", graph.op("Sqrt", squares), unit)
    else:
        length = graph.op("ReduceSum", sizes, _rows(graph), keepdims=1)
    there = _positive(graph, length)
    safe = graph.op("Where", there, length, graph.constant(1.0))
    return graph.op("Where", there, graph.op("Div", value, safe), graph.constant(0.0))


def _positive(graph: _Graph, value: str) -> str:
    return graph.op("Greater", value, graph.constant(0.0))


def _scaled(graph: _Graph, features: str, scaling: str, statistics: Statistics | None) -> str:
    """Hop 0: features as propagation scales them."""
    if scaling == "none":
        return features
    wide = graph.cast(features, "DOUBLE")
    if scaling == "standard":
        assert statistics is not None
        moved = graph.op("Sub", wide, graph.constant([statistics.mean]))
        return graph.cast(graph.op("Div", moved, graph.constant([statistics.deviation])), "FLOAT")
    return graph.cast(_over_length(graph, wide, by_squares=scaling == "l2"), "FLOAT")


def _checked(session: Any, columns: Sequence[FittedColumn], scaling: Scaled | None, outputs: list[str]) -> float:
    """The largest difference from what gamlp makes of random cells, in units of what is above one."""
    random = np.random.default_rng(0)
    given, wanted = {}, []
    for column in columns:
        if held(column):
            given[column.name], cells = random_cells(column, _ROWS, random)
            wanted.append(column.apply(cells)[0])
        else:
            given[column.name] = random.normal(size=(_ROWS, column.width)).astype(np.float32)
            wanted.append(given[column.name])
    expected = [np.concatenate(wanted, 1)]
    if scaling is not None:
        expected.append(scaled_features(Features(expected[0]), *scaling).read(slice(None), slice(None)))
    largest = 0.0
    for said, true in zip(session.run(outputs, given), expected, strict=True):
        apart = np.abs(said.astype(np.float64) - true) / np.maximum(1.0, np.abs(true))
        largest = max(largest, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)))
    if not largest <= TOLERANCE:
        raise GamlpError(
            f"encoders in ONNX differ from gamlp's by {largest:.1g}, and are not left behind", hint="use --no-encoders"
        )
    return largest


def random_cells(column: FittedColumn, rows: int, random: np.random.Generator) -> tuple[Array, pa.Array]:
    """Cells of a column as ONNX is given them, and as a table has them: usual, far, new and missing ones."""
    return _CELLS[type(column.state)](column.state, rows, random)


def _numbers(state: ScaledState | RankedState, rows: int, random: np.random.Generator) -> tuple[Array, pa.Array]:
    if isinstance(state, RankedState):
        quantiles = np.asarray(state.quantiles)
        usual = np.interp(random.random(rows), np.linspace(0, 1, len(quantiles)), quantiles)
        exact = random.choice(quantiles, rows)
        usual = np.where(random.random(rows) < 0.5, usual, exact)
        far = quantiles[-1] - quantiles[0] + 1.0
    else:
        usual, far = random.normal(state.center, state.scale, rows), 1e3 * state.scale
    values = usual + np.where(random.random(rows) < 0.1, far * random.normal(size=rows), 0.0)
    values[random.random(rows) < 0.2] = np.nan
    return values, pa.array(values)


def _truths(state: TruthState, rows: int, random: np.random.Generator) -> tuple[Array, pa.Array]:
    values = random.integers(0, 2, rows).astype(np.float64)
    values[random.random(rows) < 0.2] = np.nan
    return values, pa.array(values)


def _words(state: CategoryState, rows: int, random: np.random.Generator) -> tuple[Array, pa.Array]:
    known = [one for name in state.values for one in spellings(name)]
    words = [*known, *GAP_WORDS, "", _NEW, f"{_NEW} either"]
    values = np.array([words[place] for place in random.integers(0, len(words), rows)], object)
    return values, pa.array(values, pa.string())


def _vectors(state: VectorState, rows: int, random: np.random.Generator) -> tuple[Array, pa.Array]:
    values = random.normal(size=(rows, state.width)) * 10.0 ** random.integers(-3, 4, (rows, 1))
    values[random.random(rows) < 0.1] = 0
    gap = random.random(rows) < 0.2
    values[gap] = np.nan
    return values, pa.array([None if missing else row for row, missing in zip(values.tolist(), gap)])


_CELLS: Mapping[type, Callable[[Any, int, np.random.Generator], tuple[Array, pa.Array]]] = {
    ScaledState: _numbers,
    RankedState: _numbers,
    TruthState: _truths,
    CategoryState: _words,
    VectorState: _vectors,
}
