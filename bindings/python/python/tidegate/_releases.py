"""What a stream released."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from collections.abc import Sequence as List
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _tidegate
from ._answers import Answer, MonitorEvent, answers_of, event_of
from ._html import MOST_ROWS, html_table
from ._keywords import keywords
from ._tables import ArrowTable, in_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Table = TypeVar("Table", bound=ArrowTable)


class Releases(Generic[Table]):
    """What a stream released, in the order of time.

    ``table`` is of the kind that was given to :meth:`Stream.release`: of polars, pandas or pyarrow. It has the columns
    of the command: ``t``, what was released, its ``variance``, its ``freshness``, what was ``spent`` on it, and whether
    its randomness came from a seed (``seeded``). Other libraries read the releases through ``__arrow_c_stream__``.
    """

    __module__ = "tidegate"

    def __init__(
        self,
        native: _tidegate.Releases,
        library: str,
        mechanism: str,
        columns: Mapping[str, str | None] | None = None,
    ) -> None:
        self._native = native
        self._library = library
        self._mechanism = mechanism
        #: The names of the columns of the table that was released.
        self._columns = columns or {}
        self._table: Table | None = None

    @property
    def table(self) -> Table:
        """The releases as a table of the caller's kind."""
        if self._table is None:
            self._table = in_kind(self._native, self._library)
        assert self._table is not None
        return self._table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    @property
    def answers(self) -> list[dict[str, Any]]:
        """Answers to the queries of the spec, and events of its monitors."""
        return [json.loads(answer) for answer in self._native.answers]

    @property
    def notes(self) -> list[str]:
        """Remarks about the run as a whole, such as what its releases leak."""
        return self._native.notes

    @property
    def seeded(self) -> bool:
        """Whether randomness came from a seed, so that the releases are not private."""
        return self._native.seeded

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The releases in CSV, as the command writes them; also into a file, if a path is given."""
        return _written(self._native.to_csv(), path)

    def to_ndjson(self, path: str | os.PathLike[str] | None = None) -> str:
        """The releases as JSON objects, one a line, as the command writes them; also into a file."""
        return _written(self._native.to_ndjson(), path)

    @property
    def series(self) -> list[str]:
        """The names of the series, where there are several."""
        return self._native.series

    @overload
    def query(
        self,
        value: str | int,
        *,
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        series: str | None = None,
        repair: str | None = None,
    ) -> Answer: ...

    @overload
    def query(
        self,
        *,
        between: tuple[str | int, str | int],
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        series: str | None = None,
        repair: str | None = None,
    ) -> Answer: ...

    @overload
    def query(
        self,
        *,
        top: int,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        series: str | None = None,
        repair: str | None = None,
    ) -> list[Answer]: ...

    def query(
        self,
        value: str | int | None = None,
        *,
        between: tuple[str | int, str | int] | None = None,
        top: int | None = None,
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        series: str | None = None,
        repair: str | None = None,
    ) -> Answer | list[Answer]:
        """Answers a question about the releases, with an interval. It costs no budget.

        The question is about one ``value``, about the values ``between`` a first and a last one in the order of the
        domain, or about the ``top`` few. The answer is that of timestamp ``at``, the latest unless given, or the sum
        over the ``last`` few up to it. ``unit`` is ``frequencies`` or ``counts``, and ``confidence`` how sure it is
        that the interval holds the truth. ``repair`` is ``consistent`` or ``norm_sub``: see the queries of a spec,
        which are answered in the same way in :attr:`answers`.

        Raises :class:`BadSpec`, and :class:`TidegateError` for a period that was not released as a whole.

        >>> import polars as pl
        >>> import tidegate as tg
        >>> counts = pl.DataFrame({"t": [0, 1], "home": [600, 500], "shop": [300, 400]})
        >>> released = tg.Central("uniform", epsilon=8, window=2, domain=["home", "shop"]).release(counts)
        >>> answer = released.query("shop", last=2, unit="counts")
        >>> 650 < answer.value < 750, answer.low <= answer.value <= answer.high
        (True, True)
        >>> [answer.of for answer in released.query(top=2)]
        ['home', 'shop']
        """
        options = keywords(
            value=value,
            between=between,
            top=top,
            last=last,
            at=at,
            unit=unit,
            confidence=confidence,
            series=series,
            repair=repair,
        )
        return answers_of(json.loads(_tidegate.query_releases(self._native, options)))

    def monitor(
        self,
        value: str | int | None = None,
        *,
        between: tuple[str | int, str | int] | None = None,
        above: float | None = None,
        below: float | None = None,
        until: float | None = None,
        change: bool = False,
        shift: int | None = None,
        last: int | None = None,
        unit: str = "frequencies",
        confidence: float | None = None,
        series: str | None = None,
        repair: str | None = None,
    ) -> list[MonitorEvent]:
        """Finds the beginnings and the ends of events in the releases. It costs no budget.

        An event starts when the number of a query (see :meth:`query`) is ``above`` a threshold, or ``below`` one, and
        ends when it is back at ``until``, which is the same threshold unless given. Thresholds that are some standard
        deviations apart keep noise from starting an event again and again. With ``change=True`` the number is the
        difference to the one ``shift`` timestamps before (``last`` unless given). With ``confidence``, an event starts
        or ends only where the whole interval is beyond the threshold.

        >>> import polars as pl
        >>> import tidegate as tg
        >>> counts = pl.DataFrame({"t": range(4), "home": [900, 200, 200, 900], "shop": [100, 800, 800, 100]})
        >>> released = tg.Central("uniform", epsilon=8, window=2, domain=["home", "shop"]).release(counts)
        >>> [(event.t, event.event) for event in released.monitor("shop", above=500, until=300, unit="counts")]
        [(1, 'started'), (3, 'ended')]
        """
        options = keywords(
            value=value,
            between=between,
            above=above,
            below=below,
            until=until,
            change=change,
            shift=shift,
            last=last,
            unit=unit,
            confidence=confidence,
            series=series,
            repair=repair,
        )
        return [event_of(event) for event in _tidegate.watch_releases(self._native, options)]

    def plot(
        self,
        values: str | int | List[str | int] | None = None,
        *,
        series: str | List[str] | None = None,
        kind: Literal["lines", "heat"] | None = None,
        most: int | None = None,
        truth: ArrowTable | None = None,
        columns: Mapping[str, str] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draws the releases over time, and returns the Axes of matplotlib: ``pip install tidegate[plot]``.

        A line has a band that holds the truth with 95 % probability, as far as the stated variance tells, and marks: a
        dot for a fresh release, a ring for a repeated one, a cross for one without an answer. Without ``values``, the
        ``most`` largest on average are drawn (4 lines); of a domain with more than 12 values a heat map of the 30
        largest, unless ``kind`` says otherwise. Of several ``series``, each has a line for its largest value.

        ``truth`` is the table that was released: its true numbers are drawn as a dotted line. Its columns are called as
        in :meth:`Stream.release`, or as ``columns`` says (``time``, ``user``, ``value``). The truth is not private.
        """
        from . import _plot

        return _plot.releases(
            self._native,
            mechanism=self._mechanism,
            values=values,
            series=series,
            kind=kind,
            most=most,
            truth=truth,
            columns=self._columns if columns is None else columns,
            ax=ax,
        )

    def _repr_html_(self) -> str:
        title = f"{len(self)} releases of {self._mechanism}"
        notes = ["They come from a seeded run, so they are not private."] if self.seeded else []
        header, *rows = csv.reader(io.StringIO(self._native.head(MOST_ROWS + 1), newline=""))
        return html_table(title, header, rows, notes)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]  # type: ignore[index]

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        seeded = ", seeded" if self.seeded else ""
        return f"Releases({len(self)} of {self._mechanism}{seeded})"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    return text
