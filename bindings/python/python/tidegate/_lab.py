"""The laboratory: mechanisms side by side, advice, audits, and the papers' figures."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import json
import os
from collections.abc import Mapping
from collections.abc import Sequence as List
from typing import TYPE_CHECKING, Any

from . import _tidegate
from ._errors import BadSpec
from ._html import html_table
from ._keywords import input_of, keywords, listed
from ._releases import Releases
from ._stream import Stream
from ._tables import ArrowTable, in_kind, library_of, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Path = str | os.PathLike[str]
Epsilon = float | str | decimal.Decimal


class Results:
    """Rows of results. Libraries of tables read them through ``__arrow_c_stream__``."""

    __module__ = "tidegate"

    def __init__(self, report: _tidegate.Report, rows: list[dict[str, Any]], library: str) -> None:
        self._report = report
        self._library = library
        #: The results, with the names that the command's ``--json`` has.
        self.rows = rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def table(self) -> Any:
        """The rows as a table of the caller's kind: of polars, pandas or pyarrow."""
        return in_kind(self, self._library)

    @property
    def seed(self) -> int:
        """The seed: the same one gives the same results."""
        return self._report.seed

    @property
    def warnings(self) -> list[str]:
        """What to be warned of."""
        return self._report.warnings

    def to_json(self) -> str:
        """The results as the command's ``--json`` prints them."""
        return self._report.json

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        records = _tidegate.Records(self.columns, json.dumps(self.rows))
        return records.__arrow_c_stream__(requested_schema)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        warnings = [f"warning: {warning}\n" for warning in self.warnings]
        return (self._report.text + "".join(warnings)).rstrip("\n")

    def _repr_html_(self) -> str:
        # Columns of tables only: a cell that is a table itself has no place in one.
        columns = [name for name in self.columns if not any(isinstance(row.get(name), dict) for row in self.rows)]
        rows = [[row.get(name) for name in columns] for row in self.rows]
        return html_table(type(self).__name__, columns, rows, [*self._remarks(), *self.warnings])

    def _remarks(self) -> list[str]:
        """What is said below the table."""
        return []


class Evaluation(Results):
    """The errors of mechanisms, side by side, as :func:`evaluate` returns them.

    ``rows`` has a dict for each mechanism, epsilon, window and delay: ``dataset``, ``mechanism``, ``epsilon``,
    ``window``, ``delay``, ``repeats``, the mean of each metric and its standard error (``mse``, ``mse_se``, ..),
    ``seconds`` and ``warnings``.
    """

    __module__ = "tidegate"

    @property
    def notes(self) -> list[str]:
        """Remarks on the data set."""
        return self._report.notes

    def plot(self, metric: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draws a ``metric`` (the first one unless given) over epsilon, the window or the delay: whichever varies, with
        a line for each mechanism and bars of one standard error. Where nothing varies, mechanisms are side by side.

        Returns the Axes of matplotlib: ``pip install tidegate[plot]``.
        """
        from . import _plot

        return _plot.evaluation(self.rows, metric, ax)

    def _remarks(self) -> list[str]:
        return ["Errors are computed from the true data: do not publish them.", *self.notes]


def evaluate(
    data: ArrowTable | str | os.PathLike[str],
    mechanisms: str | List[str],
    epsilon: Epsilon | List[Epsilon],
    *,
    window: int | List[int] | None = None,
    delay: int | List[int] | None = None,
    population: int | None = None,
    length: int | None = None,
    domain: tuple[float, float] | int | List[str] | None = None,
    resolution: float | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    queries: bool = False,
    oracle: str | None = None,
    classes: List[Mapping[str, Any]] | None = None,
    contribution: int | None = None,
    within_domain: bool = False,
    smooth: bool = False,
    batch: int | None = None,
    order: int | None = None,
    distance: str | None = None,
    effort: str | None = None,
    threshold: float | None = None,
    buckets: int | None = None,
    truncation: Mapping[str, int] | None = None,
    smoother: str | None = None,
    reuse: bool = False,
    neighbours: str | None = None,
    repair: str | None = None,
    time: str | None = None,
    user: str | None = None,
    value: str | None = None,
    every: str | datetime.timedelta | None = None,
    origin: str | datetime.date | None = None,
    duplicates: str | None = None,
    empty: str | None = None,
    data_dir: Path | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Measures the error of mechanisms on a data set, side by side, as ``tidegate evaluate`` does.

    ``data`` is a table of polars, pandas or pyarrow, the path of one, or the name of a data set
    (:func:`tidegate.datasets.names`). Every mechanism runs with every ``epsilon``, ``window`` (20 unless given) and
    ``delay`` (0), ``repeats`` times (10). ``domain`` is that of a table: ``(low, high)`` for numbers, the names of the
    values or their number for users. Other keywords are the options of the command; ``data_dir`` is ``TIDEGATE_DATA``
    unless given.

    Errors are computed from the true data: use them to choose a mechanism, do not publish them. Ctrl-C stops a long
    call. Raises :class:`BadSpec` and :class:`BadData`.

    >>> import tidegate as tg
    >>> found = tg.evaluate("sin", ["lbu", "lpu"], epsilon=1, length=50, population=10_000, repeats=2, seed=1)
    >>> [row["mechanism"] for row in sorted(found.rows, key=lambda row: row["mse"])]
    ['lpu', 'lbu']
    """
    of_values = domain if isinstance(domain, int) or _is_names(domain) else None
    options = keywords(
        mechanism=listed(mechanisms),
        epsilon=listed(epsilon),
        window=listed(window),
        delay=listed(delay),
        population=population,
        length=length,
        domain=None if of_values is not None else domain,
        resolution=resolution,
        values=of_values,
        repeats=repeats,
        seed=seed,
        queries=queries,
        oracle=oracle,
        classes=classes,
        contribution=contribution,
        within_domain=within_domain,
        smooth=smooth,
        batch=batch,
        order=order,
        distance=distance,
        effort=effort,
        data_dir=data_directory(data_dir),
        threads=threads,
        input=input_of(
            time=time, user=user, value=value, every=every, origin=origin, duplicates=duplicates, empty=empty
        ),
        parameters={
            name: item
            for name, item in {
                "threshold": threshold,
                "buckets": buckets,
                "truncation": truncation,
                "smoother": smoother,
                "reuse": reuse,
                "neighbours": neighbours,
                "repair": repair,
            }.items()
            if item is not None
        },
    )
    if isinstance(data, (str, os.PathLike)):
        report, library = _tidegate.run_evaluation(os.fspath(data), options), any_library()
    else:
        report, library = _tidegate.run_evaluation("", options, readable(data)), library_of(data)
    return Evaluation(report, json.loads(report.json), library)


class Advice(Results):
    """A ranking of mechanisms by the error to expect, as :func:`advise` returns it.

    ``rows`` has a dict for each mechanism, the best first: ``mechanism``, ``error``, ``low``, ``high``, .. Where an
    error was solved for, it has what each mechanism needs.
    """

    __module__ = "tidegate"

    def __init__(self, report: _tidegate.Report, library: str) -> None:
        #: The whole answer, as the command's ``--json`` prints it.
        self.answer: dict[str, Any] = json.loads(report.json)
        super().__init__(report, self.answer["ranking" if "ranking" in self.answer else "needs"], library)

    @property
    def recommended(self) -> str | None:
        """The best mechanism of those whose spec is complete."""
        return self.answer.get("recommended")

    @property
    def why(self) -> str | None:
        """Why the best mechanism is the best."""
        return self.answer.get("why")

    @property
    def otherwise(self) -> str | None:
        """What another mechanism would need to be the best."""
        return self.answer.get("otherwise")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draws the error to expect of each mechanism, with its interval, the best first; what each needs, where an
        error was solved for. Returns the Axes of matplotlib: ``pip install tidegate[plot]``.
        """
        from . import _plot

        return _plot.advice(self.rows, self.recommended, None if "ranking" in self.answer else self._solved, ax)

    @property
    def _solved(self) -> str:
        """What was solved for."""
        return next((name for name in ("epsilon", "population") if name in self.columns), "epsilon")

    def _remarks(self) -> list[str]:
        said = [f"Recommended: {self.recommended}"] if self.recommended else []
        return said + [text for text in (self.why, self.otherwise) if text]

    def spec(self) -> str:
        """The spec of the recommended mechanism in TOML, with comments: :meth:`Stream.from_toml` reads it from a file.

        Raises :class:`BadSpec` if no mechanism is recommended.
        """
        if self._report.spec is None:
            raise BadSpec("no mechanism can be recommended, so there is no spec")
        return self._report.spec


def advise(
    spec: Stream | Mapping[str, Any] | None = None,
    *,
    kind: str | None = None,
    trust: str | None = None,
    population: int | None = None,
    domain: int | List[str] | tuple[float, float] | None = None,
    resolution: float | None = None,
    contribution: int | None = None,
    epsilon: Epsilon | None = None,
    window: int | None = None,
    delay: int | None = None,
    sample: ArrowTable | Path | None = None,
    classes: List[str] | None = None,
    class_sizes: List[int] | None = None,
    ranges: bool = False,
    most_bytes: float | None = None,
    metric: str | None = None,
    mechanisms: str | List[str] | None = None,
    target_error: float | None = None,
    solve: str | None = None,
    repeats: int | None = None,
    length: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
) -> Advice:
    """Predicts the error of each mechanism that applies, ranks them, and says why, as ``tidegate advise`` does.

    The stream is that of a ``spec`` (a :class:`Stream`, or a mapping), or of keywords: ``kind`` is ``counts``,
    ``numbers`` or ``symbols``; ``trust`` is ``local`` or ``curator``; ``domain`` is the number of values or their
    names, for numbers ``(low, high)``. ``sample`` is a table of past releases, or its path. With ``target_error``,
    ``solve`` says what to solve for: ``epsilon`` or ``population``.

    >>> import tidegate as tg
    >>> advice = tg.advise(kind="counts", trust="curator", population=5000, domain=4, window=7, epsilon=1,
    ...                    mechanisms=["uniform", "sample"], length=30)
    >>> advice.recommended
    'uniform'
    >>> advice.spec().splitlines()[-1].startswith("domain")
    True
    """
    options = keywords(
        kind=kind,
        trust=trust,
        population=population,
        domain=_domain_text(domain),
        resolution=resolution,
        contribution=contribution,
        epsilon=epsilon,
        window=window,
        delay=delay,
        classes=classes,
        class_sizes=class_sizes,
        ranges=ranges,
        most_bytes=most_bytes,
        metric=metric,
        mechanism=listed(mechanisms),
        target_error=target_error,
        solve=solve,
        repeats=repeats,
        length=length,
        seed=seed,
        threads=threads,
    )
    native = None
    if spec is not None:
        of_keywords = {
            "kind": kind, "trust": trust, "domain": domain, "resolution": resolution, "contribution": contribution,
            "epsilon": epsilon, "window": window, "delay": delay, "classes": classes,
        }  # fmt: skip
        for name, given in of_keywords.items():
            if given is not None:
                raise BadSpec(f"{name}: the spec says it already; leave one of the two out")
        native = (spec if isinstance(spec, Stream) else Stream(spec))._native
    library = any_library() if sample is None or isinstance(sample, (str, os.PathLike)) else library_of(sample)
    given_sample = os.fspath(sample) if isinstance(sample, (str, os.PathLike)) else readable(sample)
    return Advice(_tidegate.ask_advice(options, native, given_sample), library)


class Audit(Results):
    """What mechanisms promise, against what was found out, as :func:`audit` returns it.

    ``rows`` has a dict for each promise: ``mechanism``, ``guarantee``, ``claimed``, ``lower_bound``, ``exact``,
    ``transcript``, ``broken``, ..
    """

    __module__ = "tidegate"

    @property
    def broken(self) -> list[dict[str, Any]]:
        """The rows of broken promises."""
        return [row for row in self.rows if row["broken"]]

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draws the losses that were found beside what is claimed; broken promises are red. Returns the Axes of
        matplotlib: ``pip install tidegate[plot]``.
        """
        from . import _plot

        return _plot.audit(self.rows, ax)

    def _remarks(self) -> list[str]:
        if not self.broken:
            return ["No promise is broken. That proves nothing about what was not tried."]
        return [f"Broken promises: {len(self.broken)}"]


def audit(
    *mechanisms: str,
    family: str | None = None,
    epsilon: Epsilon | None = None,
    window: int | None = None,
    domain: int | None = None,
    runs: int | None = None,
    thorough: bool = False,
    confidence: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
) -> Audit:
    """Tries to break what mechanisms promise, as ``tidegate audit`` does; all mechanisms, if none is named.

    Each runs as a black box on pairs of neighbouring streams, ``runs`` times on each (20000). ``epsilon`` (1) is what
    is claimed for a ``window`` (3) over ``domain`` values (3, at most 8). A loss above the claim is a broken promise
    (:attr:`Audit.broken`); one below it proves nothing about what was not tried.

    >>> import tidegate as tg
    >>> found = tg.audit("grr", epsilon=1, runs=2000)
    >>> found.broken, round(found.rows[0]["exact"], 6)
    ([], 1.0)
    """
    options = keywords(
        mechanism=listed(mechanisms),
        family=family,
        thorough=thorough,
        epsilon=epsilon,
        window=window,
        domain=domain,
        runs=runs,
        confidence=confidence,
        seed=seed,
        threads=threads,
    )
    report = _tidegate.run_audit(options)
    return Audit(report, json.loads(report.json), any_library())


class Reproduction(Results):
    """Figures and tables of papers, measured again, as :func:`reproduce` returns them.

    ``rows`` has a dict for each experiment: ``name``, ``paper``, ``claims`` with a ``verdict`` each, ..
    """

    __module__ = "tidegate"

    def __init__(self, report: _tidegate.Report, folder: str) -> None:
        super().__init__(report, json.loads(report.json), any_library())
        #: The folder with NAME.csv and NAME.svg of each experiment, and index.html.
        self.folder = folder


def reproduce(
    *names: str,
    out: Path = "reproduced",
    data_dir: Path | None = None,
    repeats: int | None = None,
    quick: bool = False,
    seed: int | None = None,
    threads: int | None = None,
) -> Reproduction:
    """Measures figures and tables of papers again, and judges the papers' claims, as ``tidegate reproduce`` does.

    ``names`` are those of :func:`experiments`, or of whole papers. Each experiment writes NAME.csv and NAME.svg to the
    folder ``out``, and index.html sets them beside what the paper printed. ``quick`` cuts streams and runs: it shows
    that everything works, not what is true.
    """
    if not names:
        raise BadSpec("names: expected experiments or papers, as tidegate.experiments() lists them")
    # Checked like all keywords; the folders are passed as they are.
    keywords(repeats=repeats, seed=seed, threads=threads)
    folder = os.fspath(out)
    try:
        report = _tidegate.reproduce(
            [str(name) for name in names], folder, data_directory(data_dir), repeats, quick, seed, threads
        )
    except (OverflowError, ValueError) as error:
        if isinstance(error, BadSpec):
            raise
        raise BadSpec(f"repeats, seed and threads: expected whole numbers, 1 or more: {error}") from None
    return Reproduction(report, folder)


def experiments() -> list[dict[str, Any]]:
    """The experiments that :func:`reproduce` knows, as ``tidegate reproduce --list --json`` lists them.

    >>> import tidegate as tg
    >>> [one["name"] for one in tg.experiments() if one["paper"] == "ldp-ids"][:1]
    ['ldp-ids-fig4']
    """
    listed_ones: list[dict[str, Any]] = json.loads(_tidegate.experiments())
    return listed_ones


def data_directory(given: Path | None) -> str | None:
    """The directory of the real data sets: TIDEGATE_DATA unless given."""
    return os.environ.get("TIDEGATE_DATA") if given is None else os.fspath(given)


def any_library() -> str:
    """A library of tables that is installed."""
    libraries = (name for name in ("polars", "pandas", "pyarrow") if importlib.util.find_spec(name) is not None)
    return next(libraries, "pyarrow")


def _is_names(domain: Any) -> bool:
    return isinstance(domain, (list, tuple)) and all(isinstance(name, str) for name in domain)


def _domain_text(domain: int | List[str] | tuple[float, float] | None) -> str | None:
    """A domain as the command's option has it."""
    if domain is None or isinstance(domain, str):
        return domain
    if isinstance(domain, (list, tuple)):
        if _is_names(domain):
            return str(len(domain))
        if len(domain) == 2:
            return f"{domain[0]}..{domain[1]}"
    return str(domain)


__all__ = [
    "Advice",
    "Audit",
    "Evaluation",
    "Releases",
    "Reproduction",
    "advise",
    "audit",
    "evaluate",
    "experiments",
    "reproduce",
]
