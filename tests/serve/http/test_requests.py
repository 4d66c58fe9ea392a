"""Bodies of requests: what is read, and in which sentence the rest is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.serve import Ends, Limits, NewNode, Question, Refusal
from gamlp.serve.http.requests import ExplainBody, PredictBody, edges_of, parsed

LIMITS = Limits()


def question(body: Any, limits: Limits = LIMITS) -> Question:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parsed(PredictBody, raw).question(limits, rows=limits.rows)


def refusal(body: Any, limits: Limits = LIMITS) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        question(body, limits)
    return caught.value.status, str(caught.value)


def test_known_ids_are_integers_and_texts_and_stay_what_they_are() -> None:
    assert question({"ids": [1, "1", -5, 2**63 - 1, "ä:b"]}) == Question(ids=(1, "1", -5, 2**63 - 1, "ä:b"))


def test_a_new_node_has_cells_neighbours_weights_and_what_it_leads_to() -> None:
    node = {
        "id": "n1", "type": "paper", "columns": {"age": 3, "vector": [1, 2.5], "text": "a:b", "gap": None, "is": True},
        "neighbours": [1, "b"], "weights": [0.5, 2], "leads_to": {"cites": [4]}, "leads_to_weights": {"cites": [1.5]},
        "label": "owl",
    }  # fmt: skip
    found = question({"nodes": [node], "keep": True})
    assert found.keep and found.rows == 1 and edges_of(found) == 3
    assert found.nodes[0] == NewNode(
        "n1", "paper", node["columns"], None, {None: Ends((1, "b"), (0.5, 2.0))}, {"cites": Ends((4,), (1.5,))}, "owl"
    )


def test_by_relation_some_may_have_weights_and_others_none() -> None:
    [node] = question({"nodes": [{"neighbours": {"a": [1], "b": [2]}, "weights": {"b": [3]}}]}).nodes
    assert node.hears == {"a": Ends((1,)), "b": Ends((2,), (3.0,))}


def test_null_is_what_is_not_given() -> None:
    names = ("id", "type", "features", "neighbours", "weights", "leads_to", "leads_to_weights", "label")
    assert question({"nodes": [dict.fromkeys(names)]}).nodes == (NewNode(),)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no JSON"),
        (b'{"ids": [1', "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b'{"ids": [1]} {}', "the body is no JSON"),
        (b'\xef\xbb\xbf{"ids": [1]}', "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b'{"ids": ["\\ud800"]}', "the body is no JSON"),
        ([], "no JSON object"),
        (7, "no JSON object"),
        (None, "no JSON object"),
        ({}, "nothing is asked"),
        ({"ids": []}, "nothing is asked"),
        ({"id": [1]}, "id is nothing that can be asked"),
        ({"nodes": [{"x": 1}]}, "nodes[0].x is nothing"),
        ({"ids": 7}, "ids: '7' is no list"),
        ({"ids": None}, "ids: 'null' is no list"),
        ({"ids": {"a": 1}}, "is no list of ids"),
        ({"ids": [1, 2.0]}, "'2.0' is no id"),
        ({"ids": [True]}, "'true' is no id"),
        ({"ids": [[1]]}, "a list is no id"),
        ({"ids": [None]}, "'null' is no id"),
        ({"ids": [2**63]}, "integers have 64 bits"),
        ({"ids": [-(2**63) - 1, 1]}, "integers have 64 bits"),
        ({"ids": ["a" * 10_001]}, "longer than 10000 letters"),
        (b'{"ids": [1' + b"0" * 1000 + b"]}", "an integer of very many digits"),
        (b'{"ids": [1' + b"0" * 100_000 + b"]}", ""),
        (b'{"nodes": [{"features": [NaN]}]}', "nodes[0].features: 'NaN' is no finite number"),
        (b'{"nodes": [{"features": [1e999]}]}', "'Infinity' is no finite number"),
        (b'{"nodes": [{"columns": {"x": -Infinity}}]}', "column 'x': '-Infinity' is no finite number"),
        (b'{"nodes": [{"columns": {"x": [1, NaN]}}]}', "is no finite number"),
        (b'{"nodes": [{"neighbours": [NaN]}]}', "'NaN' is no id"),
        (b'{"ids": [1], "threshold": NaN}', ""),
        ({"nodes": [{"columns": {"x": {"a": 1}}}]}, "column 'x': an object is no cell"),
        ({"nodes": [{"columns": {"x": ["a"]}}]}, "'a' is no number"),
        ({"nodes": [{"columns": {"x": 2**70}}]}, "integers have 64 bits"),
        ({"nodes": [{"columns": {"x": [10**400]}}]}, "no finite number"),
        ({"nodes": [{"columns": [1]}]}, "nodes[0].columns"),
        ({"nodes": [{"features": "abc"}]}, "is no list of numbers"),
        ({"nodes": [{"features": [1, "2"]}]}, "'2' is no number"),
        ({"nodes": [{"features": [10**400]}]}, "no finite number"),
        ({"nodes": [{"neighbours": 5}]}, "'5' names no neighbours"),
        ({"nodes": [{"neighbours": {"a": 5}}]}, "'5' is no list of ids"),
        ({"nodes": [{"neighbours": [1, 2], "weights": [1]}]}, "nodes[0].weights: 1 weights for 2 neighbours"),
        ({"nodes": [{"weights": [1]}]}, "nodes[0].weights: weights without a relation"),
        ({"nodes": [{"neighbours": {"a": [1]}, "weights": {"b": [1]}}]}, "of the relation 'b'"),
        ({"nodes": [{"leads_to": [1], "leads_to_weights": [1, 2]}]}, "leads_to_weights: 2 weights for 1 neighbours"),
        ({"nodes": [{"id": 1.5}]}, "nodes[0].id: '1.5' is no id"),
        ({"nodes": [{"type": 1}]}, "nodes[0].type"),
        ({"nodes": [{"label": {"a": 1}}]}, "is no class"),
        ({"nodes": [{"label": 1.5}]}, "'1.5' is no class"),
        ({"nodes": [1]}, "nodes[0]"),
        ({"nodes": {"a": 1}}, "nodes"),
        ({"ids": [1], "keep": "yes"}, "keep"),
        ({"ids": [1], "keep": 1}, "keep"),
        ({"ids": [1], "probabilities": "no"}, "probabilities"),
        ({"ids": [1], "threshold": "0.5"}, "threshold"),
        ({"ids": [1], "positive": [1]}, "positive: a list is no class"),
        (b'{"ids": [1], "ids": [2]}', "the key 'ids' is given twice"),
        (b'{"nodes": [{"columns": {"x": 1, "x": 2}}]}', "the key 'x' is given twice"),
        (b'{"nodes": [{"columns": {"x": "a:b", "x": "a:b"}}]}', "the key 'x' is given twice"),
        (b'{"nodes": [{"neighbours": {"a": [1], "a": [2]}}]}', "the key 'a' is given twice"),
        (b'{"nodes": [{"id": 1, "\\u0069d": 2}]}', "the key 'id' is given twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_sentence(body: Any, said: str) -> None:
    status, sentence = refusal(body)
    assert status == 422 and said in sentence
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 400


def test_colons_in_texts_hide_no_second_key_and_refuse_nothing() -> None:
    assert question({"ids": ["a:b", "::"], "nodes": [{"columns": {"when:": "12:30"}}]}).rows == 3


def test_more_than_is_allowed_is_refused_as_too_much() -> None:
    assert refusal({"ids": list(range(11))}, Limits(rows=10)) == (
        413, "11 nodes in one request; at most 10 are answered at once.",
    )  # fmt: skip
    body = {"nodes": [{"neighbours": [1] * 3}, {"leads_to": {"a": [1] * 3}}]}
    assert question(body, Limits(neighbours=6)).rows == 2
    assert refusal(body, Limits(neighbours=5)) == (413, "6 neighbours in one request; at most 5 are read at once.")


def test_a_question_of_why_has_no_threshold() -> None:
    with pytest.raises(Refusal, match="threshold is nothing that can be asked"):
        parsed(ExplainBody, b'{"ids": [1], "threshold": 0.5}')


def bundle(*classes: str, class_type: str = "string", multi_label: bool = False, positive: str | None = None) -> Any:
    return SimpleNamespace(classes=classes, class_type=class_type, multi_label=multi_label, positive=positive)


def test_a_threshold_is_for_a_class_by_value_or_by_name() -> None:
    two = bundle("False", "True", class_type="boolean", positive="True")
    body = parsed(PredictBody, b'{"ids": [1], "threshold": 0.2, "positive": false}')
    assert body.decision(two).positive == "False"
    body = parsed(PredictBody, b'{"ids": [1], "threshold": 0.2}')
    assert body.decision(two).positive == "True"
    body = parsed(PredictBody, b'{"ids": [1], "threshold": 0.2, "positive": 10}')
    assert body.decision(bundle("3", "10", class_type="integer")).positive == "10"


@pytest.mark.parametrize(
    ("body", "classes", "said"),
    [
        ('"threshold": 0.2', ("a", "b", "c"), "a threshold is for two classes, and the model knows 3; abstain_below P"),
        ('"threshold": 2', ("a", "b"), "2.0 is no probability; threshold takes a number from 0 to 1."),
        ('"abstain_below": -1', ("a", "b"), "abstain_below takes a number"),
        ('"positive": "a"', ("a", "b"), "give threshold P too"),
        ('"threshold": 0.5, "positive": true', ("a", "b"), "the model has no class 'True'; positive is 'a' or 'b'"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_in_words_of_a_request(
    body: str, classes: tuple[str, ...], said: str
) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(PredictBody, b'{"ids": [1], %b}' % body.encode()).decision(bundle(*classes, positive=None))
    assert caught.value.status == 422 and said in str(caught.value) and "--" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(
    ["ids", "nodes", "keep", "threshold", "id", "columns", "features", "neighbours", "weights", "label", "positive"]
)
BODIES = st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON, max_size=5), max_size=3), max_size=5)


@given(BODIES | JSON)
def test_whatever_the_json_is_it_is_read_or_refused(body: Any) -> None:
    raw = json.dumps(body).encode()
    try:
        found = parsed(PredictBody, raw).question(LIMITS, rows=LIMITS.rows)
    except Refusal as refusal:
        assert refusal.status in (413, 422) and str(refusal).endswith(".")
    else:
        assert found.rows >= 1


@given(st.binary(max_size=40))
def test_whatever_the_bytes_are_they_are_read_or_refused(raw: bytes) -> None:
    with pytest.raises(Refusal):
        parsed(PredictBody, raw).question(LIMITS, rows=LIMITS.rows)
