"""Where the steps of a run happen: what every engine can do, and the engine of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, IngestReport, TablePlaces, ingest
from gamlp.io import Place, Ranges, RangeWork, State, tally_here
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, LocalPropagator, Plan
from gamlp.run.decision import LIKELIEST, Decision
from gamlp.run.resources import Resources

if TYPE_CHECKING:  # torch is imported by the steps that need it
    from gamlp.run.prediction_table import Written
    from gamlp.training import Bundle, Fitted, Observe, Prepared, Result, SeedFiles


@dataclass(frozen=True)
class Opened:
    """A trained model with the nodes it is asked about; `rows` are some of them alone, ascending.

    `notes` are sentences a person should read.
    """

    bundle: Bundle
    store: HopStore
    graph: Graph
    notes: tuple[str, ...] = ()
    rows: Array | None = None


# Opens a trained model; hops that must be made for it are made in a folder, or where they usually are.
Opening = Callable[[Path | None], AbstractContextManager[Opened]]


class Engine(Protocol):
    """Does the steps of a run, here or elsewhere; the same graph and recipe give the same results on every engine.

    It is made from `Resources` and refuses settings that it does not know. `one_machine`: whether methods that hold
    the whole graph in memory may run beside it.
    """

    one_machine: bool

    def ingest(
        self,
        edges: TablePlaces,
        nodes: TablePlaces,
        out: str | Path,
        options: IngestOptions | None = None,
        progress: Progress = silent,
    ) -> IngestReport:
        """Tables → a graph folder."""

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        """Run a plan over a graph into a store; an interrupted run, run again, ends with the same bytes."""

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        """The graph of some rows alone, in a folder."""

    def fit(
        self,
        prepared: Prepared,
        seed: int,
        files: SeedFiles | None = None,
        *,
        observe: Observe | None = None,
        progress: Progress = silent,
    ) -> Fitted:
        """Train one seed."""

    def predict(
        self,
        opening: Opening,
        out: str | Path | Place,
        *,
        rows: str = "all",
        each_class: bool = True,
        batch_size: int | None = None,
        decision: Decision = LIKELIEST,
        keep_finished: bool = False,
        progress: Progress = silent,
    ) -> Written | None:
        """Write a table of predictions. With `keep_finished` one that was written before may stay (None)."""

    def tally(
        self,
        beside: str | Path | Place,
        work: RangeWork,
        ranges: Ranges,
        stage: str = "",
        progress: Progress = silent,
    ) -> Iterator[State]:
        """Have ranges of rows counted: answers in their order, to be added up. `beside`: a folder that all see."""

    def close(self) -> None:
        """Let go of what the engine holds."""


@dataclass(frozen=True)
class LocalEngine:
    """All steps on this machine."""

    resources: Resources
    one_machine = True

    def __post_init__(self) -> None:
        if self.resources.settings:
            name = next(iter(self.resources.settings)).replace("_", "-")
            raise GamlpError(f"--{name} is for Spark", hint="say --engine spark too")

    def ingest(
        self,
        edges: TablePlaces,
        nodes: TablePlaces,
        out: str | Path,
        options: IngestOptions | None = None,
        progress: Progress = silent,
    ) -> IngestReport:
        return ingest(edges, nodes, out, options, memory=self.resources.memory, progress=progress)

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        return self._propagator().propagate(graph, plan, store, progress)

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        return self._propagator().induce(graph, rows, folder, progress)

    def _propagator(self) -> LocalPropagator:
        return LocalPropagator(memory=self.resources.memory, threads=self.resources.threads)

    def fit(
        self,
        prepared: Prepared,
        seed: int,
        files: SeedFiles | None = None,
        *,
        observe: Observe | None = None,
        progress: Progress = silent,
    ) -> Fitted:
        from gamlp.training import (
            Machine,
            SeedFiles,
            choose_device,
            fit_prepared,
            fitted_of,
            launch_processes,
            shared_job,
        )

        given, count, files = self.resources, self.resources.processes, files or SeedFiles()
        served = prepared.recipe.training.exchange == "server"
        if given.tls is not None and not served:
            raise GamlpError("--tls-cert is for a parameter server", hint="say --exchange server too")
        if count == 1 and not served:
            machine = Machine(choose_device(given.device), given.memory, files.checkpoint, files.checkpoint_seconds)
            return fit_prepared(prepared, seed, machine, observe=observe, progress=progress)
        shares = {
            "device": given.device,
            "threads": None if given.threads is None else max(1, given.threads // count),
            "memory": None if given.memory is None else given.memory // count,
        }
        with shared_job(prepared, seed, files, **shares) as job:
            assert files.log is not None
            launch: Callable[..., Result] = launch_processes
            if served:  # it brings Arrow Flight, which others need not import
                from gamlp.training.server import Certificate, launch_served

                launch = partial(launch_served, tls=None if given.tls is None else Certificate(*given.tls))
            found = launch(job, count, log=files.log, observed_epoch=files.observed, observe=observe, progress=progress)
        return fitted_of(prepared, *found)

    def predict(
        self,
        opening: Opening,
        out: str | Path | Place,
        *,
        rows: str = "all",
        each_class: bool = True,
        batch_size: int | None = None,
        decision: Decision = LIKELIEST,
        keep_finished: bool = False,
        progress: Progress = silent,
    ) -> Written | None:
        from gamlp.run.prediction_table import check_kept, check_suffix, choose_rows, write_predictions
        from gamlp.training import choose_device

        out = Path(str(out))
        check_suffix(out)
        device = choose_device(self.resources.device)
        with opening(out.parent) as read:
            if read.rows is not None:
                check_kept(read.store, read.rows, "those asked for")
            return write_predictions(
                read.bundle, read.store, read.graph.nodes.ids, out,
                rows=choose_rows(read.store, rows) if read.rows is None else read.rows, each_class=each_class,
                batch_size=batch_size, decision=decision, device=device, progress=progress,
            )  # fmt: skip

    def tally(
        self,
        beside: str | Path | Place,
        work: RangeWork,
        ranges: Ranges,
        stage: str = "",
        progress: Progress = silent,
    ) -> Iterator[State]:
        return tally_here(work, ranges, stage, progress)

    def close(self) -> None:
        pass
