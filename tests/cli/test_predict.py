"""`gamlp predict`: newcomers from tables of their own."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.cli.people import Call

QUICK = "--set training.epochs=2 --set model.hidden=8 --set propagation.hops=2 --set propagation.label_hops=1"


def test_newcomers_are_labelled_from_tables_of_them_alone(call: Call) -> None:
    people = [f"p{i},{i % 7},{'ab'[i % 2]}" for i in range(40)]
    Path("people.csv").write_text("\n".join(["id,x,label", *people]) + "\n")
    Path("ties.csv").write_text("src,dst\n" + "".join(f"p{i},p{(i * 7 + 2) % 40}\n" for i in range(40)))
    Path("new.csv").write_text("person,x\nq1,3\nq2,4\n")
    Path("new_ties.csv").write_text("src,dst\nq1,p3\nq2,q1\np5,q2\n")
    assert call(f"run --edges ties.csv --nodes people.csv --out run {QUICK}").code == 0
    ended = call("predict run --add-nodes new.csv --add-edges new_ties.csv --id person --out labels.csv")
    assert ended.code == 0, ended.err
    with Path("labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["q1", "q2"] and {row["label"] for row in rows} <= {"a", "b"}
    for wrong, said in (
        ("--add-edges new_ties.csv", "--add-edges without --add-nodes; give the table of newcomers"),
        ("--id person", "--id without --add-nodes"),
        ("--add-nodes new.csv --id person --directed", "--directed: the graph has that already"),
        ("--add-nodes new.csv --id person --add-edges none.csv", "none.csv"),
    ):
        ended = call(f"predict run {wrong} --out other.csv")
        assert ended.code == 2 and said in ended.err and not Path("other.csv").exists(), ended.err
