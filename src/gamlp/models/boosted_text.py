"""The text of boosted trees in a bundle: what of LightGBM's text is kept, and that it is one before it is parsed.

A bundle may come from anybody. LightGBM's parser trusts what it reads: an index beyond its array, or a tree that leads
back to itself, would read foreign memory or never end. So every tree is checked here first.
"""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError

_MOST_BYTES = 1 << 30
_MOST_LEAVES = 1 << 16
_END = "end of trees"
_HEAD = ("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective")
_NAMED = ("feature_names", "feature_infos")
_SPLITS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")  # one of each a split


def kept_text(text: str) -> str:
    """Trees alone: no parameters (they name threads), and no sizes of trees, by which the parser would jump."""
    trees, _, _ = text.partition(_END)
    return "\n".join(line for line in trees.split("\n") if not line.startswith("tree_sizes=")) + f"{_END}\n"


def checked_text(data: bytes, *, columns: int, outputs: int) -> str:
    """The text, where it is one of trees over so many columns with so many outputs; anything else is refused."""
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError("too large")
        text = data.decode("ascii")
        head, *trees = text.removesuffix(f"{_END}\n").split("\nTree=")
        if len(text) == len(text.removesuffix(f"{_END}\n")):
            raise ValueError("cut off")
        _check_head(head, columns, outputs)
        for number, tree in enumerate(trees):
            _check_tree(tree, number, columns)
        if not trees or len(trees) % outputs:
            raise ValueError("trees are missing")
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise GamlpError("the bundle's trees do not fit its recipe", hint="it was changed: train again") from error
    return text


def _check_head(text: str, columns: int, outputs: int) -> None:
    first, *lines = text.split("\n")
    found = _pairs(lines)
    if first != "tree" or set(found) != {*_HEAD, *_NAMED}:
        raise ValueError("no head of trees")
    wanted = {"num_class": outputs, "num_tree_per_iteration": outputs, "label_index": 0, "max_feature_idx": columns - 1}
    if any(int(found[name]) != number for name, number in wanted.items()):
        raise ValueError("of another shape")
    if found["version"] != "v4" or any(len(found[name].split(" ")) != columns for name in _NAMED):
        raise ValueError("of another version or width")
    objective = "binary sigmoid:1" if outputs == 1 else f"multiclass num_class:{outputs}"
    if found["objective"] != objective:
        raise ValueError("of another objective")


def _check_tree(text: str, number: int, columns: int) -> None:
    """One tree: its children come after it, its columns are there, it has no categories and no linear leaves."""
    first, *lines = text.split("\n")
    found = _pairs(lines)
    leaves = int(found["num_leaves"])
    if int(first) != number or not 1 <= leaves <= _MOST_LEAVES or (found["num_cat"], found["is_linear"]) != ("0", "0"):
        raise ValueError("no tree of numbers")
    if len(_numbers(found["leaf_value"])) != leaves or not np.isfinite(float(found["shrinkage"])):
        raise ValueError("leaves are missing")
    if leaves == 1:
        return
    splits = {name: _numbers(found[name]) for name in _SPLITS}
    if any(len(values) != leaves - 1 for values in splits.values()):
        raise ValueError("splits are missing")
    if not np.isin(splits["decision_type"], np.arange(0, 12, 2)).all():  # the lowest bit says categories
        raise ValueError("a split by categories")
    if not ((splits["split_feature"] >= 0) & (splits["split_feature"] < columns)).all():
        raise ValueError("a column that is not there")
    children = np.concatenate([splits["left_child"], splits["right_child"]])
    parents = np.tile(np.arange(leaves - 1), 2)
    inner = children >= 0
    if not (children[inner] > parents[inner]).all() or len(np.unique(children)) != 2 * (leaves - 1):
        raise ValueError("a tree that leads back")
    if children.min() < -leaves or children.max() > leaves - 2 or (children % 1).any():
        raise ValueError("a child that is not there")
    if set(found) - _OF_TREES:
        raise ValueError("more than a tree")


_OF_TREES = {
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "is_linear",
    "shrinkage",
}  # fmt: skip


def _pairs(lines: list[str]) -> dict[str, str]:
    """{name: value} of lines; each name once."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, mark, value = line.partition("=")
            if not mark or name in found:
                raise ValueError("no line of a tree")
            found[name] = value
    return found


def _numbers(text: str) -> Array:
    values = np.array([float(value) for value in text.split(" ")])
    if not np.isfinite(values).all():
        raise ValueError("no number")
    return values
