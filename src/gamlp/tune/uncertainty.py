"""How sure a validation score is: the bootstrap over nodes, of one model and of the difference of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gamlp.arrays import Array
from gamlp.training import Answers

SAMPLES = 100
_MOST = 5_000  # nodes that a sample has; of more, the error shrinks with the root of how many there are


@dataclass(frozen=True)
class Validated(Answers):
    """What a model said of one split or several, measured, and how sure that is."""

    seed: int = 0

    @property
    def error(self) -> float:
        """Standard error of the gain: nodes are drawn with replacement."""
        return self._deviation(self._gains)

    def error_against(self, other: Validated) -> float:
        """Of the difference of two gains, on the same samples: what both find hard cancels."""
        return self._deviation(self._gains - other._gains)

    @cached_property
    def _nodes(self) -> tuple[Array, Array]:
        """Nodes that some split validates on, and where each row of each split is among them."""
        return np.unique(np.concatenate([one.rows for one in self.said]), return_inverse=True)

    def _deviation(self, drawn: Array) -> float:
        return float(np.std(drawn, ddof=1) * np.sqrt(min(1.0, _MOST / max(1, len(self._nodes[0])))))

    @cached_property
    def _gains(self) -> Array:
        """Of every sample. A node is in all splits as often as it was drawn: their rows are not independent."""
        nodes, places = self._nodes
        bounds = np.cumsum([0, *(len(one.rows) for one in self.said)])
        generator = np.random.default_rng(self.seed)
        found = []
        for _ in range(SAMPLES):
            drawn = generator.integers(len(nodes), size=min(len(nodes), _MOST))
            times = np.bincount(drawn, minlength=len(nodes))
            values = []
            for index, one in enumerate(self.said):
                picked = np.repeat(np.arange(len(one.rows)), times[places[bounds[index] : bounds[index + 1]]])
                if len(picked):
                    values.append(self.gain_of(one.probabilities[picked], one.targets[picked]))
            found.append(np.mean(values) if values else self.gain)
        gains: Array = np.nan_to_num(np.array(found), nan=self.gain)
        return gains
