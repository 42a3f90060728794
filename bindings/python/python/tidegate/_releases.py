"""What a stream released."""

from __future__ import annotations

import json
import os
from typing import Any, Generic, TypeVar

from . import _tidegate
from ._tables import ArrowTable, in_kind

Table = TypeVar("Table", bound=ArrowTable)


class Releases(Generic[Table]):
    """What a stream released, in the order of time.

    ``table`` is of the kind that was given to :meth:`Stream.release`: of polars, pandas or pyarrow. It has the columns
    of the command: ``t``, what was released, its ``variance``, its ``freshness``, what was ``spent`` on it, and whether
    its randomness came from a seed (``seeded``). Other libraries read the releases through ``__arrow_c_stream__``.
    """

    __module__ = "tidegate"

    def __init__(self, native: _tidegate.Releases, library: str, mechanism: str) -> None:
        self._native = native
        self._library = library
        self._mechanism = mechanism
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
