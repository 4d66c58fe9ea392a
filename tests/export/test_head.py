"""The head that is written down: the bundle's own answers, in operations that formats have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.export.head import check_agrees, example, head_of, input_names, largest_difference, metadata_of, shapes_of
from gamlp.export.torch_files import exported_program
from gamlp.models import Shape
from tests.export.bundles import ONE, OWN, VARIANTS, gamlp_of, model_bundle, typed_bundle


def answers(bundle: Any, change: float = 0.0) -> Any:
    head = head_of(bundle)

    def answer(*hops: torch.Tensor) -> Any:
        with torch.no_grad():
            probabilities, logits = head(*hops)
        return probabilities.numpy() + np.float32(change), logits.numpy()

    return answer


def test_the_head_answers_as_the_bundle_does() -> None:
    bundle = gamlp_of("recursive")
    assert bundle.temperature != 1
    assert largest_difference(bundle, answers(bundle)) < 1e-6
    assert largest_difference(replace(bundle, temperature=1.0), answers(bundle)) > 1e-3, "the temperature is within"


def test_several_labels_a_node_are_sigmoids() -> None:
    bundle = gamlp_of("jk", multi_label=True)
    probabilities, logits = answers(bundle)(*example(bundle))
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-logits)), rtol=1e-5)
    assert largest_difference(bundle, answers(bundle)) < 1e-6


@pytest.mark.parametrize("change", [2e-5, -1.0, float("nan")])
def test_what_differs_is_refused_with_its_difference(change: float) -> None:
    bundle = gamlp_of("recursive")
    with pytest.raises(GamlpError, match=r"ONNX differs from the run by .*, more than 1e-05, and is not left behind"):
        check_agrees(bundle, answers(bundle, change), "ONNX")


def test_steep_networks_are_compared_where_their_logits_are_usual() -> None:
    """Of features of 0.001, random hops of size 1 give logits in the thousands, whose rounding is no difference."""
    bundle = model_bundle("sgc", ONE)
    weights = {name: value * (1e3 if name.endswith("0.weight") else 1.0) for name, value in bundle.weights.items()}
    steep = replace(bundle, weights=weights)
    head = head_of(steep)

    def answer(*hops: torch.Tensor) -> Any:
        with torch.no_grad():
            logits = head.double()(*(one.double() for one in hops))[1].float()  # another order of rounding
        return torch.softmax(logits, 1).numpy(), logits.numpy()

    assert check_agrees(steep, answer, "float64") < 1e-5
    assert largest_difference(steep, lambda *hops: tuple(1.001 * one for one in answer(*hops))) > 1e-4


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[] if name == "recursive" else pytest.mark.slow) for name in VARIANTS]
)
def test_operations_that_are_written_down_give_what_training_has(variant: str) -> None:
    """Attention runs through autograd functions of its own, and where it is written down through plain operations."""
    bundle = gamlp_of(variant)
    program = exported_program(bundle)
    operations = {str(node.target) for node in program.graph.nodes}
    assert not any("logaddexp" in name or "autograd" in name for name in operations)
    module = program.module()

    def answer(*hops: torch.Tensor) -> Any:
        with torch.no_grad():
            probabilities, logits = module(*hops)
        return probabilities.numpy(), logits.numpy()

    assert largest_difference(bundle, answer) < 1e-6


def test_large_scores_do_not_overflow() -> None:
    """Scores of a thousand: an exponent of them is more than float32 holds."""
    bundle = gamlp_of("recursive")
    weights = {name: value * (1e4 if "attention.vectors" in name else 1.0) for name, value in bundle.weights.items()}
    bundle = replace(bundle, weights=weights)
    module = exported_program(bundle).module()
    with torch.no_grad():
        probabilities, _ = module(*example(bundle))
    assert bool(probabilities.isfinite().all())
    expected = answers(bundle)(*example(bundle))[0]
    np.testing.assert_allclose(probabilities.numpy(), expected, atol=1e-5)


def test_inputs_are_what_the_model_reads() -> None:
    assert input_names(gamlp_of("recursive")) == ("x", "y") and input_names(gamlp_of("no labels")) == ("x",)
    assert shapes_of(gamlp_of("recursive")) == {"x": (1, 3, 5), "y": (1, 3, 3)}
    assert shapes_of(typed_bundle("gamlp")) == {"x": (3, 3, 4), "y": (2, 3, 3)}
    assert shapes_of(model_bundle("sgc", ONE)) == {"x": (1, 3, 5)}


def test_the_file_says_what_it_is() -> None:
    about = metadata_of(gamlp_of("jk"))
    assert about["gamlp.classes"] == '["class 0", "class 1", "class 2"]' and about["gamlp.temperature"] == "1.7"
    assert about["gamlp.inputs"] == '{"x": ["batch", 1, 3, 5], "y": ["batch", 1, 3, 3]}'
    assert "attention: jk" in about["gamlp.recipe"] and about["gamlp.version"]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_label", [False, True])
def test_trees_as_tensors_answer_as_lightgbm(classes: int, multi_label: bool) -> None:
    pytest.importorskip("lightgbm")
    from gamlp.models import KnownRows, ToSolve
    from gamlp.progress import silent
    from gamlp.recipe import Recipe, TrainingSettings
    from gamlp.training import make_model, weights_of
    from tests.conformance.models import hops
    from tests.export.bundles import bundle_of

    shape = Shape(features=4, classes=classes, hops=2, label_hops=1)
    options = {"num_iterations": 20, "min_data_in_leaf": 1}
    depth = {"hops": 2, "label_hops": 1, "folds": 5}
    recipe = Recipe.of({"propagation": depth, "model": {"name": "lightgbm", "options": options}})
    model = make_model(recipe, shape)
    x, y = hops(shape, 80, 3)
    target = (x[:, 0, 1, 0] > 0).long() + (x[:, 0, 2, 1] > 1).long()
    target = target.clamp(max=classes - 1)
    if multi_label:
        target = torch.nn.functional.one_hot(target, classes).float()
    model.solve(ToSolve(KnownRows(x, y, target), None, TrainingSettings(), 0, lambda logits: (0.0,), silent))
    bundle = bundle_of(recipe, shape, weights=weights_of(model), multi_label=multi_label)
    assert largest_difference(bundle, answers(bundle)) == 0.0, "float64 sums, and every row goes the same way"
    trees, table = head_of(bundle).model, x.flatten(1)
    splits = np.flatnonzero((trees.left != trees.right).numpy() & (trees.feature < table.shape[1]).numpy())
    for row, split in zip(range(len(table)), np.resize(splits, len(table))):  # on a threshold rows go left in both
        table[row, trees.feature[split]] = trees.threshold[split]
    with torch.no_grad():
        assert torch.equal(head_of(bundle)(x, y)[1], bundle.model()(x, y))


def test_a_format_without_a_form_is_one_sentence() -> None:
    bundle = model_bundle(OWN, ONE)
    from gamlp.export.head import cannot_hold

    sentence = str(cannot_hold(bundle, "ONNX", RuntimeError("\n  no such operation.\nmore")))
    assert sentence == (
        f"ONNX cannot hold model '{OWN}' (no such operation); use gamlp export --to mlflow, which keeps the run itself."
    )
