"""Data sets and generators of the laboratory.

>>> import tidegate as tg
>>> data = tg.datasets.load("sin", population=1000, length=10)
>>> data.counts.shape, data.labels
((10, 2), ['0', '1'])
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._keywords import keywords
from ._lab import Path, any_library, data_directory
from ._tables import in_kind

__all__ = ["Dataset", "catalogue", "load", "names"]


class Dataset:
    """A data set: counts of users, numbers, or sequences of symbols.

    ``table`` is what :meth:`tidegate.Stream.release` takes. The true data are in it: nothing here is private.
    """

    def __init__(self, native: _tidegate.Dataset) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name."""
        return self._native.name

    @property
    def kind(self) -> str:
        """What it is of: ``counts``, ``numbers`` or ``symbols``."""
        return self._native.kind

    @property
    def labels(self) -> list[str]:
        """The names of the values or symbols; none of numbers."""
        return self._native.labels

    @property
    def domain(self) -> tuple[float, float, float] | None:
        """Of numbers, the ends of the domain and the distance of its numbers."""
        return self._native.domain

    @property
    def stand_in(self) -> str | None:
        """What it stands in for, where it is not the data of a paper."""
        return self._native.stand_in

    @property
    def counts(self) -> npt.NDArray[np.uint64] | None:
        """How many users hold each value: a row for each timestamp. None of other kinds."""
        return self._native.counts()

    @property
    def numbers(self) -> npt.NDArray[np.float64] | None:
        """The number of each timestamp. None of other kinds."""
        return self._native.numbers()

    @property
    def sequences(self) -> list[npt.NDArray[np.uint32]] | None:
        """The symbols of each user. None of other kinds."""
        return self._native.sequences()

    @property
    def table(self) -> Any:
        """The table: ``t`` and a count for each value; ``t`` and ``value``; or ``t``, ``user`` and ``value``."""
        return in_kind(self, any_library())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Dataset({self._native.summary})"


def catalogue() -> list[dict[str, Any]]:
    """The data sets with their kind, shape and summary, as ``tidegate data --json`` lists them."""
    listed: list[dict[str, Any]] = json.loads(_tidegate.datasets())["datasets"]
    return listed


def names() -> list[str]:
    """The names of all data sets.

    >>> import tidegate as tg
    >>> tg.datasets.names()[:2]
    ['lns', 'sin']
    """
    return [one["name"] for one in catalogue()]


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    population: int | None = None,
    length: int | None = None,
    domain: tuple[float, float] | None = None,
    seed: int | None = None,
) -> Dataset:
    """Loads a data set, or generates it.

    Real ones are read from ``data_dir``, which is ``TIDEGATE_DATA`` unless given. Generated ones have a ``population``
    of 200,000 and a ``length`` of 800 (10,000 symbols) unless given; the same ``seed`` (0) gives the same one.
    ``markov:SYMBOLS:STAY`` is a Markov chain.
    """
    options = keywords(
        data_dir=data_directory(data_dir), population=population, length=length, domain=domain, seed=seed
    )
    return Dataset(_tidegate.load_dataset(name, options))
