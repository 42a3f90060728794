"""Tables of polars, pandas, pyarrow and others, by the Arrow C stream."""

from __future__ import annotations

from typing import Any, Protocol


class ArrowTable(Protocol):
    """A table with the Arrow PyCapsule interface, as those of polars, pandas and pyarrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table as a capsule of an Arrow C stream."""


def library_of(table: object) -> str:
    """The library that a table is of."""
    return type(table).__module__.partition(".")[0]


def readable(table: Any) -> Any:
    """The table without columns of the type that has only nulls, which polars exports otherwise than Arrow has it."""
    if library_of(table) == "polars" and hasattr(table, "with_columns"):
        import polars

        return table.with_columns(polars.col(polars.Null).cast(polars.String))
    return table


def in_kind(columns: ArrowTable, library: str) -> Any:
    """Columns as a table of a library; of pyarrow, if it is none of those known."""
    if library == "polars":
        import polars

        return polars.DataFrame(columns)
    import pyarrow

    table = pyarrow.table(columns)
    return table.to_pandas() if library == "pandas" else table
