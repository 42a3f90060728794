"""Keywords on their way to the native part, which reads them from JSON."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from ._errors import BadSpec

#: The greatest number of threads that can be asked for.
MOST_THREADS = 1024


def keywords(**given: Any) -> str:
    """Those that are not None, as JSON. Raises :class:`BadSpec`, which names the keyword."""
    threads = given.get("threads")
    if isinstance(threads, int) and threads > MOST_THREADS:
        raise BadSpec(f"threads: expected at most {MOST_THREADS}, but {threads} was given")
    return json.dumps({name: plain(name, value) for name, value in given.items() if value is not None})


def plain(name: str, value: Any) -> Any:
    """A value in the types that JSON has."""
    if isinstance(value, datetime.timedelta):
        return f"{round(value.total_seconds())}s"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        raise BadSpec(f"{name}: expected a finite number, but {value} was given")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(name, item) for item in value]
    raise BadSpec(f"{name}: expected a number, a text or a list, and a {type(value).__name__} is none of these")


def listed(value: Any) -> list[Any]:
    """One value, or several, as a list."""
    if value is None:
        return []
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def input_of(
    *,
    time: str | None = None,
    user: str | None = None,
    value: str | None = None,
    every: str | datetime.timedelta | None = None,
    origin: str | datetime.date | None = None,
    duplicates: str | None = None,
    empty: str | None = None,
) -> dict[str, Any]:
    """How a table is read, as a spec has it."""
    columns = {"time": time, "user": user, "value": value}
    given = {"every": every, "origin": origin, "duplicates": duplicates, "empty": empty}
    read = {name: plain(name, item) for name, item in given.items() if item is not None}
    return read | {"columns": {name: column for name, column in columns.items() if column is not None}}
