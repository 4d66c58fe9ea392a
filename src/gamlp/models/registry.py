"""Models by name, those that other packages bring, and your own by import path; what each of them reads."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
from typing import Any

from torch import nn

from gamlp.errors import GamlpError
from gamlp.io import find_plugins, load_plugin
from gamlp.models.blend import Blend
from gamlp.models.boosting import LightGBM
from gamlp.models.gamlp import GAMLP
from gamlp.models.gbp import GBP
from gamlp.models.label_spreading import LabelSpreading
from gamlp.models.logistic import Logistic, LogisticLabels
from gamlp.models.majority import Majority
from gamlp.models.mlp import MLPOptions
from gamlp.models.nars import NARS
from gamlp.models.s2gc import S2GC
from gamlp.models.sagn import SAGN
from gamlp.models.sgc import SGC, PlainMLP
from gamlp.models.shape import Shape
from gamlp.models.sign import SIGN, SIGNXL
from gamlp.recipe import Recipe, is_own

MODELS: dict[str, type[nn.Module]] = {
    "gamlp": GAMLP,
    "mlp": PlainMLP,
    "sgc": SGC,
    "sign": SIGN,
    "s2gc": S2GC,
    "gbp": GBP,
    "sign-xl": SIGNXL,
    "sagn": SAGN,
    "nars": NARS,
    "majority": Majority,
    "logistic": Logistic,
    "logistic-labels": LogisticLabels,
    "lightgbm": LightGBM,
    "label-spreading": LabelSpreading,
    "blend": Blend,
}


GROUP = "gamlp.models"  # the entry points by which other packages bring models


def is_model(name: str) -> bool:
    """Whether there is a model on hops of this name; an import path is taken for one. Nothing is imported."""
    return is_own(name) or name in MODELS or name in find_plugins(GROUP, MODELS)


def labels_used(recipe: Recipe) -> bool:
    """Whether the label branch is on: β above 0 in a model that reads labels, and some hop of labels to read."""
    some = recipe.propagation.label_hops > 0 or recipe.model.label_zero
    return recipe.model.beta > 0 and some and _reads(recipe, "labels")


def is_solved(recipe: Recipe) -> bool:
    """Whether the model finds its weights at once, from its rows alone: none to start from would change them."""
    return is_model(recipe.model.name) and hasattr(_class_of(recipe.model.name), "solve")


def check_operators(recipe: Recipe) -> None:
    """Refuse further operators, or other directions, for a model that would leave all but the first aside."""
    if recipe.propagation.also_r and not _reads(recipe, "operators"):
        raise GamlpError(
            f"model '{recipe.model.name}' reads one operator: leave 'propagation.also_r' empty, or use sign-xl"
        )
    if recipe.propagation.directions != "in" and not is_model(recipe.model.name):
        raise GamlpError(
            f"'{recipe.model.name}' reads edges as they lead", hint="set propagation.directions to in, or use gamlp"
        )


def check_labels(recipe: Recipe) -> None:
    """Refuse hops that hold a training row's own label for a model that would learn it by heart."""
    if labels_used(recipe) and recipe.propagation.folds < 2 and _learns_by_heart(recipe.model.name):
        raise GamlpError(
            f"'{recipe.model.name}' would learn each training row's own label by heart from its hops of labels",
            hint="cross-fit them: propagation.folds=5, or leave labels out: model.beta=0",
        )


def _learns_by_heart(name: str) -> bool:
    return bool(getattr(_class_of(name), "learns_labels_by_heart", False))


def _reads(recipe: Recipe, what: str) -> bool:
    """What the model's class says; one that says nothing reads all, a method that is no model on hops reads none."""
    return is_model(recipe.model.name) and bool(getattr(_class_of(recipe.model.name), f"reads_{what}", True))


def model_of(recipe: Recipe, shape: Shape) -> nn.Module:
    """The recipe's model for hops of this shape."""
    settings = recipe.model
    if is_own(settings.name):
        return build(settings.name, shape, settings.options)
    options = settings.model_dump(exclude={"name", "options"})
    if not labels_used(recipe):
        options["beta"] = 0.0
    # A default that is written out, as in a run's recipe.yaml, is no wish; nor is β = 0 of a model without labels.
    usual = type(settings)()
    mentioned = {key for key in settings.model_fields_set if getattr(settings, key) != getattr(usual, key)}
    mentioned = mentioned - {"options"} - ({"beta"} if settings.beta == 0 else set())
    return build(settings.name, shape, options | settings.options, mentioned=mentioned | set(settings.options))


def build(name: str, shape: Shape, settings: dict[str, Any], *, mentioned: set[str] | None = None) -> nn.Module:
    """A model of the recipe's settings. Of those a person `mentioned`, one that the model does not know is refused."""
    made = _class_of(name)
    refused: tuple[type[Exception], ...] = (TypeError, ValueError)  # an option that the recipe could not check
    if is_own(name):
        refused = (Exception,)  # code of somebody else: anything may go wrong in it
    else:
        accepted = _accepted(made)
        if foreign := sorted((mentioned or set()) - accepted - {"name"}):
            raise GamlpError(
                f"model '{name}' has no setting 'model.{foreign[0]}'", hint=f"it has {', '.join(sorted(accepted))}"
            )
        settings = {key: value for key, value in settings.items() if key in accepted}
    try:
        model = made(shape, **settings)
    except refused as error:
        raise GamlpError(f"model '{name}' cannot be made: {error}", hint="see model.options of the recipe") from error
    return model


def _accepted(made: Any) -> set[str]:
    """Names of the settings that a model takes; `**options` are those of its MLP."""
    named = inspect.signature(made).parameters.values()
    accepted = {one.name for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD} - {"shape"}
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in named):
        accepted |= {field.name for field in dataclasses.fields(MLPOptions)}
    return accepted


def _class_of(name: str) -> type[nn.Module]:
    """A class of modules: anything else is refused before it is called. Reading a recipe asks for trust in its code."""
    if name in MODELS:
        return MODELS[name]
    brought = find_plugins(GROUP, MODELS)
    if is_own(name) or name in brought:
        found = _import(name) if is_own(name) else load_plugin(brought[name])
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise GamlpError(f"model '{name}' is no torch.nn.Module", hint="name a class of modules")
        return found
    known = [*MODELS, *brought]
    near = difflib.get_close_matches(name, known, 1)
    suggestion = f": did you mean '{near[0]}'?" if near else ""
    raise GamlpError(
        f"there is no model '{name}'{suggestion}",
        hint=f"choose from {', '.join(known)}, or name your own as package.module:Class",
    )


def _import(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # code of somebody else: anything may go wrong in it
        raise GamlpError(
            f"model '{path}' cannot be imported ({error})", hint="name it as package.module:Class, on the Python path"
        ) from error
