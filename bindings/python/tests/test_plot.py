"""Charts: what is drawn."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection, QuadMesh

import tidegate as tg

DOMAIN = ["home", "shop", "way", "work", "out"]
COUNTS = pl.DataFrame({"t": range(20), **{name: [100 * (place + 1)] * 20 for place, name in enumerate(DOMAIN)}})


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def released(mechanism: str = "uniform", table: Any = COUNTS, **options: Any) -> tg.Releases[Any]:
    given = {"epsilon": 2, "window": 5, "domain": DOMAIN, "seed": 1, **options}
    return tg.Central(mechanism, **given).release(table)


def curves(ax: Axes) -> list[Any]:
    return [line for line in ax.lines if not str(line.get_label()).startswith("_")]


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def bands(ax: Axes) -> list[Any]:
    return [band for band in ax.collections if isinstance(band, PolyCollection) and not isinstance(band, QuadMesh)]


def test_lines_have_the_numbers_and_bands_of_the_releases() -> None:
    out = released()
    ax = out.plot(["shop", "out"])
    assert legend(ax) == ["shop", "out"] and ax.get_ylabel() == "count" and ax.get_xlabel() == "timestamp"
    assert ax.get_title() == "central.uniform (seeded: not private)"
    table = out.table.filter(pl.col("value") == "shop")
    line, band = curves(ax)[0], bands(ax)[0]
    assert line.get_xdata().tolist() == table["t"].to_list() and line.get_ydata().tolist() == table["count"].to_list()
    heights = band.get_paths()[0].vertices[:, 1]
    half = 1.959964 * np.sqrt(table["variance"].to_numpy())
    assert np.isclose(heights.max(), (table["count"].to_numpy() + half).max())
    assert np.isclose(heights.min(), max((table["count"].to_numpy() - half).min(), 0))


def test_the_four_largest_values_are_drawn_unless_others_are_named() -> None:
    assert legend(released().plot()) == ["shop", "way", "work", "out"]
    assert legend(released().plot(most=2)) == ["work", "out"]
    assert legend(released().plot("home")) == ["home"]


def test_bands_end_where_the_truth_can_lie() -> None:
    out = tg.Local("lbu", epsilon=0.5, window=5, domain=DOMAIN, population=50, seed=1).release(
        pl.DataFrame({"t": [0] * 50 + [1] * 50, "user": [f"u{u}" for u in range(50)] * 2, "value": ["home"] * 100})
    )
    for band in bands(out.plot()):
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.min() >= 0 and heights.max() <= 1


def test_marks_show_freshness() -> None:
    out = released("ba")
    ax = out.plot("shop")
    shown = {
        (line.get_marker(), line.get_fillstyle()): line.get_xdata().tolist()
        for line in ax.lines
        if line.get_linestyle() == "None"
    }
    of = out.table.filter(pl.col("value") == "shop")
    for key, name in ((("o", "full"), "fresh"), (("o", "none"), "approximated"), (("x", "full"), "nullified")):
        assert shown.get(key, []) == of.filter(pl.col("freshness") == name)["t"].to_list(), name
    assert len(shown) > 1


def test_times_are_on_the_axis() -> None:
    days = COUNTS.with_columns(t=pl.Series([datetime.date(2026, 3, 1) + datetime.timedelta(t) for t in range(20)]))
    ax = released(table=days, every="1d", origin="2026-03-01").plot("shop")
    assert ax.get_xlabel() == "time" and isinstance(ax.xaxis.get_major_formatter(), mdates.AutoDateFormatter)
    first, last = curves(ax)[0].get_xdata()[[0, -1]]
    assert (first, last) == (np.datetime64("2026-03-01"), np.datetime64("2026-03-20"))


def test_a_large_domain_is_a_heat_map_of_its_largest_values() -> None:
    table = pl.DataFrame({"t": range(5), **{f"v{value}": [value] * 5 for value in range(100)}})
    out = released(table=table, domain=[f"v{value}" for value in range(100)], epsilon=200)
    ax = out.plot()
    (mesh,) = [found for found in ax.collections if isinstance(found, QuadMesh)]
    assert mesh.get_array().shape == (30, 5)
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "v99"
    assert len(curves(out.plot(kind="lines"))) == 4 and len(curves(out.plot(["v1"]))) == 1
    (mesh,) = [found for found in out.plot(kind="heat", most=7).collections if isinstance(found, QuadMesh)]
    assert mesh.get_array().shape == (7, 5)


def test_the_truth_is_gathered_from_the_table_that_was_released() -> None:
    rows = [(f"2026-03-0{t + 1}", f"u{u}", DOMAIN[u % 3]) for t in range(3) for u in range(30 + t)]
    visits = pl.DataFrame(rows, schema=["date", "uid", "place"], orient="row")
    stream = tg.Central("uniform", epsilon=1, window=2, domain=DOMAIN, every="1d", origin="2026-03-01")
    out = stream.release(visits, time="date", user="uid", value="place")
    ax = out.plot(["home", "out"], truth=visits)
    dotted = [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == ":"]
    assert dotted[:2] == [[10, 11, 11], [0, 0, 0]] and legend(ax)[-1] == "truth (not private)"
    renamed = visits.rename({"place": "where"}).to_pandas()
    assert isinstance(renamed, pd.DataFrame)
    ax = out.plot("home", truth=renamed, columns={"time": "date", "user": "uid", "value": "where"})
    assert [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == ":"][0] == [10, 11, 11]
    with pytest.raises(tg.BadData, match="uid|place|date"):
        out.plot("home", truth=visits.rename({"place": "where"}))


def test_numbers_and_shares_have_a_truth_too() -> None:
    readings = pl.DataFrame({"t": range(6), "value": [5, 6, 7, 8, 9, 9]})
    out = tg.Scalar(epsilon=5, domain={"low": 0, "high": 9}, protects="reading", delay=2).release(readings)
    ax = out.plot(truth=readings)
    assert ax.get_ylabel() == "value" and curves(ax)[-1].get_label() == "truth (not private)"
    assert [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == ":"][0] == [5, 6, 7, 8, 9, 9]
    users = pl.DataFrame({"t": [0] * 40, "user": range(40), "value": ["home"] * 30 + ["shop"] * 10})
    users = users.with_columns(pl.col("user").cast(pl.String))
    shares = tg.Local("lbu", epsilon=5, window=2, domain=DOMAIN, population=40).release(users)
    ax = shares.plot(["home", "shop"], truth=users)
    assert [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == ":"][:2] == [[0.75], [0.25]]


def test_series_have_a_line_each() -> None:
    table = pl.concat([COUNTS.with_columns(place=pl.lit(name)) for name in ("north", "south")]).sort("t", "place")
    stream = tg.Central("uniform", epsilon=1, window=2, domain=DOMAIN, series_names=["north", "south"], across_series=2)
    out = stream.release(table, series="place")
    assert legend(out.plot()) == ["north: out", "south: out"]
    assert legend(out.plot("home")) == ["north: home", "south: home"]
    assert legend(out.plot(["home", "shop"], series="south")) == ["south: home", "south: shop"]
    with pytest.raises(tg.BadSpec, match="beside which series"):
        out.plot(truth=table)


def test_given_axes_are_drawn_on() -> None:
    _, (above, below) = plt.subplots(2)
    assert released().plot("shop", ax=above) is above and len(curves(above)) == 1 and len(curves(below)) == 0
    assert plt.get_fignums() == [1]


def test_evaluations_are_drawn_over_what_varies() -> None:
    options: dict[str, Any] = {"length": 30, "population": 5000, "repeats": 2, "seed": 1, "window": 5}
    found = tg.evaluate("sin", ["lbu", "lpu"], epsilon=[0.5, 1, 2], **options)
    ax = found.plot()
    assert legend(ax) == ["lbu", "lpu"] and ax.get_xlabel() == "epsilon" and ax.get_yscale() == "log"
    x, y = ax.containers[0][0].get_data()  # type: ignore[index]
    rows = [row for row in found.rows if row["mechanism"] == "lbu"]
    assert list(x) == [0.5, 1, 2] and list(y) == [row[ax.get_ylabel()] for row in rows]
    single = tg.evaluate("sin", ["lbu", "lpu"], epsilon=1, **options)
    bars = single.plot("mse").patches
    assert [bar.get_width() for bar in bars] == [row["mse"] for row in single.rows]
    with pytest.raises(tg.BadSpec, match="metric: expected one of mse"):
        single.plot("beauty")


def test_advice_audits_and_channels_are_drawn() -> None:
    advice = tg.advise(
        kind="counts", trust="curator", population=5000, domain=4, window=7, epsilon=1,
        mechanisms=["uniform", "sample"], length=30,
    )  # fmt: skip
    ax = advice.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == [row["mechanism"] for row in advice.rows]
    assert ax.get_title() == f"recommended: {advice.recommended}"
    assert [line.get_xdata()[0] for line in ax.lines] == [row["error"] for row in advice.rows]

    needs = tg.advise(
        kind="counts", trust="curator", population=5000, domain=4, window=7, mechanisms=["uniform", "sample"],
        length=30, target_error=0.001, solve="epsilon", epsilon=1,
    )  # fmt: skip
    ax = needs.plot()
    assert ax.get_xlabel() == "epsilon needed"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["uniform", "sample (never)"]

    audit = tg.audit("grr", "oue", epsilon=1, runs=500, seed=1)
    ax = audit.plot()
    assert [label.get_text().partition(",")[0] for label in ax.get_yticklabels()] == [
        row["mechanism"] for row in audit.rows
    ]
    assert {"claimed", "exact", "lower bound"} <= set(legend(ax))
    drawn = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert set(drawn) >= {row["exact"] for row in audit.rows}

    channel = tg.channel([0.5, 0.3, 0.2], epsilon=0.5)
    ax = channel.plot()
    assert np.array_equal(ax.images[0].get_array(), channel.matrix) and ax.get_ylabel() == "symbol"
    assert len(ax.texts) == 9


def test_what_cannot_be_drawn_is_refused_before_anything_is() -> None:
    out = released()
    for options, said in (
        ({"kind": "cake"}, "kind"),
        ({"values": "garage"}, "values"),
        ({"values": []}, "values"),
        ({"most": 0}, "most"),
        ({"series": "north"}, "series"),
        ({"truth": COUNTS, "kind": "heat"}, "truth"),
    ):
        with pytest.raises(tg.BadSpec, match=said):
            out.plot(**options)  # type: ignore[arg-type]
    assert plt.get_fignums() == []
    model = {"prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.1, 0.9]]}
    symbols = tg.Sequence("crr", epsilon=1, domain=["in", "out"], model=model).release(
        pl.DataFrame({"t": [0, 1], "user": ["ann", "ann"], "value": ["in", "out"]})
    )
    with pytest.raises(tg.BadSpec, match="make no curve"):
        symbols.plot()


def test_names_with_dollars_are_no_formulas() -> None:
    names = ["$x", "a$b$c", "^_\\", "long " * 50]
    table = pl.DataFrame({"t": [0, 1], **{name.strip(): [5, 5] for name in names}})
    ax = released(table=table, domain=[name.strip() for name in names]).plot()
    ax.figure.canvas.draw()
    assert all(len(text) < 40 for text in legend(ax))


def test_matplotlib_is_imported_only_for_charts_and_its_absence_is_named() -> None:
    code = """
import sys, tidegate as tg
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
try:
    tg.channel([0.5, 0.5], epsilon=1).plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "charts are drawn by matplotlib: pip install 'tidegate[plot]'\n"
