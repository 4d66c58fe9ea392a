"""Several servers that share the weights: slices follow one journal, and after a restart all are as old."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights
from gamlp.training.rows import Prepared
from gamlp.training.server.checkpoint_sets import CheckpointSets
from gamlp.training.server.client import Client
from gamlp.training.server.parameter_server import ParameterServer
from gamlp.training.server.parameters import Layout, Parameters, cut, put_together, run_digest
from gamlp.training.server.slice_server import SliceServer, slice_run
from gamlp.training.server.streams import kinds_of
from gamlp.training.server.weight_slice import Entry, LostPush, WeightSlice
from tests.training.ranks.ranks import OWN
from tests.training.server.serving import RUN, certificate, fit_by, fit_with, served, slice_served, wait_for
from tests.training.small import RECIPE, make_graph, prepared_in, same_weights, trained

FIRST: Weights = {
    "first": torch.arange(12, dtype=torch.float64).reshape(3, 4) / 7,
    "last": torch.ones(5, dtype=torch.float64),
    "norm.running_mean": torch.zeros(3, dtype=torch.float64),
    "norm.num_batches_tracked": torch.tensor(0),
}
LAYOUT = Layout([(0.1, 1.0, ["first"]), (0.0, 0.5, ["last"])], {"norm.running_mean": 0.1}, {"average": 0.9})
BATCHES = 4


@given(st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=4), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_slices_together_are_the_tensors_and_as_large_as_each_other(shapes: list[list[int]], servers: int) -> None:
    tensors = {str(number): torch.randn(shape) for number, shape in enumerate(shapes)}
    slices = [cut(tensors, number, servers) for number in range(servers)]
    whole = put_together(slices)
    for name, value in tensors.items():
        assert torch.equal(whole[name] if value.numel() else torch.empty(0), value.flatten())
        sizes = [one[name].numel() if name in one else 0 for one in slices]
        assert max(sizes) - min(sizes) <= 1


def pushes_of(seed: int) -> Iterator[tuple[tuple[int, int, int], Weights]]:
    generator = torch.Generator().manual_seed(seed)
    for number in range(9):
        made = {
            name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
            for name, value in FIRST.items() if value.is_floating_point()
        }  # fmt: skip
        yield (number % 3, 0, number), {**made, "norm.num_batches_tracked": torch.tensor(number)}


@pytest.mark.parametrize("servers", [1, 2, 3, 7])
def test_slices_that_follow_a_journal_are_what_one_server_has(servers: int) -> None:
    """Whatever the order in which gradients came to each, and however often entries are told."""
    training = TrainingSettings(optimizer="adamw", learning_rate=0.1)
    one = WeightSlice(FIRST, LAYOUT, training)
    slices = []
    for number in range(servers):
        own = cut(FIRST, number, servers)
        slices.append(WeightSlice(own, LAYOUT.of_slice(list(own)), training))
    found = list(pushes_of(0))
    for number, each in enumerate((one, *slices)):
        for push, gradients in random.Random(number).sample(found, len(found)):
            each.wait(push, gradients if each is one else cut(gradients, number - 1, servers))
    journal = [Entry(version, push) for version, (push, _) in enumerate(found, start=1)]
    journal += [Entry(10, ended=(0,)), Entry(11, looked=(0, 0))]
    for each in (one, *slices):
        assert [each.follow(Entry.of(entry.as_json())) for entry in journal] == [True] * 11
        assert not any(map(each.follow, journal))
    assert not same_weights(one.parameters.now(), {**FIRST, **one.parameters.now([])})
    for whole, parts in (
        (one.parameters.now(), [each.parameters.now() for each in slices]),
        (one.ended(0), [each.ended(0) for each in slices]),
    ):
        assert whole is not None
        together = put_together([part for part in parts if part is not None])
        assert together.keys() == whole.keys()
        for name, value in whole.items():
            torch.testing.assert_close(together[name], value.flatten(), rtol=0, atol=1e-12)


def test_an_entry_after_a_gap_or_of_a_push_that_is_not_here_is_no_step() -> None:
    one = WeightSlice(FIRST, LAYOUT, TrainingSettings())
    for entry in (Entry(2), Entry(1, (0, 0, 0))):
        with pytest.raises(LostPush):
            one.follow(entry)
    assert one.version == 0 and same_weights(one.parameters.now([]), FIRST)


def test_averages_are_those_of_the_formula() -> None:
    """w̄ is w after the first step, then 0.9 w̄ + 0.1 w."""
    one, expected = WeightSlice(FIRST, LAYOUT, TrainingSettings()), None
    for version, (push, gradients) in enumerate(pushes_of(1), start=1):
        one.wait(push, gradients)
        one.follow(Entry(version, push))
        now = one.parameters.now()
        expected = now["first"] if expected is None else 0.9 * expected + 0.1 * now["first"]
        torch.testing.assert_close(now["average/first"], expected, rtol=0, atol=1e-12)


class Group:
    """A parameter server and two slices without a network; whoever is told to die loses what was not written."""

    def __init__(self, folder: Path) -> None:
        self.place = Place.of(folder)
        self.settings = TrainingSettings(exchange="server", servers=2, epochs=3, learning_rate=0.1)
        self.kinds = kinds_of(FIRST)
        self.digest = run_digest(RUN, LAYOUT, BATCHES, self.kinds)
        self.start_server()
        self.slices = {number: self.start_slice(number) for number in (1, 2)}
        self.begin()

    def start_server(self) -> None:
        self.server = ParameterServer(RUN, self.settings, 1, self.place)

    def start_slice(self, number: int) -> SliceServer:
        return SliceServer(RUN, self.settings, number, CheckpointSets(self.place, 2))

    def say(self, word: str, **asked: Any) -> dict[str, Any]:
        assert word == "attend"
        return self.server.attend(**asked)

    def attend(self) -> None:
        for _ in range(3):
            for number, one in self.slices.items():
                one.attend_once(f"address {number}", self.say)

    def begin(self) -> None:
        """As a worker does."""
        self.attend()
        assert self.server.addresses == ["address 1", "address 2"]
        assert self.server.begin(0, self.digest, LAYOUT, BATCHES, self.kinds) == ""
        for number, one in self.slices.items():
            own = cut(FIRST, number - 1, 2)
            layout, kinds = LAYOUT.of_slice(list(own)), kinds_of(own)
            digest = run_digest(slice_run(RUN, number, 2), layout, BATCHES, kinds)
            assert one.begin(digest, self.server.term, layout, BATCHES, kinds, own) == {}

    def train(self, batches: int) -> None:
        """A worker's next batches; gradients depend on the batch alone."""
        done = 0
        while done < batches:
            task = self.server.next(0)
            if task["task"] == "look":
                state = {"epoch": task["epoch"] + 1, "best_epoch": task["epoch"] + 1}
                assert self.server.looked(0, task["epoch"], state, {}, "") == ""
                continue
            assert task["task"] == "part"
            for batch in range(task["begin"], task["end"]):
                push = (0, task["epoch"], batch)
                _, gradients = list(pushes_of(task["epoch"]))[batch]
                for number, one in self.slices.items():
                    assert one.wait(push, cut(gradients, number - 1, 2), {}) == ""
                assert self.server.push(push, [1.0], 2) == ""
                done += 1
        self.attend()

    def weights(self) -> Weights:
        return put_together([self.slices[number].pull(["average"]) for number in (1, 2)])

    def versions(self) -> set[int]:
        return {self.server.version, *(one.version for one in self.slices.values())}


@pytest.mark.parametrize("dies", ["slice 1", "slice 2", "the server", "a slice and the server", "all"])
def test_whoever_dies_all_go_back_to_the_last_checkpoint_that_all_have(tmp_path: Path, dies: str) -> None:
    group = Group(tmp_path / "checkpoint")
    group.train(2)
    group.server.save()
    group.attend()
    kept, at = group.weights(), group.server.version
    assert group.server.sets is not None and group.server.sets.whole() == [at]
    group.train(3)
    group.server.save()  # the slices never hear of this one
    ahead, term = group.weights(), group.server.term
    assert not same_weights(ahead, kept)
    for number in {"slice 1": [1], "slice 2": [2], "a slice and the server": [2], "all": [1, 2]}.get(dies, []):
        group.slices[number] = group.start_slice(number)
    if dies in ("the server", "a slice and the server", "all"):
        group.start_server()
    group.attend()
    assert group.versions() == {at} and group.server.term != term
    assert same_weights(group.weights(), kept) and group.server.updates == 2
    assert group.server.trouble_with(group.digest, 0) == {"again": True}  # workers begin again
    group.begin()
    group.train(3)
    assert same_weights(group.weights(), ahead)  # the same batches: to the same weights


def test_a_slice_that_lost_a_push_takes_all_back(tmp_path: Path) -> None:
    group = Group(tmp_path / "checkpoint")
    group.train(1)
    term = group.server.term
    assert group.server.next(0)["task"] == "part"
    assert group.server.push((0, 0, 1), [1.0], 2) == ""  # no slice has heard of it
    group.attend()
    assert group.versions() == {0} and group.server.term not in ("", term)
    group.begin()
    group.train(6)
    assert group.server.updates == 6 and group.versions() == {group.server.version}


def test_old_checkpoints_go_when_a_newer_set_is_whole(tmp_path: Path) -> None:
    group = Group(tmp_path / "checkpoint")
    for _ in range(3):
        group.train(2)
        group.server.save()
        group.server.save()  # not while the slices write the one before
        group.attend()
    whole = CheckpointSets(group.place, 2).whole()
    assert len(whole) == 2 and len(group.place.names()) == 6  # the last, and the one before it


def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    group = Group(tmp_path / "checkpoint")
    group.train(2)
    group.server.save()
    group.attend()
    CheckpointSets(group.place, 2).file(group.server.version, 2).put(b"nothing")
    group.slices[2] = group.start_slice(2)
    with pytest.raises(GamlpError, match="damaged or foreign checkpoint"):
        group.attend()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    changes = {"training__batch_size": 7, "training__servers": 2, "training__exchange": "server"}
    return prepared_in(tmp_path_factory.mktemp("slices"), make_graph(), **changes)


def test_workers_share_slices(prepared: Prepared) -> None:
    with served(prepared, workers=2) as (server, world):
        one, other = fit_by(prepared, world, 2)
        assert server.counts()["refused"] == {} and server.counts()["slices"] == 2 and server.slice is None
        assert server.updates == prepared.recipe.training.epochs * server.ledger.batches
    assert same_weights(one.weights, other.weights) and one.epochs == prepared.recipe.training.epochs


@pytest.mark.slow
def test_with_a_certificate_slices_are_encrypted_as_the_parameter_server_is(prepared: Prepared, tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    with served(prepared, workers=2, tls=tls) as (server, world):
        one, other = fit_by(prepared, world, 2)
        assert server.counts()["refused"] == {} and server.counts()["slices"] == 2
        assert server.updates == prepared.recipe.training.epochs * server.ledger.batches
        about = {"run": "", "term": "another", "worker": 0, "what": "now"}
        foreign = certificate(tmp_path).trusted()
        for address in server.addresses or ():
            assert Client(replace(world, address=address)).stream("pull", {}, **about)[0]["again"]
            for root in (None, foreign):
                stranger = Client(replace(world, address=address, root=root, patience=0.5))
                with pytest.raises(GamlpError, match="does not answer"):
                    stranger.stream("pull", {}, **about)
    assert same_weights(one.weights, other.weights) and one.epochs == prepared.recipe.training.epochs


def test_a_slice_that_is_silent_is_not_counted(prepared: Prepared) -> None:
    with served(prepared, slices=False) as (server, world), slice_served(prepared, world, 1):
        with slice_served(prepared, world, 2):
            wait_for(lambda: server.counts(within=1.0)["slices"] == 2)
        wait_for(lambda: Client(world).say("counts", within=1.0)["slices"] == 1)
        assert Client(world).say("counts")["slices"] == 2


def test_a_slice_that_comes_back_at_another_address_is_found(tmp_path: Path) -> None:
    """Nothing was saved, so that all begin again, and end where one process does."""
    changes = {**OWN, "training.exchange": "server", "training.servers": 2, "training.batch_size": 8}
    prepared = prepared_in(tmp_path, make_graph(), RECIPE.changed(changes, trust=OWN["model.name"]))
    looks: list[int] = []
    with served(prepared, slices=False) as (server, world), slice_served(prepared, world, 1), ExitStack() as stack:
        stack.enter_context(slice_served(prepared, world, 2))

        def observe(line: dict[str, Any]) -> None:
            looks.append(line["epoch"])
            if len(looks) == 2:
                addresses = server.addresses
                stack.close()
                stack.enter_context(slice_served(prepared, world, 2))
                wait_for(lambda: server.addresses not in (None, addresses))

        fitted = fit_with(prepared, world, observe=observe)
        assert server.updates == prepared.recipe.training.epochs * server.ledger.batches
    assert looks == [1, 2, 1, 2, 3, 4, 5, 6]
    alone = trained(prepared)
    for name, value in alone.weights.items():
        torch.testing.assert_close(fitted.weights[name], value, rtol=0, atol=1e-9)


def test_what_slices_refuse_is_counted(prepared: Prepared) -> None:
    with served(prepared, slices=False) as (server, world), slice_served(prepared, world, 1) as one:
        with slice_served(prepared, world, 2):
            fit_with(prepared, world)
        assert one.slice is not None
        before = one.pull()
        client = Client(replace(world, address=server.members[1].address))
        about = {"run": one.digest, "term": one.term, "worker": 0, "epoch": 9, "batch": 0}
        gradients = {name: torch.ones_like(value) for name, value in one.slice.parameters.learned.items()}
        name = next(iter(gradients))
        for given, changes, reason in (
            ({name: torch.full_like(gradients[name], torch.nan)}, {}, "not finite"),
            ({name: torch.ones(1, 1)}, {}, "of another shape"),
            (gradients, {"run": "0" * 64}, "of another run"),
        ):
            assert client.stream("wait", given, **{**about, **changes})[0]["refused"] == reason
        assert client.stream("wait", gradients, **{**about, "term": "another"})[0] == {"again": True, "tensors": 0}
        stranger = Client(replace(world, address=server.members[1].address, token="another"))
        with pytest.raises(GamlpError, match="does not know the token"):
            stranger.stream("pull", {}, **about)
        assert not client.stream("wait", gradients, **about)[0]["refused"]  # held, and no entry takes it
        assert same_weights(one.pull(), before)
        wait_for(lambda: len(server.counts()["refused"]) == 3)
        # A worker tells the parameter server of what is not finite, which counts it.
        refused = {"of another shape": 1, "of another run": 1, "without the token": 1}
        assert server.counts()["refused"] == refused


def test_gradients_of_a_worker_that_are_not_finite_are_refused_by_all_and_counted_once(tmp_path: Path) -> None:
    group = Group(tmp_path / "checkpoint")
    before = group.weights()
    assert group.server.next(0)["task"] == "part"
    _, gradients = next(pushes_of(0))
    bad = {**gradients, "last": torch.tensor([1.0, 1.0, 1.0, 1.0, torch.inf], dtype=torch.float64)}
    push = (0, 0, 0)
    assert [one.wait(push, cut(bad, number - 1, 2), {}) for number, one in group.slices.items()] == ["", "not finite"]
    assert group.server.push(push, [1.0], 2, finite=False) == "not finite"
    group.attend()
    assert same_weights(group.weights(), before) and group.versions() == {1}
    assert group.server.counts() == {"updates": 0, "refused": {"not finite": 1}, "slices": 2}


def test_what_is_pushed_after_the_epoch_that_patience_ended_at_changes_nothing_that_is_kept(tmp_path: Path) -> None:
    """The second epoch is looked at while batches of the third are pushed: the first was the best, and is kept."""
    group = Group(tmp_path / "checkpoint")
    group.server.begin(1, group.digest, LAYOUT, BATCHES, group.kinds)
    group.train(BATCHES)
    assert group.server.next(0)["task"] == "look"
    assert group.server.looked(0, 0, {"epoch": 1, "best_epoch": 1}, {}, "") == ""
    group.attend()
    best = group.weights()
    group.train(BATCHES)
    assert group.server.next(1)["task"] == "look"
    group.train(2)
    assert group.server.looked(1, 1, {"epoch": 2, "best_epoch": 1, "stopped": "no better epoch"}, {}, "") == ""
    group.attend()
    assert not same_weights(group.weights(), best)
    told = group.server.next(0)
    assert told["task"] == "end" and told["state"]["stopped"] and told["state"]["best_epoch"] == 1
    assert same_weights(put_together([group.slices[number].ended(0) or {} for number in (1, 2)]), best)
    assert [group.slices[number].ended(1) for number in (1, 2)] == [None, None]


def test_a_norm_that_a_step_runs_several_times_stays_within_what_batches_have() -> None:
    """Running variances that two workers push by turns, each from what it pulled before the other's push."""
    norm = torch.nn.BatchNorm1d(1).double()
    first = {name: value.clone() for name, value in norm.state_dict().items()}
    shared = Parameters(
        first, Layout([(0.0, 1.0, ["weight"])], {"running_mean": 0.1, "running_var": 0.1}), TrainingSettings()
    )
    shared.buffers["running_var"] = torch.tensor([10.0], dtype=torch.float64)
    passes, pulled = 3, shared.now()
    for _ in range(4):  # the other's pushes bring it down, and this one's is of what it was
        shared.step({"running_var": torch.tensor([0.1], dtype=torch.float64)}, 0, {"running_var": 0.5})
    norm.load_state_dict({**first, **{name: pulled[name] for name in ("running_mean", "running_var")}})
    for seed in range(passes):
        norm(0.3 * torch.randn(64, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    share = 1 - 0.9**passes
    before = pulled["running_var"]
    batch = before + (norm.running_var - before) / share
    assert 0.05 < float(batch) < 0.2  # a mean of what the batches have
    shared.step({"running_var": batch}, 0, {"running_var": share})
    assert 0.05 < float(shared.buffers["running_var"]) < 1.0
