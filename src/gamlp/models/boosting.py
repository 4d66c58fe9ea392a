"""Gradient boosting on hops: LightGBM on [X^(0) ‖ … ‖ X^(K) ‖ Y^(1) ‖ … ‖ Y^(L)]; its own text form is the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError, MissingExtra
from gamlp.models.boosted_text import checked_text, kept_text
from gamlp.models.columns import HopColumns
from gamlp.models.shape import HopWeights, Model, Shape
from gamlp.models.solving import KnownRows, ToSolve, class_weights

_USUAL_ROUNDS = 100  # where no validation rows say when to stop
_ALL_COLUMNS = 256  # that every tree may read; of more a share
_FINE, _COARSE = 255, 31  # bins of a column, of few and of many columns
_LITTLE = 5e-4  # of log-loss: what falls by less in all those rounds has ended
_TOLD = 5  # rounds between two lines of progress


class LightGBM(Model):
    """Trees on hops as columns (Ke et al., 2017), as many as lower the log-loss of validation rows.

    Settings have LightGBM's names. `min_data_in_leaf` None: 20, fewer of fewer than 1,000 rows; `feature_fraction`
    None: all of 256 columns, a share of more.

    >>> LightGBM(Shape(features=4, classes=3, hops=2), beta=0)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    reads_labels = True
    reads_operators = True
    learns_labels_by_heart = True  # from hops that hold a training row's own label: they must be cross-fitted

    def __init__(
        self,
        shape: Shape,
        *,
        beta: float = 1.0,
        num_iterations: int = 500,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        min_data_in_leaf: int | None = None,
        feature_fraction: float | None = None,
        lambda_l2: float = 1.0,
        early_stopping_round: int = 30,
    ) -> None:
        super().__init__()
        _library()  # lacking, it is said when the model is made: before hops are
        whole = {
            "num_iterations": num_iterations,
            "num_leaves": num_leaves,
            "early_stopping_round": early_stopping_round,
        }
        whole |= {} if min_data_in_leaf is None else {"min_data_in_leaf": min_data_in_leaf}
        for name, value in whole.items():
            low, high = (2, 4096) if name == "num_leaves" else (1, 100_000)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"{name} of LightGBM is a whole number from {low} to {high}, not {value!r}")
        shares = {
            "learning_rate": learning_rate,
            "feature_fraction": 1.0 if feature_fraction is None else feature_fraction,
        }
        for name, share in shares.items():
            if not isinstance(share, int | float) or not 0 < share <= 1:
                raise ValueError(f"{name} of LightGBM is above 0 and at most 1, not {share!r}")
        if not isinstance(lambda_l2, int | float) or not 0 <= lambda_l2 < float("inf"):
            raise ValueError(f"lambda_l2 of LightGBM is a number from 0, not {lambda_l2!r}")
        self.shape = shape
        self.columns = HopColumns(shape, labels=beta > 0)
        self.rounds, self.patience, self.leaf, self.share = (
            num_iterations,
            early_stopping_round,
            min_data_in_leaf,
            feature_fraction,
        )
        self.settings = {"learning_rate": learning_rate, "num_leaves": num_leaves, "lambda_l2": lambda_l2}
        self.text: Tensor
        self.ends: Tensor
        # One text, or of many labels a node one for each class, end to end; both are as long as was learned.
        self.register_buffer("text", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("ends", torch.zeros(0, dtype=torch.int64))
        self._boosters: list[Any] | None = None

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`; zeros before anything was learned."""
        if not len(self.ends):
            return x.new_zeros(len(x), self.shape.classes)
        table = self.columns.of(x, y).detach().cpu().numpy()
        if not len(table):
            return x.new_zeros(0, self.shape.classes)
        threads = torch.get_num_threads()
        told = [one.predict(table, raw_score=True, num_threads=threads) for one in self._read()]
        logits = torch.from_numpy(np.ascontiguousarray(np.stack(told, 1) if told[0].ndim == 1 else told[0]))
        if logits.shape[1] == 1 < self.shape.classes:  # of two classes: half against the first, half for the second
            logits = torch.cat([-logits / 2, logits / 2], 1)
        return logits.to(x.device, x.dtype)

    def solve(self, given: ToSolve) -> dict[str, float]:
        """Trees until the log-loss of validation rows has not fallen for some rounds; 100 rounds without any."""
        train, valid = given.train, given.valid
        table = self.columns.of(train.x, train.y).numpy()
        beside = None if valid is None else (valid, self.columns.of(valid.x, valid.y).numpy())
        weighed = given.settings.class_weights != "none"
        outputs = self.shape.classes if train.multi_label else 1
        texts, rounds = [], 0
        for output in range(outputs):
            weights = _row_weights(train.target, output, self.shape.classes) if weighed else None

            def told(number: int, output: int = output) -> None:
                given.progress("boosting", output * self.rounds + number, outputs * self.rounds, "rounds")

            learned = _Told(table, _asked(train, output), weights)
            watched = None if beside is None else _Told(beside[1], _asked(beside[0], output))
            booster = self._boosted(learned, watched, outputs == 1 and self.shape.classes > 2, given.seed, told)
            rounds += booster.best_iteration or booster.current_iteration()
            texts.append(kept_text(booster.model_to_string(num_iteration=booster.best_iteration or None)).encode())
        self.text = torch.frombuffer(bytearray(b"".join(texts)), dtype=torch.uint8)
        self.ends = torch.tensor(np.cumsum([len(text) for text in texts]), dtype=torch.int64)
        self._boosters = None
        return {"rounds": float(rounds)}

    def _boosted(
        self, learned: _Told, watched: _Told | None, several: bool, seed: int, told: Callable[[int], None]
    ) -> Any:
        """A booster of LightGBM's; `several` classes, or one against the rest."""
        lightgbm = _library()
        rows, columns = learned.table.shape
        parameters = self.settings | {
            **({"objective": "multiclass", "num_class": self.shape.classes} if several else {"objective": "binary"}),
            "min_data_in_leaf": self.leaf or max(2, min(20, rows // 50)),
            "feature_fraction": self.share or min(1.0, max(0.02, _ALL_COLUMNS / columns)),
            "max_bin": _FINE if columns <= _ALL_COLUMNS else _COARSE,
            "seed": seed % (1 << 31),
            "num_threads": torch.get_num_threads(),
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        names = [f"c{number}" for number in range(columns)]
        calls: list[Any] = [lambda state: told(state.iteration + 1) if state.iteration % _TOLD == 0 else None]
        data = lightgbm.Dataset(
            learned.table, learned.target, weight=learned.weights, feature_name=names, params=parameters
        )
        seen = []
        if watched is not None:
            seen.append(lightgbm.Dataset(watched.table, watched.target, reference=data, params=parameters))
            calls.append(lightgbm.early_stopping(self.patience, verbose=False, min_delta=_LITTLE))
        rounds = min(self.rounds, _USUAL_ROUNDS) if watched is None else self.rounds
        try:
            return lightgbm.train(parameters, data, rounds, valid_sets=seen, callbacks=calls)
        except lightgbm.basic.LightGBMError as error:
            raise GamlpError(f"LightGBM could not learn ({error})", hint="see model.options of the recipe") from error

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """Each hop's share of what all splits gained, the same for every node; of features and of labels."""
        gains = np.zeros(self.columns.count)
        for booster in self._read():
            gains += booster.feature_importance("gain")
        gain = torch.from_numpy(gains).to(torch.float32)
        features = _shares(gain[: self.columns.features], self.columns.hop, self.shape.hops + 1)
        labels = None
        if self.columns.labels:
            labels = _shares(gain[self.columns.features :], self.columns.label_hop - 1, self.shape.label_hops)
            labels = labels.to(x.device, x.dtype).repeat(len(x), 1)
        return HopWeights(features.to(x.device, x.dtype).repeat(len(x), 1), labels, 1)

    @property
    def outputs(self) -> int:
        """Of each text: one for every class, or one alone."""
        return self.shape.classes if self.shape.classes > 2 and len(self.ends) == 1 else 1

    def texts(self) -> list[str]:
        """LightGBM's own texts of the trees, each checked to be one."""
        begin, found = 0, []
        data = self.text.cpu().numpy().tobytes()
        for end in self.ends.tolist():
            found.append(checked_text(data[begin:end], columns=self.columns.count, outputs=self.outputs))
            begin = end
        return found

    def _read(self) -> list[Any]:
        """LightGBM's boosters of the texts."""
        if self._boosters is None:
            lightgbm = _library()
            self._boosters = [lightgbm.Booster(model_str=text) for text in self.texts()]
        return self._boosters

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take over texts of any length."""
        for name in ("text", "ends"):
            given = state_dict.get(f"{prefix}{name}")
            if isinstance(given, Tensor) and given.ndim == 1:
                setattr(self, name, torch.zeros(len(given), dtype=getattr(self, name).dtype))
        self._boosters = None
        super()._load_from_state_dict(state_dict, prefix, *rest)


@dataclass(frozen=True)
class _Told:
    """A table with what is asked of it."""

    table: Array
    target: Array
    weights: Array | None = None


def _asked(rows: KnownRows, output: int) -> Array:
    return (rows.target[:, output] if rows.multi_label else rows.target).contiguous().numpy()


def _library() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra("LightGBM", "boost") from error
    return lightgbm


def _row_weights(target: Tensor, output: int, classes: int) -> Array:
    """Of rows, balanced as in the loss of training."""
    has, has_not = class_weights(target, classes)
    if target.ndim == 1:
        return has[target].numpy()
    return torch.where(target[:, output] > 0.5, has[output], has_not[output]).numpy()


def _shares(gain: Tensor, hop: Tensor, count: int) -> Tensor:
    """Sums by hop, of one; alike where nothing was gained."""
    sums = torch.zeros(count).index_add(0, hop, gain)
    return sums / sums.sum() if float(sums.sum()) > 0 else torch.full((count,), 1 / count)
