"""Frequency oracles: laws of reports, sums of aggregates, estimates, errors."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate import oracles

KINDS = [oracles.GRR, oracles.SUE, oracles.OUE, oracles.BLH, oracles.OLH, oracles.Hadamard, oracles.Subset]
#: Domain of the tests of laws.
D = 3
#: Devices of each test of a law.
DEVICES = 300_000
#: False-alarm probability of one test of a law; all of them together stay below 1e-6.
FALSE_ALARM = 1e-6 / (2 * len(KINDS))

pytestmark = pytest.mark.filterwarnings("ignore::tidegate.SeededWarning")


def chi_squared_tail(statistic: float, freedom: int) -> float:
    """The probability that a chi-squared variable exceeds the statistic."""
    half = statistic / 2
    first = 0.5 if freedom % 2 else 0.0
    terms = [first + step for step in range(freedom // 2)]
    tail = math.erfc(math.sqrt(half)) if freedom % 2 else 0.0
    return tail + sum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in terms)


def p_value(observed: np.ndarray, law: dict[int, float]) -> float:
    """How likely outcomes at least as far from the law are. Outcomes that the law does not know are impossible."""
    outcomes, counts = np.unique(observed, return_counts=True)
    seen = dict(zip(outcomes.tolist(), counts.tolist(), strict=True))
    assert math.isclose(sum(law.values()), 1)
    if not seen.keys() <= law.keys():
        return 0.0
    expected = {outcome: probability * len(observed) for outcome, probability in law.items()}
    statistic = sum((seen.get(outcome, 0) - mean) ** 2 / mean for outcome, mean in expected.items())
    return chi_squared_tail(statistic, len(law) - 1)


def bits(array: np.ndarray) -> np.ndarray:
    """Reports of up to eight bits as numbers."""
    return array[:, 0].astype(np.int64)


def unary_law(value: int, own: float, other: float) -> dict[int, float]:
    law = {}
    for report in itertools.product([0, 1], repeat=D):
        chances = [own if position == value else other for position in range(D)]
        probability = math.prod(p if bit else 1 - p for p, bit in zip(chances, report, strict=True))
        law[sum(bit << position for position, bit in enumerate(report))] = probability
    return law


def hash_buckets(seeds: np.ndarray, value: int, buckets: int) -> np.ndarray:
    """The bucket of a value by the hash function of each seed, written from its description."""

    def mix(word: np.ndarray) -> np.ndarray:
        word = word ^ (word >> np.uint64(32))
        word = word * np.uint64(0xD6E8FEB86659FD93)
        word = word ^ (word >> np.uint64(32))
        word = word * np.uint64(0xD6E8FEB86659FD93)
        return word ^ (word >> np.uint64(32))

    def scramble(word: int) -> int:
        word = ((word ^ (word >> 16)) * 0x7FEB352D) % 2**32
        word = ((word ^ (word >> 15)) * 0x846CA68B) % 2**32
        return word ^ (word >> 16)

    golden = 0x9E3779B9
    key = scramble((scramble((value + golden) % 2**32) + golden) % 2**32)
    factor, offset = mix(seeds), mix(seeds ^ np.uint64(0x9E3779B97F4A7C15))
    top = (factor * np.uint64(key) + offset) >> np.uint64(32)
    return (top * np.uint64(buckets)) >> np.uint64(32)


def law_of(
    kind: type[oracles.Oracle], value: int, epsilon: float
) -> tuple[Callable[[np.ndarray], np.ndarray], dict[int, float]]:
    """The outcome of each report as a number, and the law of that number: from the papers, not from tidegate."""
    u = math.exp(epsilon)
    if kind is oracles.GRR:
        return bits, {report: (u if report == value else 1) / (u + D - 1) for report in range(D)}
    if kind is oracles.SUE:
        kept = math.sqrt(u) / (math.sqrt(u) + 1)
        return bits, unary_law(value, kept, 1 - kept)
    if kind is oracles.OUE:
        return bits, unary_law(value, 0.5, 1 / (u + 1))
    if kind is oracles.Hadamard:
        # A column of the 4 by 4 matrix; its sign in the value's row is the parity of their common bits.
        agrees = {column: ((value + 1) & column).bit_count() % 2 == 0 for column in range(4)}
        return bits, {column: (u if agree else 1) / (2 * u + 2) for column, agree in agrees.items()}
    if kind is oracles.Subset:
        # Sets of one value: k = 1 is the best size for three values at an epsilon of one.
        return bits, {1 << report: (u if report == value else 1) / (u + D - 1) for report in range(D)}
    # Local hashing: the bucket relative to that of the value, and four bits of the hash function's seed.
    buckets = 2 if kind is oracles.BLH else 4

    def outcome(array: np.ndarray) -> np.ndarray:
        seeds = np.ascontiguousarray(array[:, :8]).view(np.uint64)[:, 0]
        own = hash_buckets(seeds, value, buckets)
        relative = (array[:, 8].astype(np.uint64) + np.uint64(buckets) - own) % np.uint64(buckets)
        return (relative * np.uint64(16) + seeds % np.uint64(16)).astype(np.int64)

    law = {
        relative * 16 + seed: (u if relative == 0 else 1) / (u + buckets - 1) / 16
        for relative in range(buckets)
        for seed in range(16)
    }
    return outcome, law


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0, D - 1])
def test_reports_follow_their_law(kind: Any, value: int) -> None:
    reports = kind(D, 1).perturb(np.full(DEVICES, value))
    outcome, law = law_of(kind, value, 1)
    assert p_value(outcome(reports.array), law) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_of_the_law_sees_a_tenth_more_epsilon(kind: Any) -> None:
    reports = kind(D, 1).perturb(np.full(DEVICES, 1))
    outcome, law = law_of(kind, 1, 1.1)
    assert p_value(outcome(reports.array), law) < FALSE_ALARM
    outcome, law = law_of(kind, 0, 1)
    assert p_value(outcome(reports.array), law) < FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_devices_share_their_noise(kind: Any) -> None:
    # Parts of 16384 devices, each with a fresh generator: equal ones would repeat each other.
    oracle = kind(64, 2)
    array = oracle.perturb(np.zeros(3 * 16_384, np.uint8)).array
    assert not np.array_equal(array[:16_384], array[16_384 : 2 * 16_384])
    assert not np.array_equal(array, oracle.perturb(np.zeros(3 * 16_384, np.uint8)).array)
    seeded = oracle.perturb(np.zeros(2 * 16_384, np.uint8), seed=1).array
    assert not np.array_equal(seeded[:16_384], seeded[16_384:])


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_aggregates_equal_the_whole(kind: Any) -> None:
    oracle = kind(20, "0.7")
    reports = oracle.perturb(np.arange(50_000) % 20)
    whole = oracle.aggregate(reports)
    cuts = [0, 1, 17_000, 16_384 * 3, 50_000]
    parts = [oracle.aggregate(reports.array[low:high]) for low, high in itertools.pairwise(cuts)]
    assert sum(parts[::-1]) == whole
    assert parts[0] + parts[1] != whole
    assert whole.reports == 50_000
    one_by_one = oracle.aggregate()
    for row in reports.array[:100]:
        one_by_one.add(row.tobytes())
    assert one_by_one == oracle.aggregate(reports.array[:100].tobytes())


def test_supports_are_the_bits_of_unary_reports() -> None:
    oracle = oracles.OUE(100, 1)
    reports = oracle.perturb(np.arange(40_000) % 100)
    expected = np.unpackbits(reports.array, axis=1, bitorder="little")[:, :100].sum(axis=0)
    assert oracle.aggregate(reports).supports.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_are_equal(kind: Any) -> None:
    oracle = kind(9, 1.5)
    reports = oracle.perturb([0, 1, 8] * 100, seed=3)
    aggregate = oracle.aggregate(reports)
    copy = pickle.loads(pickle.dumps(aggregate))
    assert copy == aggregate and copy.seeded and copy.oracle == oracle
    assert type(pickle.loads(pickle.dumps(oracle))) is kind
    copy.add(pickle.loads(pickle.dumps(reports)))
    assert copy == aggregate + aggregate
    assert copy != aggregate


def test_estimates_can_be_pickled() -> None:
    oracle = oracles.OUE(9, 1)
    estimate = oracle.aggregate(oracle.perturb([0, 1, 8] * 100, seed=3)).estimate()
    copy = pickle.loads(pickle.dumps(estimate))
    assert np.array_equal(copy.frequencies, estimate.frequencies)
    assert np.array_equal(copy.interval(0.9), estimate.interval(0.9))
    assert (copy.reports, copy.seeded, repr(copy)) == (300, True, repr(estimate))


def test_damaged_pickles_are_refused() -> None:
    json, seeded = oracles.GRR(4, 1).aggregate(b"\1\2").__getstate__()
    assert oracles._load_aggregate(json, seeded).reports == 2
    for damaged in ["", "{}", json.replace('"reports":2', '"reports":3')]:
        with pytest.raises(tg.BadState, match="the saved aggregate"):
            oracles._load_aggregate(damaged, seeded)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_contain_the_truth_as_often_as_they_say(kind: Any) -> None:
    # Seeded, so that nothing is left to chance: 200 trials, each right with the stated probability up to 5 sigma.
    oracle, values = kind(5, 2), np.repeat(np.arange(5), [800, 100, 60, 40, 0])
    trials = [oracle.aggregate(oracle.perturb(values, seed=seed)).estimate() for seed in range(200)]
    for confidence in [0.6, 0.95]:
        slack = 5 * math.sqrt(confidence * (1 - confidence) / len(trials))
        for value, truth in [(0, 0.8), (2, 0.06)]:
            bounds = [(low[value], high[value]) for low, high in (trial.interval(confidence) for trial in trials)]
            share = sum(low <= truth <= high for low, high in bounds) / len(trials)
            assert abs(share - confidence) < slack
    frequencies = np.array([trial.frequencies for trial in trials])
    expected = oracle.variance(1000, 0.8)
    # The variance of 200 normal trials is off by a tenth as a rule: 5 sigma.
    assert 0.5 < frequencies[:, 0].var() / expected < 1.5
    first = trials[0]
    stated = [oracle.variance(1000, frequency) for frequency in first.frequencies.clip(0, 1)]
    assert np.allclose(first.variances, stated)
    assert abs(frequencies[:, 0].mean() - 0.8) < 5 * math.sqrt(expected / len(trials))


def test_seeded_reports_warn_and_mark_all_that_comes_of_them() -> None:
    oracle = oracles.GRR(4, 1)
    with pytest.warns(tg.SeededWarning, match="seeded with 7"):
        reports = oracle.perturb([0, 1, 2], seed=7)
    again = oracle.perturb([0, 1, 2], seed=7)
    assert reports.seeded and np.array_equal(reports.array, again.array)
    private = oracle.aggregate(oracle.perturb([3]))
    assert not private.seeded and not private.estimate().seeded
    mixed = private + oracle.aggregate(reports)
    assert mixed.seeded and mixed.estimate().seeded
    assert "seeded" in repr(reports) and "seeded" in repr(mixed) and "seeded" in repr(mixed.estimate())


def test_the_best_oracle_is_chosen() -> None:
    assert type(oracles.auto(2, 1)) is oracles.GRR
    assert type(oracles.auto(10_000, 1)) is oracles.OLH
    assert type(oracles.auto(10_000, "0.1")) is oracles.Hadamard
    assert oracles.auto(10, "0.1") == oracles.Oracle(oracles.auto(10, "0.1").kind, 10, Decimal("0.1"))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8])
def test_all_whole_numbers_are_read_alike(dtype: Any) -> None:
    oracle, values = oracles.GRR(100, 1), np.arange(100)
    expected = oracle.perturb(values, seed=5).array
    assert np.array_equal(oracle.perturb(values.astype(dtype), seed=5).array, expected)
    assert np.array_equal(oracle.perturb(np.repeat(values, 2).astype(dtype)[::2], seed=5).array, expected)


def test_arrays_are_not_copied() -> None:
    values = np.zeros(2_000_000, np.int64)
    oracle = oracles.GRR(10, 1)
    tracemalloc.start()
    try:
        oracle.aggregate(oracle.perturb(values))
        # numpy tells tracemalloc of its arrays.
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("outside", [4, -1, 2**40 + 1])
def test_values_outside_the_domain_are_refused_by_row(outside: int) -> None:
    values = np.zeros(100_000, np.int64)
    values[[70_123, 90_000]] = outside
    with pytest.raises(tg.BadData, match="row 70123: expected a number from 0 to 3") as refused:
        oracles.GRR(4, 1).perturb(values)
    assert refused.value.row == 70_123
    assert str(outside) not in str(refused.value).replace("70123", "")


@pytest.mark.parametrize("values", [[0.0, 1.0], ["a"], [[0, 1]], [True], None, [None]])
def test_other_arrays_are_refused(values: Any) -> None:
    with pytest.raises(tg.BadData, match="values: expected a contiguous array of whole numbers"):
        oracles.GRR(4, 1).perturb(values)


def test_no_devices_give_no_reports() -> None:
    oracle = oracles.OLH(4, 1)
    reports = oracle.perturb([])
    assert reports.array.shape == (0, oracle.report_length)
    with pytest.raises(tg.BadData, match="no report has been received"):
        oracle.aggregate(reports).estimate()


@pytest.mark.parametrize(
    ("kind", "d", "epsilon", "problem"),
    [
        ("grr", 1, 1, "a domain of 1 values"),
        ("grr", -1, 1, "d: expected"),
        ("grr", 2**40, 1, "d: expected"),
        ("auto", 0, 1, "a domain of 0 values"),
        ("oue", 4, 0, "epsilon"),
        ("oue", 4, -1, "epsilon"),
        ("oue", 4, "one", "epsilon: expected a number"),
        ("oue", 4, math.nan, "epsilon: expected a number"),
        ("oue", 4, 1e9, "epsilon"),
        ("oeu", 4, 1, "there is no frequency oracle"),
    ],
)
def test_bad_oracles_are_refused(kind: str, d: int, epsilon: Any, problem: str) -> None:
    with pytest.raises(tg.BadSpec, match=problem):
        oracles.Oracle(kind, d, epsilon)


def test_malformed_reports_are_refused_by_row_and_change_nothing() -> None:
    oracle = oracles.GRR(4, 1)
    aggregate = oracle.aggregate(b"\0\1\2\3")
    before = pickle.dumps(aggregate)
    batch = np.zeros((60_000, 1), np.uint8)
    batch[[40_001, 59_000]] = 4
    with pytest.raises(tg.BadData, match="reports, row 40001: index 4 is outside 0..4") as refused:
        aggregate.add(batch)
    assert refused.value.row == 40_001
    with pytest.raises(tg.BadData, match="uint8"):
        aggregate.add(np.zeros(3))
    with pytest.raises(tg.BadData, match="rows of 1 bytes"):
        aggregate.add(np.zeros((3, 2), np.uint8))
    with pytest.raises(tg.BadData, match="not a whole number of reports"):
        oracles.OLH(4, 1).aggregate(b"123")
    other = oracles.GRR(5, 1)
    with pytest.raises(tg.BadData, match="cannot be counted in an aggregate of"):
        aggregate.add(other.perturb([0]))
    with pytest.raises(tg.BadData, match="cannot be merged into one of"):
        aggregate + other.aggregate()
    assert pickle.dumps(aggregate) == before


def test_threads_count_at_the_same_time() -> None:
    oracle = oracles.OLH(4096, 1)
    reports = oracle.perturb(np.arange(20_000) % 4096)
    aggregate, turns = oracle.aggregate(), 0
    threads = [threading.Thread(target=aggregate.add, args=(reports,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
        turns += 1
    whole = oracle.aggregate(reports)
    assert aggregate == whole + whole + whole
    # Python had its turns while the threads counted.
    assert turns > 5
