"""The exceptions of tidegate. Their messages say what is wrong, where, and what to do; they never contain a value."""

from __future__ import annotations


class TidegateError(Exception):
    """Any error of tidegate."""

    __module__ = "tidegate"


class BudgetExceeded(TidegateError):
    """A ledger refused a spend: too little budget is left in the window."""

    __module__ = "tidegate"


class BadSpec(TidegateError, ValueError):
    """A spec that cannot be read or followed."""

    __module__ = "tidegate"


class BadData(TidegateError, ValueError):
    """A table that cannot be read, or a row that is refused.

    ``row`` is the position of the row, from zero, and ``column`` its column; both are ``None`` where the table as a
    whole is refused.
    """

    __module__ = "tidegate"

    def __init__(self, message: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message, row, column)
        self.row = row
        self.column = column

    def __str__(self) -> str:
        return str(self.args[0])


class BadState(TidegateError):
    """A state that cannot be read, written or gone on with."""

    __module__ = "tidegate"


class Refused(TidegateError):
    """A device refused a question. The collector may be told why: no reason depends on the device's value.

    ``reason`` is a code: ``other_stream``, ``not_asked``, ``not_now``, ``other_domain``, ``other_oracle``,
    ``answered`` or ``malformed``.
    """

    __module__ = "tidegate"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the device refuses the question: {self.reason.replace('_', ' ')}"


class SeededWarning(UserWarning):
    """Randomness comes from a seed, so releases are not private."""

    __module__ = "tidegate"
