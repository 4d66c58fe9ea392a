"""Which node types every relation joins, and how its edges are stored: one way, both ways, or with a reverse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gamlp.errors import GamlpError
from gamlp.graph.folder import check_name

ONE_TYPE, ONE_RELATION = "node", "edge"  # what the parts of a homogeneous graph are called
REVERSE = "rev-"


@dataclass(frozen=True)
class DeclaredRelation:
    """One relation, source → target.

    Inside one type edges have no direction unless `directed`: entries go both ways, in one relation. Between two types
    they are stored a second time in `reverse`, the other way.
    """

    name: str
    source: str = ONE_TYPE
    target: str = ONE_TYPE
    directed: bool = False

    @property
    def inside(self) -> bool:
        """Whether both ends are nodes of one type: only there an edge can be a self-loop."""
        return self.source == self.target

    @property
    def symmetric(self) -> bool:
        return self.inside and not self.directed

    @property
    def reverse(self) -> str | None:
        return None if self.inside or self.directed else REVERSE + self.name


@dataclass(frozen=True)
class RelationEnds:
    """Relations by name. `alone` is the one type that every relation joins with itself where none are declared."""

    declared: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    alone: str | None = ONE_TYPE
    directed: bool = False

    def of(self, name: str) -> DeclaredRelation | None:
        """None: a relation that is not declared, where they must be."""
        if name in self.declared:
            return DeclaredRelation(name, *self.declared[name], self.directed)
        return None if self.alone is None else DeclaredRelation(name, self.alone, self.alone, self.directed)

    def check(self, types: Mapping[str, object]) -> None:
        """Refuse names that cannot be those of relations, and types that are not there."""
        for name, ends in self.declared.items():
            check_name(name)
            for node_type in ends:
                if node_type not in types:
                    raise GamlpError(
                        f"--join {name}={':'.join(ends)}: there are no nodes of type '{node_type}'",
                        hint=f"there are: {', '.join(types)}",
                    )
            relation = self.of(name)
            if relation is not None and relation.reverse in self.declared:
                raise GamlpError(
                    f"relation '{relation.reverse}' is called as the reverse of '{name}' will be",
                    hint="leave it out or rename it; --directed keeps relations as they are",
                )


def with_article(node_type: str) -> str:
    """A type with its article: `an author`, `a paper`, `a user`."""
    return f"{'an' if node_type[:1].lower() in 'aeio' else 'a'} {node_type}"
