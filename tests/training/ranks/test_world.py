"""Two and three ranks equal one: the same batches, the same steps, weights within 1e-9 in float64."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gamlp.errors import GamlpError
from gamlp.training.batches import OwnBatches
from gamlp.training.checkpoint import Weights, read_tensors
from gamlp.training.ranks.batch_norm import SharedBatchNorm1d, share_batch_norms
from gamlp.training.ranks.launch import run_ranks
from gamlp.training.ranks.world import ALONE, World
from tests.training.ranks.ranks import CASES, CPU, digits_of, digits_scores, prepared_cases, trained_cases
from tests.training.small import RECIPE, hop_rows, make_graph, same_weights, store_of

ROOT = Path(__file__).parents[3]
HOW = ["held", "read"]


def run_with(processes: int, out: Path, *words: str) -> None:
    """Real processes on this machine."""
    command = [sys.executable, "-m", "tests.training.ranks.ranks", *words]
    with (out / "log").open("wb") as log:
        ended_well = run_ranks(command, processes, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, log)
    assert ended_well, (out / "log").read_text()[-3000:]


@pytest.fixture(scope="module")
def hops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hops")
    prepared_cases(folder)
    digits_of(folder)
    return folder


@pytest.fixture(scope="module")
def one(hops: Path) -> dict[str, Any]:
    return trained_cases(hops, ALONE)


@pytest.fixture(scope="module")
def one_of_digits(hops: Path) -> list[float]:
    return digits_scores(hops, ALONE)


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.long)])
def several(request: pytest.FixtureRequest, hops: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    out = tmp_path_factory.mktemp("ranks")
    run_with(request.param, out, str(hops), str(out))
    return request.param, out


def read(place: Path) -> tuple[dict[str, Any], Weights]:
    text, unchanged, weights = read_tensors(place)
    assert unchanged
    return json.loads(text), weights


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("case", CASES)
def test_ranks_train_to_the_weights_of_one_process(
    several: tuple[int, Path], one: dict[str, Any], case: str, how: str
) -> None:
    ranks, out = several
    expected = one[f"{case}, {how}"]
    found, weights = read(out / f"{case}, {how}.0")
    assert (found["epoch"], found["epochs"], found["stopped"]) == (expected.epoch, expected.epochs, expected.stopped)
    assert found["valid"]["score"] == pytest.approx(expected.valid["score"], abs=1e-12)
    assert found["valid"]["loss"] == pytest.approx(expected.valid["loss"], abs=1e-9)
    assert found["valid"].get("metric") == pytest.approx(expected.valid.get("metric"), abs=1e-12)
    assert ("metric" in found["valid"]) == ("training.metric" in CASES[case])
    assert weights.keys() == expected.weights.keys()
    for name, value in weights.items():
        assert value.dtype == expected.weights[name].dtype
        torch.testing.assert_close(value, expected.weights[name], rtol=0, atol=1e-9, msg=name)
    for rank in range(1, ranks):
        others, same = read(out / f"{case}, {how}.{rank}")
        assert same_weights(weights, same) and others == found


@pytest.mark.slow
def test_cases_are_no_empty_ones(one: dict[str, Any]) -> None:
    """Early stopping stops, a penalty and batch norm change the weights, and a parameter without gradient stays."""
    assert one["stops early, held"].stopped and one["stops early, held"].epochs < 60
    plain = one["balanced, held"].weights
    assert torch.equal(plain["unused"], torch.ones(2, dtype=torch.float64))
    base = {case: one[f"{case}, held"].weights["last.weight"] for case in CASES}
    assert not torch.equal(base["penalty"], base["balanced"])
    assert "norm.running_mean" in one["batch norm, held"].weights


@pytest.mark.slow
def test_a_run_of_several_ranks_goes_on_from_a_checkpoint_as_if_unbroken(several: tuple[int, Path]) -> None:
    """Or paused and gone on with. With dropout, whose streams differ by rank and are all kept."""
    ranks, out = several
    expected, weights = read(out / "unbroken.0")
    for rank in range(ranks):
        found, resumed = read(out / f"resumed.{rank}")
        assert same_weights(resumed, weights) and found == expected
        found, paused = read(out / f"paused.{rank}")
        assert same_weights(paused, weights) and found == expected
    streams = [value for name, value in read_tensors(out / "checkpoint")[2].items() if name.startswith("random")]
    assert len(streams) == ranks and len({bytes(value.numpy()) for value in streams}) == ranks


@pytest.mark.slow
@pytest.mark.parametrize("several", [2], indirect=True)
def test_with_dropout_and_batch_norm_ranks_are_as_accurate_as_one(
    several: tuple[int, Path], hops: Path, one_of_digits: list[float]
) -> None:
    found = json.loads((several[1] / "digits.json").read_text())
    assert found != one_of_digits  # dropout falls otherwise
    assert np.mean(found) == pytest.approx(np.mean(one_of_digits), abs=0.01) and np.mean(found) > 0.9


def test_shares_follow_each_other_and_differ_by_one_row_at_most() -> None:
    for count in (0, 1, 2, 7, 100):
        for size in (1, 2, 3, 8):
            parts = [World(rank, size).share(count) for rank in range(size)]
            assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])] and parts[-1][1] == count
            sizes = [end - begin for begin, end in parts]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("size", [2, 5, 1000])
def test_ranks_own_disjoint_rows_and_give_all_of_every_batch(tmp_path: Path, size: int) -> None:
    train = hop_rows(store_of(make_graph(), tmp_path / "hops"), "train", RECIPE)
    whole = list(train.batches(size, CPU).epoch(torch.Generator().manual_seed(4)))
    ranks = [OwnBatches(train, size, CPU, memory, world=World(rank, 3)) for rank, memory in enumerate((None, 0, None))]
    passes = [list(batches.epoch(torch.Generator().manual_seed(4))) for batches in ranks]
    for batch, *parts in zip(whole, *passes, strict=True):
        assert [part.whole for part in parts] == [len(batch.rows)] * 3
        own = [part.rows[: part.counted] for part in parts]
        assert sorted(np.concatenate(own)) == sorted(batch.rows)
        for part, owner in zip(parts, ranks):
            assert np.isin(part.rows, train.rows[owner.begin : owner.end]).all()
            assert part.share is not None and float(part.share.sum()) == pytest.approx(
                (part.counted or 0) / len(batch.rows)
            )
            labels = train.store.labels
            assert labels is not None and (part.target.numpy() == labels.values[part.rows]).all()


def test_fewer_training_rows_than_ranks_are_refused(tmp_path: Path) -> None:
    train = hop_rows(store_of(make_graph(), tmp_path / "hops"), "train", RECIPE)
    with pytest.raises(GamlpError, match="training rows are too few for 999 processes; use fewer --processes"):
        OwnBatches(train, 16, CPU, world=World(0, 999))


@pytest.mark.parametrize("shape", [(7, 4), (7, 4, 3)])
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}])
def test_batch_norm_of_all_rows_is_torchs_own(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    """Values, gradients and running statistics, over two batches; a world of one exchanges nothing."""
    torch.manual_seed(0)
    own, torchs = nn.BatchNorm1d(4, **options).double(), nn.BatchNorm1d(4, **options).double()
    share_batch_norms(own, World(0, 2))
    assert isinstance(own, SharedBatchNorm1d) and own.state_dict().keys() == torchs.state_dict().keys()
    own.world = ALONE
    for _ in range(2):
        x = 50 + torch.randn(shape, dtype=torch.float64)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        weight = torch.randn(shape, dtype=torch.float64)
        found, expected = (norm(value) for norm, value in zip((own, torchs), inputs))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        for value in (found, expected):
            (value.square() * weight).sum().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=1e-9)
    for name, value in torchs.state_dict().items():
        torch.testing.assert_close(own.state_dict()[name], value, rtol=0, atol=1e-10)
    own.eval(), torchs.eval()
    torch.testing.assert_close(own(x), torchs(x), rtol=0, atol=1e-10)


def test_rows_of_ranks_are_put_together_in_order_also_where_one_has_none() -> None:
    parts = [torch.arange(6.0).view(3, 2), torch.zeros(0, 0), 10 + torch.arange(4.0).view(2, 2)]

    class Three(World):
        def gathered(self, values: torch.Tensor) -> list[torch.Tensor]:
            if values.dtype == torch.int64:
                return [torch.tensor([*part.shape]) for part in parts]
            assert values.shape == (3, 2)
            return [torch.cat([part.view(-1, 2), torch.full((3 - len(part), 2), -1.0)]) for part in parts]

    for rank, own in enumerate(parts):
        assert torch.equal(Three(rank, 3).all_rows(own), torch.cat([parts[0], parts[2]]))
