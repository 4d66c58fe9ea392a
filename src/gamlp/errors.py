"""One base error: what is wrong, where (file, row, column), what to do."""

from __future__ import annotations


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
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        where = [self.file] if self.file is not None else []
        if self.row is not None:
            where.append(f"row {self.row}")
        if self.column is not None:
            where.append(f"column {self.column}")
        prefix = f"{', '.join(where)}: " if where else ""
        suffix = f"; {self.hint}" if self.hint else ""
        return f"{prefix}{self.problem}{suffix}".rstrip(".") + "."


class MissingExtra(GamlpError):
    """An optional library is not installed; names the extra that brings it."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed", hint=f'run: pip install "gamlp[{extra}]"')
