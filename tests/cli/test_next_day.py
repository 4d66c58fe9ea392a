"""The next day: newcomers are labelled, the graph grows, and training starts from yesterday's weights."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tests.cli.people import Call

QUICK = "--set training.epochs=2 --set model.hidden=8 --set propagation.hops=2 --set propagation.label_hops=1"


def test_newcomers_from_tables_of_them_alone(call: Call) -> None:
    people = [f"p{i},{i % 7},{'ab'[i % 2]}" for i in range(40)]
    Path("people.csv").write_text("\n".join(["id,x,label", *people]) + "\n")
    Path("ties.csv").write_text("src,dst\n" + "".join(f"p{i},p{(i * 7 + 2) % 40}\n" for i in range(40)))
    Path("new.csv").write_text("person,x,label\nq1,3,\nq2,4,a\n")
    Path("new_ties.csv").write_text("src,dst\nq1,p3\nq2,q1\np5,q2\n")
    assert call("ingest --edges ties.csv --nodes people.csv --out graph").code == 0
    assert call(f"run graph --out run {QUICK}").code == 0
    ended = call("predict run --add-nodes new.csv --add-edges new_ties.csv --id person --out labels.csv")
    assert ended.code == 0, ended.err
    with Path("labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["q1", "q2"] and {row["label"] for row in rows} <= {"a", "b"}
    for wrong, said in (
        ("predict run --out x.csv --add-edges new_ties.csv", "--add-edges without --add-nodes; give the table"),
        ("predict run --out x.csv --id person", "--id without --add-nodes"),
        ("predict run --out x.csv --add-nodes new.csv --directed", "--directed: the graph has that already"),
        ("predict run --out x.csv --add-nodes new.csv --id person --add-edges none.csv", "none.csv"),
        ("ingest --add graph --nodes new.csv --id person --out other", "--out with --add"),
        ("ingest --nodes new.csv --out other", "--edges is missing"),
    ):
        ended = call(wrong)
        assert ended.code == 2 and said in ended.err and not Path("x.csv").exists(), ended.err
    ended = call("ingest --add graph --nodes new.csv --id person --edges new_ties.csv")
    assert ended.code == 0 and "42 (2 new)" in ended.out, ended.err
    ended = call("ingest --add graph --nodes new.csv --id person --edges new_ties.csv --json")
    assert json.loads(ended.out)["notes"] == ["these tables were added before: nothing was changed"]
    ended = call("predict run --out x.csv")
    assert ended.code == 2 and "has changed since training" in ended.err
    ended = call(f"run graph --warm run --out today {QUICK}")
    assert ended.code == 0 and "training starts from the weights of 'run'" in ended.out, ended.err
    assert call("predict today --out all.csv").code == 0 and len(Path("all.csv").read_text().splitlines()) == 43
