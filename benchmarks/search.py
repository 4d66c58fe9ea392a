"""Find the shipped recipes again: one `gamlp tune` for every dataset and model of search.yaml.

    python benchmarks/search.py --data-dir FOLDER                            # all, one after another
    python benchmarks/search.py --names cora-jk --trials 100 --seconds 600   # one, for ten minutes

Studies are in --work: run again to go on; two terminals share the work. Each search writes its recipe into --recipes
and its log of trials into --logs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PLAN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


def searches() -> dict[str, list[str]]:
    """Arguments of `gamlp tune` by the recipe's name."""
    found = {}
    for dataset, protocol in PLAN["searches"].items():
        about = PLAN[protocol]
        for model, own in PLAN["models"].items():
            options = ["--space", about["space"], "--splits", str(about["splits"]), "--seeds", str(about["seeds"])]
            found[f"{dataset}-{model}"] = [dataset, *options, *_changes({**PLAN["set"], **about["set"], **own})]
    twitch = PLAN["twitch"]
    for model, own in twitch["models"].items():
        options = ["--valid", twitch["valid"], "--space", own["space"], "--seeds", str(twitch["seeds"])]
        found[f"twitch-{model}"] = [twitch["graph"], *options, *_changes({**twitch["set"], **own["set"]})]
    typed = PLAN["typed"]
    for dataset, own in typed["graphs"].items():
        options = ["--space", own["space"], "--splits", str(typed["splits"]), "--seeds", str(typed["seeds"])]
        options += ["--by", own.get("by", typed["by"])]
        found[f"{dataset}-jk"] = [dataset, *options, *_changes({**typed["set"], **own["set"]})]
    return found


def _changes(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def main() -> None:
    known = searches()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", default=list(known), choices=known, metavar="NAME")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1800, help="Start no trial of a search after so long.")
    parser.add_argument("--confirm", type=int, default=3)
    parser.add_argument("--confirm-seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-dir", default=os.environ.get("GAMLP_DATA"))
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / "work" / "studies")
    parser.add_argument("--recipes", type=Path, default=ROOT / "src" / "gamlp" / "recipe" / "shipped")
    parser.add_argument("--logs", type=Path, default=ROOT / "docs" / "results" / "search")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.logs.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        out = options.work / f"{name}.yaml"
        other = options.work / f"{name.removesuffix('-jk')}-recursive.yaml"  # for a search of -jk
        dataset, _, model = name.rpartition("-")
        shipped = options.recipes / dataset / f"{model}.yaml"  # a search goes on from what an earlier one found
        tried = [word for known_one in (other, shipped) if known_one.exists() for word in ("--try", str(known_one))]
        command = ["tune", *known[name], *tried, "--study", str(options.work / name), "--out", str(out)]
        for key in ("trials", "seconds", "confirm", "confirm_seeds", "threads"):
            command += [f"--{key.replace('_', '-')}", str(getattr(options, key))]
        command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
        _tune(command)
        if subsets := PLAN["typed"]["graphs"].get(name.removesuffix("-jk"), {}).get("select"):
            _select(name, subsets, command, out, options.logs)
        shipped.parent.mkdir(parents=True, exist_ok=True)
        shipped.write_text(out.read_text())
        (options.logs / f"{name}.csv").write_text(out.with_suffix(".csv").read_text())


def _tune(command: list[str]) -> None:
    print("gamlp", shlex.join(command), flush=True)
    subprocess.run([sys.executable, "-m", "gamlp.cli.main", *command], check=True)


def _select(name: str, subsets: list[list[str]], command: list[str], out: Path, logs: Path) -> None:
    """A second search from what was found: which subsets of relations to read, all else as it is."""
    first = out.with_name(f"{name}-first.yaml")
    first.write_text(out.read_text())
    second = out.with_name(f"{name}-subsets.yaml")
    about = {"--study": str(out.with_name(f"{name}-subsets")), "--out": str(second), "--space": "subsets"}
    flags = ["--splits", "--seeds", "--by", "--trials", "--seconds", "--confirm", "--confirm-seeds", "--threads"]
    flags.append("--data-dir")
    kept = [word for flag in flags if flag in command for word in (flag, command[command.index(flag) + 1])]
    words = [word for pair in about.items() for word in pair]
    changes = ["--recipe", str(first), "--try", str(first)]  # its own subsets, beside all that are chosen from
    changes += [*_changes({"relations.subsets": subsets}), "--select-subsets"]
    _tune(["tune", command[1], *changes, *words, *kept])
    (logs / f"{name}-subsets.csv").write_text(second.with_suffix(".csv").read_text())
    out.write_text(second.read_text())


if __name__ == "__main__":
    main()
