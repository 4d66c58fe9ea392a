"""Days and times: elapsed days, and where in the week, the year and the day they lie. All in UTC."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gamlp.arrays import Array
from gamlp.graph.features.encoders.gathered import Dates, elapsed_days
from gamlp.graph.features.encoders.reading import DAY, Column, dates_or_texts
from gamlp.graph.features.encoders.state import State, Unseen, limited

_YEAR = 365.2425  # days


class CalendarState(State):
    """Elapsed days (x − center) / scale, then sine and cosine of the place in a week, in a year and, `timed`, in a day.

    A gap is the mean of elapsed days, and no place in any circle.
    """

    kind: Literal["calendar"] = "calendar"
    center: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    timed: bool = False

    def feature_names(self, name: str) -> list[str]:
        circles = ["week", "year", *(["day"] if self.timed else [])]
        return [
            f"{name} elapsed",
            *(f"{name} {part} in the {circle}" for circle in circles for part in ("sine", "cosine")),
        ]

    def readable(self, column: Column) -> Array:
        return dates_or_texts(column)[2]

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        values, gap, _ = dates_or_texts(column)
        limited((elapsed_days(values) - self.center) / self.scale, out[:, 0])
        days = values // DAY
        within = (values - days * DAY) / DAY
        # The first of January 1970 was a Thursday: three days after a Monday.
        _circle(((days + 3) % 7 + within) / 7, out[:, 1:3])
        new_year = pc.floor_temporal(pa.array(values, pa.timestamp("us")), unit="year").cast(pa.int64()).to_numpy()
        _circle((values - new_year) / (DAY * _YEAR), out[:, 3:5])
        if self.timed:
            _circle(within, out[:, 5:7])
        if gap.any():
            out[gap] = 0
        return gap, Unseen()


def calendar_state(dates: Dates, gaps: bool) -> CalendarState:
    moments = dates.moments
    return CalendarState(center=moments.mean, scale=moments.deviation or 1.0, timed=dates.timed, gaps=gaps)


def _circle(share: Array, out: Array) -> None:
    angle = 2 * np.pi * share
    out[:, 0], out[:, 1] = np.sin(angle), np.cos(angle)
