"""What a served run is asked, and what it answers: known nodes by id, new ones by their cells and neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gamlp.arrays import Array
from gamlp.errors import GamlpError

Id = int | str


class Refusal(GamlpError):
    """A question that is not answered, and the status that HTTP has for its reason.

    404: no such node. 409: another node has the id. 413: more than is allowed at once. 422: a cell or an edge that
    cannot be read. 507: there is no room to keep a newcomer.
    """

    def __init__(self, status: int, problem: str, *, column: str | None = None, hint: str | None = None) -> None:
        super().__init__(problem, column=column, hint=hint)
        self.status = status


@dataclass(frozen=True)
class Ends:
    """Nodes at the other ends of edges, and what the edges weigh (None: one each)."""

    ids: tuple[Id, ...]
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True)
class NewNode:
    """A node that the graph has not.

    id: the name under which later newcomers may know it, where it is kept.
    node_type: of a graph of several types. (default: the type that is classified)
    cells: by column of the table that the run was trained on; `features` of a graph whose columns have no names.
    hears: nodes whose edges lead to it, by relation (None: the graph's only one). Without directions: its neighbours.
    leads_to: in a directed graph, nodes that its own edges lead to; they change nothing in its answer but its degree.
    label: what is known of it; nobody listens to it before `gamlp refresh`.
    """

    id: Id | None = None
    node_type: str | None = None
    cells: Mapping[str, Any] = field(default_factory=dict)
    features: tuple[float, ...] | None = None
    hears: Mapping[str | None, Ends] = field(default_factory=dict)
    leads_to: Mapping[str | None, Ends] = field(default_factory=dict)
    label: Any = None


@dataclass(frozen=True)
class Question:
    """Known `ids`, of the graph or kept newcomers, and new `nodes`; a node may hear those before it in the same list.

    keep: new nodes are written down before they are answered, and later questions may name them.
    """

    ids: tuple[Id, ...] = ()
    nodes: tuple[NewNode, ...] = ()
    keep: bool = False

    @property
    def rows(self) -> int:
        return len(self.ids) + len(self.nodes)


@dataclass(frozen=True)
class Answered:
    """Of every node in the order asked, known ones first: its id and `probabilities[i]` of the run's classes.

    New nodes of another type than the one that is classified have no answer: they are kept, and not listed here.
    `notes` are sentences a person should read.
    """

    ids: tuple[Id | None, ...]
    probabilities: Array
    notes: tuple[str, ...] = ()
