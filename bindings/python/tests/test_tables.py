"""Tables of several libraries, and the types of their columns."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import case_of
from test_command import named

import tidegate as tg

CENTRAL = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]}
DAYS = [datetime.date(2026, 3, 1), datetime.date(2026, 3, 1), datetime.date(2026, 3, 2)]
VISITS = {"t": [0, 0, 1], "user": ["ann", "bob", "ann"], "value": ["home", "shop", "shop"]}


def release(table: Any, **keys: Any) -> tg.Releases[Any]:
    return tg.Stream(CENTRAL | keys, seed=1).release(table)


@pytest.mark.parametrize("table", [pl.DataFrame(VISITS), pd.DataFrame(VISITS), pa.table(VISITS)], ids=type)
def test_releases_are_of_the_kind_that_was_given(table: Any) -> None:
    released = release(table)
    assert isinstance(released.table, type(table))
    assert list(pl.Series(released["value"]))[:2] == ["home", "shop"]
    assert pl.DataFrame(released).equals(pl.DataFrame(release(pl.DataFrame(VISITS))))
    assert released.columns == ["t", "value", "count", "variance", "freshness", "spent", "seeded"]
    assert len(released) == 2 and repr(released) == "Releases(2 of central.ba, seeded)"


@pytest.mark.parametrize(
    "change",
    [
        pl.col("value").cast(pl.Categorical),
        pl.col("value").cast(pl.Enum(["shop", "home"])),
        pl.col("t").cast(pl.Int8),
        pl.col("t").cast(pl.UInt64),
        pl.col("t").cast(pl.String),
        pl.col("t").cast(pl.Float64),
        pl.lit(0.5).alias("another"),
        pl.lit(None).alias("nothing"),
    ],
    ids=str,
)
def test_the_type_of_a_column_does_not_matter(change: pl.Expr) -> None:
    table = pl.DataFrame(VISITS)
    assert release(table.with_columns(change)).to_csv() == release(table).to_csv()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_texts_are_read_in_every_layout(kind: pa.DataType) -> None:
    table = pa.table(VISITS)
    texts = table.set_column(2, "value", table["value"].cast(kind))
    assert release(texts).to_csv() == release(table).to_csv()


def test_chunks_and_other_columns_do_not_matter() -> None:
    table = pa.table(VISITS | {"lists": [[1], [2], [3]]})
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1, 2)])
    assert chunks["t"].num_chunks == 3
    assert release(chunks).to_csv() == release(pa.table(VISITS)).to_csv()


def test_numbers_may_be_missing() -> None:
    case = case_of(named("scalar.laplace"))
    values = [1.0, None, 3.5, float("nan")]
    table = pl.DataFrame({"t": range(4), "value": values})
    texts = pl.DataFrame({"t": range(4), "value": ["1", "", "3.5", "NaN"]})
    numbers = tg.Stream(case.spec, seed=2).release(table)
    assert numbers.to_csv() == tg.Stream(case.spec, seed=2).release(texts).to_csv()


DAILY = {"every": "1d", "origin": datetime.date(2026, 3, 1)}
HOURLY = {"every": datetime.timedelta(hours=1), "origin": "2026-03-01T00:00:00Z"}


def test_dates_stay_dates() -> None:
    texts = release(pl.DataFrame(VISITS | {"t": [day.isoformat() for day in DAYS]}), **DAILY)
    dates = release(pl.DataFrame(VISITS | {"t": DAYS}), **DAILY)
    assert dates.to_csv() == texts.to_csv()
    assert dates.table["time"].dtype == pl.Date
    assert dates.table["time"].to_list() == [DAYS[0]] * 2 + [DAYS[2]] * 2
    assert texts.table["time"].to_list() == [day.isoformat() for day in dates.table["time"]]
    of_arrow = release(pa.table(VISITS | {"t": DAYS}), **DAILY)
    assert of_arrow.table.schema.field("time").type == pa.date32()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "+01:00"])
def test_moments_stay_moments(unit: str, zone: str | None) -> None:
    first = datetime.datetime(2026, 3, 1, 5, 59, 59, 250_000)
    offset = "" if zone is None else zone if zone != "UTC" else "Z"
    origin = f"2026-03-01T00:00:00{offset}" if zone else "2026-03-01"
    naive = pa.array([first, first, first + datetime.timedelta(hours=1)], pa.timestamp("us"))
    local = naive if zone is None else pa.compute.assume_timezone(naive, zone)
    moments = pa.table(VISITS | {"t": local.cast(pa.timestamp(unit, zone), safe=False)})
    texts = pa.table(VISITS | {"t": [f"2026-03-01T{hour}:59:59{offset}" for hour in ("05", "05", "06")]})
    keys = HOURLY | {"origin": origin}
    released = release(moments, **keys)
    assert released.to_csv() == release(texts, **keys).to_csv()
    kind = released.table.schema.field("time").type
    assert kind == pa.timestamp("us", zone)
    # Presence is protected, so every hour from the origin on is released.
    expected = pa.array([datetime.datetime(2026, 3, 1, hour) for hour in range(7)], pa.timestamp("us"))
    expected = expected if zone is None else pa.compute.assume_timezone(expected, zone)
    assert released.table["time"].to_pylist()[::2] == expected.to_pylist()


def test_a_zone_whose_offset_changes_is_refused() -> None:
    times = pl.Series([datetime.datetime(2026, 3, 1)] * 3).dt.replace_time_zone("Europe/Berlin")
    with pytest.raises(tg.BadData, match="column \"t\": the offset of \"Europe/Berlin\" from UTC changes"):
        release(pl.DataFrame(VISITS).with_columns(times.alias("t")), **HOURLY)
