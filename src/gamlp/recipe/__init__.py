"""Recipe, the only configuration: its sections, the shipped ones, search spaces, settings as people write them."""

# Everything that decides a result beside the data; every key with its default; whether a model's name is code.
from gamlp.recipe.recipe import Recipe, described, is_own

# Its sections, the two kinds of attention, and what validation may go by.
from gamlp.recipe.sections import (
    Attention,
    ConsistencySettings,
    FeaturesSettings,
    Metric,
    ModelSettings,
    PropagationSettings,
    RelationsSettings,
    SmoothingSettings,
    TrainingSettings,
)

# YAML of plain values: of a text, of a file, one value, KEY=VALUE pairs.
from gamlp.recipe.settings_file import load_yaml, parse_changes, parse_value, read_yaml

# Names of the shipped recipes; that of a dataset whose settings are published.
from gamlp.recipe.shipped_files import published_recipe, shipped_names

# Search spaces: which keys a search may change and to what; the recipe of its first trial and of a later one.
from gamlp.recipe.space import Choice, Space, load_space, named_spaces, starting_point, suggest

__all__ = [
    "Attention",
    "Choice",
    "ConsistencySettings",
    "FeaturesSettings",
    "Metric",
    "ModelSettings",
    "PropagationSettings",
    "Recipe",
    "RelationsSettings",
    "SmoothingSettings",
    "Space",
    "TrainingSettings",
    "described",
    "is_own",
    "load_space",
    "load_yaml",
    "named_spaces",
    "parse_changes",
    "parse_value",
    "published_recipe",
    "read_yaml",
    "shipped_names",
    "starting_point",
    "suggest",
]
