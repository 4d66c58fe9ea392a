"""Options that several verbs share, and how their texts become values."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.recipe import Recipe
    from gamlp.run import Resources, Source


class Precision(StrEnum):
    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


_MACHINE = "Machine"
_RECIPE = "Recipe"

RecipeOption = Annotated[
    str | None,
    typer.Option(
        help="Name of a shipped recipe, or a .yaml file. (default: the dataset's own, or the defaults)",
        rich_help_panel=_RECIPE,
        metavar="NAME|FILE",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="A peer of GAMLP with its own recipe: logistic, lightgbm, mlp, sgc, sign, gcn, gat, label-propagation, …",
        rich_help_panel=_RECIPE,
        metavar="METHOD",
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting of the recipe, such as model.attention=jk; as often as needed. See gamlp recipes --keys.",
        rich_help_panel=_RECIPE,
        metavar="KEY=VALUE",
        show_default=False,
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        help="What validation goes by: accuracy, balanced_accuracy, macro_f1, micro_f1, roc_auc, average_precision or "
        "log_loss. (default: accuracy, or by rare classes average_precision)",
        rich_help_panel=_RECIPE,
        metavar="NAME",
        show_default=False,
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        help="How many models to train, or their seeds: 3, or 0,1,2.", rich_help_panel=_RECIPE, show_default=False
    ),
]
StagesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=100,
        help="Stages of training: each model teaches the next by what it is sure of; the best by validation is kept.",
        rich_help_panel=_RECIPE,
        metavar="N",
        show_default=False,
    ),
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What a recipe or a run may name: your own model's code, which then runs; the URL of the run's graph.",
        metavar="MODULE:CLASS|URL",
        show_default=False,
    ),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        help="Memory to use, such as 4GiB. (default: half of what is free)",
        rich_help_panel=_MACHINE,
        show_default=False,
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, max=1024, help="(default: all cores)", rich_help_panel=_MACHINE, show_default=False)
]
ProcessesOption = Annotated[
    int,
    typer.Option(
        min=1, max=1024, help="Processes that train together, each on its share of rows.", rich_help_panel=_MACHINE
    ),
]
ExchangeOption = Annotated[
    str | None,
    typer.Option(
        help="Between processes: all-reduce, or a parameter server that workers may leave and join.",
        rich_help_panel=_MACHINE,
        metavar="all-reduce|server",
        show_default=False,
    ),
]
ServersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1024,
        help="With --exchange server: servers that share the weights. (default: one holds all)",
        rich_help_panel=_MACHINE,
        show_default=False,
    ),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(
        help="With --exchange server: its certificate, PEM.",
        rich_help_panel=_MACHINE,
        metavar="FILE",
        show_default=False,
    ),
]
TlsKeyOption = Annotated[
    Path | None,
    typer.Option(
        help="Its key, PEM. (default: in the same file)", rich_help_panel=_MACHINE, metavar="FILE", show_default=False
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Raw files of datasets. (default: GAMLP_DATA)", rich_help_panel=_MACHINE, show_default=False),
]
SeedOption = Annotated[
    int, typer.Option(min=0, help="Of a random split: a dataset's, or of tables without one.", rich_help_panel=_MACHINE)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Progress and result as JSON.", rich_help_panel=_MACHINE)]


def resources_of(
    device: str,
    memory: str | None,
    threads: int | None,
    processes: int = 1,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> Resources:
    """What the machine is to give; torch is told too."""
    from gamlp.io import parse_size
    from gamlp.run import Resources

    budget = None if memory is None else parse_size(memory)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    if tls_key is not None and tls_cert is None:
        raise GamlpError("--tls-key needs a certificate", hint="give --tls-cert FILE too")
    tls = None if tls_cert is None else (tls_cert, tls_key or tls_cert)
    return Resources(budget, threads, device, processes, tls=tls)


def recipe_of(
    source: Source,
    recipe: str | None,
    changes: list[str] | None,
    seeds: str | None,
    model: str | None = None,
    trust: list[str] | None = None,
    warm: Path | None = None,
    metric: str | None = None,
    stages: int | None = None,
    exchange: str | None = None,
    servers: int | None = None,
) -> tuple[Recipe, str]:
    """The recipe that was asked for, and what to call it; where none is named, that of the weights to start from."""
    from gamlp.recipe import Recipe, parse_changes
    from gamlp.run import default_recipe

    if recipe is not None and model is not None:
        raise GamlpError("give --model or --recipe, not both", hint="a recipe names its model")
    name = recipe or default_recipe(source)
    values = parse_changes(changes or [])
    if model is not None and model != "gamlp":
        from gamlp.peers import recipe_name

        if (name := recipe_name(model, source.name)) is None:
            values = {"model.name": model, **values}
    if metric is not None:
        values["training.metric"] = metric
    if stages is not None:
        values["training.stages"] = stages
    if exchange is not None:
        values["training.exchange"] = exchange
    if servers is not None:
        values["training.servers"] = servers
    if seeds is not None:
        values["training.seeds"] = _seeds(seeds)
    trust = trusted(trust, values)
    if warm is not None and recipe is None and model is None:
        from gamlp.training import warm_bundle

        return warm_bundle(warm, trust).recipe.changed(values, trust=trust), f"that of {warm}"
    return Recipe.of(None if name == "defaults" else name, trust=trust).changed(values, trust=trust), name or "defaults"


def trusted(trust: list[str] | None, changes: dict[str, Any] | None = None) -> list[str]:
    """What was named with --trust, and the model that --model or --set names: that is typed by the same person.

    A module of one's own may lie in the working folder; it is searched last, so that it hides nothing.
    """
    section = (changes or {}).get("model")
    typed = [(changes or {}).get("model.name"), section.get("name") if isinstance(section, dict) else None]
    names = [*(trust or []), *(name for name in typed if isinstance(name, str))]
    code = [name for name in names if ":" in name and "://" not in name]
    if code and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    return names


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise GamlpError(f"'{text}' are no seeds", hint="give how many, such as 3, or a list, such as 0,1,2") from error
    if len(numbers) > 1:
        return numbers
    if not 1 <= numbers[0] <= 1000:
        raise GamlpError(f"'{text}' seeds cannot be trained", hint="give how many, such as 3, or a list: 0,1,2")
    return list(range(numbers[0]))
