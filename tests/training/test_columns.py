"""Columns of another graph are those of training by name: put into order, refused where they are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import FeatureColumn, Features, FeatureSchema, Graph
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan, Propagator
from gamlp.run.preparation import hops_for, prepare
from gamlp.training.bundle import Bundle
from gamlp.training.columns import matched, with_columns
from gamlp.training.seeds import bundle_of
from tests.conformance.engines import ENGINES
from tests.training import typed_small
from tests.training.small import ONE_THREAD, RECIPE, WIDTH, make_graph, prepared_in, trained, with_nodes

TEXT = FeatureColumn(name="text", type="list", width=2)
TRAINED: FeatureSchema = (FeatureColumn(name="age"), TEXT, *(FeatureColumn(name=name) for name in "abc"))


def named(graph: Graph, columns: FeatureSchema = TRAINED) -> Graph:
    assert graph.nodes.features is not None
    return with_nodes(graph, features=replace(graph.nodes.features, columns=columns))


def in_other_order(graph: Graph) -> Graph:
    """The same features as a table with columns c, text, more, b, a, age gives them."""
    assert graph.nodes.features is not None
    x = graph.nodes.features.values
    values = np.stack([x[:, 5], x[:, 1], x[:, 2], 0 * x[:, 0] + 7, x[:, 4], x[:, 3], x[:, 0]], 1)
    columns = [FeatureColumn(name=name) for name in ("c", "more", "b", "a", "age")]
    columns.insert(1, TEXT)
    return with_nodes(graph, features=Features(np.ascontiguousarray(values), "float32", tuple(columns)))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    prepared = prepared_in(tmp_path_factory.mktemp("graph"), named(make_graph()), propagation__scaling="standard")
    return bundle_of(prepared, trained(prepared), 0)


def test_a_bundle_knows_its_columns(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.columns == {"node": TRAINED}
    again = Bundle.load(bundle.save(tmp_path / "bundle"))
    assert again.columns == bundle.columns and again.statistics == bundle.statistics and bundle.statistics is not None


@pytest.mark.parametrize("saved", [True, False], ids=["mapped", "in memory"])
def test_hops_of_another_order_are_the_same_bytes(bundle: Bundle, tmp_path: Path, saved: bool) -> None:
    graph, other = named(make_graph()), in_other_order(make_graph())
    if saved:
        graph, other = graph.save(tmp_path / "graph"), other.save(tmp_path / "other")
    one = hops_for(bundle, graph, tmp_path / "one", ONE_THREAD)
    two = hops_for(bundle, other, tmp_path / "two", ONE_THREAD)
    rows = np.arange(graph.nodes.count)
    assert one.gather(rows).x.tobytes() == two.gather(rows).x.tobytes()
    assert one.manifest.columns == two.manifest.columns == {"node": list(TRAINED)}


@pytest.mark.parametrize("engine", ["local, out of core", "blocks", "blocks, little memory"])
@pytest.mark.parametrize("saved", [True, False], ids=["mapped", "in memory"])
@pytest.mark.parametrize("scaling", ["standard", "l2"])
def test_every_engine_reads_columns_in_order(tmp_path: Path, engine: str, saved: bool, scaling: str) -> None:
    graph, other = named(make_graph()), in_other_order(make_graph())
    other = other.save(tmp_path / "other") if saved else other
    plan = Plan(features=FeatureSignal(hops=2, scaling=scaling))  # type: ignore[arg-type]
    arranged, notes = with_columns(other, graph.columns)
    made: Propagator = ENGINES[engine]()
    one = LocalPropagator(threads=1).propagate(graph, plan, tmp_path / "one")
    two = made.propagate(arranged, plan, tmp_path / "two")
    rows = np.arange(graph.nodes.count)
    assert one.gather(rows).x.tobytes() == two.gather(rows).x.tobytes()
    assert one.manifest.statistics == two.manifest.statistics and bool(one.manifest.statistics) == (scaling != "l2")
    assert notes == ["column 'more' of graph 'small' is ignored: the model was trained without"]


def test_hops_of_columns_by_position_are_not_taken_for_hops_by_name(tmp_path: Path) -> None:
    graph, other = named(make_graph()), in_other_order(make_graph()).save(tmp_path / "other")
    plan = Plan(features=FeatureSignal(hops=1))
    LocalPropagator(threads=1).propagate(other, plan, tmp_path / "store")
    with pytest.raises(GamlpError, match="holds other features"):
        LocalPropagator(threads=1).propagate(with_columns(other, graph.columns)[0], plan, tmp_path / "store")


def test_what_is_missing_is_named(bundle: Bundle) -> None:
    graph = named(make_graph(), (FeatureColumn(name="x"), TEXT, *(FeatureColumn(name=name) for name in "ayz")))
    told = (
        "graph 'small' lacks columns 'age', 'b', 'c' that the model was trained on; ingest the same columns as in "
        "training: 'age', 'text', 'a', 'b', 'c'."
    )
    with pytest.raises(GamlpError) as caught:
        matched(graph, bundle)
    assert str(caught.value) == told


def test_a_column_that_holds_something_else_is_refused(bundle: Bundle) -> None:
    other = [column for column in TRAINED if column.name not in ("text", "a")]
    columns = (*other, FeatureColumn(name="text"), FeatureColumn(name="a", type="list", width=2))
    with pytest.raises(GamlpError, match="column 'text' of graph 'small' is a number where the model was trained on a"):
        matched(named(make_graph(), columns), bundle)


def test_without_names_the_number_of_features_is_compared_and_that_is_said(bundle: Bundle) -> None:
    plain, old = make_graph(), replace(bundle, columns={})
    position = "features are taken by their position, and only their number is compared"
    assert matched(plain, bundle)[1] == [f"columns have no names in graph 'small': {position}"]
    assert matched(named(plain), old)[1] == [f"the model knows no names of columns: {position}"]
    assert matched(plain, old)[1] == [f"columns have no names in graph 'small': {position}"]
    assert matched(plain, old, say_unnamed=False)[1] == []
    assert matched(named(plain), bundle)[1] == []


def test_a_model_of_an_older_gamlp_says_that_it_has_no_statistics(bundle: Bundle) -> None:
    _, notes = matched(named(make_graph()), replace(bundle, statistics=None))
    assert len(notes) == 1 and notes[0].startswith("the model was saved without its scaling statistics")


def test_another_graph_to_validate_on_is_matched_by_name(tmp_path: Path) -> None:
    graph, other = named(make_graph(1)), make_graph(2, nodes=45, name="other")
    one = prepare(graph, RECIPE, tmp_path / "one", valid_graph=named(other), resources=ONE_THREAD)
    two = prepare(graph, RECIPE, tmp_path / "two", valid_graph=in_other_order(other), resources=ONE_THREAD)
    rows = np.arange(45)
    assert one.store.gather(rows).x.tobytes() == two.store.gather(rows).x.tobytes()
    assert two.columns == {"node": TRAINED} and two.shape.features == WIDTH


def test_types_are_matched_each_by_itself(tmp_path: Path) -> None:
    def columns(graph: Graph, **names: str) -> Graph:
        for node_type, letters in names.items():
            features = graph.node_types[node_type].features
            assert features is not None
            found = tuple(FeatureColumn(name=name) for name in letters)
            values = features.values[:, ["abcd".index(name) for name in letters]]
            graph = graph.with_features(**{node_type: Features(np.ascontiguousarray(values), "float32", found)})
        return graph

    plain = typed_small.planted().graph()
    recipe = typed_small.RECIPE.changed({"propagation.scaling": "standard"})
    prepared = prepare(columns(plain, paper="abcd", author="abc"), recipe, tmp_path / "run", resources=ONE_THREAD)
    bundle = bundle_of(prepared, trained(prepared), 0)
    bundle = Bundle.load(bundle.save(tmp_path / "bundle"))
    assert set(bundle.columns) == {"paper", "author"} and set(bundle.statistics or {}) == {"paper", "author", "venue"}
    rows = np.arange(plain.nodes.count)
    mixed = columns(plain, paper="dbca", author="cab")
    store = hops_for(bundle, mixed, tmp_path / "hops", ONE_THREAD)
    assert store.gather(rows).x.tobytes() == prepared.store.gather(rows).x.tobytes()
    with pytest.raises(GamlpError, match="lacks column 'c' of author that the model was trained on"):
        hops_for(bundle, columns(plain, paper="abcd", author="abd"[:2]), tmp_path / "no", ONE_THREAD)
