"""The leaderboard of a portfolio: what was tried and how well it validated, as a file beside the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from gamlp.errors import GamlpError
from gamlp.io import sealed, unsealed, write_json

FILE = "leaderboard.json"

# dropped: others were ahead; failed, or left out: `why` says.
State = Literal["finished", "dropped", "failed", "left out"]


class LeaderboardRow(BaseModel):
    """One candidate. `valid` with its standard `error`, `test` read once after the choice: of the metric.

    `simple`: a trivial answer that others must beat. `bytes` of its bundle.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    valid: FiniteFloat | None = None
    error: FiniteFloat | None = None
    test: FiniteFloat | None = None
    seconds: FiniteFloat = 0.0
    parameters: int = 0
    bytes: int = 0
    state: State = "finished"
    simple: bool = False
    why: str = ""


class Leaderboard(BaseModel):
    """All rows, the best first; `chosen` is the name of the one whose bundle is the run's, `sentence` says why.

    `recipe` is that of the chosen one, `positive` the class whose average precision is meant, and `tested` says whether
    test rows were read, which they are once the choice is written down.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["gamlp-leaderboard"] = "gamlp-leaderboard"
    version: Literal[1] = 1
    preset: str
    metric: str
    chosen: str
    sentence: str
    recipe: dict[str, Any]
    positive: int | None = None
    valid_rows: int
    splits: int = 1
    seconds: FiniteFloat = 0.0
    notes: list[str] = []
    tested: bool = False
    rows: list[LeaderboardRow]

    @property
    def winner(self) -> LeaderboardRow:
        return next(row for row in self.rows if row.name == self.chosen)

    def records(self) -> list[dict[str, Any]]:
        """A dict a row, for tables."""
        return [row.model_dump() for row in self.rows]

    def write(self, folder: Path) -> None:
        """Beside the run."""
        write_json(folder / FILE, sealed(self.model_dump(mode="json")))

    @classmethod
    def read(cls, folder: Path) -> Leaderboard | None:
        """Of a run folder; None where none was written. One that somebody changed is refused."""
        path = folder / FILE
        try:
            found = cls.model_validate(unsealed(path.read_bytes(), required=True))
        except FileNotFoundError:
            return None
        except (ValidationError, ValueError) as error:
            raise GamlpError("is damaged or no leaderboard", file=path, hint="choose another --out") from error
        if found.chosen not in {row.name for row in found.rows}:
            raise GamlpError("names a choice that it does not list", file=path, hint="choose another --out")
        return found
