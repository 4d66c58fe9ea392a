"""Recipe: the only configuration, validated, read from YAML; one ships for each dataset that was tuned."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gamlp.errors import GamlpError
from gamlp.settings_file import load_yaml, parse_changes, parse_value, read_yaml

Attention = Literal["recursive", "jk"]
_LABEL_READERS = ("gamlp", "sagn")  # and any module of your own
_CHANNEL_READERS = ("sign-xl",)  # the same
__all__ = ["Attention", "Model", "Propagation", "Recipe", "Smoothing", "Training", "described", "shipped"]
__all__ += ["parse_changes", "parse_value", "read_yaml"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Propagation(_Section):
    """What is propagated: X^(0..hops) and, where the label branch is on, Y^(0..label_hops)."""

    hops: int = Field(default=5, ge=0, le=1000, description="K, hops of features")
    r: float = Field(default=0.5, ge=0, le=1, description="Â = D^(r-1) Ã D^(-r)")
    also_r: tuple[float, ...] = Field(
        default=(), max_length=16, description="r of further operators, each a channel of its own (sign-xl)"
    )
    loops: bool = Field(default=True, description="one self-loop a node")
    scaling: Literal["none", "row", "l2", "standard"] = Field(
        default="none", description="of features, before propagation"
    )
    dtype: Literal["float32", "float16", "bfloat16"] = Field(default="float32", description="how hops are stored")
    label_hops: int = Field(default=5, ge=0, le=1000, description="L, hops of training labels")
    label_r: float | None = Field(default=None, ge=0, le=1, description="r for labels; null: the same as r")
    folds: int = Field(default=0, ge=0, le=100, description="folds of cross-fitted labels; 0: the paper's way")
    fold_seed: int = Field(default=0, ge=0, description="of the folds")
    rows: str = Field(
        default="all", description="rows to keep: all, labelled, split, train, valid, test, joined by '+'"
    )

    @field_validator("also_r", mode="before")
    @classmethod
    def _operators(cls, also_r: Any) -> Any:
        return tuple(also_r) if isinstance(also_r, list) else also_r

    @model_validator(mode="after")
    def _operators_differ(self) -> Propagation:
        if any(not 0 <= r <= 1 for r in self.also_r):
            raise ValueError("every operator of 'propagation.also_r' has an r from 0 to 1")
        if len({self.r, *self.also_r}) <= len(self.also_r):
            raise ValueError("'propagation.also_r' are further operators: each differs from the others and from r")
        return self

    @field_validator("folds")
    @classmethod
    def _one_fold_is_none(cls, folds: int) -> int:
        if folds == 1:
            raise ValueError("one fold leaves no labels for the others: use 0 or at least 2")
        return folds


class Model(_Section):
    """GAMLP's options; a peer takes those it knows, a module of your own takes `options`."""

    name: str = Field(
        default="gamlp",
        description="gamlp, a peer (gamlp bench methods), or your own torch module as package.module:Class",
    )
    attention: Attention = Field(default="recursive", description="how hops of features are weighed")
    hidden: int = Field(default=256, ge=1, le=1 << 16, description="width of every MLP")
    layers: int = Field(default=3, ge=1, le=1000, description="depth of the output MLP")
    jk_layers: int = Field(default=2, ge=1, le=64, description="depth of the reference MLP of jk attention")
    activation: Literal["sigmoid", "relu", "leaky_relu"] = Field(
        default="leaky_relu", description="δ, around hop scores"
    )
    reference: Literal["jk", "origin", "noise", "none"] = Field(
        default="jk", description="what jk attention compares with"
    )
    input_dropout: float = Field(default=0.0, ge=0, lt=1, description="on hops, features and labels")
    attention_dropout: float = Field(default=0.0, ge=0, lt=1, description="on hop weights")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="inside every MLP")
    batch_norm: bool = Field(default=False, description="batch norm in every MLP")
    hop_mlp: bool = Field(default=False, description="a layer of its own for every hop before attention")
    residual: bool = Field(default=False, description="add a linear map of X^(0) to what attention gives")
    initial_residual: float = Field(
        default=0.0, ge=0, le=1, description="share of the first layer in the output MLP's others"
    )
    beta: float = Field(default=1.0, ge=0, description="weight of the label branch; 0: no labels")
    label_attention: Attention | None = Field(
        default=None, description="how hops of labels are weighed; null: as attention"
    )
    label_layers: int = Field(default=2, ge=1, le=64, description="depth of the label branch's MLP")
    last_residual: Literal["cosine", "linear", "fixed", "none", "uniform"] = Field(
        default="cosine", description="α of labels"
    )
    label_zero: bool = Field(
        default=False, description="whether a training row's own answer, Y^(0), is among the label hops"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="what a peer takes beside these (heads, alpha …); keyword arguments of your own module",
    )


class Training(_Section):
    """How a model is fitted: on training rows, chosen by validation rows."""

    setting: Literal["transductive", "inductive"] = Field(
        default="transductive", description="inductive: training rows see only each other"
    )
    epochs: int = Field(default=200, ge=1, description="at most")
    patience: int = Field(default=50, ge=0, description="epochs without a better validation score; 0: never stop early")
    monitor: Literal["score", "loss", "both"] = Field(
        default="score", description="of validation rows: what the best epoch is best in; both: no worse in either"
    )
    keep: Literal["best", "last"] = Field(
        default="best", description="whose weights: the best validation epoch's, or after all epochs the last's"
    )
    batch_size: int = Field(default=10_000, ge=1)
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=0.01, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="of the learning rate, over epochs"
    )
    warmup: int = Field(default=0, ge=0, description="epochs of rising learning rate")
    class_weights: Literal["none", "balanced"] = Field(
        default="none", description="balanced: rare classes weigh more in the loss"
    )
    reuse: int = Field(
        default=0, ge=0, le=100, description="rounds in which predictions of rows without labels come back as labels"
    )
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="one model is trained for each")

    @field_validator("seeds", mode="before")
    @classmethod
    def _as_tuple(cls, seeds: Any) -> Any:
        return tuple(seeds) if isinstance(seeds, list) else seeds

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 1 << 63:
            raise ValueError("seeds are different numbers from 0 to 2^63 - 1")
        return seeds


class Smoothing(_Section):
    """Correct & Smooth after a model: first its errors on training rows spread, then what it says and their labels."""

    correct_alpha: float = Field(default=0.8, ge=0, lt=1, description="α of correct: how far errors spread")
    correct_steps: int = Field(default=50, ge=0, le=1000, description="steps of correct; 0: leave it out")
    smooth_alpha: float = Field(default=0.8, ge=0, lt=1, description="α of smooth: how far predictions spread")
    smooth_steps: int = Field(default=50, ge=0, le=1000, description="steps of smooth; 0: leave it out")
    autoscale: bool = Field(
        default=True, description="errors as large as the training rows' mean; false: as they spread, times scale"
    )
    scale: float = Field(default=1.0, ge=0, description="of spread errors, where autoscale is false")
    r: float = Field(default=0.5, ge=0, le=1, description="Â = D^(r-1) A D^(-r), without self-loops")


class Recipe(_Section):
    """Everything that decides a result, beside the data.

    >>> Recipe.of({"model": {"attention": "jk"}}).model.attention
    'jk'
    """

    propagation: Propagation = Propagation()
    model: Model = Model()
    training: Training = Training()
    smoothing: Smoothing | None = Field(default=None, description="Correct & Smooth after the model; null: none")
    about: str = Field(default="", description="where the recipe comes from")

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        if self.model.batch_norm and self.training.batch_size == 1:
            raise ValueError("'model.batch_norm' needs batches of at least two rows: raise 'training.batch_size'")
        if self.propagation.also_r and self.model.name not in _CHANNEL_READERS and ":" not in self.model.name:
            raise ValueError(
                f"model '{self.model.name}' reads one operator: leave 'propagation.also_r' empty, or use sign-xl"
            )
        return self

    def __getitem__(self, key: str) -> Any:
        """A setting by its dotted key: `recipe["model.beta"]`."""
        value: Any = self
        for part in key.split("."):
            value = getattr(value, part)
        return value

    @property
    def labels_used(self) -> bool:
        """Whether the label branch is on: β above 0 in a model that has one, and some hop of labels to read."""
        some = self.propagation.label_hops > 0 or self.model.label_zero
        reads = self.model.name in _LABEL_READERS or ":" in self.model.name
        return self.model.beta > 0 and reads and some

    @classmethod
    def of(cls, source: Recipe | str | Path | dict[str, Any] | None = None) -> Recipe:
        """A recipe from a name (`cora-jk`), a YAML file, a dict, another recipe, or None for the defaults."""
        if isinstance(source, Recipe):
            return source
        if source is None:
            return cls()
        if isinstance(source, dict):
            return cls._checked(source, None)
        path = Path(source)
        if path.suffix in (".yaml", ".yml") or path.is_file():
            return cls._checked(read_yaml(path), path)
        if str(source) in shipped():
            return cls._checked(load_yaml(_shipped_text(str(source))), None)
        near = difflib.get_close_matches(str(source), shipped(), 1)
        raise GamlpError(
            f"there is no recipe '{source}'" + (f": did you mean '{near[0]}'?" if near else ""),
            hint="give a .yaml file or one of the shipped recipes: gamlp recipes",
        )

    def changed(self, changes: dict[str, Any]) -> Recipe:
        """With other values of dotted keys: `{"training.epochs": 50}`."""
        content = self.explicit()
        for key, value in changes.items():
            *sections, name = key.split(".")
            target = content
            for section in sections:
                if target.get(section) is None:  # a section that was left out
                    target[section] = {}
                target = target[section]
                if not isinstance(target, dict):
                    raise GamlpError(
                        f"'{section}' is no section of a recipe", hint="propagation, model, training, smoothing are"
                    )
            target[name] = value
        return self._checked(content, None)

    def explicit(self) -> dict[str, Any]:
        """What was said, without the defaults."""
        return self.model_dump(exclude_unset=True, mode="json")

    def to_yaml(self) -> str:
        """Every setting, defaults included: the exact recipe."""
        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        return text

    def explicit_yaml(self) -> str:
        """What was said, without the defaults: a recipe to keep."""
        text: str = yaml.safe_dump(self.explicit(), sort_keys=False, allow_unicode=True, width=100)
        return text

    @classmethod
    def _checked(cls, content: Any, path: Path | None) -> Recipe:
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise GamlpError("a recipe is a mapping of sections", file=path, hint="propagation:, model:, training:")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise _sentence(error, path) from error


def shipped() -> list[str]:
    """Names of the recipes inside the package."""
    folder = resources.files("gamlp") / "recipes"
    return sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def _shipped_text(name: str) -> str:
    return (resources.files("gamlp") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")


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
    known = sorted(_known_keys(), key=lambda other: other.rpartition(".")[0] != section)
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


def _known_keys() -> list[str]:
    keys = []
    for name, section in _sections().items():
        if section is not None:
            keys += [f"{name}.{key}" for key in section.model_fields]
        keys.append(name)
    return keys


def described() -> list[tuple[str, str, str]]:
    """(key, default, description) of every setting."""
    rows = []
    for name, section in _sections().items():
        if section is not None:
            for key, inner in section.model_fields.items():
                default = inner.get_default(call_default_factory=True)
                rows.append((f"{name}.{key}", "null" if default is None else str(default), inner.description or ""))
    return rows
