"""`gamlp` in processes of its own that need not import torch anew: forked from a process that has done nothing else.

Importing takes longer than most commands. What importing itself does is tested with the installed command, elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

_IMPORTED = ["torch", "torch._dynamo", "sklearn.metrics", "pyarrow.parquet", "gamlp.cli.main", "gamlp.run.training"]
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(_IMPORTED)


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def gamlp(*arguments: str, folder: Path | None = None, timeout: float = 600, **environment: str) -> Done:
    """The command in a folder (this one) and this environment, with changes, as a shell would start it."""
    with Started(*arguments, folder=folder, **environment) as started:
        return started.wait(timeout)


class Started:
    """The command on its way: to wait for, or to send signals to."""

    def __init__(self, *arguments: str, folder: Path | None = None, **environment: str) -> None:
        self.arguments = arguments
        self._written = tempfile.TemporaryDirectory()
        self._out, self._err = Path(self._written.name) / "out", Path(self._written.name) / "err"
        places = (str(folder or Path.cwd()), {**os.environ, **environment}, str(self._out), str(self._err))
        self._process = _SERVER.Process(target=_main, args=(list(arguments), *places))
        self._process.start()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._written.cleanup()

    def send(self, what: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, what)

    def ends_within(self, seconds: float) -> bool:
        self._process.join(seconds)
        return not self._process.is_alive()

    def wait(self, timeout: float = 600) -> Done:
        """How it ended."""
        if not self.ends_within(timeout):
            raise TimeoutError(f"gamlp {' '.join(self.arguments)}: not done after {timeout:.0f} s")
        assert self._process.exitcode is not None
        texts = [place.read_text() if place.exists() else "" for place in (self._out, self._err)]
        return Done(self._process.exitcode, *texts)


def _main(arguments: list[str], folder: str, environment: dict[str, str], out: str, err: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, place in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    sys.argv = ["gamlp", *arguments]
    from gamlp.cli.main import main

    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    raise SystemExit(code)
