"""How probabilities become labels: the likeliest class, one by a threshold, or none where a model is not sure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError

NOT_SAID = -1  # in the place of a class number: no label


class KnownClasses(Protocol):
    """A bundle: its classes, and which of two is the rarer."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def multi_label(self) -> bool: ...

    @property
    def positive(self) -> str | None: ...


@dataclass(frozen=True)
class Decision:
    """The likeliest class, or with many labels a node all above one half, unless something else is asked for.

    threshold: of two classes the `positive` one is said where its probability is at least this; of many labels each.
    positive: its name. (default: the class that fewer training rows have)
    abstain_below: no label is said whose probability is below this.
    """

    threshold: float | None = None
    positive: str | None = None
    abstain_below: float | None = None

    def settled(self, known: KnownClasses) -> Decision:
        """The same for a model, with the name of its positive class; what makes no sense for it is refused."""
        for name, value in (("threshold", self.threshold), ("abstain-below", self.abstain_below)):
            if value is not None and not 0 <= value <= 1:  # nor NaN
                raise GamlpError(f"{value} is no probability", hint=f"--{name} takes a number from 0 to 1")
        if self.positive is not None and self.threshold is None:
            raise GamlpError("a positive class means nothing without a threshold", hint="give --threshold P too")
        if known.multi_label:
            return self._of_many()
        if self.threshold is None:
            return self
        if len(known.classes) != 2:
            raise GamlpError(
                f"a threshold is for two classes, and the model knows {len(known.classes)}",
                hint="--abstain-below P leaves out labels that are less likely than P",
            )
        if self.positive is None and known.positive is None:
            raise GamlpError(
                "the model does not say which of its two classes is the rarer",
                hint=f"say which the threshold is for: --positive {known.classes[1]}",
            )
        if self.positive is not None and self.positive not in known.classes:
            first, second = known.classes
            raise GamlpError(f"the model has no class '{self.positive}'", hint=f"--positive is '{first}' or '{second}'")
        if self.threshold < 0.5 and self.abstain_below is not None:
            raise GamlpError(
                "a threshold below 0.5 says a class that is less likely than the other, so no label of it is sure",
                hint="give --threshold or --abstain-below, or a threshold of at least 0.5",
            )
        return replace(self, positive=self.positive or known.positive)

    def _of_many(self) -> Decision:
        if self.abstain_below is not None:
            raise GamlpError(
                "each of a node's many labels is said or not by itself, so there is none to abstain from",
                hint="--threshold P says those that are at least P likely",
            )
        if self.positive is not None:
            raise GamlpError(
                "where a node may have many labels the threshold is for every one of them", hint="leave out --positive"
            )
        return self

    def chosen(self, known: KnownClasses, probabilities: Array) -> Array:
        """Class numbers `[b]`, NOT_SAID among them; or a mask `[b, classes]` where a node may have many labels."""
        if known.multi_label:
            mask: Array = probabilities > 0.5 if self.threshold is None else probabilities >= self.threshold
            return mask
        found: Array = probabilities.argmax(1)
        if self.threshold is not None:
            assert self.positive is not None
            positive = known.classes.index(self.positive)
            found = np.where(probabilities[:, positive] >= self.threshold, positive, 1 - positive)
        if self.abstain_below is not None:
            sure = probabilities[np.arange(len(found)), found] >= self.abstain_below
            found = np.where(sure, found, NOT_SAID)
        return found


LIKELIEST = Decision()


@dataclass
class Decided:
    """How many rows got what a decision is about, counted batch by batch; `labels` of rows with many."""

    rows: int = 0
    positives: int = 0
    abstained: int = 0
    labels: int = 0

    def add(self, decision: Decision, known: KnownClasses, chosen: Array) -> None:
        """Of what `decision.chosen` gave."""
        self.rows += len(chosen)
        if known.multi_label:
            self.labels += int(np.count_nonzero(chosen))
            return
        self.abstained += int(np.count_nonzero(chosen == NOT_SAID))
        if decision.positive is not None:
            self.positives += int(np.count_nonzero(chosen == known.classes.index(decision.positive)))

    def as_json(self, decision: Decision) -> dict[str, Any]:
        """Of a settled decision: what was asked for, and what came of it."""
        found: dict[str, Any] = {}
        if decision.threshold is not None:
            found["threshold"] = decision.threshold
            of_two = {"positive": decision.positive, "positives": self.positives}
            found |= {"labels": self.labels} if decision.positive is None else of_two
        if decision.abstain_below is not None:
            found |= {"abstain_below": decision.abstain_below, "abstained": self.abstained}
        return found

    def sentences(self, decision: Decision) -> tuple[str, ...]:
        """The same in words."""
        said = []
        if decision.positive is not None:
            said.append(
                f"'{decision.positive}' is said where it is at least {decision.threshold:g} likely: "
                f"{self.positives:,} of {self.rows:,} rows"
            )
        elif decision.threshold is not None:
            said.append(
                f"labels are said that are at least {decision.threshold:g} likely: "
                f"{self.labels:,} in {self.rows:,} rows"
            )
        if decision.abstain_below is not None:
            said.append(
                f"{self.abstained:,} of {self.rows:,} rows have no label: it would be less than "
                f"{decision.abstain_below:g} likely"
            )
        return tuple(said)
