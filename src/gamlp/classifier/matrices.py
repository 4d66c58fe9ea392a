"""Features as scikit-learn has them, an array `[nodes, features]`, checked by its rules and told in its words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_consistent_length, validate_data

from gamlp.errors import GamlpError


class WrongInput(GamlpError, ValueError):
    """What was given cannot be meant: also a ValueError, as scikit-learn expects."""


def is_matrix(value: Any) -> bool:
    """Features alone: an array, a tensor, a sparse matrix or lists."""
    return isinstance(value, list) or scipy.sparse.issparse(value) or hasattr(value, "__array__")


def check_features(estimator: BaseEstimator, x: Any, *, fitting: bool) -> Any:
    """A matrix of finite numbers; where it is predicted of, as wide as that of fit."""
    found = x.detach().cpu().numpy() if hasattr(x, "detach") else x
    return validate_data(
        estimator, found, reset=fitting, accept_sparse=True, dtype="numeric", ensure_min_samples=2 if fitting else 1
    )


def check_targets(x: Any, y: Any, *, fitting: bool) -> Any:
    """One label a node, or zeros and ones of many; None, NaN and negative numbers stay: those are unknown."""
    if y is None:
        if fitting:
            raise WrongInput(
                "fit requires y to be passed, but the target y is None", hint="give fit(x, y, edges=edges)"
            )
        return None
    values = y.detach().cpu().numpy() if hasattr(y, "detach") else np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected: it is taken as one label a node"
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise WrongInput(f"y should be a 1d array, got an array of shape {values.shape} instead")
    check_consistent_length(x, values)
    if values.dtype.kind == "f":
        assert_all_finite(values, allow_nan=True, input_name="y")
        check_classification_targets(values[~np.isnan(values)])
    return values
