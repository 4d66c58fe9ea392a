"""A search space as data: dotted recipe keys with choices or ranges."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gamlp.errors import GamlpError
from gamlp.io import Trust
from gamlp.recipe.recipe import Recipe, known_keys
from gamlp.recipe.settings_file import parse_value, read_yaml


class Choice(BaseModel):
    """Values to try for one key: `choices`, or `low` to `high` (`log`, or in `step`s).

    `when` names a key that must not be 0 in the same trial; `only` an attention that the key belongs to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    choices: list[Any] | None = None
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    when: str | None = None
    only: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Choice:
        if (self.choices is None) == (self.low is None) or (self.low is None) != (self.high is None):
            raise ValueError("give choices, or low and high")
        if self.choices is not None and not self.choices:
            raise ValueError("give at least one choice")
        if self.low is not None and self.high is not None:
            if not self.low <= self.high < math.inf or (self.log and not self.low > 0):
                raise ValueError("low is not above high, and above 0 where log is true")
            if self.step is not None and (self.log or not 0 < self.step < math.inf):
                raise ValueError("a step is above 0, and goes without log")
        return self

    def has(self, value: Any) -> bool:
        """Whether a trial could have this value."""
        if self.choices is not None:
            return value in self.choices
        assert self.low is not None and self.high is not None
        if not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-8

    def suggest(self, trial: Any, key: str) -> Any:
        """The trial's value."""
        if self.choices is not None:
            return trial.suggest_categorical(key, self.choices)
        return trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)


Space = dict[str, Choice]


def named_spaces() -> list[str]:
    """Names of the spaces inside the package."""
    folder = resources.files("gamlp.recipe") / "spaces"
    return sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_space(name: str | Path, trust: Trust = None) -> Space:
    """A shipped space or a YAML file; a key that a recipe does not have is told."""
    if str(name) in named_spaces():
        content = parse_value((resources.files("gamlp.recipe") / "spaces" / f"{name}.yaml").read_text(encoding="utf-8"))
        file = None
    else:
        file = Path(name)
        content = read_yaml(file)
    if not isinstance(content, dict):
        raise GamlpError("a space is a mapping of recipe keys", file=file, hint="training.learning_rate: [0.01, 0.001]")
    space = {}
    for key, value in content.items():
        if str(key) in ("training.monitor", "training.metric"):
            raise GamlpError(
                f"'{key}' is what trials are ranked by, and cannot be searched", file=file,
                hint=f"leave it out; --set {key}=… holds for all trials",
            )  # fmt: skip
        if "." not in str(key):
            raise GamlpError(f"'{key}' is no setting of a recipe", file=file, hint="gamlp recipes --keys lists all")
        try:
            space[key] = Choice.model_validate(value if isinstance(value, dict) else {"choices": value})
        except ValidationError as error:
            problem = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise GamlpError(f"'{key}': {problem[0].lower()}{problem[1:]}", file=file) from error
        if (when := space[key].when) is not None and when not in known_keys():
            raise GamlpError(f"'{key}': a recipe has no '{when}'", file=file, hint="gamlp recipes --keys lists all")
        probe = space[key].choices[0] if space[key].choices else space[key].low  # type: ignore[index]
        Recipe().changed({key: probe}, trust=trust)
    return space


def suggest(trial: Any, space: Space, base: Recipe, trust: Trust = None) -> Recipe:
    """The base recipe with a trial's values. Keys that others switch off come last, and are left out."""
    changes: dict[str, Any] = {}
    for key, choice in sorted(space.items(), key=lambda item: item[1].when is not None):
        if choice.only is not None and choice.only != base.model.attention:
            continue
        if choice.when is not None and not base.changed(changes, trust=trust)[choice.when]:
            continue
        changes[key] = choice.suggest(trial, key)
    return base.changed(changes, trust=trust)


def starting_point(space: Space, base: Recipe) -> dict[str, Any]:
    """A recipe's own values where the space has them, to be tried first; the search chooses the others."""
    point = {}
    for key, choice in space.items():
        if choice.when is not None and not base[choice.when]:
            continue
        if choice.only is not None and choice.only != base.model.attention:
            continue
        if choice.has(value := base[key]):
            point[key] = value
    return point
