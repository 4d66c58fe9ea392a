"""`gamlp predict` with a threshold, or no label where it would not be sure; `gamlp evaluate` with base rates."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

from tests.cli.people import Call

QUICK = "--set training.epochs=3 --set model.hidden=8 --set propagation.hops=2 --set propagation.label_hops=1"


def labels(name: str) -> Counter[str]:
    with Path(name).open() as file:
        return Counter(row["label"] for row in csv.DictReader(file))


def test_nodes_are_asked_for_by_their_ids(call: Call) -> None:
    people = [f"p{i},{i % 7},{'yes' if i % 4 == 0 else 'no'}" for i in range(40)]
    Path("people.csv").write_text("\n".join(["id,x,label", *people]) + "\n")
    Path("ties.csv").write_text("src,dst\n" + "".join(f"p{i},p{(i * 7 + 2) % 40}\n" for i in range(40)))
    assert call("ingest --edges ties.csv --nodes people.csv --out graph").code == 0
    assert call(f"train graph --out run {QUICK}").code == 0
    assert call("predict run --out all.csv").code == 0
    Path("ids.txt").write_text("p30\n")
    ended = call("predict run --out some.csv --ids p12,p7 --ids-file ids.txt")
    assert ended.code == 0, ended.err
    of_all = Path("all.csv").read_text().splitlines()
    asked = [of_all[0], *(line for line in of_all if line.split(",")[0].strip('"') in ("p7", "p12", "p30"))]
    assert Path("some.csv").read_text().splitlines() == asked and len(asked) == 4
    for wrong, said in (
        ("--ids p99", "has no node 'p99'"),
        (
            "--ids p1 --rows test",
            "ids say which nodes are meant; use gamlp predict with --ids, or with --rows",
        ),
    ):
        ended = call(f"predict run --out x.csv {wrong}")
        assert ended.code == 2 and said in ended.err and not Path("x.csv").exists(), ended.err
    for nobody in ("''", ","):  # an empty variable of a script is not a wish for all nodes
        ended = call(f"predict run --out x.csv --ids {nobody}")
        assert ended.code == 2 and "--ids names no node" in ended.err and not Path("x.csv").exists(), ended.err
    ended = call("predict run --out lines.csv --ids 'p12\np7\n'")
    assert ended.code == 0 and len(Path("lines.csv").read_text().splitlines()) == 3, ended.err


def test_thresholds_abstention_and_base_rates(call: Call) -> None:
    people = [f"p{i},{i % 7},{'yes' if i % 4 == 0 else 'no'}" for i in range(80)]
    Path("people.csv").write_text("\n".join(["id,x,label", *people]) + "\n")
    Path("ties.csv").write_text("src,dst\n" + "".join(f"p{i},p{(i * 7 + 2) % 80}\n" for i in range(80)))
    Path("new.csv").write_text("id,x,label\nq1,3,\nq2,4,\n")
    Path("new_ties.csv").write_text("src,dst\nq1,p3\nq2,q1\n")
    assert call("ingest --edges ties.csv --nodes people.csv --out graph").code == 0
    ended = call(f"train graph --out run {QUICK}")
    assert ended.code == 0 and "the most frequent class alone: " in ended.out, ended.err

    ended = call("predict run --out all.csv --threshold 0 --json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["positive"], told["positives"], told["rows"]) == ("yes", 80, 80) and labels("all.csv") == {"yes": 80}
    ended = call("predict run --out all.csv --threshold 0 --positive no")
    assert "note: 'no' is said where it is at least 0 likely: 80 of 80 rows." in ended.out and ended.code == 0
    ended = call("predict run --out none.csv --abstain-below 1")
    assert "note: 80 of 80 rows have no label: it would be less than 1 likely." in ended.out
    assert labels("none.csv") == {"": 80}
    ended = call("predict run --add-nodes new.csv --add-edges new_ties.csv --out new.csv.gz --abstain-below 1 --json")
    assert json.loads(ended.out)["abstained"] == 2, ended.err

    for wrong, said in (
        ("--threshold 2", "2.0 is no probability; --threshold takes a number from 0 to 1"),
        ("--positive yes", "a positive class means nothing without a threshold; give --threshold P too"),
        ("--threshold 0.5 --positive maybe", "the model has no class 'maybe'; --positive is 'no' or 'yes'"),
    ):
        ended = call(f"predict run --out x.csv {wrong}")
        assert ended.code == 2 and said in ended.err and not Path("x.csv").exists(), ended.err

    ended = call("evaluate run")
    assert "in brackets: the most frequent class alone" in ended.out and "precision, %" in ended.out
    told = json.loads(call("evaluate run --json").out)
    assert told["base"]["score"] > 0.5 and told["positive"] == "yes"
    assert {row["class"] for row in told["classes"]} == {"no", "yes"} and "ece" in told["mean"]
