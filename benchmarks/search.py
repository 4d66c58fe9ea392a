"""Search recipes for every dataset and method of search.yaml, on validation rows alone and with equal time for all.

    python benchmarks/search.py --data-dir FOLDER --minutes 60                   # an hour, over all cells
    python benchmarks/search.py --data-dir FOLDER --minutes 60 --names 'cora-*'  # some of them
    python benchmarks/search.py --data-dir FOLDER --ship                         # leaders become shipped recipes
    python benchmarks/search.py --data-dir FOLDER --uncertainty                  # then: how well validation ranks test

Trials are in --logs, which is committed: run again to go on, on any machine; several terminals share --work. Every
command writes the logs of its cells beside them. Variants (+SCR, +RLU: `cora-jk-scr`) begin from what the plain cell
found, and run when they are named.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch

from gamlp.bench.search import CellSearch, Validation, cells_of, chosen_cells, rank_cell, ship, write_log, write_ranking
from gamlp.run.resources import Resources

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", metavar="NAME", help="Cells, such as cora-jk or 'cora-*'.")
    parser.add_argument("--minutes", type=float, default=60, help="Start no run after so long.")
    parser.add_argument("--hold", nargs="*", default=[], metavar="KEY", help="Settings that are not searched.")
    parser.add_argument("--ship", action="store_true", help="Do not search: write leaders among the shipped recipes.")
    parser.add_argument("--uncertainty", action="store_true", help="Do not search: rank shipped cells by test rows.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("GAMLP_DATA"))
    parser.add_argument("--plan", type=Path, default=Path(__file__).with_suffix(".yaml"))
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / "work" / "search")
    parser.add_argument("--recipes", type=Path, default=ROOT / "src" / "gamlp" / "recipe" / "shipped")
    parser.add_argument("--logs", type=Path, default=ROOT / "docs" / "results" / "search")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cells = chosen_cells(cells_of(options.plan, options.hold), options.names)
    validation = Validation(options.work / "hops", options.data_dir, Resources(threads=options.threads, device="cpu"))
    search = CellSearch(
        cells, options.work, validation, tell=lambda text: print(text, flush=True), kept=options.logs / "trials"
    )
    begun = [cell for cell in cells if search.trials(cell.name).trials]
    if options.uncertainty:
        known = options.logs / "uncertainty.json"
        found = json.loads(known.read_text()) if known.exists() else {}
        for cell in begun:
            found[cell.name] = rank_cell(search, cell, validation.test)
            write_ranking(found, options.logs)
    elif options.ship:
        for cell in begun:
            ship(search, cell, options.recipes, search.tell)
    else:
        print(f"{search.run(60 * options.minutes)} runs", flush=True)
    for cell in cells:
        if (trials := search.trials(cell.name)).trials:
            write_log(cell, trials, options.logs)


if __name__ == "__main__":
    main()
