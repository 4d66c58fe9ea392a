"""One base error: what is wrong, where (file, row, column), what to do."""

from __future__ import annotations

import re

_LONGEST_WORD = 500  # letters: paths are shorter
_JOINERS = "\u200c\u200d"  # within words of some scripts


def printable(text: str) -> str:
    r"""Text for people to read: what would move a cursor, start a line or turn the direction of letters is escaped.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _JOINERS else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


class GamlpError(Exception):
    """A problem a user can mend, told in one sentence.

    >>> str(GamlpError("NaN is not a feature", file="nodes.csv", row=7, column="x3", hint="give a number"))
    'nodes.csv, row 7, column x3: NaN is not a feature; give a number.'
    """

    def __init__(
        self,
        problem: str,
        *,
        file: object = None,  # a path or a place: whatever its text names
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = None if file is None else str(file)
        self.row = row
        self.column = column
        self.hint = hint
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """Where it is, what it is, and what can be done."""
        where = [self.file] if self.file is not None else []
        if self.row is not None:
            where.append(f"row {self.row}")
        if self.column is not None:
            where.append(f"column {self.column}")
        prefix = f"{', '.join(where)}: " if where else ""
        suffix = f"; {self.hint}" if self.hint else ""
        return shortened(printable(f"{prefix}{self.problem}{suffix}")).rstrip(".") + "."


def shortened(text: str) -> str:
    """Words of any length that a file or a command brings, such as a whole file in one cell, are shown in part."""
    return re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:200]}…{word[0][-50:]}", text)


class MissingExtra(GamlpError):
    """An optional library is not installed; names the extra that brings it."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed", hint=f'run: pip install "gamlp[{extra}]"')
