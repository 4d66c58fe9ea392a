"""A search space as data: dotted recipe keys with choices or ranges."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gamlp.errors import GamlpError
from gamlp.recipe.recipe import Recipe
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
        return self

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


def load_space(name: str | Path) -> Space:
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
        try:
            space[key] = Choice.model_validate(value if isinstance(value, dict) else {"choices": value})
        except ValidationError as error:
            raise GamlpError(f"'{key}': give choices, or low and high", file=file) from error
        probe = space[key].choices[0] if space[key].choices else space[key].low  # type: ignore[index]
        Recipe().changed({key: probe})
    return space


def suggest(trial: Any, space: Space, base: Recipe) -> Recipe:
    """The base recipe with a trial's values. Keys that others switch off come last, and are left out."""
    changes: dict[str, Any] = {}
    for key, choice in sorted(space.items(), key=lambda item: item[1].when is not None):
        if choice.only is not None and choice.only != base.model.attention:
            continue
        if choice.when is not None and not base.changed(changes)[choice.when]:
            continue
        changes[key] = choice.suggest(trial, key)
    return base.changed(changes)


def starting_point(space: Space, base: Recipe) -> dict[str, Any]:
    """A recipe's own values where the space has them, to be tried first; the search chooses the others."""
    point = {}
    for key, choice in space.items():
        value = base[key]
        inside = value in choice.choices if choice.choices is not None else choice.low <= value <= choice.high
        if inside and not (choice.when is not None and not base[choice.when]):
            point[key] = value
    return point
