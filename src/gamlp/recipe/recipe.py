"""Recipe: the only configuration, validated, read from YAML; one ships for each dataset that was tuned."""

from __future__ import annotations

import difflib
import warnings
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from gamlp.errors import GamlpError
from gamlp.io import Trust, check_trusted, names_of
from gamlp.recipe.sections import (
    ConsistencySettings,
    FeaturesSettings,
    ModelSettings,
    PropagationSettings,
    RelationsSettings,
    Section,
    SmoothingSettings,
    TrainingSettings,
)
from gamlp.recipe.settings_file import read_yaml
from gamlp.recipe.shipped_files import shipped_content, shipped_names

OLD_KEYS = {"relations.apart": "relations.separate_types"}  # former spellings, still read


def is_own(name: str) -> bool:
    """Whether a model's name is an import path, `package.module:Class`."""
    return ":" in name


class Recipe(Section):
    """Everything that decides a result, beside the data.

    One that names code of its own (`model.name: package.module:Class`) is read only where a person trusts that name:
    whoever holds such a recipe may import it.

    >>> Recipe.of({"model": {"attention": "jk"}}).model.attention
    'jk'
    """

    propagation: PropagationSettings = PropagationSettings()
    features: FeaturesSettings = FeaturesSettings()
    relations: RelationsSettings = RelationsSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    consistency: ConsistencySettings | None = Field(
        default=None, description="agreement of passes on rows without labels (SCR); null: none"
    )
    smoothing: SmoothingSettings | None = Field(
        default=None, description="Correct & Smooth after the model; null: none"
    )
    about: str = Field(default="", description="where the recipe comes from")

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        for norm in ("batch_norm", "input_norm"):
            if getattr(self.model, norm) and self.training.batch_size == 1:
                raise ValueError(f"'model.{norm}' needs batches of at least two rows: raise 'training.batch_size'")
        if self.training.stages > 1 and self.training.reuse:
            raise ValueError("'training.stages' and 'training.reuse' are two ways to learn from what was said: use one")
        if self.training.stages > 1 and self.training.members > 1:
            raise ValueError("a stage has one model to be taught by: 'training.members' is for one stage")
        return self

    @property
    def reads_unlabelled(self) -> bool:
        """Whether training reads rows without labels: hops of all rows of the training graph are then kept."""
        return (self.consistency is not None and self.consistency.weight > 0) or self.training.stages > 1

    def __getitem__(self, key: str) -> Any:
        """A setting by its dotted key: `recipe["model.beta"]`; None in a section or an option that was left out."""
        value: Any = self
        for part in OLD_KEYS.get(key, key).split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part)
            if value is None:
                return None
        return value

    @classmethod
    def of(cls, source: Recipe | str | Path | dict[str, Any] | None = None, *, trust: Trust = None) -> Recipe:
        """A recipe from a name (`cora-jk`), a YAML file, a dict, another recipe, or None for the defaults.

        `trust` names the model of one's own that it may have.
        """
        if isinstance(source, Recipe):
            return source
        if source is None:
            return cls()
        if isinstance(source, dict):
            return cls._checked(source, None, trust)
        path = Path(source)
        if path.suffix in (".yaml", ".yml") or path.is_file():
            return cls._checked(read_yaml(path), path, trust)
        if (content := shipped_content(str(source))) is not None:
            return cls._checked(content, None)
        near = difflib.get_close_matches(str(source), shipped_names(), 1)
        raise GamlpError(
            f"there is no recipe '{source}'" + (f": did you mean '{near[0]}'?" if near else ""),
            hint="give a .yaml file or one of the shipped recipes: gamlp recipes",
        )

    def changed(self, changes: dict[str, Any], *, trust: Trust = None) -> Recipe:
        """With other values of dotted keys: `{"training.epochs": 50}`; a model of one's own that is new in `trust`."""
        content = self.explicit()
        for key, value in changes.items():
            *sections, name = _current(key).split(".")
            target = content
            for section in sections:
                if target.get(section) is None:  # a section that was left out
                    target[section] = {}
                target = target[section]
                if not isinstance(target, dict):
                    raise GamlpError(
                        f"'{section}' is no section of a recipe",
                        hint="propagation, features, relations, model, training, consistency, smoothing are",
                    )
            target[name] = value
        return self._checked(content, None, (self.model.name, *names_of(trust)))

    def explicit(self) -> dict[str, Any]:
        """What was said, without the defaults."""
        return self.model_dump(exclude_unset=True, mode="json")

    def to_yaml(self) -> str:
        """Every setting, defaults included: the exact recipe."""
        return _dumped(self.model_dump(mode="json"))

    def explicit_yaml(self) -> str:
        """What was said, without the defaults: a recipe to keep."""
        return _dumped(self.explicit(), width=100)

    @classmethod
    def _checked(cls, content: Any, path: Path | None, trust: Trust = None) -> Recipe:
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise GamlpError("a recipe is a mapping of sections", file=path, hint="propagation:, model:, training:")
        try:
            made = cls.model_validate(_with_current_keys(content))
        except ValidationError as error:
            raise _sentence(error, path) from error
        if is_own(name := made.model.name):
            check_trusted(name, trust, f"'model.name' is code, '{name}', and runs only when you name it", path)
        return made


def _current(key: str) -> str:
    """A key as it is spelled today."""
    if key in OLD_KEYS:
        warnings.warn(f"the recipe key '{key}' is now called '{OLD_KEYS[key]}'", FutureWarning, stacklevel=3)
    return OLD_KEYS.get(key, key)


def _with_current_keys(content: dict[str, Any]) -> dict[str, Any]:
    for old in OLD_KEYS:
        section, _, name = old.partition(".")
        own = content.get(section)
        if isinstance(own, dict) and name in own:
            renamed = {_current(f"{section}.{key}").partition(".")[2]: value for key, value in own.items()}
            content = {**content, section: renamed}
    return content


def _dumped(content: dict[str, Any], **layout: Any) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, **layout)
    if any(mark in text for mark in ("\x85", "\u2028", "\u2029")):
        # YAML folds these line breaks into spaces where they stand as they are: such a text is escaped.
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=False, **layout)
    return text


def _sentence(error: ValidationError, path: Path | None) -> GamlpError:
    """The first problem, by its dotted key; an unknown key with the nearest known one."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = _nearest(key)
        suggestion = f": did you mean '{near}'?" if near else ""
        return GamlpError(f"a recipe has no '{key}'{suggestion}", file=path, hint="gamlp recipes --keys lists all")
    shown = "" if isinstance(first["input"], dict) else f", not {first['input']!r}"
    problem = first["msg"].removeprefix("Value error, ")
    return GamlpError(f"'{key}': {problem[0].lower()}{problem[1:]}{shown}" if key else problem, file=path)


def _nearest(key: str) -> str | None:
    """The known key whose last part is most alike, of the same section where there is one."""
    section, _, name = key.rpartition(".")
    known = sorted(known_keys(), key=lambda other: other.rpartition(".")[0] != section)
    names = [other.rpartition(".")[2] for other in known]
    near = difflib.get_close_matches(name, dict.fromkeys(names), 1, 0.6)
    return known[names.index(near[0])] if near else None


def _sections() -> dict[str, type[BaseModel] | None]:
    """Parts of a recipe; those that are no section with None."""
    found: dict[str, type[BaseModel] | None] = {}
    for name, field in Recipe.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))  # smoothing is a section or None
        own = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        found[name] = own[0] if own else None
    return found


def known_keys() -> list[str]:
    """Dotted keys of all settings, and the sections themselves."""
    keys = []
    for name, section in _sections().items():
        if section is not None:
            keys += [f"{name}.{key}" for key in section.model_fields]
        keys.append(name)
    return keys


def described() -> list[tuple[str, str, str, str]]:
    """(key, default, allowed values, description) of every setting."""
    rows = []
    for name, section in _sections().items():
        if section is not None:
            schema = section.model_json_schema()["properties"]
            for key, inner in section.model_fields.items():
                default = inner.get_default(call_default_factory=True)
                shown = "null" if default is None else str(default)
                rows.append((f"{name}.{key}", shown, _allowed(schema[key]), inner.description or ""))
    return rows


def _allowed(schema: dict[str, Any]) -> str:
    """The values that a setting may have, in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(_allowed(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_allowed(schema['items'])}"
    words = {"boolean": "True | False", "null": "null", "string": "text", "object": "mapping"}
    return words[kind] if kind in words else _range(schema, "whole number" if kind == "integer" else "number")


def _range(schema: dict[str, Any], what: str) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    limits = [
        f"{word} {limit:,}"
        for word, limit in (("from", low), ("above", above), ("to", high), ("below", below))
        if limit is not None
    ]
    return " ".join([what, *limits])
