"""Running streams of all families."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import warnings
from collections.abc import Mapping
from collections.abc import Sequence as List
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, TypeVar

from . import _tidegate
from ._errors import SeededWarning
from ._html import html_table
from ._model import Model
from ._releases import Releases, Table
from ._rounds import Rounds
from ._tables import ArrowTable, library_of, readable

Path = str | os.PathLike[str]
Epsilon = float | str | decimal.Decimal
Domain = int | List[str | int] | Mapping[str, Any]
Self = TypeVar("Self", bound="Stream")


class Stream(Rounds):
    """A running stream of any family, with its account of what was spent.

    A stream is made from a spec: a TOML file (:meth:`from_toml`), the keywords of its family (:class:`Central`,
    :class:`Local`, :class:`Scalar`, :class:`Sequence`), or a mapping. :meth:`release` passes a table through it, as
    ``tidegate release`` does, and goes on where the last one ended: the budget of a window is shared by all of them.

    ``seed`` repeats a run exactly, to try it out; its releases are not private. ``state`` is the file that keeps the
    budget across processes, begun with ``new_state=True``; every release is saved there before it is returned. ``key``
    is the key file of a stream of numbers, whose state holds readings.

    What it returns is a table (:attr:`Releases.table`) that answers questions (:meth:`Releases.query`), finds events
    (:meth:`Releases.monitor`) and draws itself (:meth:`Releases.plot`), all without budget.

    Between two calls a stream holds what a state file does, and no raw value. It cannot be copied or pickled: two
    copies would spend one budget twice.

    >>> import tidegate as tg
    >>> stream = tg.Stream({"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]})
    >>> stream
    Stream(central.ba)
    >>> stream.budget()
    [Budget(window=7, epsilon=1, spent=0, left=1)]
    """

    __module__ = "tidegate"

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> None:
        self._native = _tidegate.Stream.from_json(
            _text(spec), seed=seed, state=_path(state), new_state=new_state, key=_path(key)
        )
        _warn_of(seed, 3 if type(self) is Stream else 4)

    @classmethod
    def _of(cls: type[Self], native: _tidegate.Stream) -> Self:
        stream = cls.__new__(cls)
        stream._native = native
        return stream

    @staticmethod
    def from_toml(
        path: Path,
        *,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> Stream:
        """A stream of the spec in a TOML file, as ``tidegate release --spec`` reads it.

        Raises :class:`BadSpec`, which names the line and the key.
        """
        native = _tidegate.Stream.from_toml(
            os.fspath(path), seed=seed, state=_path(state), new_state=new_state, key=_path(key)
        )
        _warn_of(seed, 3)
        return Stream._of(native)

    @staticmethod
    def load(state: Path, *, key: Path | None = None) -> Stream:
        """Goes on with a saved state, of :meth:`save` or of ``tidegate release --state``. It holds its spec.

        Nobody else can use the state until the stream is closed. Raises :class:`BadState`.
        """
        return Stream._of(_tidegate.Stream.load(os.fspath(state), key=_path(key)))

    def release(
        self,
        table: Table,
        *,
        time: str | None = None,
        user: str | None = None,
        value: str | None = None,
        series: str | None = None,
        users: ArrowTable | Mapping[str, str] | None = None,
        through: int | str | datetime.date | None = None,
    ) -> Releases[Table]:
        """Passes a table through the stream, and returns what may be published.

        ``table`` is of polars, pandas, pyarrow, or anything with ``__arrow_c_stream__``, sorted by time. ``time``,
        ``user``, ``value`` and ``series`` name its columns, where the spec does not and they are not called ``t``,
        ``user``, ``value`` and ``series``. Streams of numbers have no user; central ones may have a column of counts
        for each value of the domain instead. ``users`` says in which class each user is, where each class has a
        guarantee of its own: a mapping, or a table with the columns ``user`` and ``class``. ``through`` releases every
        timestamp of the spec's timeline up to this time, also after the last row.

        All that is held back is released at the end of the table. After an error the stream is as before. Ctrl-C stops
        a long call in the same way; once the state is saved, the call completes.

        Raises :class:`BadData`, which names the row and the column.

        >>> import polars as pl
        >>> import tidegate as tg
        >>> stream = tg.Central("ba", epsilon=1, window=7, domain=["home", "shop"])
        >>> visits = pl.DataFrame({"day": [0, 0, 1], "uid": ["ann", "bob", "ann"], "place": ["home", "shop", "home"]})
        >>> released = stream.release(visits, time="day", user="uid", value="place")
        >>> released.table.columns
        ['t', 'value', 'count', 'variance', 'freshness', 'spent', 'seeded']
        """
        pairs = list(users.items()) if isinstance(users, Mapping) else readable(users)
        end = through.isoformat() if isinstance(through, datetime.date) else through
        native = self._native.release(
            readable(table),
            time=time,
            user=user,
            value=value,
            series=series,
            users=pairs,
            through=None if end is None else str(end),
        )
        columns = {"time": time, "user": user, "value": value, "series_column": series}
        return Releases(native, library_of(table), self._native.mechanism, columns)

    def budget(self, at: int | None = None) -> Budgets:
        """What was spent of the budget of a window, and what is left, before the next timestamp or before ``at``.

        There is one for each series and class. Where each user has a ledger, it is that of the user who has least left.
        """
        return Budgets(self._native.budget(at))

    def save(self, path: Path, *, key: Path | None = None) -> None:
        """Saves the state to a new file, and has every later release saved there before it is returned.

        ``tidegate release --state`` goes on with it, and :meth:`load`. Raises :class:`BadState` if the file exists and
        is not this stream's own.
        """
        self._native.save(os.fspath(path), key=_path(key))

    def close(self) -> None:
        """Gives the state file free for others. Nothing can be released any more."""
        self._native.close()

    @property
    def mechanism(self) -> str:
        """The full name of the mechanism, such as ``central.track``."""
        return self._native.mechanism

    @property
    def spec(self) -> dict[str, Any]:
        """The spec."""
        spec: dict[str, Any] = json.loads(self._native.spec)
        return spec

    @property
    def seeded(self) -> bool:
        """Whether a seeded run contributed to the stream, so that its releases are not private."""
        return self._native.seeded

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        seeded = ", seeded" if self.seeded else ""
        return f"{type(self).__name__}({self.mechanism}{seeded})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be copied or pickled, because two copies would spend one budget twice: save it")


class Budgets(list[_tidegate.Budget]):
    """What was spent and what is left: a list, which notebooks show as a table."""

    __module__ = "tidegate"

    def _repr_html_(self) -> str:
        columns = ("series", "class", "window", "epsilon", "spent", "left", "share left", "users")
        rows = [
            (of.series, of.class_, of.window, of.epsilon, of.spent, of.left, of.share_left, of.users) for of in self
        ]
        return html_table("Budget", columns, rows)


class Central(Stream):
    """A stream of users' values that a curator sees.

    The keywords are the keys of a spec; those of the table are ``every``, ``origin``, ``duplicates``, ``empty``,
    ``series_names`` and ``across_series``.

    >>> import tidegate as tg
    >>> tg.Central("uniform", epsilon="0.5", window=24, domain=["north", "south"])
    Central(central.uniform)
    """

    __module__ = "tidegate"

    def __init__(
        self,
        mechanism: str = "track",
        *,
        domain: Domain,
        epsilon: Epsilon | None = None,
        window: int | None = None,
        neighbours: str | None = None,
        classes: List[Mapping[str, Any]] | None = None,
        estimator: str | None = None,
        periods: List[int] | None = None,
        repair: str | None = None,
        smooth: bool | None = None,
        timeline: Mapping[str, int] | None = None,
        trust: str | None = None,
        queries: List[Mapping[str, Any]] | None = None,
        monitors: List[Mapping[str, Any]] | None = None,
        every: str | datetime.timedelta | None = None,
        origin: str | datetime.date | None = None,
        duplicates: str | None = None,
        empty: str | None = None,
        series_names: List[str] | None = None,
        across_series: int | str | None = None,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> None:
        super().__init__(_spec("central", locals()), seed=seed, state=state, new_state=new_state, key=key)


class Local(Stream):
    """A stream of users' values that nobody but each user's device sees: the devices are simulated here.

    >>> import tidegate as tg
    >>> tg.Local("lpa", epsilon=1, window=10, domain=["home", "shop"], population=10_000)
    Local(local.lpa)
    """

    __module__ = "tidegate"

    def __init__(
        self,
        mechanism: str = "track",
        *,
        domain: Domain,
        epsilon: Epsilon | None = None,
        window: int | None = None,
        population: int | None = None,
        classes: List[Mapping[str, Any]] | None = None,
        oracle: str | None = None,
        reuse: bool | None = None,
        smoother: str | None = None,
        periods: List[int] | None = None,
        repair: str | None = None,
        smooth: bool | None = None,
        timeline: Mapping[str, int] | None = None,
        trust: str | None = None,
        queries: List[Mapping[str, Any]] | None = None,
        monitors: List[Mapping[str, Any]] | None = None,
        every: str | datetime.timedelta | None = None,
        origin: str | datetime.date | None = None,
        duplicates: str | None = None,
        empty: str | None = None,
        series_names: List[str] | None = None,
        across_series: int | str | None = None,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> None:
        super().__init__(_spec("local", locals()), seed=seed, state=state, new_state=new_state, key=key)


class Scalar(Stream):
    """A stream of numbers that a curator sees, each with a budget of its own.

    >>> import tidegate as tg
    >>> tg.Scalar("contin", epsilon=1, domain={"low": 0, "high": 612}, delay=10, protects={"contributor": 1})
    Scalar(scalar.contin)
    """

    __module__ = "tidegate"

    def __init__(
        self,
        mechanism: str = "track",
        *,
        epsilon: Epsilon,
        domain: Mapping[str, Any],
        protects: str | Mapping[str, Any],
        delay: int | None = None,
        outside: str | None = None,
        grouping: Epsilon | None = None,
        threshold: float | None = None,
        publication: str | None = None,
        smoother: str | None = None,
        buckets: int | None = None,
        within_domain: bool | None = None,
        truncation: Mapping[str, int] | None = None,
        periods: List[int] | None = None,
        smooth: bool | None = None,
        timeline: Mapping[str, int] | None = None,
        trust: str | None = None,
        every: str | datetime.timedelta | None = None,
        origin: str | datetime.date | None = None,
        duplicates: str | None = None,
        empty: str | None = None,
        series_names: List[str] | None = None,
        across_series: int | str | None = None,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> None:
        super().__init__(_spec("scalar", locals()), seed=seed, state=state, new_state=new_state, key=key)


class Sequence(Stream):
    """A correlated stream of each user's symbols, which nobody but the user's device sees.

    ``model`` is a :class:`Model`, the path of a learned one, or a mapping with ``prior`` and ``transitions``.

    >>> import tidegate as tg
    >>> model = {"prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.1, 0.9]]}
    >>> tg.Sequence("crr", epsilon=1, domain=["home", "away"], model=model)
    Sequence(sequence.crr)
    """

    __module__ = "tidegate"

    def __init__(
        self,
        mechanism: str = "crr",
        *,
        epsilon: Epsilon,
        domain: Domain,
        model: Model | Path | Mapping[str, Any] | None = None,
        guarantee: str | None = None,
        window: int | None = None,
        budget: Epsilon | None = None,
        distance: Any = None,
        effort: Any = None,
        length: int | None = None,
        part: int | None = None,
        trust: str | None = None,
        every: str | datetime.timedelta | None = None,
        origin: str | datetime.date | None = None,
        duplicates: str | None = None,
        empty: str | None = None,
        series_names: List[str] | None = None,
        across_series: int | str | None = None,
        seed: int | None = None,
        state: Path | None = None,
        new_state: bool = False,
        key: Path | None = None,
    ) -> None:
        super().__init__(_spec("sequence", locals()), seed=seed, state=state, new_state=new_state, key=key)


class Mechanism(NamedTuple):
    """An entry of the list of mechanisms."""

    family: str
    name: str
    full_name: str
    summary: str


def mechanisms() -> list[Mechanism]:
    """All mechanisms and their variants.

    >>> import tidegate as tg
    >>> [mechanism.name for mechanism in tg.mechanisms() if mechanism.family == "sequence"][:2]
    ['crr', 'batched']
    """
    return [Mechanism(*mechanism) for mechanism in _tidegate.mechanisms()]


#: Keywords that are no keys of a spec.
_OTHERS = {"self", "seed", "state", "new_state", "key", "__class__"}


def _spec(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"family": family, **{name: value for name, value in given.items() if name not in _OTHERS}}


def _text(spec: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in spec.items() if value is not None}, default=_plain)


def given_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec in the types that JSON has."""
    given: dict[str, Any] = json.loads(_text(spec))
    return given


def _path(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _plain(value: object) -> Any:
    """A value of a spec in the types that JSON has."""
    if isinstance(value, datetime.timedelta):
        return f"{round(value.total_seconds())}s"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Model):
        return {"learned": value.to_json()}
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a spec has numbers, texts, dates and lists, and a {type(value).__name__} is none of these")


def _warn_of(seed: int | None, depth: int) -> None:
    if seed is not None:
        warnings.warn(
            f"this run is seeded with {seed}: whoever knows that can take the noise off again, so what is released is "
            "not private",
            SeededWarning,
            stacklevel=depth,
        )
