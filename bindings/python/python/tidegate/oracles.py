"""Frequency oracles: devices report values under local differential privacy, a collector estimates frequencies.

>>> import numpy as np
>>> import tidegate as tg
>>> oracle = tg.oracles.OLH(d=100, epsilon=1)
>>> reports = oracle.perturb(np.arange(5000) % 100)
>>> estimate = oracle.aggregate(reports).estimate()
>>> low, high = estimate.interval(0.95)
>>> estimate.frequencies.shape, bool((low < high).all())
((100,), True)

:meth:`Oracle.perturb` simulates a fleet: whoever calls it sees all values. On a real device, use :class:`Device`.
Aggregates of one oracle can be added, pickled and sent, so that any number of processes can count.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
import operator
import statistics
import warnings
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._errors import BadData, BadSpec, SeededWarning

__all__ = ["BLH", "GRR", "OLH", "OUE", "SUE", "Aggregate", "Estimate", "Hadamard", "Oracle", "SimulatedReports"]
__all__ += ["Subset", "auto"]

Epsilon = float | str | decimal.Decimal


class Oracle:
    """A frequency oracle for the values 0 to d - 1, by the name of its kind.

    Each report loses at most ``epsilon``, exactly: any two values give any report with probabilities that differ by a
    factor of at most exp(epsilon). Raises :class:`BadSpec` for a kind, a ``d`` or an ``epsilon`` that there is not.

    >>> import tidegate as tg
    >>> tg.oracles.Oracle("oue", d=16, epsilon="0.5")
    OUE(d=16, epsilon=0.5)
    """

    def __init__(self, kind: str, d: SupportsIndex, epsilon: Epsilon) -> None:
        try:
            self._native = _tidegate.Oracle(kind, operator.index(d), _decimal(epsilon))
        except OverflowError:
            raise BadSpec("d: expected a number of values from 2 to 16777216") from None

    @property
    def kind(self) -> str:
        """The name in specs, such as ``olh``."""
        return self._native.kind

    @property
    def d(self) -> int:
        """The number of values."""
        return self._native.d

    @property
    def epsilon(self) -> decimal.Decimal:
        """The loss of a report."""
        return decimal.Decimal(self._native.epsilon)

    @property
    def report_length(self) -> int:
        """The number of bytes of a report."""
        return self._native.report_length

    def variance(self, reports: int, frequency: float = 0.0) -> float:
        """The variance of an estimate from that many reports, if that share of the devices holds the value."""
        if reports < 1:
            raise BadData(f"reports: expected a number of reports from 1 on, not {reports}")
        constant, slope = self._native.variance(reports)
        return constant + slope * frequency

    def perturb(self, values_of_devices: npt.ArrayLike, /, *, seed: int | None = None) -> SimulatedReports:
        """Simulates many devices, one for each value, and returns the report of each.

        Each device has a ledger of its own, with a budget of ``epsilon``, and spends it all on its report. An array of
        whole numbers of any type is read as it is, without a copy. All cores work, and Ctrl-C stops them.

        This process sees every value, so it is for trying out, and for data that it holds anyway. A device that is to
        keep its value to itself is a :class:`Device`.

        ``seed`` repeats a run exactly, on any number of cores; its reports are not private, and are marked as such.

        Raises :class:`BadData`, which names the row.
        """
        values = np.ascontiguousarray(values_of_devices)
        if values.size == 0:
            values = values.astype(np.uint8)
        if seed is not None:
            warnings.warn(
                f"these reports are seeded with {seed}: whoever knows that can take the noise off again, so they are "
                "not private",
                SeededWarning,
                stacklevel=2,
            )
        return SimulatedReports(self, self._native.perturb(values, seed), seed is not None)

    def aggregate(self, reports: SimulatedReports | npt.NDArray[np.uint8] | bytes | None = None) -> Aggregate:
        """An aggregate of reports, or an empty one. See :meth:`Aggregate.add`."""
        aggregate = Aggregate(self, self._native.aggregate())
        if reports is not None:
            aggregate.add(reports)
        return aggregate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Oracle) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        name = _CLASSES[self.kind].__name__
        return f"{name}(d={self.d}, epsilon={self._native.epsilon})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (oracle_of, self._key())

    def _key(self) -> tuple[str, int, str]:
        return (self.kind, self.d, self._native.epsilon)


class GRR(Oracle):
    """Generalised randomised response: the value or another one."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("grr", d, epsilon)


class SUE(Oracle):
    """Symmetric unary encoding (basic RAPPOR, Erlingsson et al. 2014): one bit per value, each flipped alike."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("sue", d, epsilon)


class OUE(Oracle):
    """Optimised unary encoding (Wang et al. 2017): one bit per value; a set bit is kept with probability 1/2."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("oue", d, epsilon)


class BLH(Oracle):
    """Binary local hashing (Bassily and Smith 2015): randomised response on one hashed bit."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("blh", d, epsilon)


class OLH(Oracle):
    """Optimised local hashing (Wang et al. 2017): randomised response on a hash with about exp(epsilon) + 1 buckets."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("olh", d, epsilon)


class Hadamard(Oracle):
    """Hadamard response (Acharya et al. 2019): a column that likely agrees with the value's row of the matrix."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("hadamard", d, epsilon)


class Subset(Oracle):
    """Subset selection (Ye and Barg 2018): a random set of values that likely contains the true one."""

    def __init__(self, d: SupportsIndex, epsilon: Epsilon) -> None:
        super().__init__("subset", d, epsilon)


_CLASSES: dict[str, type[Oracle]] = {
    "grr": GRR,
    "sue": SUE,
    "oue": OUE,
    "blh": BLH,
    "olh": OLH,
    "hadamard": Hadamard,
    "subset": Subset,
}


def auto(d: SupportsIndex, epsilon: Epsilon) -> Oracle:
    """The oracle with the least variance, and of those within 1 % of it the one with the shortest report.

    >>> import tidegate as tg
    >>> tg.oracles.auto(d=4, epsilon=3), tg.oracles.auto(d=1000, epsilon=1)
    (GRR(d=4, epsilon=3), OLH(d=1000, epsilon=1))
    """
    best = Oracle("auto", d, epsilon)
    return oracle_of(*best._key())


def oracle_of(kind: str, d: int, epsilon: Epsilon) -> Oracle:
    """An oracle by the name of its kind, and of that kind's class."""
    oracle = Oracle(kind, d, epsilon)
    oracle.__class__ = _CLASSES[kind]
    return oracle


@dataclasses.dataclass(frozen=True, eq=False)
class SimulatedReports:
    """Reports of simulated devices: a row of bytes each, as they would be sent."""

    #: The oracle of the devices.
    oracle: Oracle
    #: The reports: one row for each device.
    array: npt.NDArray[np.uint8]
    #: Whether the run was seeded, so that the reports are not private.
    seeded: bool

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=True) if copy else np.asarray(self.array, dtype=dtype)

    def __repr__(self) -> str:
        return f"SimulatedReports({self.oracle}, {len(self)} devices{', seeded' if self.seeded else ''})"


class Aggregate:
    """The sum of reports: how many support each value. Its size does not depend on the number of reports.

    Aggregates of one oracle can be added: the sum is as if all reports had been counted in one place. They can be
    pickled.

    >>> import tidegate as tg
    >>> oracle = tg.oracles.GRR(d=4, epsilon=1)
    >>> east, west = oracle.aggregate(oracle.perturb([0, 1])), oracle.aggregate(oracle.perturb([2, 2, 3]))
    >>> east + west
    Aggregate(GRR(d=4, epsilon=1), 5 reports)
    """

    def __init__(self, oracle: Oracle, native: _tidegate.Aggregate) -> None:
        self._oracle = oracle
        self._native = native

    @property
    def oracle(self) -> Oracle:
        """The oracle of the reports."""
        return self._oracle

    @property
    def reports(self) -> int:
        """The number of reports."""
        return self._native.reports

    @property
    def seeded(self) -> bool:
        """Whether a report of a seeded run was counted, so that the estimate is not private."""
        return self._native.seeded

    @property
    def supports(self) -> npt.NDArray[np.uint64]:
        """How many reports support each value."""
        return self._native.supports()

    def add(self, reports: SimulatedReports | npt.NDArray[np.uint8] | bytes) -> None:
        """Counts reports: all of them, or none if any is malformed.

        They are simulated ones, an array of bytes with a row for each, or all bytes one after the other. Raises
        :class:`BadData`, which names the row.
        """
        seeded = False
        if isinstance(reports, SimulatedReports):
            if reports.oracle != self._oracle:
                raise BadData(f"reports of {reports.oracle} cannot be counted in an aggregate of {self._oracle}")
            seeded = reports.seeded
            reports = reports.array
        rows = np.frombuffer(reports, np.uint8) if isinstance(reports, bytes) else np.ascontiguousarray(reports)
        length = self._oracle.report_length
        if rows.dtype != np.uint8:
            raise BadData(f"reports: expected bytes (uint8), not {rows.dtype}")
        if rows.ndim > 1 and rows.shape[1:] != (length,):
            raise BadData(f"reports: expected rows of {length} bytes, not an array of the shape {rows.shape}")
        self._native.add(rows.reshape(-1), seeded)

    def estimate(self) -> Estimate:
        """The unbiased estimate of the frequencies among the devices that reported.

        Raises :class:`BadData` if nobody did.
        """
        native = self._native.copy()
        frequencies = native.estimate()
        constant, slope = self._oracle._native.variance(native.reports)
        return Estimate(frequencies, native.reports, constant, slope, native.seeded)

    def __add__(self, other: object) -> Aggregate:
        if not isinstance(other, Aggregate):
            return NotImplemented
        return Aggregate(self._oracle, self._native.merged(other._native))

    def __radd__(self, other: object) -> Aggregate:
        # `sum` begins with zero.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregate) and self.__getstate__() == other.__getstate__()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Aggregate({self._oracle}, {self.reports} reports{', seeded' if self.seeded else ''})"

    def __getstate__(self) -> tuple[str, bool]:
        native = self._native.copy()
        return native.to_json(), native.seeded

    def __reduce__(self) -> tuple[Any, ...]:
        return (_load_aggregate, self.__getstate__())


def _load_aggregate(json: str, seeded: bool) -> Aggregate:
    native = _tidegate.Aggregate.from_json(json, seeded)
    return Aggregate(oracle_of(*native.oracle), native)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated frequencies of all values.

    Each is unbiased, so it may be below zero or above one, and their sum need not be one. Variances and intervals are
    about the frequencies among the devices that reported: they leave out how well those stand for others.
    """

    #: The estimated share of the devices that hold each value.
    frequencies: npt.NDArray[np.float64]
    #: The number of reports.
    reports: int
    #: The variance of the estimate of a value that nobody holds.
    constant: float
    #: What a frequency of one adds to that variance.
    slope: float
    #: Whether a seeded run contributed to it, so that it is not private.
    seeded: bool

    @property
    def counts(self) -> npt.NDArray[np.float64]:
        """The estimated number of devices that hold each value."""
        return self.frequencies * self.reports

    @property
    def variances(self) -> npt.NDArray[np.float64]:
        """The variance of each frequency, at the estimate clipped to 0 and 1."""
        return self.constant + self.slope * np.clip(self.frequencies, 0.0, 1.0)

    def interval(self, confidence: float = 0.95) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds that contain each true frequency with the given confidence, for about normal errors.

        They are score intervals (Wilson 1927): all frequencies at whose own variance the estimate is not too far off.
        """
        if not 0 < confidence < 1:
            raise BadData(f"a confidence is between 0 and 1, not {confidence}")
        squared = statistics.NormalDist().inv_cdf((1 + confidence) / 2) ** 2
        shift = self.slope * squared / 2
        reach = np.sqrt(np.maximum(squared * (self.constant + self.slope * self.frequencies) + shift**2, 0))
        middle = self.frequencies + shift
        return middle - reach, middle + reach

    def __repr__(self) -> str:
        seeded = ", seeded" if self.seeded else ""
        return f"Estimate({len(self.frequencies)} values, {self.reports} reports{seeded})"


def _decimal(epsilon: Epsilon) -> str:
    """An epsilon as a decimal without an exponent."""
    try:
        number = decimal.Decimal(str(epsilon))
    except decimal.InvalidOperation:
        raise BadSpec(f"epsilon: expected a number, not {epsilon!r}") from None
    if not math.isfinite(number):
        raise BadSpec(f"epsilon: expected a number, not {epsilon!r}")
    return format(number, "f")
