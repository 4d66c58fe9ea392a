"""A model card: what a run is, in Markdown, from what was measured and written down; nothing else is said."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import yaml

from gamlp.errors import GamlpError, printable
from gamlp.graph import Graph
from gamlp.models import labels_used
from gamlp.propagation import HopStore, structural_words
from gamlp.report.leaderboard import read_leaderboard
from gamlp.report.words import counted, measured, percent, score_name
from gamlp.training import Bundle, RunFolder, best_seed, blend_words, metric_words, summary

_MOST = 25  # classes or columns that have a line each
_LETTERS = 80  # of a name
_PLAIN = ("loss",)  # that are no shares
_UNMEASURED = "not measured"
_KINDS = {"roc_auc": "roc_auc", "macro_f1": "f1", "average_precision": "average_precision"}  # as model hubs call them


def card_of(run: RunFolder, graph: Graph | None = None) -> str:
    """The card of a trained run. `graph`: the run's own, where it is at hand; edges are counted there."""
    return _Card(run, graph).text()


class _Card:
    def __init__(self, run: RunFolder, graph: Graph | None) -> None:
        self.run, self.graph = run, graph
        self.recipe, self.about = run.recipe(), run.about()
        self.bundles = run.bundles() if _has_seeds(run) else {0: Bundle.load(run.bundle_path, run.trust)}
        self.bundle = self.bundles[best_seed(self.bundles)]
        self.evaluation = run.evaluation()
        self.board = read_leaderboard(run.path)
        self.store = _store_of(run)
        self.name = self.store.manifest.graph if self.store is not None else run.path.resolve().name
        self.multi_label = self.bundle.multi_label

    def text(self) -> str:
        parts = [
            _front(self._matter()), f"# {_escaped(self.name)}: {_escaped(self._model_name())}", *self._words(),
            *self._data(), *self._schema(), *self._model(), *self._scores(), *self._calibration(), *self._limits(),
            *self._again(),
        ]  # fmt: skip
        return "\n\n".join(parts) + "\n"

    def _matter(self) -> dict[str, Any]:
        """What model hubs read."""
        found: dict[str, Any] = {
            "library_name": "gamlp",
            "pipeline_tag": "graph-ml",
            "tags": ["node-classification", "gamlp", f"gamlp-{_tag(self.recipe.model.name)}"],
        }
        if self.evaluation is not None:
            task = {"type": "node-classification", "name": "Node classification"}
            mean = self.evaluation["mean"]
            metrics = [{"type": "f1" if self.multi_label else "accuracy", "value": mean["score"]}]
            metrics[0]["name"] = f"test {score_name(self.multi_label)}"
            metrics += [
                {"type": kind, "value": mean[name], "name": f"test {metric_words(name)}"}
                for name, kind in _KINDS.items()
                if _is_number(mean.get(name))
            ]
            data = {"name": printable(self.name), "type": _tag(self.name)}
            result = {"task": task, "dataset": data, "metrics": metrics}
            found["model-index"] = [{"name": printable(self.run.path.resolve().name), "results": [result]}]
        return found

    def _model_name(self) -> str:
        row = None if self.board is None else _row_of(self.board, self.board["chosen"])
        return self.recipe.model.name if row is None else str(row["title"])

    def _words(self) -> list[str]:
        words = self.run.words()
        if not words:
            words = ["What this run's predictions are worth was not measured: gamlp evaluate writes it down."]
        return ["## In short, and what to doubt", _bullets(_escaped(one) for one in words)]

    def _data(self) -> list[str]:
        store, graph = self.store, self.graph
        rows = [("graph", self.name)]
        if graph is not None and len(graph.node_types) > 1:
            rows += [(f"nodes of type {name}", f"{nodes.count:,}") for name, nodes in graph.node_types.items()]
        elif store is not None:
            rows.append(("nodes", f"{store.manifest.nodes:,}"))
        if graph is None:
            rows.append(("edges", "not counted: the graph is not at hand"))
        else:
            rows += [_edges(graph, name, pair[0]) for name, pair in graph.relation_pairs.items()]
        report = self.bundle.report
        rows.append(("classes", f"{len(self.bundle.classes):,}" + (", several a node" if self.multi_label else "")))
        rows.append(("training rows", f"{report['train_rows']:,}" if "train_rows" in report else _UNMEASURED))
        rows.append(("validation rows", f"{report['valid_rows']:,}" if "valid_rows" in report else _UNMEASURED))
        rows.append(("test rows with a known label", self._test_rows()))
        rows.append(("rows without a label", self._unlabelled()))
        return ["## Data", _table(("", ""), rows), *self._classes()]

    def _test_rows(self) -> str:
        if self.evaluation is not None:
            return f"{self.evaluation['rows']:,}"
        store = self.store
        if store is None or store.split is None or store.labels is None:
            return "not counted"
        return f"{np.count_nonzero(store.labels.known_at(store.split.test)):,}, not scored"

    def _unlabelled(self) -> str:
        store = self.store
        return (
            "not counted" if store is None or store.labels is None else f"{np.count_nonzero(~store.labels.known()):,}"
        )

    def _classes(self) -> list[str]:
        counts = self.bundle.report.get("class_counts")
        if counts is None or len(counts) != len(self.bundle.classes):
            return []
        order = sorted(range(len(counts)), key=lambda place: -counts[place])
        rows = [(self.bundle.classes[place], f"{counts[place]:,}") for place in order[:_MOST]]
        more = [f"The {_MOST} most frequent of {len(counts):,} classes."] if len(counts) > _MOST else []
        return [_table(("class", "training rows"), rows), *more]

    def _schema(self) -> list[str]:
        bundle = self.bundle
        found = ["## Schema"]
        if self.recipe.features.structural == "alone":
            made = [structural_words(tuple(columns)) for columns in bundle.columns.values()]
            return [*found, f"Features are made of the graph's edges: {'; '.join(made) or 'no tables are read'}."]
        if not bundle.columns:
            what = f"{counted(bundle.shape.features, 'feature')} by position: columns have no names"
            return [*found, f"{what}, and none was encoded."]
        typed = len(bundle.columns) > 1
        rows = [
            (*([node_type] if typed else []), one.name, one.type, str(one.width), _how(one.state))
            for node_type, columns in bundle.columns.items()
            for one in columns
        ]
        head = (*(["nodes"] if typed else []), "column", "type", "features", "encoded by")
        found.append(_table(head, rows[:_MOST]))
        return [*found, f"The first {_MOST} of {len(rows):,} columns."] if len(rows) > _MOST else found

    def _model(self) -> list[str]:
        bundle, recipe = self.bundle, self.recipe
        about = [f"Model `{recipe.model.name}`" + (f": {_escaped(recipe.about)}" if recipe.about else "") + "."]
        if (blend := blend_words(bundle.report)) is not None:
            about.append(f"It is {_escaped(blend)}.")
        numbers = sum(value.numel() for value in bundle.weights.values() if value.is_floating_point())
        about.append(f"It has {counted(numbers, 'number')} as weights.")
        hops, heard = recipe.propagation.hops, labels_used(recipe)
        deep = f"It reads hops 0 to {hops} of features" if hops else "It reads a node's own features"
        deep += f" and hops of known labels up to {recipe.propagation.label_hops}." if heard else ", and no labels."
        about.append(deep)
        return ["## Model", " ".join(about), f"```yaml\n{recipe.to_yaml().strip()}\n```"]

    def _scores(self) -> list[str]:
        first = self.bundle
        valid = summary([bundle.valid for bundle in self.bundles.values()]) if first.valid else None
        parts: dict[str, Mapping[str, Any] | None] = {"validation": valid, "test": self.evaluation}
        titles = {
            "score": score_name(self.multi_label), "macro_f1": "macro-F1", "balanced_accuracy": "balanced accuracy",
            "roc_auc": "ROC-AUC", "average_precision": "average precision", "loss": "log-loss",
        }  # fmt: skip
        seeds = len(self.bundles)
        bases = {"validation": first.report.get("base") or {}, "test": (self.evaluation or {}).get("base") or {}}
        rows = []
        for name, title in titles.items():
            cells = []
            for part, known in parts.items():
                cells += [_spread(known, name, seeds), _number(name, bases[part].get(name))]
            if any(cell != _UNMEASURED for cell in cells[::2]):  # the model's own
                rows.append((title, *cells))
        what = "one answer for all"
        found = ["## Scores"]
        if rows:
            found.append(_table(("", "validation", f"validation, {what}", "test", f"test, {what}"), rows))
            over = f"Mean ± sample deviation over {seeds} seeds." if seeds > 1 else "One seed: no deviation is known."
            chose = " Validation rows took part in choosing the model, so their scores flatter."
            answer = "the same most frequent labels" if self.multi_label else "the most frequent class of training rows"
            found.append(f"{over}{chose} One answer for all is {answer}.")
        else:
            found.append("Neither validation nor test rows were scored.")
        if self.evaluation is None:
            found.append("Test rows were not scored: `gamlp evaluate` does it once.")
        return [*found, *self._board(), *self._by_class()]

    def _board(self) -> list[str]:
        board = self.board
        if board is None:
            return ["Other models were not compared: `gamlp run` does it."]
        rows = [
            (
                ("→ " if row["name"] == board["chosen"] else "") + str(row["title"]),
                _measure(board["metric"], row["valid"], row["error"]),
                _measure(board["metric"], row["test"]),
            )
            for row in board["rows"][:_MOST]
        ]
        said = f"What was tried, by {board['title']}; → is this model; ± is the standard error."
        return [said, _table(("model", "validation", "test"), rows)]

    def _by_class(self) -> list[str]:
        found = sorted((self.evaluation or {}).get("classes", []), key=lambda one: -one["rows"])
        if not found:
            return []
        rows = [
            (one["class"], *(percent(one[name]) for name in ("precision", "recall", "f1")), f"{one['rows']:,}")
            for one in found[:_MOST]
        ]
        more = [f"The {_MOST} largest of {len(found):,} classes."] if len(found) > _MOST else []
        return [_table(("class, of test rows", "precision", "recall", "F1", "rows"), rows), *more]

    def _calibration(self) -> list[str]:
        known = self.bundle.report.get("calibration")
        said = ["## Calibration"]
        if known is None:
            said.append("No temperature was fitted: probabilities are as training left them.")
        elif known["temperature"] == 1:
            said.append(
                f"No temperature lowers the log-loss of {counted(known['rows'], 'validation row')}: probabilities are "
                f"as training left them, with an expected calibration error of {percent(known['ece'])} there."
            )
        else:
            said.append(
                f"Logits are divided by {known['temperature']:g}, fitted on "
                f"{counted(known['rows'], 'validation row')}: the expected calibration error there is "
                f"{percent(known['ece'])} with it and {percent(known['ece_before'])} without."
            )
        ece: Any = ((self.evaluation or {}).get("mean") or {}).get("ece")
        said.append(f"On test rows it is {percent(ece)}." if _is_number(ece) else f"On test rows it was {_UNMEASURED}.")
        return said

    def _limits(self) -> list[str]:
        return ["## Limits", _bullets([*self._newcomers(), *self._leaks(), *self._untrained()])]

    def _newcomers(self) -> list[str]:
        bundle, recipe = self.bundle, self.recipe
        if recipe.features.structural == "alone":
            need = "A new node needs edges alone, but its features are made of the graph around it, not of a question."
        elif bundle.columns:
            names = [one.name for columns in bundle.columns.values() for one in columns]
            some = ", ".join(f"`{_code(name)}`" for name in names[:_MOST]) + (" …" if len(names) > _MOST else "")
            need = f"A new node needs the columns {some}, and the ids of the nodes it is joined to."
        else:
            numbers = counted(bundle.shape.features, "number")
            need = f"A new node needs {numbers} as features, and the ids of the nodes it is joined to."
        found = [
            need,
            "Served (`gamlp serve`), hops and degrees of the nodes that a new one is joined to stay as they were until "
            "`gamlp refresh`; how far answers drift meanwhile is measured there, not here.",
        ]
        if any(one.state is not None for columns in bundle.columns.values() for one in columns):
            found.append(
                "What training never saw in a column, a new category or a gap where there was none, is filled or left "
                "out as its encoder does: answers for such nodes were not measured apart."
            )
        return found

    def _leaks(self) -> list[str]:
        recipe, found = self.recipe, []
        if recipe.training.setting == "inductive":
            found.append("Training rows saw only each other: edges to validation and test nodes were left out.")
        else:
            found.append(
                "Training was transductive: features and edges of validation and test nodes were part of the graph, "
                "their labels were not. On nodes that come later it may do worse."
            )
        if labels_used(recipe):
            folds = recipe.propagation.folds
            how = (
                f"those of training rows are cross-fitted in {folds} folds, without their own"
                if folds > 1
                else "a training row's own label comes back to it through its neighbours, as in the paper"
            )
            found.append(
                f"The model reads known labels around a node: {how}. Where fewer labels are known it may do worse."
            )
        if recipe.propagation.as_of_split:
            found.append("The split is by time: rows see edges until the end of their own part alone.")
        if rows := self.bundle.report.get("unlabelled_rows"):
            found.append(f"Training read {counted(rows, 'row')} without labels too.")
        return found

    def _untrained(self) -> list[str]:
        counts = self.bundle.report.get("class_counts") or []
        names = [_escaped(name) for name, count in zip(self.bundle.classes, counts) if not count]
        some = ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "")
        return [f"No training row has the class {some}: never learned."] if names else []

    def _again(self) -> list[str]:
        origin = self.about.graph
        said = ["## How to reproduce"]
        if origin is None:
            said.append("The run was trained on a store of hops, and does not know its graph's place.")
        else:
            inside = origin.graph.startswith("./")
            graph = "RUN/graph" if inside else origin.graph
            place = shlex.quote(_code(graph))
            command = f"gamlp train {place} --recipe recipe.yaml --seed {origin.seed} --out AGAIN"
            where = "`recipe.yaml` is the run's own, and the recipe above."
            where += " `RUN/graph` is the folder of the graph inside the run." if inside else ""
            said += [f"```sh\n{command}\n```", where]
        seeds = ", ".join(str(seed) for seed in self.recipe.training.seeds)
        said.append(
            f"Seeds: {seeds}. Trained with gamlp {self.bundle.made_with}; the versions of other packages were not "
            f"written down. This card was written with gamlp {version('gamlp')}, torch {version('torch')} and Python "
            f"{platform.python_version()}."
        )
        spent = self.run.timings()
        names = {"preparation": "preparation", "evaluation": "evaluation"}
        times = [f"{title} took {spent[name]:.1f} s" for name, title in names.items() if name in spent]
        if times:
            said.append(f"On the machine it was made on, {' and '.join(times)}.")
        return said


def _has_seeds(run: RunFolder) -> bool:
    """A run that was copied for others may have its best bundle alone."""
    return all(run.seed_path(seed).exists() for seed in run.recipe().training.seeds)


def _store_of(run: RunFolder) -> HopStore | None:
    try:
        return HopStore.open(run.store_path())
    except GamlpError:
        return None


def _edges(graph: Graph, name: str, relation: str) -> tuple[str, str]:
    found = graph.relations[relation]
    both_ways = not found.directed and found.source == found.target
    count = found.entries // 2 if both_ways else found.entries
    joins = f", {found.source} → {found.target}" if found.source != found.target else ""
    kinds = [word for word, true in (("directed", found.directed), ("weighted", found.weighted)) if true]
    title = f"edges of {name}" if len(graph.relation_pairs) > 1 else "edges"
    return title, f"{count:,}{joins}{''.join(f', {kind}' for kind in kinds)}"


def _how(state: Mapping[str, Any] | None) -> str:
    """An encoder in words, as far as its numbers are few."""
    if state is None:
        return "untouched"
    numbers = [f"{name} {state[name]:.6g}" for name in ("center", "scale", "fill") if _is_number(state.get(name))]
    if isinstance(state.get("values"), list):
        numbers.append(counted(len(state["values"]), "value"))
    if state.get("buckets"):
        numbers.append(f"{counted(state['buckets'], 'feature')} by hash for others")
    if isinstance(state.get("quantiles"), list):
        numbers.append(counted(len(state["quantiles"]), "quantile"))
    if state.get("gaps"):
        numbers.append("gaps have a feature")
    return ", ".join(numbers) or str(state.get("kind", ""))


def _row_of(board: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((row for row in board["rows"] if row["name"] == name), None)


def _measure(metric: str, value: float | None, error: float | None = None) -> str:
    if value is None:
        return _UNMEASURED
    spread = "" if error is None else f" ± {error:.4f}" if metric == "log_loss" else f" ± {100 * error:.1f}"
    return measured(metric, value) + spread


def _spread(found: Mapping[str, Any] | None, name: str, seeds: int) -> str:
    if found is None or not _is_number(found["mean"].get(name)):
        return _UNMEASURED
    mean, deviation = found["mean"][name], found["deviation"].get(name)
    shown = _number(name, mean)
    if seeds < 2 or not _is_number(deviation):
        return shown
    return f"{shown} ± {deviation:.4f}" if name in _PLAIN else f"{shown} ± {100 * deviation:.1f}"


def _number(name: str, value: Any) -> str:
    if not _is_number(value):
        return _UNMEASURED
    return f"{value:.4f}" if name in _PLAIN else percent(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(value))


def _front(content: Mapping[str, Any]) -> str:
    return f"---\n{yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True).strip()}\n---"


def _tag(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LETTERS] or "graph"


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {one}" for one in sentences)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(_escaped(_clipped(cell)) for cell in row)} |" for row in rows)])


def _clipped(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _escaped(text: str) -> str:
    r"""Text whatever it holds: no markup of Markdown or HTML, in one line.

    >>> print(_escaped("a|b <i>*x*"))
    a\|b \<i\>\*x\*
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", printable(text))


def _code(text: str) -> str:
    """Inside a span of code, which nothing but its own mark ends."""
    return printable(text).replace("`", "'")
