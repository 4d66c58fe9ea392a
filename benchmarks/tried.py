"""What was tried to make a hop faster, each against the loop as it is: a table of docs/propagation.md.

    python benchmarks/tried.py            # about ten minutes, 8 GB of memory
    python benchmarks/tried.py --quick    # small graphs, to see that it runs: its figures mean nothing

Graphs: rows drawn at random whose state is twenty times a large cache, and planted communities with hubs. Every figure
is the least processor time of several rounds in which all contestants take turns.
"""

from __future__ import annotations

import argparse
import json
import mmap
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import even_ranges, usable_cores
from gamlp.kernel import BLOCK, NUMPY_DTYPES, HopTask, build_csr, hop, nonzero_rows
from gamlp.propagation import allocate
from loops import loops, missed_rows
from machine import describe, last_cache

Array = np.ndarray[Any, Any]
PAGE = Path(__file__).parents[1] / "docs" / "propagation.md"
MARKS = "<!-- tried: written by benchmarks/tried.py -->", "<!-- end of tried -->"
HINTS = {3: "T0", 2: "T1", 1: "T2"}  # as __builtin_prefetch numbers them
DISTANCES = (16, 24, 32, 48)
KEPT = (2, {64: 48, 128: 32})  # by the bytes of a row; wider ones:
KEPT_WIDE = 24
NEAR, NEAR_WIDE = 48, 24  # into the first cache
# (storage, columns, columns of a row in memory): rows of 64, 128, 208, 208 in 256, 256, 416 and 512 bytes
TILES = [
    ("float16", 32, 32),
    ("float16", 64, 64),
    ("float16", 104, 104),
    ("float16", 104, 128),
    ("float16", 128, 128),
    ("float32", 104, 104),
    ("float32", 128, 128),
]
SHARES = (0.002, 0.01, 0.05, 0.1, 0.3, 0.6)  # of rows that hold anything
KEPT_ROWS = 0.014  # the labelled rows of papers100M
POOL = ThreadPoolExecutor(usable_cores())


@dataclass(frozen=True)
class Case:
    """A graph and two states."""

    offsets: Array
    neighbours: Array
    src: Array
    dst: Array
    storage: str

    @property
    def entries(self) -> int:
        return len(self.neighbours)

    def in_parts(self, work: Callable[[int, int], object]) -> None:
        ranges = even_ranges(self.offsets, 32 * usable_cores())
        list(POOL.map(lambda limits: work(*limits), ranges))

    def product(self, **given: Any) -> Callable[[], None]:
        """A hop as the product does it."""
        factors = np.full(len(self.src), 1e-3, np.float32)
        task = HopTask(self.offsets, self.neighbours, None, factors, 0, True, self.src, self.dst, self.storage, **given)
        return lambda: self.in_parts(lambda begin, end: hop(task, begin, end))

    def compiled(self, columns: int, **constants: int) -> Callable[[], None]:
        """The same loop with other constants."""
        factors, library = np.full(len(self.src), 1e-3, np.float32), loops(**constants)
        arrays = [array.ctypes.data for array in (self.offsets, self.neighbours)]
        states = [array.ctypes.data for array in (self.src, self.dst)]
        stride = self.src.strides[0] // self.src.itemsize
        code = 0 if self.storage == "float32" else 1

        def work(begin: int, end: int) -> None:
            given = (*arrays, self.entries, factors.ctypes.data, *states, stride, begin, end)
            assert library.sum_rows_of(code, columns // 8, *given) == 0

        return lambda: self.in_parts(work)


def rounds_of(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Each contestant's least processor time ÷ cores: all cores are busy in each, and what else runs is not counted."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            begun = time.process_time()
            work()
            times[name].append((time.process_time() - begun) / usable_cores())
    return {name: min(found) for name, found in times.items()}


def drawn(count: int, degree: int, storage: str, columns: int, of: int | None = None) -> Case:
    """Every row with as many neighbours drawn at random, of `of` nodes."""
    near = np.random.default_rng(0).integers(0, of or count, (count, degree), dtype=np.int32)
    near.sort(axis=1)
    src, dst = (allocate(rows, columns, storage) for rows in (of or count, count))
    dst[:] = 0
    src[:] = 1
    return Case(np.arange(count + 1, dtype=np.int64) * degree, near.reshape(-1), src, dst, storage)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    bytes: int  # of a state
    gathered: int  # bytes of rows that a hop reads
    nodes: int  # of planted communities
    rounds: int

    def case(self, storage: str, columns: int, stride: int) -> Case:
        row = np.dtype(NUMPY_DTYPES[storage]).itemsize * columns
        count = self.bytes // row
        return drawn(count, max(4, self.gathered // row // count), storage, stride)


def prefetching(sizes: Sizes) -> dict[str, Any]:
    """Seconds a tile, by hint and distance."""
    found = {}
    for storage, columns, stride in TILES:
        case = sizes.case(storage, columns, stride)
        row = columns * case.src.itemsize
        contestants = {
            f"{HINTS[hint]} {ahead}": case.compiled(columns, hint=hint, ahead=ahead)
            for hint in HINTS
            for ahead in DISTANCES
        }
        seconds = rounds_of(contestants, sizes.rounds)
        name = f"{row} bytes" + (f" in {stride * case.src.itemsize}" if stride != columns else "")
        found[name] = {"row": row, "seconds": seconds, "gathered": row * case.entries}
        kept = _kept({"row": row, "seconds": seconds})
        best = min(seconds, key=lambda name: seconds[name])
        print(f"   {name}: {best} {seconds[best]:.3f} s, T0 16 {seconds['T0 16']:.3f} s, kept {kept:.3f} s", flush=True)
    return found


def blocks(sizes: Sizes) -> dict[str, float]:
    """Sums in blocks ÷ plain sums: rows of 50 entries, which are one block, and of 300, which are three."""
    found, row = {}, 512
    for degree in (50, 300):
        nodes = sizes.bytes // row
        case = drawn(min(nodes, sizes.gathered // row // degree), degree, "float32", 128, of=nodes)
        contestants = {"plain": case.compiled(128, block=1 << 20), "blocks": case.compiled(128)}
        seconds = rounds_of(contestants, 2 * sizes.rounds)
        found[str(degree)] = seconds["blocks"] / seconds["plain"]
    return found


def zero_rows(sizes: Sizes) -> dict[str, float]:
    """A hop of 32 float16 columns ÷ the same with the bits of rows that hold anything, by their share."""
    case = sizes.case("float16", 32, 32)
    random, found = np.random.default_rng(1), {}
    for share in SHARES:
        case.src[:] = 0
        case.src[random.random(len(case.src)) < share] = 1
        bits = nonzero_rows(case.src)
        seconds = rounds_of({"all": case.product(), "bits": case.product(nonzero=bits)}, sizes.rounds)
        found[str(share)] = seconds["all"] / seconds["bits"]
    return found


def windows(sizes: Sizes) -> dict[str, float]:
    """A hop of 32 float16 columns ÷ the same that reads its state in windows of a gigabyte, by the GB of the state."""
    found = {}
    for times in (1, 5, 11):
        nodes = times * sizes.bytes // 64
        case = drawn(sizes.gathered // 64 // 29, 29, "float16", 32, of=nodes)
        bits = max(1, sizes.bytes // 38).bit_length() - 1
        contestants = {"plain": case.product(window_bits=0), "windows": case.product(window_bits=bits)}
        seconds = rounds_of(contestants, sizes.rounds)
        found[f"{64 * nodes / 1e9:.2g}"] = seconds["plain"] / seconds["windows"]
        del case, contestants
    return found


def pages(sizes: Sizes) -> dict[str, float | None]:
    """A hop with states on pages of 4 KiB and of 1 GiB ÷ on those of 2 MiB; None where the system gives none."""
    case = sizes.case("float16", 32, 32)
    size, contestants = case.src.nbytes, {"2 MiB": case.product()}
    for name, flags in (("4 KiB", 0), ("1 GiB", 0x40000 | 30 << 26)):  # MAP_HUGETLB, of 2^30 bytes
        whole = -(-size >> 30) << 30 if flags else size
        try:
            memory = [mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags) for _ in range(2)]
        except OSError:
            continue
        if not flags:
            for one in memory:
                one.madvise(mmap.MADV_NOHUGEPAGE)
        src, dst = (np.frombuffer(one, case.src.dtype, case.src.size).reshape(case.src.shape) for one in memory)
        src[:], dst[:] = 1, 0
        contestants[name] = replace(case, src=src, dst=dst).product()
    seconds = rounds_of(contestants, sizes.rounds)
    return {name: seconds[name] / seconds["2 MiB"] if name in seconds else None for name in ("4 KiB", "1 GiB")}


def with_communities(sizes: Sizes) -> dict[str, Any]:
    """Node order, gaps between neighbours, reads shared by column blocks, reach of kept rows: on one graph."""
    with tempfile.TemporaryDirectory() as folder:
        edges = 7 * sizes.nodes
        graph = communities(Path(folder) / "graph", nodes=sizes.nodes, edges=edges, features=8, classes=172)
        labels = np.array(graph.nodes.labels.values)
        near = graph.relation.blocks
        counts = np.concatenate([np.diff(block.offsets) for block in near])
        neighbours = np.concatenate([np.asarray(block.neighbours) for block in near])
        del near, graph
    offsets = np.concatenate([[0], np.cumsum(counts)])
    src, dst = (allocate(sizes.nodes, 32, "float16") for _ in range(2))
    src[:], dst[:] = 1, 0
    case = Case(offsets, neighbours, src, dst, "float16")
    orders = {
        "as it comes": None,
        "communities": np.argsort(labels, kind="stable"),
        "degree": np.argsort(-counts, kind="stable"),
    }
    found: dict[str, Any] = {"order": {}}
    for name, order in orders.items():
        other = case if order is None else _in_order(case, order)
        found["order"][name] = {
            "seconds": rounds_of({"": other.product()}, sizes.rounds + 1)[""],
            "missed": missed_rows(other.neighbours, last_cache() // 64) / other.entries,
            "gaps": _gaps(other, sizes),
        }
        print(f"   order {name}: {found['order'][name]}", flush=True)
    found["entries"] = case.entries
    found["reach"] = _reach(case)
    found["sharing"] = _sharing(case, sizes)
    return found


def _in_order(case: Case, order: Array) -> Case:
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rows = np.repeat(place, np.diff(case.offsets))
    offsets, neighbours, _ = build_csr(rows, place[case.neighbours], None, start=0, stop=len(order), symmetric=False)
    return replace(case, offsets=offsets, neighbours=neighbours)


def _gaps(case: Case, sizes: Sizes) -> dict[str, float]:
    """Bytes an entry of ids as gaps, seven bits a byte, and ns an entry and core to decode them."""
    part = min(len(case.offsets) - 1, sizes.nodes // 10)
    entries = int(case.offsets[part])
    coded, into = np.empty(5 * entries, np.uint8), np.empty(entries, np.int32)
    library = loops()
    size = library.encode_gaps(case.offsets.ctypes.data, case.neighbours.ctypes.data, part, coded.ctypes.data)
    given = (case.offsets.ctypes.data, coded.ctypes.data, part, into.ctypes.data)
    seconds = rounds_of({"": lambda: library.decode_gaps(*given)}, 3)[""]
    assert np.array_equal(into, case.neighbours[:entries])
    return {"bytes": size / entries, "ns": seconds * usable_cores() / entries * 1e9}  # one core alone decodes


def _reach(case: Case) -> list[float]:
    """Share of the entries that hops before the last must sum, from the last one back."""
    reached = np.random.default_rng(2).random(len(case.src)) < KEPT_ROWS
    counts, found = np.diff(case.offsets), []
    for _ in range(4):
        found.append(float(counts[reached].sum() / case.entries))
        entries = np.repeat(reached, counts)
        reached[case.neighbours[entries]] = True
    return found


def _sharing(case: Case, sizes: Sizes) -> dict[str, float]:
    """Two hops of 32 columns apart ÷ one of 64, and reading the neighbours alone ÷ a hop of 32."""
    src, dst = (allocate(len(case.src), 64, "float16") for _ in range(2))
    src[:], dst[:] = 1, 0
    wide = replace(case, src=src, dst=dst)
    library, parts = loops(), np.array_split(case.neighbours, usable_cores())
    seconds = rounds_of(
        {
            "32": case.product(),
            "64": wide.product(),
            "read": lambda: list(POOL.map(lambda part: library.read_memory(part.ctypes.data, part.nbytes // 8), parts)),
        },
        sizes.rounds,
    )
    return {"apart": 2 * seconds["32"] / seconds["64"], "read": seconds["read"] / seconds["32"]}


def page(found: dict[str, Any]) -> str:
    """The tables, as they stand in docs/propagation.md."""
    return "\n".join([*_tried(found), "", *_prefetched(found["prefetching"])])


def _tried(found: dict[str, Any]) -> list[str]:
    order, sharing = found["communities"]["order"], found["communities"]["sharing"]
    plain = order["as it comes"]
    faster = {name: plain["seconds"] / order[name]["seconds"] for name in ("communities", "degree")}
    gaps = {name: order[name]["gaps"] for name in order}
    bits = ", ".join(f"{value:.2f} × at {float(share):.1%} of rows" for share, value in found["zero rows"].items())
    reach = ", ".join(f"{share:.0%}" for share in found["communities"]["reach"])
    padded, bare = (_kept(found["prefetching"][name]) for name in ("208 bytes in 256", "208 bytes"))
    gain = [one["seconds"][_name(3, 16)] / _kept(one) for one in found["prefetching"].values()]
    near = [
        _kept(one) / one["seconds"][_name(3, NEAR if int(name.split()[0]) <= 224 else NEAR_WIDE)]
        for name, one in found["prefetching"].items()
    ]
    large = found["pages"]["1 GiB"]
    huge = "the system gave none here" if large is None else f"{1 / large:.2f} × as fast as 2 MiB"
    rows = [
        (
            f"prefetch into the second cache, {KEPT_WIDE} edges ahead (rows of 128 bytes {KEPT[1][128]}, of 64 "
            f"{KEPT[1][64]}), not into the first, 16 ahead",
            f"{min(gain):.2f} to {max(gain):.2f} × by row size on this machine",
            "kept for processors whose first cache has few buffers for misses",
        ),
        (
            f"prefetch into the first cache, {NEAR} edges ahead (rows of over 224 bytes {NEAR_WIDE}), ÷ the line above",
            f"{min(near):.2f} to {max(near):.2f} ×",
            "both are kept: the first ranges of a pass tell which is faster on a processor",
        ),
        ("float16 rows of 208 bytes laid 256 apart", f"{bare / padded:.2f} ×", _verdict(bare / padded)),
        (
            f"sums in blocks of {BLOCK} ÷ plain sums",
            f"{found['blocks']['50']:.3f} with 50 entries a row, {found['blocks']['300']:.3f} with 300",
            "kept: long rows keep their digits",
        ),
        (
            "rows of zeros left out by their bits (first hops of labels)",
            bits,
            "kept, while a tenth of the rows hold anything, or fewer",
        ),
        (
            "rows of 64 bytes of a large state, read in windows of a gigabyte by many rows together",
            ", ".join(f"{value:.2f} × at {size} GB" for size, value in found["windows"].items()),
            "kept above 3 GB, where the first ranges of a pass tell that it is faster: processors differ",
        ),
        (
            "node order: communities side by side",
            f"{faster['communities']:.2f} ×; {order['communities']['missed']:.0%} of gathered rows miss the cache, "
            f"{plain['missed']:.0%} as it comes",
            "not built: misses halve, time does not follow here, bytes would be tied to an order that must be found",
        ),
        ("node order: hubs first", f"{faster['degree']:.2f} ×; {order['degree']['missed']:.0%} miss", "not kept"),
        (
            "neighbours as gaps, seven bits a byte",
            f"{gaps['as it comes']['bytes']:.2f} bytes an entry for 4 ({gaps['communities']['bytes']:.2f} with "
            f"communities side by side), {gaps['as it comes']['ns']:.1f} ns an entry and core to decode",
            "not kept: a hop takes "
            f"{plain['seconds'] / found['communities']['entries'] * 1e9 * usable_cores():.1f} ns an entry and core",
        ),
        (
            "column blocks sharing one read of the neighbours",
            f"reading them is {sharing['read']:.0%} of a hop of 32 float16 columns; two such hops ÷ one of 64: "
            f"{sharing['apart']:.2f}",
            "in memory not: wider blocks are better, and are taken where memory allows",
        ),
        (
            f"the last hops only for what {KEPT_ROWS:.1%} kept rows reach",
            f"{reach} of the entries, from the last hop back",
            "kept for the last hop",
        ),
        ("states on pages of 2 MiB, not 4 KiB", f"{found['pages']['4 KiB']:.2f} ×", "kept"),
        ("pages of 1 GiB", huge, "not kept: they must be set aside when a machine starts"),
        (
            "two NUMA nodes",
            "on paper: half of the rows are then read from the other node, at about half the bandwidth",
            "not kept: a process a node with half of the columns each shares nothing but neighbours",
        ),
    ]
    lines = [
        f"Measured {found['date']} on {found['machine']}. More than 1 × is faster.",
        "",
        "| tried | effect | |",
        "|---|---|---|",
    ]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def _prefetched(found: dict[str, Any]) -> list[str]:
    names = [_name(hint, ahead) for hint in HINTS for ahead in DISTANCES]
    lines = ["GB/s of rows gathered, by hint and edges ahead:", "", f"| a row | {' | '.join(names)} |"]
    lines.append("|---|" + "---|" * len(names))
    for name, one in found.items():
        speeds = " | ".join(f"{one['gathered'] / one['seconds'][key] / 1e9:.1f}" for key in names)
        lines.append(f"| {name} | {speeds} |")
    return lines


def _name(hint: int, ahead: int) -> str:
    return f"{HINTS[hint]} {ahead}"


def _kept(one: dict[str, Any]) -> float:
    """Seconds with the hint and distance that the kernel has for rows of this size."""
    hint, distances = KEPT
    return float(one["seconds"][_name(hint, distances.get(one["row"], KEPT_WIDE))])


def _verdict(gain: float) -> str:
    return f"not kept: a fifth more memory{'' if gain < 1.05 else ', which is often the bound'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--parts", nargs="*", default=["prefetching", "blocks", "zero rows", "windows", "pages", "communities"]
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tried.json")
    parser.add_argument("--page", type=Path, help="Write the tables between their marks in this page.")
    options = parser.parse_args()
    sizes = Sizes(2 << 20, 8 << 20, 20_000, 1) if options.quick else Sizes(640_000_000, 5_000_000_000, 10_000_000, 3)
    parts = {
        "prefetching": prefetching,
        "blocks": blocks,
        "zero rows": zero_rows,
        "windows": windows,
        "pages": pages,
        "communities": with_communities,
    }
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.parts:
        print(f"-- {name}", flush=True)
        found[name] = parts[name](sizes)
        print(f"   {found[name]}", flush=True)
    found |= {"date": time.strftime("%Y-%m-%d"), "machine": describe()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1))
    if all(name in found for name in parts):
        text = page(found)
        print(text)
        if options.page:
            inside = re.compile(re.escape(MARKS[0]) + ".*" + re.escape(MARKS[1]), re.DOTALL)
            whole = options.page.read_text()
            assert inside.search(whole), f"{options.page} has no marks"
            options.page.write_text(inside.sub(lambda _: f"{MARKS[0]}\n{text}\n{MARKS[1]}", whole))


if __name__ == "__main__":
    main()
