"""An account for data that are no stream."""

from __future__ import annotations

import dataclasses
import decimal
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._errors import BadData, BadSpec
from .oracles import Epsilon, _decimal


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts with noise, as :meth:`Ledger.histogram` returns them."""

    __module__ = "tidegate"

    #: The counts: unbiased, and so below zero at times.
    counts: npt.NDArray[np.int64]
    #: The variance of each.
    variance: float
    #: The loss.
    epsilon: decimal.Decimal

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"NoisyCounts({len(self)} counts, epsilon={self.epsilon}, variance={self.variance:.4g})"


class Ledger:
    """An account for tables that are no stream: it releases histograms until its ``epsilon`` is spent.

    It lives in memory, and forgets what was spent when the process ends. An account that must survive a restart is that
    of a :class:`Stream` with a state. A ledger cannot be copied or pickled: two copies would spend one budget twice.

    >>> import numpy as np
    >>> import tidegate as tg
    >>> ledger = tg.Ledger(epsilon=1)
    >>> released = ledger.histogram(np.array([120, 30, 7]), epsilon="0.5")
    >>> released.counts.shape, ledger
    ((3,), Ledger(epsilon=1, left=0.5))
    """

    __module__ = "tidegate"

    def __init__(self, epsilon: Epsilon) -> None:
        self._native = _tidegate.Ledger(_decimal(epsilon))

    @property
    def epsilon(self) -> decimal.Decimal:
        """The whole budget."""
        return decimal.Decimal(self._native.epsilon)

    @property
    def left(self) -> decimal.Decimal:
        """What is left of it."""
        return decimal.Decimal(self._native.left)

    def histogram(
        self, counts: npt.ArrayLike, epsilon: Epsilon, *, contribution: int = 1, neighbours: str = "add_remove"
    ) -> NoisyCounts:
        """Spends ``epsilon``, and returns each count with independent discrete Laplace noise.

        A user who adds at most ``contribution`` to the sum of all counts is protected, at a loss of ``epsilon``:
        presence too (``neighbours="add_remove"``), or the values only (``"replace"``), which takes twice the noise.
        Which cells there are must not depend on the data.

        Raises :class:`BudgetExceeded` if too little is left, and :class:`BadData`, which names the row. Then nothing is
        spent.
        """
        if neighbours not in ("add_remove", "replace"):
            raise BadSpec("neighbours: expected add_remove or replace")
        if not isinstance(contribution, int) or not 1 <= contribution < 1 << 63:
            raise BadSpec("contribution: expected a whole number from 1 on")
        given = np.asarray(counts)
        if given.dtype.kind not in "iu":
            raise BadData(f"counts: expected whole numbers, not {given.dtype}")
        if given.dtype == np.uint64 and given.size > 0 and given.max() > np.iinfo(np.int64).max:
            raise BadData("counts: expected numbers below 2^63")
        amount, replace = _decimal(epsilon), neighbours == "replace"
        noisy, variance = self._native.histogram(given.astype(np.int64, copy=False), amount, contribution, replace)
        return NoisyCounts(noisy, variance, decimal.Decimal(amount))

    def __repr__(self) -> str:
        return f"Ledger(epsilon={self.epsilon}, left={self.left})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger cannot be copied or pickled, because two copies would spend one budget twice")
