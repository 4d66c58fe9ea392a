"""Models by name, and your own by import path."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

from torch import nn

from gamlp.errors import GamlpError
from gamlp.models.gamlp import GAMLP
from gamlp.models.gbp import GBP
from gamlp.models.nars import NARS
from gamlp.models.plain_mlp import PlainMLP
from gamlp.models.s2gc import S2GC
from gamlp.models.sagn import SAGN
from gamlp.models.sgc import SGC
from gamlp.models.shape import Shape
from gamlp.models.sign import SIGN, SIGNXL

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
}


def is_own(name: str) -> bool:
    """Whether a model's name is an import path, `package.module:Class`."""
    return ":" in name


def build(name: str, shape: Shape, settings: dict[str, Any], *, mentioned: set[str] | None = None) -> nn.Module:
    """A model of the recipe's settings. `said` are those a person wrote: one the model does not know is refused."""
    made = _import(name) if is_own(name) else _known(name)
    if is_own(name):
        try:
            model = made(shape, **settings)
        except TypeError as error:
            raise GamlpError(
                f"model '{name}' cannot be made: {error}", hint="see model.options of the recipe"
            ) from error
        if not isinstance(model, nn.Module):
            raise GamlpError(f"model '{name}' is no torch.nn.Module", hint="give a class of modules")
        return model
    accepted = set(inspect.signature(made).parameters) - {"shape"}
    if foreign := sorted((mentioned or set()) - accepted - {"name"}):
        raise GamlpError(
            f"model '{name}' has no setting 'model.{foreign[0]}'", hint=f"it has {', '.join(sorted(accepted))}"
        )
    try:
        return made(shape, **{key: value for key, value in settings.items() if key in accepted})
    except (TypeError, ValueError) as error:  # an option that the recipe could not check
        raise GamlpError(f"model '{name}' cannot be made: {error}", hint="see model.options of the recipe") from error


def _known(name: str) -> type[nn.Module]:
    if name in MODELS:
        return MODELS[name]
    near = difflib.get_close_matches(name, MODELS, 1)
    suggestion = f": did you mean '{near[0]}'?" if near else ""
    raise GamlpError(
        f"there is no model '{name}'{suggestion}",
        hint=f"choose from {', '.join(MODELS)}, or name your own as package.module:Class",
    )


def _import(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # TypeError: a relative import
        raise GamlpError(
            f"model '{path}' cannot be imported ({error})", hint="name it as package.module:Class, on the Python path"
        ) from error
