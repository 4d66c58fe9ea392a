"""Types of columns: the words of `--column NAME=TYPE` and of schema.yaml."""

from __future__ import annotations

from gamlp.errors import GamlpError

# What a person may write → what it means.
COLUMN_TYPES = {
    "number": "numbers, scaled as their distribution asks for",
    "standard": "numbers: minus the mean, by the standard deviation",
    "robust": "numbers: minus the median, by the range between quartiles",
    "quantile": "numbers: their rank, evenly from -1.73 to 1.73",
    "as-is": "numbers, untouched",
    "boolean": "true or false: 1 or 0",
    "category": "one of some values: a column each, the rare ones of many share columns",
    "date": "days or times: elapsed days, and the place in the week, the year and the day",
    "vector": "lists of numbers, untouched",
    "vector-l2": "lists of numbers, scaled to length 1",
    "text": "sentences: their words, counted in 256 features by hash",
    "id": "names of rows: left out",
    "free-text": "sentences: left out",
    "constant": "one value: left out",
    "drop": "left out",
}
LEFT_OUT = frozenset({"id", "free-text", "constant", "drop"})
NUMBER_TYPES = frozenset({"number", "standard", "robust", "quantile", "as-is"})
SPREAD_TYPES = frozenset({"number", "robust", "quantile"})  # need more than mean and deviation
VECTOR_TYPES = frozenset({"vector", "vector-l2"})


def known_type(word: str, column: str) -> str:
    """A type of a column as somebody wrote it."""
    if word not in COLUMN_TYPES:
        raise GamlpError(f"'{word}' is no type of a column", column=column, hint=f"types are {', '.join(COLUMN_TYPES)}")
    return word
