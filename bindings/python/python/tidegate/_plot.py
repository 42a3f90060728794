"""Charts by matplotlib, which is imported only here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from collections.abc import Sequence as List
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._errors import BadSpec
from ._keywords import keywords
from ._tables import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Half the length of a 95 % interval, in standard deviations.
HALF_INTERVAL = 1.959964
#: Most lines unless more are asked for, and most rows of a heat map.
MOST_LINES, MOST_HEAT = 4, 30
#: The greatest domain that is drawn as lines unless said otherwise.
SMALL_DOMAIN = 12
#: More timestamps than these have no marks for repeated releases.
MANY = 400
#: The longest name in a chart.
LONGEST_NAME = 30


def axes_of(ax: Axes | None) -> Axes:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("charts are drawn by matplotlib: pip install 'tidegate[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def short(name: object) -> str:
    """A name in a chart. A dollar sign begins no formula."""
    text = str(name)
    text = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
    return text.replace("$", r"\$")


def releases(
    native: _tidegate.Releases,
    *,
    mechanism: str,
    values: str | int | List[str | int] | None,
    series: str | List[str] | None,
    kind: str | None,
    most: int | None,
    truth: Any,
    columns: Mapping[str, str | None],
    ax: Axes | None,
) -> Axes:
    """Draws releases over time: see :meth:`Releases.plot`."""
    if kind not in (None, "lines", "heat"):
        raise BadSpec("kind: expected lines or heat")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1000):
        raise BadSpec("most: expected a whole number, 1 to 1000")
    names = None if values is None else [str(value) for value in _many(values)]
    drawn: List[str | None] = _series(native, series)
    domain = native.domain
    if kind is None:
        is_large = domain is not None and domain > SMALL_DOMAIN and names is None and len(drawn) == 1
        kind = "heat" if is_large and truth is None else "lines"
    if kind == "heat":
        if domain is None:
            raise BadSpec("kind: numbers have no heat map; draw lines")
        if len(drawn) != 1:
            raise BadSpec("series: a heat map has one")
        if truth is not None:
            raise BadSpec("truth: it is drawn as lines only")
        return _heat(native, drawn[0], names, most or MOST_HEAT, mechanism, axes_of(ax))
    if truth is not None and len(drawn) != 1:
        raise BadSpec("truth: say beside which series it is drawn")
    limit = most or (1 if len(drawn) > 1 else MOST_LINES)
    curves = [(name, _Curves(native, name, names, limit)) for name in drawn]
    # Before anything is drawn, because a table may not fit.
    true = None if truth is None else _truth(native, drawn[0], curves[0][1].names, truth, columns)
    ax = axes_of(ax)
    low, high = (-np.inf, np.inf) if domain is None else (0.0, 1.0 if _unit(native) == "frequency" else np.inf)
    for name, curve in curves:
        for place, value in enumerate(curve.names):
            label = ": ".join(short(part) for part in (name, value) if part)
            numbers, half = curve.numbers[:, place], HALF_INTERVAL * np.sqrt(curve.variances[:, place])
            (line,) = ax.plot(curve.x, numbers, linewidth=1.2, label=label or None)
            below, above = np.clip(numbers - half, low, high), np.clip(numbers + half, low, high)
            ax.fill_between(curve.x, below, above, color=line.get_color(), alpha=0.2, linewidth=0)
            _marks(ax, curve, numbers, line.get_color())
            if true is not None:
                ax.plot(curve.x, true[:, place], color=line.get_color(), linestyle=":", linewidth=1.5)
    if true is not None:
        # One entry for all of them.
        ax.plot([], [], color="black", linestyle=":", linewidth=1.5, label="truth (not private)")
    _label(ax, native, mechanism, curves[0][1].has_times if curves else False)
    ax.set_ylabel(_unit(native))
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize="small")
    return ax


def _many(values: Any) -> list[Any]:
    found = [values] if isinstance(values, (str, int)) else list(values)
    if not 1 <= len(found) <= 1000:
        raise BadSpec("expected 1 to 1000 values or series")
    return found


def _series(native: _tidegate.Releases, series: str | List[str] | None) -> list[str | None]:
    if series is not None:
        return _many(series)
    known: list[str | None] = list(native.series)
    return known[:SMALL_DOMAIN] if known else [None]


def _unit(native: _tidegate.Releases) -> str:
    return next((name for name in native.columns if name in ("frequency", "count")), "value")


class _Curves:
    """The numbers of a series over time."""

    def __init__(self, native: _tidegate.Releases, series: str | None, values: list[str] | None, most: int) -> None:
        timestamps, seconds, names, numbers, variances, marks = _tidegate.curves(native, series, values, most)
        self.has_times = seconds is not None
        self.x: npt.NDArray[Any] = timestamps if seconds is None else seconds.astype("datetime64[s]")
        self.names, self.numbers, self.variances, self.marks = names, numbers, variances, marks


def _marks(ax: Axes, curve: _Curves, numbers: npt.NDArray[np.float64], color: Any) -> None:
    size = 4 if len(curve.x) <= 60 else 2
    styles: tuple[tuple[str, Literal["full", "none"]], ...] = (("o", "full"), ("o", "none"), ("x", "full"))
    for freshness, (marker, fill) in enumerate(styles):
        at = curve.marks == freshness
        if at.any() and (freshness == 0 or len(curve.x) <= MANY):
            x, y = curve.x[at], numbers[at]
            ax.plot(x, y, linestyle="none", color=color, markersize=size, marker=marker, fillstyle=fill)


def _truth(
    native: _tidegate.Releases, series: str | None, values: list[str], table: Any, columns: Mapping[str, str | None]
) -> npt.NDArray[np.float64]:
    return _tidegate.truth_of(native, readable(table), keywords(**dict(columns)), series, values)


def _heat(
    native: _tidegate.Releases, series: str | None, values: list[str] | None, most: int, mechanism: str, ax: Axes
) -> Axes:
    curve = _Curves(native, series, values, most)
    if not len(curve.x):
        raise BadSpec("there are no releases to draw")
    rows = np.arange(len(curve.names))
    mesh = ax.pcolormesh(curve.x, rows, curve.numbers.T, shading="nearest", cmap="viridis")
    ax.set_yticks(rows, [short(name) for name in curve.names], fontsize="small")
    ax.invert_yaxis()
    ax.figure.colorbar(mesh, ax=ax, label=_unit(native))
    _label(ax, native, mechanism, curve.has_times)
    return ax


def _label(ax: Axes, native: _tidegate.Releases, mechanism: str, has_times: bool) -> None:
    seeded = " (seeded: not private)" if native.seeded else ""
    ax.set_title(f"{mechanism}{seeded}", fontsize="medium")
    ax.set_xlabel("time" if has_times else "timestamp")
    if has_times:
        ax.tick_params(axis="x", labelrotation=30)


def evaluation(rows: list[dict[str, Any]], metric: str | None, ax: Axes | None) -> Axes:
    """Draws the errors of mechanisms: see :meth:`Evaluation.plot`."""
    metrics = [name.removesuffix("_se") for name in dict.fromkeys(itertools.chain(*rows)) if name.endswith("_se")]
    metric = metric or next(iter(metrics), None)
    if metric is None or metric not in metrics:
        raise BadSpec(f"metric: expected one of {', '.join(metrics) or 'none, because there are no results'}")
    varied = [name for name in ("epsilon", "window", "delay") if len({row.get(name) for row in rows}) > 1]
    ax = axes_of(ax)
    ax.set_ylabel(metric)
    found = [row for row in rows if row.get(metric) is not None]
    if not varied:
        names = [short(row["mechanism"]) for row in found]
        errors = [row.get(f"{metric}_se") or 0.0 for row in found]
        ax.barh(names, [row[metric] for row in found], xerr=errors, color="tab:blue", alpha=0.8, capsize=3)
        ax.invert_yaxis()
        ax.set_ylabel("")
        ax.set_xlabel(metric)
    else:
        x, *others = varied
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in found:
            groups.setdefault((row["mechanism"], *(row.get(name) for name in others)), []).append(row)
        for (name, *rest), of in groups.items():
            of.sort(key=lambda row: float(row[x]))
            label = ", ".join([short(name), *(f"{key} {given}" for key, given in zip(others, rest, strict=True))])
            errors = [row.get(f"{metric}_se") or 0.0 for row in of]
            places = [float(row[x]) for row in of]
            ax.errorbar(places, [row[metric] for row in of], yerr=errors, marker="o", capsize=3, label=label)
        ax.set_xlabel(x)
        if all(row[metric] > 0 for row in found):
            ax.set_yscale("log")
        ax.legend(fontsize="small")
    ax.set_title(short(next((row["dataset"] for row in rows if row.get("dataset")), "")), fontsize="medium")
    return ax


def advice(rows: list[dict[str, Any]], recommended: str | None, solved: str | None, ax: Axes | None) -> Axes:
    """Draws what to expect of mechanisms: see :meth:`Advice.plot`."""
    key = solved or "error"
    found = [row for row in rows if isinstance(row.get(key), (int, float))][:MOST_HEAT]
    if not found:
        raise BadSpec("there is nothing to draw: no mechanism has a number")
    ax = axes_of(ax)
    names = []
    for place, row in enumerate(found):
        color = "tab:green" if row["mechanism"] == recommended else "tab:blue"
        # What does not suffice, however much there is, is a ring.
        suffices = row.get("outcome", "enough") == "enough"
        ax.plot([row[key]], [place], marker="o", color=color, fillstyle="full" if suffices else "none")
        low, high = row.get("low"), row.get("high")
        if solved is None and isinstance(low, (int, float)) and isinstance(high, (int, float)):
            ax.hlines(place, low, high, color=color, alpha=0.6, linewidth=3)
        names.append(short(row["mechanism"]) + ("" if suffices else f" ({row['outcome']})"))
    ax.set_yticks(range(len(found)), names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel(f"{key} needed" if solved else "expected error")
    if all(row[key] > 0 for row in found):
        ax.set_xscale("log")
    if recommended is not None:
        ax.set_title(f"recommended: {recommended}", fontsize="medium")
    return ax


def audit(rows: list[dict[str, Any]], ax: Axes | None) -> Axes:
    """Draws losses against what is claimed: see :meth:`Audit.plot`."""
    found = [row for row in rows if isinstance(row.get("claimed"), (int, float))][:MOST_HEAT]
    if not found:
        raise BadSpec("there is nothing to draw: no mechanism makes a promise in numbers")
    ax = axes_of(ax)
    for place, row in enumerate(found):
        color = "tab:red" if row["broken"] else "tab:blue"
        for key, style in (("lower_bound", "o"), ("exact", "D"), ("transcript", "s")):
            if isinstance(row.get(key), (int, float)):
                ax.plot([row[key]], [place], marker=style, color=color, fillstyle="full" if key == "exact" else "none")
        ax.vlines(row["claimed"], place - 0.4, place + 0.4, color="black")
    for style, fill, label in (("o", "none", "lower bound"), ("D", "full", "exact"), ("s", "none", "transcript")):
        ax.plot([], [], marker=style, fillstyle=fill, linestyle="none", color="tab:blue", label=label)
    ax.plot([], [], color="black", label="claimed")
    all_names = [row["mechanism"] for row in found]
    of = [
        f"{row['mechanism']}, {row['guarantee']}" if all_names.count(row["mechanism"]) > 1 else row["mechanism"]
        for row in found
    ]
    names = [f"{short(name)}{' (broken)' if row['broken'] else ''}" for name, row in zip(of, found, strict=True)]
    ax.set_yticks(range(len(found)), names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel("loss (epsilon)")
    ax.legend(fontsize="small")
    return ax


def channel(matrix: npt.NDArray[np.float64], title: str, ax: Axes | None) -> Axes:
    """Draws a channel: see :meth:`Channel.plot`."""
    ax = axes_of(ax)
    image = ax.imshow(matrix, vmin=0.0, vmax=1.0, cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label="probability")
    ax.set_xlabel("answer")
    ax.set_ylabel("symbol")
    ax.set_title(title, fontsize="medium")
    if len(matrix) <= 8:
        ax.set_xticks(range(len(matrix)))
        ax.set_yticks(range(len(matrix)))
        for row, column in itertools.product(range(len(matrix)), repeat=2):
            shade = "black" if matrix[row, column] > 0.5 else "white"
            ax.text(column, row, f"{matrix[row, column]:.2f}", ha="center", va="center", color=shade, fontsize="small")
    return ax
