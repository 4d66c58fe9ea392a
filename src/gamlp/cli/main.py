"""`gamlp`: verbs, and errors as one sentence with exit code 2."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gamlp.cli.lean import lean_help
from gamlp.cli.show import display
from gamlp.cli.verbs import Verbs, listed
from gamlp.errors import GamlpError, printable, shortened

_GO_ON = "run the same command again to go on where it can (train: with --resume)"


class _Termination:
    """SIGTERM (of kill, timeout, a batch system) is answered as Ctrl-C: what is unfinished is removed or kept.

    `asked` remembers it: a library that is interrupted while it is imported may raise an error of its own instead.
    Where Python can raise nothing (while an object is finalised), Ctrl-C and SIGTERM come again a moment later.
    """

    asked = False

    def __enter__(self) -> _Termination:
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._again
        self._before = signal.signal(signal.SIGTERM, self._interrupt) if _in_main_thread() else None
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _again(self, unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._hook(unraisable)
            return
        what = signal.SIGTERM if self.asked else signal.SIGINT
        timer = threading.Timer(0.05, lambda: _thread.interrupt_main(what))
        timer.daemon = True
        timer.start()

    def _interrupt(self, *_: object) -> None:
        self.asked = True
        raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Verbs(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Verbs()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        verbs, self.commands = self.commands, listed()
        try:
            with lean_help():
                import typer.rich_utils  # noqa: F401  typer's own import of it comes when help is shown
            super().format_help(ctx, formatter)
        finally:
            self.commands = verbs

    def invoke(self, ctx: Any) -> Any:
        with _Termination() as termination, display.telling("--json" in ctx.args):
            try:
                return super().invoke(ctx)
            except BaseException as error:
                if termination.asked:
                    _fail(f"terminated; {_GO_ON}", 128 + signal.SIGTERM)
                if isinstance(error, KeyboardInterrupt):  # before typer, which would end without a word
                    _fail(f"interrupted; {_GO_ON}", 128 + signal.SIGINT)
                if isinstance(error, Exception) and _memory_ended(error):
                    _fail(_more_memory(self.get_command(ctx, ctx.invoked_subcommand)), 2)
                raise


# What takes less memory, where a verb has such an option.
_LESS = {
    "--memory": "a smaller --memory",
    "--batch-size": "a smaller --batch-size",
    "--seeds": "a smaller --set training.batch_size=…",  # a verb that trains
    "--threads": "fewer --threads",
    "--processes": "fewer --processes",
}


def _memory_ended(error: Exception) -> bool:
    from gamlp.io import memory_ended  # only where something went wrong

    return memory_ended(error)


def _more_memory(verb: Any) -> str:
    """One sentence that names what this verb offers."""
    known = {name for option in getattr(verb, "params", ()) for name in option.opts}
    *most, last = [less for name, less in _LESS.items() if name in known] or ["the machine more memory"]
    return f"there is no more memory; give {', '.join(most) + ' or ' if most else ''}{last}."


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from gamlp import __version__

        typer.echo(f"gamlp {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Classify the nodes of a graph too big for graph neural networks.

    From two tables to labels for every node:

      gamlp ingest --edges edges.csv --nodes nodes.csv --out graph
      gamlp train graph --out run
      gamlp predict run --out predictions.parquet

    All of it at once, on your tables or on bundled data:

      gamlp run --edges edges.csv --nodes nodes.csv
      gamlp run digits
    """


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"gamlp: warning: {printable(str(message))}", file=sys.stderr)  # noqa: T201


def main() -> None:
    """Run the command line."""
    warnings.showwarning = _show_warning
    try:
        app()
    except GamlpError as error:
        _fail(str(error), 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if error.filename is None:
            raise
        _fail(f"{error.filename}: {error.strerror}.", 2)


def _fail(sentence: str, code: int) -> None:
    print(f"gamlp: {shortened(printable(sentence))}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


if __name__ == "__main__":
    main()
