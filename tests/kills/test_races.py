"""Two and three at once: one writes, the others are told in a sentence; or all share, where that is promised."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from gamlp.graph import Graph, damaged_files
from gamlp.propagation import HopStore
from tests.forked import Done, Started
from tests.kills.rounds import leftovers
from tests.kills.verbs import TRAINING, VERBS, lay_out, make_inputs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


def at_once(commands: list[str], folder: Path, inputs: Path) -> list[Done]:
    """How commands ended that were started together; nobody sees a traceback."""
    for name in ("tmp", "cache"):
        (folder / name).mkdir(exist_ok=True)
    places = {"TMPDIR": str(folder / "tmp"), "GAMLP_CACHE": str(folder / "cache"), "GAMLP_OFFLINE": "1"}
    with ExitStack() as stack:
        started = [
            stack.enter_context(Started(*command.format(inputs=inputs).split(), folder=folder, **places))
            for command in commands
        ]
        done = [one.wait(300) for one in started]
    for one in done:
        assert one.returncode in (0, 2) and "Traceback" not in one.stderr, one.stderr
        assert one.returncode == 0 or one.stderr.strip().count("\n") == 0, one.stderr
    return done


def refusals(done: list[Done]) -> list[str]:
    return [one.stderr for one in done if one.returncode]


@pytest.mark.parametrize("count", [3])
@pytest.mark.parametrize("name", ["ingest", "generate", "propagate", "train", "run", "run of a peer"])
def test_one_writes_and_the_others_are_told(inputs: Path, tmp_path: Path, name: str, count: int) -> None:
    verb = next(verb for verb in VERBS if verb.name == name)
    done = at_once([verb.command] * count, tmp_path, inputs)
    told = refusals(done)
    assert len(told) < count, told
    for sentence in told:  # the second comes while the first writes, or when it is done
        assert (
            "another process is writing this" in sentence
            or "another run is writing this" in sentence
            or ("already" in sentence)
        ), sentence
    alone = tmp_path / "alone"
    alone.mkdir()
    (ended,) = at_once([verb.command], alone, inputs)
    assert ended.returncode == 0, ended.stderr
    if name not in ("run", "run of a peer"):  # these name their folder
        assert verb.result(tmp_path) == verb.result(alone)
    for folder in ("tmp", "cache"):
        (alone / folder).rmdir()
    assert [name for name in leftovers(tmp_path) if not name.startswith("alone")] == []


def test_a_folder_that_appears_while_a_graph_is_written_stays(inputs: Path, tmp_path: Path) -> None:
    """What two ingests of different tables do: the graph that is there first is whole, and stays."""
    tables = "--edges {inputs}/%sedges.csv --nodes {inputs}/%snodes.csv"
    commands = [f"ingest {tables % (name, name)} --out graph" for name in ("", "other-", "")]
    done = at_once(commands, tmp_path, inputs)
    assert [one.returncode for one in done].count(0) == 1
    assert damaged_files(Graph.open(tmp_path / "graph")) == [] and leftovers(tmp_path) == []


def test_runs_that_are_gone_on_with_at_once_do_not_mix(inputs: Path, tmp_path: Path) -> None:
    verb = next(verb for verb in VERBS if verb.name == "train --resume")
    lay_out(verb, inputs, tmp_path)
    done = at_once([verb.command] * 3, tmp_path, inputs)
    assert any(one.returncode == 0 for one in done)
    assert all("run: another process is writing this run; wait for it to end." in one for one in refusals(done))
    alone = tmp_path.parent / f"{tmp_path.name}-alone"
    lay_out(verb, inputs, alone)
    (ended,) = at_once([verb.command], alone, inputs)
    assert ended.returncode == 0 and verb.result(tmp_path) == verb.result(alone) and leftovers(tmp_path) == []


def test_predictions_of_one_graph_at_once_all_succeed(inputs: Path, tmp_path: Path) -> None:
    commands = [f"predict {{inputs}}/run --graph {{inputs}}/other --out {name}.csv" for name in "abc"]
    done = at_once(commands, tmp_path, inputs)
    assert refusals(done) == []
    texts = {(tmp_path / f"{name}.csv").read_text() for name in "abc"}
    assert len(texts) == 1 and leftovers(tmp_path) == []


def test_predictions_into_one_file_at_once_leave_a_whole_one(inputs: Path, tmp_path: Path) -> None:
    done = at_once(["predict {inputs}/run --out labels.csv"] * 3, tmp_path, inputs)
    assert any(one.returncode == 0 for one in done)
    assert all("another process is writing this file; wait for it to end" in one for one in refusals(done))
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 201 and leftovers(tmp_path) == []


def test_evaluations_at_once_leave_whole_files(inputs: Path, tmp_path: Path) -> None:
    verb = next(verb for verb in VERBS if verb.name == "evaluate")
    lay_out(verb, inputs, tmp_path)
    done = at_once([verb.command] * 3, tmp_path, inputs)
    assert any(one.returncode == 0 for one in done)
    assert all("run: another process is writing this run" in one for one in refusals(done))
    assert verb.result(tmp_path) and leftovers(tmp_path) == []


def test_processes_share_a_study_that_none_of_them_had_begun(inputs: Path, tmp_path: Path) -> None:
    verb = next(verb for verb in VERBS if verb.name == "tune")
    commands = [verb.command.replace("--trials 3", "--trials 6").replace("found", f"found{one}") for one in range(3)]
    done = at_once(commands, tmp_path, inputs)
    assert refusals(done) == [] and all("failed" not in one.stderr for one in done), [one.stderr for one in done]
    rows = (tmp_path / "found0.csv").read_text().splitlines()[1:]
    assert len({row.split(",")[0] for row in rows}) == len(rows) >= 6
    assert leftovers(tmp_path) == []


def test_a_dataset_is_converted_once_by_those_who_ask_at_once(data_dir: Path, tmp_path: Path) -> None:
    done = at_once([f"datasets cora --data-dir {data_dir} --out {name}" for name in "abc"], tmp_path, tmp_path)
    assert refusals(done) == []
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1 and leftovers(tmp_path) == []


def test_a_store_and_a_run_on_it_at_once(inputs: Path, tmp_path: Path) -> None:
    """Hops that are being written are refused to a reader, or whole."""
    done = at_once(
        ["propagate {inputs}/graph --out store --hops 2 --label-hops 2", f"train store --out run {TRAINING}"],
        tmp_path,
        inputs,
    )
    assert done[0].returncode == 0 and HopStore.open(tmp_path / "store").damaged() == []
    assert leftovers(tmp_path) == []
