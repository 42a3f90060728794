"""Markov models of sequences."""

from __future__ import annotations

import datetime
import decimal
import json
import os
from collections.abc import Sequence as List
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._errors import BadSpec
from ._html import html_table
from ._keywords import input_of, keywords, plain
from ._tables import ArrowTable, readable

Path = str | os.PathLike[str]
Epsilon = float | str | decimal.Decimal


class Model:
    """A Markov model of a sequence of symbols: how likely each is, and each after those before it.

    :meth:`fit` learns one, as ``tidegate model fit`` does; :class:`tidegate.Sequence` takes it as ``model``.

    >>> import polars as pl
    >>> import tidegate as tg
    >>> visits = pl.DataFrame({"t": [0, 1, 2, 3], "user": ["ann"] * 4, "value": ["home", "home", "work", "home"]})
    >>> model = tg.Model.fit(visits, domain=["home", "work"])
    >>> model
    Model(2 symbols)
    >>> tg.Sequence("crr", epsilon=1, domain=["home", "work"], model=model)
    Sequence(sequence.crr)
    """

    __module__ = "tidegate"

    def __init__(self, native: _tidegate.Model) -> None:
        self._native = native

    @staticmethod
    def fit(
        table: ArrowTable,
        *,
        domain: int | List[str],
        order: int = 1,
        epsilon: Epsilon | None = None,
        contribution: int | None = None,
        pseudo_count: float = 1.0,
        seed: int | None = None,
        time: str | None = None,
        user: str | None = None,
        value: str | None = None,
        every: str | datetime.timedelta | None = None,
        origin: str | datetime.date | None = None,
        duplicates: str | None = None,
        empty: str | None = None,
    ) -> Model:
        """Learns prior and transitions from a table with the symbols of users.

        ``domain`` is the names of the symbols, or their number. ``order`` is 1 or 2: how many symbols of the past the
        next one depends on. Without ``epsilon`` the model reveals the table: use public data. With it, any user loses
        at most epsilon: each counts with the first ``contribution`` transitions, and noise is added. Another fit of
        the same table adds to the loss. A ``seed`` repeats a fit exactly; its model is not private.
        """
        options = keywords(
            domain=domain,
            order=order,
            epsilon=epsilon,
            contribution=contribution,
            pseudo_count=pseudo_count,
            seed=seed,
            input=input_of(
                time=time, user=user, value=value, every=every, origin=origin, duplicates=duplicates, empty=empty
            ),
        )
        return Model(_tidegate.fit_model(readable(table), options))

    @staticmethod
    def load(path: Path) -> Model:
        """Reads a model from a file, of :meth:`save` or of ``tidegate model fit``. Raises :class:`BadSpec`."""
        return Model(_tidegate.Model.load(os.fspath(path)))

    @staticmethod
    def of(prior: npt.ArrayLike, transitions: npt.ArrayLike) -> Model:
        """The model of known probabilities: row x of ``transitions`` has that of each symbol after x.

        >>> import tidegate as tg
        >>> tg.Model.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
        Model(2 symbols)
        """
        first = plain("prior", np.asarray(prior, dtype=object))
        rows = plain("transitions", np.asarray(transitions, dtype=object))
        return Model(_tidegate.Model.of(json.dumps(first), json.dumps(rows)))

    def save(self, path: Path) -> None:
        """Writes the model to a file, which is replaced only once all of it is there."""
        self._native.save(os.fspath(path))

    def to_json(self) -> str:
        """The content of the file that :meth:`save` writes."""
        return self._native.to_json()

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return self._native.domain

    @property
    def seeded(self) -> bool:
        """Whether its noise came from a seed, so that it is not private."""
        return self._native.seeded

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _of_json, (self.to_json(),)

    def __repr__(self) -> str:
        seeded = ", seeded" if self.seeded else ""
        return f"Model({self.symbols} symbols{seeded})"

    def _repr_html_(self) -> str:
        # Its probabilities may tell about the table that it was learned from.
        rows: list[tuple[object, ...]] = [("symbols", self.symbols), ("seeded", self.seeded)]
        return html_table("Markov model", ["property", "value"], rows)


def _of_json(text: str) -> Model:
    return Model(_tidegate.Model.from_json(text))


__all__ = ["BadSpec", "Model"]
