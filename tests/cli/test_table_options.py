"""One set of options tells `ingest` and `run` how tables are read."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from gamlp.cli.main import app
from gamlp.cli.options.tables import TableOptions
from tests.cli.people import Call

QUICK = "--set training.epochs=2 --set model.hidden=8 --set propagation.hops=1 --set propagation.label_hops=1"
NAMED = "--src von --dst nach --id person --label stand --unknown-label ? --split '' --on-bad skip"


@pytest.fixture
def tables(tmp_path: Path) -> str:
    rows = [f"p{i},{i % 7},{'?' if i % 5 == 0 else 'ab'[i % 2]},s{i % 3}" for i in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["person,x,stand,split", *rows, ",1,a,s1"]) + "\n")
    (tmp_path / "ties.csv").write_text("von,nach\n" + "".join(f"p{i},p{(i * 7 + 2) % 60}\n" for i in range(60)))
    return "--edges ties.csv --nodes people.csv"


@pytest.mark.parametrize("verb", ["ingest", "run", "predict"])
def test_every_option_is_on_every_verb_that_takes_tables(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    found = {name for parameter in command.params for name in parameter.opts}
    assert {f"--{one.name.replace('_', '-')}" for one in fields(TableOptions)} <= found


def test_run_reads_columns_of_other_names_as_ingest_does(call: Call, tables: str) -> None:
    ended = call(f"run {tables} {NAMED} --out run {QUICK} --json")
    assert ended.code == 0, ended.err
    ended = call(f"ingest {tables} {NAMED} --out graph --json")
    assert ended.code == 0, ended.err
    told, kept = json.loads(ended.out), json.loads(Path("run/ingest.json").read_text())
    assert told["bad_rows"] == kept["bad_rows"] and sum(told["bad_rows"].values()) == 1
    assert told["classes"] == kept["classes"] == 2 and told["nodes"] == kept["nodes"] == 60
    ended = call(f"run {tables} {NAMED} --directed --out run {QUICK}")
    assert ended.code == 2
    assert "run: holds a run on these tables, read with other options; choose another --out." in ended.err


def test_options_of_tables_without_tables_are_refused(call: Call) -> None:
    ended = call("run digits --label kind")
    assert ended.code == 2
    assert ended.err == (
        "gamlp: --label is about tables, and there are none; leave it out, or give both --edges and --nodes.\n"
    )
