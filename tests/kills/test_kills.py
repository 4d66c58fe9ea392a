"""A verb that is killed, and run again, ends as if nothing had been. `make kills ROUNDS=200` does many more rounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kills.rounds import Kills, Round, leftovers, write_report
from tests.kills.verbs import VERBS, Verb

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Kills:
    given = os.environ.get("GAMLP_DATA")
    return Kills(tmp_path_factory.mktemp("kills"), Path(given) if given else None)


@pytest.mark.parametrize(
    ("verb", "number"),  # SIGKILL and SIGTERM in turn
    [pytest.param(verb, at % 2, id=f"{verb.name}, {('SIGKILL', 'SIGTERM')[at % 2]}") for at, verb in enumerate(VERBS)],
)
def test_a_verb_that_was_killed_ends_as_if_it_were_not(kills: Kills, verb: Verb, number: int) -> None:
    if verb not in kills.verbs():
        pytest.skip("no raw datasets: set GAMLP_DATA")
    assert kills.round(verb, number).problems == []


def test_every_verb_that_writes_is_killed() -> None:
    from gamlp.cli.verbs import FIRST_LINES

    # A server is killed in tests/serve: it has no end that could be compared. An archive appears whole, at the end.
    assert set(FIRST_LINES) - {"info", "recipes", "bench", "plan", "serve", "spark"} == {
        verb.command.split()[0] for verb in VERBS
    }


def test_the_suite_sees_what_is_wrong(kills: Kills, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another result, and something that is left, are told; the report counts them."""
    verb = next(verb for verb in VERBS if verb.name == "predict")
    seconds, _ = kills.usual(verb)
    monkeypatch.setitem(kills._usual, verb.name, (seconds, "something else"))
    told = kills.round(verb, 0)
    assert told.problems == ["the result differs from that of an undisturbed run"]
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "forgotten").touch()
    (tmp_path / ".x.partial").mkdir()
    assert leftovers(tmp_path) == [".x.partial", "tmp/forgotten"]
    write_report([told, Round("predict", 1, "SIGTERM", 0.1, "answered")], tmp_path / "kills.md")
    page = (tmp_path / "kills.md").read_text()
    assert "| `predict` | 2 |" in page and "| **all** | 2 |" in page and "the result differs" in page
