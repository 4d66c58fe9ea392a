"""Days and times: elapsed days, and where in the week, the year and the day they lie. All in UTC."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gamlp.arrays import Array
from gamlp.graph.features.encoders.gathered import Dates, elapsed_days
from gamlp.graph.features.encoders.reading import DAY, FIRST, LAST, Column, dates_or_texts
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
        values = np.clip(values, FIRST, LAST)
        limited((elapsed_days(values) - self.center) / self.scale, out[:, 0])
        days = values // DAY
        # The first of January 1970 was a Thursday: three days after a Monday.
        weekday = (days + 3) % 7
        yearday = pc.day_of_year(pa.array(values, pa.timestamp("us"))).to_numpy() - 1
        # The place within the day turns both on: cos(a + b) = cos a · cos b − sin a · sin b, from tables for a.
        within = (values - days * DAY) / DAY if self.timed else None
        _turned(_WEEKDAYS, weekday, within, 7, out[:, 1:3])
        _turned(_YEARDAYS, yearday, within, _YEAR, out[:, 3:5])
        if within is not None:
            out[:, 5:7] = _circle(within)
        if gap.any():
            out[gap] = 0
        return gap, Unseen()


def calendar_state(dates: Dates, gaps: bool) -> CalendarState:
    moments = dates.moments
    return CalendarState(center=moments.mean, scale=moments.deviation or 1.0, timed=dates.timed, gaps=gaps)


def _circle(share: Array) -> Array:
    """float64 `[rows, 2]`: sine and cosine of a share of the whole."""
    angle = 2 * np.pi * share
    return np.stack([np.sin(angle), np.cos(angle)], 1)


_WEEKDAYS, _YEARDAYS = _circle(np.arange(7) / 7), _circle(np.arange(366) / _YEAR)


def _turned(table: Array, days: Array, within: Array | None, length: float, out: Array) -> None:
    """Sine and cosine of whole days, and the share of a day that is gone."""
    found = table[days]
    if within is not None:
        more = _circle(within / length)
        sine = found[:, 0] * more[:, 1] + found[:, 1] * more[:, 0]
        cosine = found[:, 1] * more[:, 1] - found[:, 0] * more[:, 0]
        found = np.stack([sine, cosine], 1)
    out[:] = found
