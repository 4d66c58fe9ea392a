"""Shares of subsets of relations in every hop: counted by hand on a small model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gamlp.explanation import subsets as explain_subsets
from gamlp.explanation.subsets import ChannelShares, SubsetShares, shares_by_subset
from gamlp.models.gamlp import GAMLP
from gamlp.models.sign import SIGN
from gamlp.run.preparation import prepare
from gamlp.training.rows import Prepared
from tests.training.small import ONE_THREAD, make_graph
from tests.training.small import RECIPE as PLAIN
from tests.training.typed_small import RECIPE, planted


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    recipe = RECIPE.changed({"relations.subsets": [["writes"], ["cites", "writes"], ["cites"]]})
    return prepare(planted().graph(), recipe, tmp_path_factory.mktemp("typed"), resources=ONE_THREAD)


def model_of(prepared: Prepared, seed: int = 0) -> GAMLP:
    torch.manual_seed(seed)
    model = GAMLP(prepared.shape, hidden=5)
    assert model.mixing is not None and model.label_mixing is not None
    for mixing in (model.mixing, model.label_mixing):
        torch.nn.init.normal_(mixing.weight)
    return model


def test_shares_are_those_of_the_equation(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_subsets, "_BATCH", 7)  # several batches, the last of them short
    model, source = model_of(prepared), prepared.train
    found = shares_by_subset(model, source)
    assert found is not None and found.rows == len(source) and not found.sampled
    x, y = source.gather(np.arange(len(source)))
    assert model.mixing is not None and model.label_mixing is not None and y is not None
    sizes = np.zeros((prepared.shape.channels, 3))
    node_types = list(dict.fromkeys(part.node_type for part in prepared.shape.parts))
    for channel, part in enumerate(prepared.shape.parts):
        weight = model.mixing.weight[channel].detach().numpy()
        matrix = model.mixing.maps[node_types.index(part.node_type)].weight.detach().numpy()  # type: ignore[union-attr]
        for hop in range(3):
            told = [np.abs(weight[hop] * (matrix @ x[row, channel, hop, : part.width])) for row in range(len(x))]
            sizes[channel, hop] = np.mean(told)
    for channel, part in enumerate(prepared.shape.parts):
        shown = found.features[channel]
        assert (shown.subset, shown.node_type) == (part.view, part.node_type)
        assert shown.shares == pytest.approx(sizes[channel] / sizes.sum(0), abs=1e-5)
        assert shown.weights == pytest.approx(model.mixing.weight[channel].detach().abs().mean(1).numpy(), abs=1e-6)
    assert found.labels is not None and [shown.subset for shown in found.labels] == list(prepared.shape.label_views)
    spoken = np.abs(model.label_mixing.weight.detach().numpy()[None] * y).mean((0, 3))
    for channel, shown in enumerate(found.labels):
        assert shown.shares == pytest.approx(spoken[channel] / spoken.sum(0), abs=1e-5)


def test_differences_of_hops_belong_to_their_own_channel(prepared: Prepared) -> None:
    """Shares of |w ∘ Px[k] + v ∘ P(x[k] - x[k-1])|, and |w| + |v|: as many channels, by the names they have."""
    torch.manual_seed(0)
    model = GAMLP(prepared.shape, hidden=5, high_pass=True, beta=0.0)
    assert model.mixing is not None
    torch.nn.init.normal_(model.mixing.weight)
    found = shares_by_subset(model, prepared.train)
    assert found is not None and found.labels is None
    x, _ = prepared.train.gather(np.arange(len(prepared.train)))
    node_types = list(dict.fromkeys(part.node_type for part in prepared.shape.parts))
    low, high = model.mixing.weight.detach().numpy().reshape(2, prepared.shape.channels, 3, 5)
    sizes = np.zeros((prepared.shape.channels, 3))
    for channel, part in enumerate(prepared.shape.parts):
        matrix = model.mixing.maps[node_types.index(part.node_type)].weight.detach().numpy()  # type: ignore[union-attr]
        own = x[:, channel, :, : part.width] @ matrix.T
        steps = np.concatenate([np.zeros_like(own[:, :1]), own[:, 1:] - own[:, :-1]], 1)
        sizes[channel] = np.abs(low[channel] * own + high[channel] * steps).mean((0, 2))
    for channel, (part, shown) in enumerate(zip(prepared.shape.parts, found.features, strict=True)):
        assert (shown.subset, shown.node_type) == (part.view, part.node_type)
        assert shown.shares == pytest.approx(sizes[channel] / sizes.sum(0), abs=1e-5)
        assert shown.weights == pytest.approx((np.abs(low) + np.abs(high))[channel].mean(1), abs=1e-6)


def test_a_hops_shares_sum_to_one_and_types_add_up_by_subset(prepared: Prepared) -> None:
    model = model_of(prepared).train()
    found = shares_by_subset(model, prepared.train, most=5, seed=3)
    assert found is not None and model.training, "the model is left as it was"
    assert found.rows == 5 and found.sampled
    for signal in ("features", "labels"):
        by_subset = found.by_subset(signal)
        assert list(by_subset) == ["writes", "cites+writes", "cites"]
        assert np.sum(list(by_subset.values()), 0) == pytest.approx(np.ones(3), abs=1e-5)
    apart = [channel for channel in found.features if channel.subset == "writes"]
    assert [channel.node_type for channel in apart] == ["paper", "author"]
    assert found.by_subset()["writes"] == pytest.approx(np.sum([channel.shares for channel in apart], 0))
    again = shares_by_subset(model, prepared.train, most=5, seed=3)
    assert again == found != shares_by_subset(model, prepared.train, most=5, seed=4)


def test_a_type_that_does_not_reach_a_hop_has_no_share_in_it(prepared: Prepared) -> None:
    found = shares_by_subset(model_of(prepared), prepared.train)
    assert found is not None
    for channel in found.features:
        assert (channel.shares[0] == 0) == (channel.node_type == "author"), "a paper's own row is a paper's"


def test_a_hop_that_says_nothing_has_no_shares(prepared: Prepared) -> None:
    model = model_of(prepared)
    assert model.mixing is not None
    with torch.no_grad():
        model.mixing.weight[:, 1] = 0
    found = shares_by_subset(model, prepared.train)
    assert found is not None
    assert [channel.shares[1] for channel in found.features] == [0.0] * prepared.shape.channels


def test_models_that_mix_no_subsets_have_none(prepared: Prepared, tmp_path: Path) -> None:
    assert shares_by_subset(SIGN(prepared.shape, hidden=4), prepared.train) is None
    plain = prepare(make_graph(), PLAIN, tmp_path, resources=ONE_THREAD)
    assert shares_by_subset(GAMLP(plain.shape, hidden=4), plain.train) is None


def test_shares_by_subset_without_labels() -> None:
    one = ChannelShares("a", "paper", (0.5, 0.25), (1.0, 1.0))
    two = ChannelShares("a", "author", (0.25, 0.5), (1.0, 1.0))
    three = ChannelShares("b", "paper", (0.25, 0.25), (1.0, 1.0))
    shares = SubsetShares((one, two, three), None, 4, False)
    assert shares.by_subset() == {"a": (0.75, 0.75), "b": (0.25, 0.25)} and shares.by_subset("labels") == {}
