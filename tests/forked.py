"""`gamlp` in processes of its own that need not import torch anew: forked from a process that has done nothing else.

Importing takes longer than most commands. What importing itself does is tested with the installed command, elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
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
    with tempfile.TemporaryDirectory() as written:
        out, err = Path(written) / "out", Path(written) / "err"
        given = (list(arguments), str(folder or Path.cwd()), {**os.environ, **environment}, str(out), str(err))
        process = _SERVER.Process(target=_main, args=given)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"gamlp {' '.join(arguments)}: not done after {timeout:.0f} s")
        assert process.exitcode is not None
        return Done(process.exitcode, out.read_text(), err.read_text())


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
