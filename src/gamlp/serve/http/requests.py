"""Bodies of /predict and /explain: JSON, strict and limited → a Question, and how its answer becomes labels."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from gamlp.errors import GamlpError
from gamlp.graph import class_values
from gamlp.run import LIKELIEST, Decision
from gamlp.serve.http.limits import Limits
from gamlp.serve.questions import Ends, Id, NewNode, Question, Refusal

if TYPE_CHECKING:
    from gamlp.training import Bundle

_LARGEST = 2**63 - 1
_LONGEST_ID = 10_000  # letters
_ID_SCHEMA = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_IDS_SCHEMA = {"type": "array", "items": _ID_SCHEMA}
_WEIGHTS_SCHEMA = {"type": "array", "items": {"type": "number"}}
_CELL_SCHEMA = {
    "anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")] + [_WEIGHTS_SCHEMA]
}  # fmt: skip


def _wrong(problem: str, **shown: Any) -> PydanticCustomError:
    return PydanticCustomError("gamlp", problem, shown)


def _brief(value: Any) -> str:
    """A value as a sentence shows it; one of thousands of digits has no decimal text at all."""
    if type(value) is int and value.bit_length() > 200:
        return "an integer of very many digits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}'" if len(text) <= 60 else f"'{text[:59]}…'"


def _id(value: Any) -> Id:
    """An integer of 64 bits or a text; 1.0, true and null are neither."""
    if type(value) is int:
        if -_LARGEST - 1 <= value <= _LARGEST:
            return value
        raise _wrong("{shown} is no id: integers have 64 bits", shown=_brief(value))
    if type(value) is str:
        if len(value) <= _LONGEST_ID:
            return value
        raise _wrong("{shown} is no id: it is longer than {most} letters", shown=_brief(value), most=_LONGEST_ID)
    raise _wrong("{shown} is no id: a node is named by an integer or a text", shown=_brief(value))


def _ids(values: Any) -> tuple[Id, ...]:
    """Checked by C loops over the whole list: a union of types for each would take twice the time of the parser."""
    if type(values) is not list:
        raise _wrong("{shown} is no list of ids", shown=_brief(values))
    types = set(map(type, values))
    if types == {int} and min(values) >= -_LARGEST - 1 and max(values) <= _LARGEST:
        return tuple(values)
    if types == {str} and len(max(values, key=len)) <= _LONGEST_ID:
        return tuple(values)
    return tuple(_id(value) for value in values)


def _by_relation(value: Any) -> dict[str | None, tuple[Id, ...]]:
    if type(value) is dict:
        return {name: _ids(ids) for name, ids in value.items()}
    if type(value) is list:
        return {None: _ids(value)}
    raise _wrong(
        "{shown} names no neighbours: give a list of ids, or such a list for each relation", shown=_brief(value)
    )


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise _wrong("{shown} is no number", shown=_brief(value))
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise _wrong("{shown} is no finite number", shown=_brief(value))
    return found


def _numbers(values: Any) -> tuple[float, ...]:
    if type(values) is not list:
        raise _wrong("{shown} is no list of numbers", shown=_brief(values))
    if set(map(type, values)) == {float} and all(map(math.isfinite, values)):
        return tuple(values)
    return tuple(_number(value) for value in values)


def _weights_by_relation(value: Any) -> dict[str | None, tuple[float, ...]]:
    if type(value) is dict:
        return {name: _numbers(weights) for name, weights in value.items()}
    return {None: _numbers(value)}


def _cell(value: Any) -> Any:
    """A scalar or a list of numbers, as a table may have them."""
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is list:
        for one in value:
            _number(one)
        return value
    if type(value) is int and not -_LARGEST - 1 <= value <= _LARGEST:
        raise _wrong("{shown} is no cell: integers have 64 bits", shown=_brief(value))
    if type(value) is dict:
        raise _wrong("an object is no cell of a table")
    _number(value)
    return value


def _cells(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        try:
            _cell(value)
        except PydanticCustomError as error:
            raise _wrong("column {name}: {why}", name=_brief(name), why=error.message()) from error
    return values


def _label(value: Any) -> Any:
    """A class or several."""
    for one in value if type(value) is list else [value]:
        if type(one) not in (str, int, bool):
            raise _wrong("{shown} is no class", shown=_brief(one))
        _cell(one)
    return value


def _positive(value: Any) -> Any:
    if type(value) not in (str, int, bool):
        raise _wrong("{shown} is no class", shown=_brief(value))
    return value


def _or_nothing(check: Callable[[Any], Any]) -> AfterValidator:
    return AfterValidator(lambda value: None if value is None else check(value))


OneId = Annotated[Any, _or_nothing(_id), WithJsonSchema(_ID_SCHEMA)]
IdList = Annotated[Any, AfterValidator(_ids), WithJsonSchema(_IDS_SCHEMA)]
NumberList = Annotated[Any, _or_nothing(_numbers), WithJsonSchema(_WEIGHTS_SCHEMA)]
IdsByRelation = Annotated[
    Any,
    _or_nothing(_by_relation),
    WithJsonSchema({"anyOf": [_IDS_SCHEMA, {"type": "object", "additionalProperties": _IDS_SCHEMA}]}),
]
WeightsByRelation = Annotated[
    Any,
    _or_nothing(_weights_by_relation),
    WithJsonSchema({"anyOf": [_WEIGHTS_SCHEMA, {"type": "object", "additionalProperties": _WEIGHTS_SCHEMA}]}),
]
Cells = Annotated[
    dict[str, Any],
    AfterValidator(_cells),
    WithJsonSchema({"type": "object", "additionalProperties": _CELL_SCHEMA}),
]
ClassValue: dict[str, Any] = {"anyOf": [{"type": kind} for kind in ("string", "integer", "boolean")]}


class NodeBody(BaseModel):
    """A node that the graph has not."""

    model_config = ConfigDict(extra="forbid", strict=True, title="New node")

    id: Annotated[OneId, Field(description="The name under which it is kept.")] = None
    type: Annotated[str | None, Field(description="Of a graph of several node types.")] = None
    columns: Annotated[Cells, Field(description="Cells by column, as the table of training had them.")] = {}
    features: Annotated[NumberList, Field(description="Of a graph whose columns have no names.")] = None
    neighbours: Annotated[
        IdsByRelation, Field(description="Nodes whose edges lead to it; by relation where there are several.")
    ] = None
    weights: Annotated[WeightsByRelation, Field(description="One for each neighbour.")] = None
    leads_to: Annotated[IdsByRelation, Field(description="In a directed graph: nodes that its own edges lead to.")] = (
        None
    )
    leads_to_weights: Annotated[WeightsByRelation, Field(description="One for each of these.")] = None
    label: Annotated[
        Any,
        _or_nothing(_label),
        WithJsonSchema({"anyOf": [ClassValue, {"type": "array", "items": ClassValue}]}),
        Field(description="What is known of it; it is listened to after `gamlp refresh`."),
    ] = None

    def node(self, place: int) -> NewNode:
        where = f"nodes[{place}]"
        return NewNode(
            self.id,
            self.type,
            self.columns,
            self.features,
            _ends(self.neighbours, self.weights, f"{where}.weights"),
            _ends(self.leads_to, self.leads_to_weights, f"{where}.leads_to_weights"),
            self.label,
        )


class ExplainBody(BaseModel):
    """Which nodes: known ones by id, new ones as a table and its edges would have them."""

    model_config = ConfigDict(extra="forbid", strict=True, title="Question")

    ids: Annotated[IdList, Field(description="Nodes of the graph, or kept newcomers.")] = ()
    nodes: Annotated[tuple[NodeBody, ...], Field(description="New ones; each may name those before it.")] = ()
    keep: Annotated[bool, Field(description="New nodes are written down, and later questions may name them.")] = False

    def question(self, limits: Limits, *, rows: int) -> Question:
        """The same for a served run; more of it than is allowed is refused."""
        count = len(self.ids) + len(self.nodes)
        if not count:
            raise Refusal(422, "nothing is asked", hint='give "ids" of known nodes or "nodes" that are new')
        if count > rows:
            raise Refusal(413, f"{count:,} nodes in one request", hint=f"at most {rows:,} are answered at once")
        nodes = tuple(one.node(place) for place, one in enumerate(self.nodes))
        question = Question(self.ids, nodes, self.keep)
        if (edges := edges_of(question)) > limits.neighbours:
            raise Refusal(
                413, f"{edges:,} neighbours in one request", hint=f"at most {limits.neighbours:,} are read at once"
            )
        return question

    def keys(self) -> int:
        """Of all its objects."""
        found = len(self.model_fields_set)
        for one in self.nodes:
            found += len(one.model_fields_set) + len(one.columns)
            for lists in (one.neighbours, one.weights, one.leads_to, one.leads_to_weights):
                if lists is not None and None not in lists:
                    found += len(lists)
        return found


class PredictBody(ExplainBody):
    """Which nodes, whether new ones are kept, and how probabilities become labels."""

    model_config = ConfigDict(extra="forbid", strict=True, title="Question to predict")

    probabilities: Annotated[bool, Field(description="That of each class.")] = True
    threshold: Annotated[
        FiniteFloat | None, Field(description="Of two classes: of the positive one. Many labels: each.")
    ] = None
    positive: Annotated[
        Any,
        _or_nothing(_positive),
        WithJsonSchema(ClassValue),
        Field(description="The class that the threshold is for. (default: the rarer one)"),
    ] = None
    abstain_below: Annotated[FiniteFloat | None, Field(description="No label that is less likely than this.")] = None

    def decision(self, bundle: Bundle) -> Decision:
        """Settled for a model; what makes no sense for it is refused."""
        if self.threshold is None and self.positive is None and self.abstain_below is None:
            return LIKELIEST
        return settled(Decision(self.threshold, _class_name(bundle, self.positive), self.abstain_below), bundle)


def settled(decision: Decision, bundle: Bundle) -> Decision:
    """As `gamlp predict` settles it; what a sentence calls --abstain-below is abstain_below in a request."""
    try:
        return decision.settled(bundle)
    except GamlpError as error:
        hint = None if error.hint is None else re.sub(r"--([a-z-]+)", lambda found: _as_key(found[1]), error.hint)
        raise Refusal(422, error.problem, hint=hint) from error


def _as_key(option: str) -> str:
    return option.replace("-", "_")


def _class_name(bundle: Bundle, value: Any) -> str | None:
    """The name of a class that is given as a value of its own type, or by its name."""
    if value is None or isinstance(value, str):
        return value
    for name, own in zip(bundle.classes, class_values(bundle.classes, bundle.class_type)):
        if type(own) is type(value) and own == value:
            return name
    return str(value)


def _ends(
    lists: Mapping[str | None, tuple[Id, ...]] | None,
    weights: Mapping[str | None, tuple[float, ...]] | None,
    where: str,
) -> dict[str | None, Ends]:
    lists, weights = lists or {}, weights or {}
    for name, given in weights.items():
        if name not in lists:
            of = "without a relation" if name is None else f"of the relation '{name}'"
            raise Refusal(422, f"{where}: weights {of}, where there are no such neighbours")
        if len(given) != len(lists[name]):
            raise Refusal(422, f"{where}: {len(given):,} weights for {len(lists[name]):,} neighbours", hint="one each")
    return {name: Ends(ids, weights.get(name)) for name, ids in lists.items()}


def edges_of(question: Question) -> int:
    """How many edges its new nodes bring."""
    return sum(
        len(ends.ids) for node in question.nodes for some in (node.hears, node.leads_to) for ends in some.values()
    )


_Body = TypeVar("_Body", bound=ExplainBody)


class _Twice(Exception):
    """A key that an object has more than once."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]


def check_each_once(raw: bytes, keys: int) -> None:
    """Refuse an object with one key twice, which parsers pass over in silence; `keys`: how many were found.

    Every key has a colon, so that where there are as many as keys nothing is hidden; else a slower parser looks.
    """
    if raw.count(b":") == keys:
        return
    try:
        json.loads(raw, object_pairs_hook=_each_once)
    except _Twice as error:
        raise Refusal(422, f"the key {_brief(error.key)} is given twice in one object") from None


def parsed(body: type[_Body], raw: bytes) -> _Body:
    """A body of JSON; what is wrong with it is told in one sentence."""
    try:
        found = body.model_validate_json(raw)
    except ValidationError as error:
        raise refused(error) from None
    check_each_once(raw, found.keys())
    return found


def refused(error: ValidationError) -> Refusal:
    """The first thing that is wrong, where it is, and what to give."""
    wrong: ErrorDetails = error.errors(include_url=False)[0]
    kind, where = wrong["type"], _place(wrong["loc"])
    if kind == "json_invalid":
        said = str(wrong.get("ctx", {}).get("error", "it cannot be read"))
        return Refusal(422, f"the body is no JSON: {said}")
    if kind == "extra_forbidden":
        return Refusal(422, f"{where} is nothing that can be asked", hint="see /openapi.json")
    if kind == "missing":
        return Refusal(422, f"{where} is missing")
    if not where:
        return Refusal(422, "the body is no JSON object", hint='such as {"ids": [1, 2]}')
    said = wrong["msg"] if kind == "gamlp" else _plain(wrong["msg"])
    return Refusal(422, f"{where}: {said}")


def _plain(message: str) -> str:
    return message.replace("Input should be", "it should be", 1)


def _place(location: tuple[int | str, ...]) -> str:
    """nodes[0].weights of ("nodes", 0, "weights")."""
    found = ""
    for part in location:
        found += f"[{part}]" if isinstance(part, int) else f"{'.' if found else ''}{part[:60]}"
    return found
