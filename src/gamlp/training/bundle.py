"""Bundle: a trained model in one safetensors file, with its recipe, classes and report. Nothing in it is code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError
from safetensors import SafetensorError, safe_open
from torch import nn

from gamlp.errors import GamlpError
from gamlp.graph import ONE_TYPE, ClassType, FeatureColumn, FeatureSchema, fits_type, total_width
from gamlp.io import Trust, Untrusted
from gamlp.models import Part, Shape, Solvable, model_of
from gamlp.propagation import Statistics
from gamlp.recipe import Recipe, is_own
from gamlp.training.calibration import with_temperature
from gamlp.training.checkpoint import Weights, save_tensors, with_digest, without_digest
from gamlp.training.metrics import best_of

FORMAT = "gamlp-bundle"
_VERSION = 1
_OF_STATISTICS = (1, torch.float64)  # dimensions and type of a tensor
_NOT_TRUSTED = "a model of its own code is loaded only when you name it"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    view: str
    node_type: str | None = Field(validation_alias="kind", serialization_alias="kind")
    width: PositiveInt


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    features: NonNegativeInt
    classes: PositiveInt
    hops: NonNegativeInt
    label_hops: NonNegativeInt
    channels: PositiveInt
    parts: list[_Part] = []
    label_views: list[str] = []

    def made(self) -> Shape:
        parts = tuple(Part(**part.model_dump()) for part in self.parts)
        plain = self.model_dump(exclude={"parts", "label_views"})
        return Shape(**plain, parts=parts, label_views=tuple(self.label_views))


def shape_content(shape: Shape) -> dict[str, Any]:
    """The shape as a file holds it: the node type of a part is called `kind` there."""
    parts = [{"view": part.view, "kind": part.node_type, "width": part.width} for part in shape.parts]
    return {**asdict(shape), "parts": parts}


class _Content(BaseModel):
    """What the metadata says, checked before anything is built from it."""

    model_config = ConfigDict(extra="forbid")

    format: str
    version: int
    gamlp: str
    recipe: dict[str, Any]
    shape: _Shape
    classes: list[str]
    multi_label: bool = Field(validation_alias="many", serialization_alias="many")
    report: dict[str, Any]
    columns: dict[str, list[FeatureColumn]] = {}
    class_type: ClassType = "string"
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    positive: str | None = None


@dataclass(frozen=True)
class Bundle:
    """All that prediction needs beside a graph. `multi_label`: a node may have many labels.

    `statistics`, mean and deviation of training features by node type, are there with `standard` scaling. `columns`
    are names and types of feature columns, of node types whose features came from tables. `class_type` says what the
    classes are that have these names. Logits are divided by `temperature`. `positive` is that of two classes which
    fewer training rows have.
    """

    recipe: Recipe
    shape: Shape
    classes: tuple[str, ...]
    multi_label: bool
    weights: Weights
    report: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Statistics] | None = None
    columns: Mapping[str, FeatureSchema] = field(default_factory=dict)
    class_type: ClassType = "string"
    made_with: str = field(default_factory=lambda: version("gamlp"))
    temperature: float = 1.0
    positive: str | None = None

    @property
    def valid(self) -> dict[str, float]:
        """Validation scores of the model as it predicts; training itself went by `report["valid"]`."""
        found, calibration = self.report.get("valid", {}), self.report.get("calibration")
        return {**found, "loss": calibration["loss"]} if found and calibration else dict(found)

    @property
    def positive_number(self) -> int | None:
        """The number of the positive class, where there is one."""
        return None if self.positive is None else self.classes.index(self.positive)

    def model(self) -> nn.Module:
        """The network, ready to predict: its logits are divided by the temperature."""
        with torch.random.fork_rng(devices=[]):  # first weights are drawn, and overwritten at once
            model = make_model(self.recipe, self.shape)
        try:
            model.load_state_dict(self.weights)
        except RuntimeError as error:
            raise GamlpError(
                "the bundle's weights do not fit its recipe",
                hint="it was changed, or made by another gamlp: train again",
            ) from error
        return with_temperature(model.eval(), self.temperature)

    def save(self, path: str | Path) -> Path:
        """Write the file."""
        tensors = {f"model.{name}": value.cpu().contiguous() for name, value in self.weights.items()}
        for node_type, known in (self.statistics or {}).items():
            for name, values in known.model_dump().items():
                tensors[f"statistics.{node_type}.{name}"] = torch.tensor(values, dtype=torch.float64)
        content = {
            "format": FORMAT,
            "version": _VERSION,
            "gamlp": self.made_with,
            "recipe": self.recipe.model_dump(mode="json", exclude_unset=True),
            "shape": shape_content(self.shape),
            "classes": list(self.classes),
            "many": self.multi_label,
            "report": self.report,
            "columns": {name: [one.model_dump() for one in columns] for name, columns in self.columns.items()},
            "class_type": self.class_type,
            "temperature": self.temperature,
            "positive": self.positive,
        }
        text = json.dumps(content, sort_keys=True)
        save_tensors(Path(path), tensors, with_digest(text, tensors))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, trust: Trust = None) -> Bundle:
        """Read and check a file. A model of your own code is built only when `trust` names its import path."""
        path = Path(path)
        text, unchanged, tensors = _read(path)
        if not unchanged:
            raise GamlpError("was changed since it was written", file=path, hint="train again, or fetch it again")
        try:
            content = _Content.model_validate_json(text)
            recipe = Recipe.of(content.recipe, trust=trust)
        except Untrusted as error:
            raise Untrusted(error.name, _NOT_TRUSTED, path) from error
        except (ValidationError, GamlpError) as error:
            raise GamlpError("is no bundle that this gamlp can read", file=path, hint="train again") from error
        known = content.format == FORMAT and content.version == _VERSION
        fit = len(content.classes) == content.shape.classes and fits_type(content.classes, content.class_type)
        fit = fit and (content.positive is None or (content.positive in content.classes and len(content.classes) == 2))
        if not (known and fit):
            raise GamlpError("is no bundle that this gamlp can read", file=path, hint="train again")
        shape = content.shape.made()
        weights, statistics = _parted(tensors, path)
        _check_widths(shape, statistics, content.columns, path)
        return cls(
            recipe,
            shape,
            tuple(content.classes),
            content.multi_label,
            weights,
            content.report,
            statistics or None,
            {node_type: tuple(columns) for node_type, columns in content.columns.items()},
            content.class_type,
            content.gamlp,
            content.temperature,
            content.positive,
        )


def _parted(tensors: Weights, path: Path) -> tuple[Weights, dict[str, Statistics]]:
    """Weights, and statistics by node type; a tensor that is neither is refused."""
    weights: Weights = {}
    found: dict[str, Weights] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        node_type, _, of = rest.rpartition(".")  # an older bundle names no type: it has one
        if part == "model":
            weights[rest] = value
        elif part == "statistics" and of in Statistics.model_fields and (value.ndim, value.dtype) == _OF_STATISTICS:
            found.setdefault(node_type or ONE_TYPE, {})[of] = value
        else:
            raise _foreign(path, f"'{name}' is nothing that a bundle of this gamlp holds")
    try:
        made = {
            node_type: Statistics(**{of: tuple(value.tolist()) for of, value in parts.items()})
            for node_type, parts in found.items()
        }
    except (ValidationError, GamlpError) as error:
        raise _foreign(path, "its scaling statistics are no means and deviations") from error
    return weights, made


def _check_widths(
    shape: Shape, statistics: Mapping[str, Statistics], columns: Mapping[str, list[FeatureColumn]], path: Path
) -> None:
    """Statistics, and of one type columns too, as wide as the model's features."""
    widths: dict[str | None, int] = {part.node_type: part.width for part in shape.parts}
    for node_type, known in statistics.items():
        wanted = widths.get(node_type, widths.get(None)) if widths else shape.features
        if wanted is not None and len(known.mean) != wanted:  # None: of a type that hops reach and this model does not
            raise _foreign(path, f"its scaling statistics are of {len(known.mean)} features, not of {wanted}")
    for found in columns.values() if not widths else ():
        if len(columns) > 1 or total_width(found) != shape.features:
            raise _foreign(path, f"its columns do not hold the {shape.features} features of the model")


def _foreign(path: Path, what: str) -> GamlpError:
    return GamlpError(f"is no bundle that this gamlp can read: {what}", file=path, hint="train again")


def best_seed(bundles: Mapping[int, Bundle]) -> int:
    """By validation alone, as their recipe says; the first where there is none."""
    settings = next(iter(bundles.values())).recipe.training
    return best_of({seed: bundle.report["valid"] for seed, bundle in bundles.items()}, settings)


def make_model(recipe: Recipe, shape: Shape) -> nn.Module:
    """The recipe's model for hops of this shape."""
    settings = recipe.model
    model = model_of(recipe, shape)
    samples = 0 < recipe.training.subset_sample < len(shape.views)
    if samples and "views" not in inspect.signature(model.forward).parameters:
        raise GamlpError(
            f"model '{settings.name}' reads all subsets of relations at every step",
            hint="set training.subset_sample to 0",
        )
    if recipe.training.members > 1 and (isinstance(model, Solvable) or is_own(settings.name)):
        own = is_own(settings.name)
        why = "is code of its own, which no blend may name" if own else "has no first weights that could differ"
        raise GamlpError(f"model '{settings.name}' {why}", hint="set training.members to 1")
    return model


def _read(path: Path) -> tuple[str, bool, Weights]:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return *without_digest(file.metadata(), tensors), tensors
    except (FileNotFoundError, IsADirectoryError) as error:
        raise GamlpError("there is no bundle here", file=path, hint="train one: gamlp train GRAPH --out RUN") from error
    except (SafetensorError, KeyError, OSError) as error:
        raise GamlpError("is no gamlp bundle", file=path, hint="give the bundle.safetensors of a run") from error
