"""What tg.spark does with the batches of a partition, and the merging of aggregates. test_spark.py has the clusters."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import spark

ORACLE = tg.oracles.OUE(100, 1)


def batch_of(values: Any, kind: Any = None) -> pa.RecordBatch:
    return pa.record_batch({"place": pa.array(values, kind)})


def rows_of(batches: list[pa.RecordBatch], partition: int = 0, run: str = "monday") -> list[dict[str, Any]]:
    reports = spark.perturbed(batches, ORACLE, partition)
    return [row for counted in spark.counted(reports, ORACLE, partition, run) for row in counted.to_pylist()]


def test_a_partition_becomes_one_row() -> None:
    values = np.repeat([3, 50], [30_000, 10_000])
    (row,) = rows_of([batch_of(values[:25_000]), batch_of(values[25_000:], pa.int8())], partition=7)
    assert (row["batch"], row["reports"]) == ("monday/7", 40_000)
    estimate = spark.merge([row]).estimate()
    # 6 sigma: a false alarm of 2e-9 a value.
    assert abs(estimate.frequencies[3] - 0.75) < 6 * estimate.variances[3] ** 0.5
    assert abs(estimate.frequencies[4]) < 6 * estimate.variances[4] ** 0.5
    assert rows_of([]) == [] and rows_of([batch_of([], pa.int64())]) == []


def test_a_batch_counts_once_however_often_it_comes() -> None:
    parts = [rows_of([batch_of(np.full(size, 1))], partition)[0] for partition, size in enumerate([100, 20, 3])]
    # A task that ran again has drawn other noise.
    (again,) = rows_of([batch_of(np.full(20, 1))], 1)
    assert again["batch"] == parts[1]["batch"] and again["aggregate"] != parts[1]["aggregate"]
    merged = spark.merge([*parts, again, parts[0]])
    assert merged.reports == 123 and merged == spark.merge(parts)
    (other,) = rows_of([batch_of(np.full(20, 1))], 1, run="tuesday")
    assert spark.merge([*parts, other]).reports == 143


def test_nothing_holds_the_values_while_others_read_the_reports() -> None:
    living: list[weakref.ref[pa.RecordBatch]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            batch = batch_of(np.arange(100))
            living.append(weakref.ref(batch))
            yield batch
            del batch

    for number, reports in enumerate(spark.perturbed(batches(), ORACLE, 0), 1):
        assert reports.schema.names == ["report"] and reports.num_rows == 100
        # The source is where it gave the last batch, which it still holds itself; nobody holds those before.
        assert len(living) == number and [one() for one in living[:-1]] == [None] * (number - 1)


def test_large_reports_are_parted() -> None:
    large = tg.oracles.SUE(1 << 22, 1)
    reports = list(spark.perturbed([batch_of(np.arange(200))], large, 0))
    assert [one.num_rows for one in reports] == [128, 72]
    assert all(one.nbytes <= spark.MOST + 4096 for one in reports)


@pytest.mark.parametrize(
    ("values", "kind", "row", "why"),
    [
        ([1, 2, 100], None, 12, "partition 4, row 12: expected a number from 0 to 99"),
        ([1, -1], None, 11, "partition 4, row 11"),
        ([None, 2], pa.int64(), 10, "partition 4, row 10: expected a value, not null"),
        ([0.5], None, None, "expected whole numbers, not double"),
        (["home"], None, None, "expected whole numbers, not string"),
    ],
)
def test_bad_values_are_refused_by_row(values: Any, kind: Any, row: int | None, why: str) -> None:
    with pytest.raises(tg.BadData, match=why) as caught:
        list(spark.perturbed([batch_of(np.zeros(10, int)), batch_of(values, kind)], ORACLE, 4))
    assert caught.value.row == row
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_bad_reports_are_refused_by_row() -> None:
    olh = tg.oracles.OLH(100, 1)
    good = [bytes(row) for row in olh.perturb([1, 2]).array]
    for wrong, why in [(b"1", "row 4: expected 9 bytes"), (b"\xff" * 9, "row 4: "), (None, "row 4: expected 9 bytes")]:
        batches = [batch_of(good), batch_of([*good, wrong], pa.binary())]
        with pytest.raises(tg.BadData, match=f"partition 2, {why}") as caught:
            list(spark.counted(batches, olh, 2, "monday"))
        assert caught.value.row == 4
    with pytest.raises(tg.BadData, match="expected bytes, not int64"):
        list(spark.counted([batch_of([1])], olh, 2, "monday"))
    sliced = batch_of([b"1", *good]).slice(1)
    (counted,) = spark.counted([sliced], olh, 2, "monday")
    assert counted.to_pylist()[0]["reports"] == 2


def test_what_cannot_be_merged_is_refused() -> None:
    (row,) = rows_of([batch_of([1])])
    other = {"batch": "monday/9", "aggregate": tg.oracles.GRR(4, 1).aggregate().__getstate__()[0]}
    with pytest.raises(tg.BadData, match="cannot be merged"):
        spark.merge([row, other])
    with pytest.raises(tg.BadData, match="expected one batch or more"):
        spark.merge([])
    with pytest.raises(tg.BadState, match="the saved aggregate"):
        spark.merge([row | {"aggregate": row["aggregate"][:-1]}])
