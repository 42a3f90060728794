"""Ledgers of tables that are no stream: the law of the noise, the account, errors."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tidegate as tg

CELLS = 200_000


def noise(epsilon: str, **keys: Any) -> np.ndarray:
    counts = np.arange(CELLS)
    return tg.Ledger(epsilon).histogram(counts, epsilon, **keys).counts - counts


def distance(sample: np.ndarray, epsilon: float) -> float:
    """Of the distribution function from that of the discrete Laplace law, at its points around zero."""
    points = np.arange(-20, 21)
    share = np.searchsorted(np.sort(sample), points, side="right") / len(sample)
    shrink = math.exp(-epsilon)
    tail = shrink ** np.abs(points) / (1 + shrink)
    return float(np.abs(share - np.where(points < 0, tail, 1 - tail * shrink)).max())


#: By Dvoretzky, Kiefer, Wolfowitz and Massart: a false alarm of 1e-7, so that all tests here have less than 1e-6.
FAR = math.sqrt(math.log(2 / 1e-7) / (2 * CELLS))


@pytest.mark.parametrize(
    ("keys", "share"), [({}, 1), ({"contribution": 2}, 0.5), ({"neighbours": "replace"}, 0.5)], ids=str
)
def test_the_noise_is_discrete_laplace(keys: dict[str, Any], share: float) -> None:
    sample = noise("0.5", **keys)
    assert distance(sample, 0.5 * share) < FAR
    # A tenth less noise would be seen.
    assert distance(sample, 0.55 * share) > FAR


def test_the_variance_is_that_of_the_noise() -> None:
    released = tg.Ledger(2).histogram([5, 0, 9], 1)
    shrink = math.exp(-1)
    assert math.isclose(released.variance, 2 * shrink / (1 - shrink) ** 2, rel_tol=1e-9)
    assert (released.counts.dtype, released.epsilon, len(released)) == (np.int64, Decimal(1), 3)


def test_a_ledger_is_spent_to_the_end() -> None:
    ledger = tg.Ledger("0.3")
    for left in ["0.2", "0.1", "0"]:
        ledger.histogram([1, 2], "0.1")
        assert ledger.left == Decimal(left)
    with pytest.raises(tg.BudgetExceeded, match="exceeds the budget left"):
        ledger.histogram([1, 2], "0.000000001")
    assert ledger.epsilon == Decimal("0.3") and repr(ledger) == "Ledger(epsilon=0.3, left=0)"


def test_threads_spend_one_budget_once() -> None:
    ledger, outcomes = tg.Ledger(1), []

    def release() -> None:
        try:
            outcomes.append(len(ledger.histogram([1] * 1000, "0.1")))
        except tg.BudgetExceeded:
            outcomes.append(0)

    threads = [threading.Thread(target=release) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0] * 6 + [1000] * 10 and ledger.left == 0


@pytest.mark.parametrize("counts", [np.array([3, 1], kind) for kind in ("u1", "i2", "u4", "u8", ">i8")], ids=str)
def test_counts_are_whole_numbers_of_any_type(counts: Any) -> None:
    released = tg.Ledger(30).histogram(np.repeat(counts, 2)[::2], 30)
    # A false alarm of 2 exp(-30) a count.
    assert released.counts.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("counts", "row", "why"),
    [
        ([3, -1], 1, "counts, row 1: expected a whole number from 0 on"),
        ([], None, "expected whole numbers, not float64"),
        (np.array([], int), None, "expected from 1 to 16777216 of them, not 0"),
        ([0.5], None, "expected whole numbers, not float64"),
        (["a"], None, "expected whole numbers"),
        ([[1, 2]], None, "an array with one dimension"),
        (np.array([2**63], np.uint64), None, "below 2\\^63"),
    ],
)
def test_bad_counts_are_refused_and_spend_nothing(counts: Any, row: int | None, why: str) -> None:
    ledger = tg.Ledger(1)
    with pytest.raises(tg.BadData, match=why) as caught:
        ledger.histogram(counts, 1)
    assert caught.value.row == row and ledger.left == 1


@pytest.mark.parametrize(
    "keys", [{"epsilon": 0}, {"epsilon": "x"}, {"contribution": 0}, {"contribution": 1.5}, {"neighbours": "all"}]
)
def test_bad_keywords_are_refused(keys: Any) -> None:
    ledger = tg.Ledger(1)
    with pytest.raises(tg.BadSpec, match=next(iter(keys))):
        ledger.histogram([1], **({"epsilon": 1} | keys))
    with pytest.raises(tg.BadSpec, match="epsilon"):
        tg.Ledger(-1)
    assert ledger.left == 1


def test_a_ledger_is_not_copied() -> None:
    ledger = tg.Ledger(1)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spend one budget twice"):
            take(ledger)
    child = os.fork()
    if child == 0:
        try:
            ledger.histogram([1], 1)
        except tg.BadState:
            os._exit(7)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
