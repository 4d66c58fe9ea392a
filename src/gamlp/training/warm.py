"""Training that starts from the weights of a model that is there: yesterday's, on a graph that has grown since."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from gamlp.errors import GamlpError
from gamlp.graph import name_some
from gamlp.io import Trust
from gamlp.models import Solvable
from gamlp.training.bundle import Bundle, make_model
from gamlp.training.rows import Prepared

_HINT = "train without --warm, or with the same recipe, columns and classes"


def warm_bundle(place: str | Path, trust: Trust = None) -> Bundle:
    """The bundle of a run folder, or a bundle itself."""
    path = Path(place)
    return Bundle.load(path / "bundle.safetensors" if path.is_dir() else path, trust)


def check_warm(prepared: Prepared, bundle: Bundle) -> None:
    """Refuse weights that mean something else here: of other classes, columns or hops, or of another model."""
    if bundle.classes != prepared.classes or bundle.multi_label != prepared.multi_label:
        now, before = set(prepared.classes), set(bundle.classes)
        new, gone = sorted(now - before), sorted(before - now)
        what = f"{name_some(new)} is new" if new else f"{name_some(gone)} is gone" if gone else "they differ"
        raise GamlpError(f"the weights to start from are of other classes: {what}", hint=_HINT)
    for node_type, columns in prepared.columns.items():
        before_columns = bundle.columns.get(node_type)
        if before_columns is not None and [one.name for one in before_columns] != [one.name for one in columns]:
            raise GamlpError("the weights to start from are of other columns, or of another order", hint=_HINT)
    if bundle.recipe.model.name != prepared.recipe.model.name:
        raise GamlpError(
            f"the weights to start from are of model '{bundle.recipe.model.name}', not '{prepared.recipe.model.name}'",
            hint=_HINT,
        )
    model = make_model(prepared.recipe, prepared.shape)
    if isinstance(model, Solvable):
        raise GamlpError(
            f"model '{prepared.recipe.model.name}' is solved from its rows alone: no weights to start from change it",
            hint="leave out --warm",
        )
    own = model.state_dict()
    for name in own.keys() | bundle.weights.keys():
        here, there = own.get(name), bundle.weights.get(name)
        if here is None or there is None or here.shape != there.shape:
            found = ["is not there" if one is None else f"has shape {list(one.shape)}" for one in (there, here)]
            raise GamlpError(
                f"the weights to start from do not fit: '{name}' {found[0]}, and here {found[1]}", hint=_HINT
            )


def first_model(prepared: Prepared) -> nn.Module:
    """The model of a recipe with its first weights: drawn by the seed, or those that it starts from."""
    model = make_model(prepared.recipe, prepared.shape)
    if prepared.warm is not None:
        model.load_state_dict(Bundle.load(prepared.warm, trust=prepared.recipe.model.name).weights)
    return model
