"""Columns of times in edge tables, and cuts in them."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph.ingest.times import Cut, Times, holds_times

PAIRS = [("a", "b"), ("b", "c"), ("c", "d")]


def edges(*times: str, name: str = "time") -> str:
    return f"src,dst,{name}\n" + "".join(f"{a},{b},{time}\n" for (a, b), time in zip(PAIRS, times))


def use_of(report, column):
    return next(one.use for one in report.columns if one.table == "edges" and one.column == column)


@pytest.mark.parametrize(
    ("text", "times", "kept"),
    [
        ("2020-02-01", ("2020-01-31", "2020-02-01", "2020-02-02"), 1),
        ("2020-02", ("2020-01-31T23:59:59.999999", "2020-02-01T00:00", "2019-12-31 10:00"), 2),
        ("2020", ("2019-12-31T23:00:00-02:00", "2020-01-01T01:00:00+02:00", "2018-01-01T00:00:00Z"), 2),
        ("2020-01-01T00:00:00.5Z", ("2020-01-01T00:00:00.4Z", "2020-01-01T00:00:00.5Z", "2020-01-01T00:00:00.6Z"), 1),
        ("2015", ("2014", "2015", "2016"), 1),
        ("35", ("34.5", "35", "1e3"), 1),
        ("2020-01-01", ("1577836799", "1577836800", "1577836801"), 1),  # seconds
        ("2020-01-01", ("1577836799999", "1577836800000", "1600000000000"), 1),  # milliseconds
        ("2020-01-01", ("1577836799.5", "1577836800.5", "1577836801"), 1),
    ],
)
def test_edges_at_a_time_or_later_are_left_out_and_nodes_stay(build, text, times, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph, report = build(edges=edges(*times), before=text)
    assert (report.edges_later, graph.relation.entries) == (3 - kept, 2 * kept)
    assert graph.nodes.count == 4 and report.edges_read == 3


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_timestamps_of_every_unit_and_zone(build, tmp_path, unit, zone):
    moments = [dt.datetime(1969, 12, 31, 23, 30), dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 30)]
    moments = [moment.replace(tzinfo=dt.UTC) for moment in moments] if zone else moments
    columns = {"src": ["a", "b", "c"], "dst": ["b", "c", "d"], "seen": pa.array(moments, pa.timestamp(unit, zone))}
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, report = build(edges=tmp_path / "e.parquet", before="1970")
    assert report.edges_later == 2 and use_of(report, "seen") == "time"
    assert any("taken for UTC" in sentence for sentence in report.warnings) == (zone is None)


def test_days_need_no_zone(build, tmp_path):
    columns = {"src": ["a", "b"], "dst": ["b", "c"], "day": pa.array([0, 1], pa.date32())}
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, report = build(edges=tmp_path / "e.parquet", before="1970-01-02")
    assert report.edges_later == 1


def test_a_column_of_times_is_recognised_by_name_or_by_what_it_holds_and_never_a_weight(build, tmp_path):
    for number, name in enumerate(["time", "Timestamp", "date", "created_at"]):
        graph, report = build(edges=edges("7", "8", "9", name=name), out=tmp_path / f"g{number}")
        assert use_of(report, name) == "time" and not graph.relation.weighted
    _, report = build(edges=edges("2020-01-01", "2020-01-02", "", name="when"), out=tmp_path / "text")
    assert use_of(report, "when") == "time"
    _, report = build(edges=edges("2020-01-01", "soon", "", name="when"), out=tmp_path / "other")
    assert use_of(report, "when") == "ignored"
    _, report = build(edges=edges("1", "2", "3"), time="", out=tmp_path / "none")
    assert use_of(report, "time") == "ignored"
    _, report = build(edges=edges("1", "2", "3", name="year"), time="year", before="2", out=tmp_path / "named")
    assert use_of(report, "year") == "time" and report.edges_later == 2


@pytest.mark.parametrize(
    ("times", "options", "said"),
    [
        (("2020-01-01", "", "2020-01-01"), {}, "edges.csv, row 2, column time: missing time"),
        (("2020-01-01", "2020-02-30", "x"), {}, "edges.csv, row 2, column time: '2020-02-30' is not a time"),
        (("2020-01-01", "31/12/2020", "x"), {}, "row 2, column time: '31/12/2020' is not a time"),
        (("5", "soon", "x"), {"before": "7"}, "row 2, column time: 'soon' is not a number, as those before"),
        (("5", "inf", "x"), {"before": "7"}, "row 2, column time: 'inf' is not a number"),
        (("2015", "2016", "2017"), {}, "--before 2020-01-01 cannot be compared with column 'time': give a number such"),
        (("1577836799", "5", "7"), {}, "row 2, column time: 5 is of another size than 1577836799"),
        (("2020-01-01", "2020-01-02", "2020-01-03"), {"before": "35"}, "give a date such as 2020-01-01"),
        (("soon", "late", "x"), {"before": "35", "on_bad": "skip"}, "give a date such as 2024-05-31"),
        (("1", "2", "3"), {"before": "soon"}, "--before soon: is no time; times are such as"),
        (("1", "2", "3"), {"before": "2020-13-01"}, "--before 2020-13-01: is no time"),
        (("1", "2", "3"), {"time": ""}, "no column of times, which --before asks for; name it with --time COLUMN"),
        (("1", "2", "3"), {"time": "when"}, "no column 'when'"),
    ],
)
def test_bad_and_missing_times_are_told_with_file_row_and_column(build, tmp_path, times, options, said):
    with pytest.raises(GamlpError) as told:
        build(edges=edges(*times), **({"before": "2020-01-01"} | options))
    assert said in str(told.value)
    assert not (tmp_path / "graph").exists()


def test_bad_times_are_skipped_and_counted(build):
    _, report = build(edges=edges("2020-01-01", "soon", "2021-01-01"), before="2021", on_bad="skip")
    assert report.bad_rows == {"bad time": 1} and report.edges_later == 1


def test_what_nobody_asks_for_is_not_checked(build):
    graph, report = build(edges=edges("soon", "", "7"))
    assert graph.relation.entries == 6 and use_of(report, "time") == "time"


MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9998, 1, 1))


@given(MOMENTS, MOMENTS, st.sampled_from(["%Y-%m-%d", "%Y-%m", "%Y", "%Y-%m-%dT%H:%M:%S"]), st.booleans())
def test_a_cut_is_all_of_the_year_month_or_day_that_it_names(moment, written, form, included):
    form = form.replace("%Y", f"{written.year:04d}")
    cut = Cut.of("--x", written.strftime(form), included=included)
    ticks = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    times = Times("t", "moment", np.array([ticks]), np.ones(1, bool), ticks)
    form = form.replace(f"{written.year:04d}", "{:04d}")
    name = [moment.strftime(form.format(moment.year)), written.strftime(form.format(written.year))]
    exact = "%H" in form  # a moment, not a stretch of time
    expected = (moment <= written.replace(microsecond=0)) if exact and included else (
        (moment < written.replace(microsecond=0)) if exact else (name[0] <= name[1] if included else name[0] < name[1])
    )  # fmt: skip
    assert cut.keeps(times).tolist() == [expected]


def test_a_day_without_dashes_is_all_of_it_and_weeks_are_refused():
    whole, dashed = (Cut.of("--x", text, included=True) for text in ("20200131", "2020-01-31"))
    evening = (dt.datetime(2020, 1, 31, 23, 59) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    times = Times("t", "moment", np.array([evening, evening + 60 * 10**6]), np.ones(2, bool), evening)
    assert whole.keeps(times).tolist() == dashed.keeps(times).tolist() == [True, False]
    for text in ("2020-W05", "2020-W05-3", "2020W05"):  # Python reads them as the moment in which they begin
        with pytest.raises(GamlpError):
            Cut.of("--x", text, included=True)


def test_cuts_have_an_order():
    early, late = Cut.of("--train-until", "2020", included=True), Cut.of("--valid-until", "2021-05", included=True)
    late.check_after(early)
    with pytest.raises(GamlpError, match="--train-until 2020 is not later than --valid-until 2021-05"):
        early.check_after(late)
    with pytest.raises(GamlpError, match="different sorts"):
        late.check_after(Cut.of("--train-until", "35", included=True))


def test_what_holds_times():
    assert holds_times(pa.array(["2020-01-01", None, " 2020-01-01T10:00Z"], pa.large_string()))
    assert not holds_times(pa.array([None], pa.large_string()))
    assert not holds_times(pa.array(["2020"], pa.large_string()))
