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


class ServiceError(TidegateError):
    """A service refused a request, cannot be reached, or was not understood.

    ``status`` is the status of its answer, ``code`` its word for the reason and ``message`` its sentence. Errors of
    events have ``position``, the number of the wrong event, and ``taken``, how many before it were accepted. All are
    ``None`` where there was no such answer.
    """

    __module__ = "tidegate"

    def __init__(
        self,
        message: str,
        status: int | None = None,
        code: str | None = None,
        position: int | None = None,
        taken: int | None = None,
    ) -> None:
        super().__init__(message, status, code, position, taken)
        self.message = message
        self.status = status
        self.code = code
        self.position = position
        self.taken = taken

    def __str__(self) -> str:
        return self.message
