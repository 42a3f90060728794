"""Frequency oracles on Spark: perturb a column, count reports by partition, count each batch once.

It needs PySpark, 3.5 or later, and pyarrow and this package on the driver and the executors::

    oracle = tg.oracles.OLH(d=100, epsilon=1)
    reports = tg.spark.perturb(visits, "place", oracle)
    counted = tg.spark.aggregate(reports, oracle, batch="2026-03-01")
    estimate = tg.spark.merge(counted).estimate()

A *batch* is a partition of one run, such as ``2026-03-01/17``. Spark runs the task of a partition again after a
failure, and twice at once when it speculates. Its own actions take one of the results, but a folder, a table or a topic
that tasks write to may get both. :func:`merge` counts a batch once, however often it comes.

Like :meth:`tidegate.oracles.Oracle.perturb`, this simulates devices: the cluster sees every value. Each action that
computes reports draws them again, and so each value loses another epsilon. Compute aggregates in one action, and keep
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._errors import BadData
from .oracles import Aggregate, Oracle, _load_aggregate

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["aggregate", "merge", "perturb"]

#: The most bytes of reports in a batch of Arrow, whose offsets have 31 bits.
MOST = 1 << 26


def perturb(frame: DataFrame, column: str, oracle: Oracle) -> DataFrame:
    """Simulates a device for each row, whose value is a whole number from 0 to d - 1 in a column of ``frame``.

    The result has the column ``report`` only, and is computed when an action needs it. A value outside the domain, or
    none, fails the task with :class:`BadData`, which names the partition and the row, and not the value.
    """

    def work(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        return perturbed(batches, oracle, _partition())

    return frame.select(frame[column]).mapInArrow(work, "report binary")


def aggregate(reports: DataFrame, oracle: Oracle, *, batch: str) -> DataFrame:
    """Counts reports by partition: a row for each, with its ``batch``, the number of ``reports`` and the ``aggregate``.

    ``reports`` has a column ``report`` of bytes, as those of :func:`perturb` and of devices. ``batch`` names the run,
    such as the day of the data or the number of a micro-batch; partition 17 of it is ``2026-03-01/17``. Other rows need
    another name, or :func:`merge` drops them. The same rows need the same partitions, also when a task runs again: sort
    or save them first if they come in a random order. An aggregate is small, whatever the number of reports.
    """
    if not batch:
        raise BadData("batch: expected a name for the run")

    def work(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        return counted(batches, oracle, _partition(), batch)

    return reports.select(reports["report"]).mapInArrow(work, "batch string, reports long, aggregate string")


def merge(aggregates: DataFrame | Iterable[Any]) -> Aggregate:
    """The sum of aggregates, in which each batch counts once: the first of those that come several times.

    ``aggregates`` is what :func:`aggregate` returns, or its rows from several runs, such as read back from a table;
    rows have the keys ``batch`` and ``aggregate``. Raises :class:`BadData` if there are none, or if they are of
    different oracles.
    """
    rows = aggregates.collect() if hasattr(aggregates, "collect") else aggregates
    firsts: dict[str, str] = {}
    for row in rows:
        firsts.setdefault(row["batch"], row["aggregate"])
    total: Aggregate | None = None
    for text in firsts.values():
        part = _load_aggregate(text, seeded=False)  # reports in a table bear no seed
        total = part if total is None else total + part
    if total is None:
        raise BadData("aggregates: expected one batch or more")
    return total


def perturbed(
    batches: Iterable[pyarrow.RecordBatch], oracle: Oracle, partition: int
) -> Iterator[pyarrow.RecordBatch]:
    """The reports of a partition's batches of values."""
    import pyarrow

    start = 0

    def part(batch: pyarrow.RecordBatch) -> list[pyarrow.RecordBatch]:
        nonlocal start
        values = _values(batch.column(0), start, partition)
        step = max(1, MOST // oracle.report_length)
        reports = []
        for first in range(0, len(values), step):
            try:
                array = oracle.perturb(values[first : first + step]).array
            except BadData as error:
                raise _of_partition(error, partition, start + first) from None
            offsets = np.arange(len(array) + 1, dtype=np.int32) * np.int32(oracle.report_length)
            buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(array)]
            column = pyarrow.Array.from_buffers(pyarrow.binary(), len(array), buffers)
            reports.append(pyarrow.record_batch([column], names=["report"]))
        start += len(values)
        return reports

    # This frame waits while others read the reports, and no name of it holds the batch of values.
    for reports in map(part, batches):
        yield from reports


def counted(
    batches: Iterable[pyarrow.RecordBatch], oracle: Oracle, partition: int, run: str
) -> Iterator[pyarrow.RecordBatch]:
    """The aggregate of a partition's batches of reports; none for an empty partition."""
    import pyarrow

    total, start = oracle.aggregate(), 0
    for batch in batches:
        try:
            total.add(_reports(batch.column(0), oracle.report_length))
        except BadData as error:
            raise _of_partition(error, partition, start) from None
        start += batch.num_rows
    if start > 0:
        row = {"batch": [f"{run}/{partition}"], "reports": [total.reports], "aggregate": [total.__getstate__()[0]]}
        yield pyarrow.RecordBatch.from_pydict(row)


def _values(column: pyarrow.Array, start: int, partition: int) -> npt.NDArray[Any]:
    """A column of whole numbers as an array, without a copy."""
    import pyarrow

    if not pyarrow.types.is_integer(column.type):
        raise BadData(f"values: expected whole numbers, not {column.type}")
    if column.null_count > 0:
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise BadData(f"partition {partition}, row {row}: expected a value, not null", row)
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=True)
    return values


def _reports(column: pyarrow.Array, length: int) -> npt.NDArray[np.uint8]:
    """A column of reports as an array with a row for each, without a copy."""
    import pyarrow

    if not (pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type)):
        raise BadData(f"reports: expected bytes, not {column.type}")
    wide = column.cast(pyarrow.large_binary())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    wrong = np.flatnonzero(np.diff(ends) != length)
    if len(wrong) > 0:
        row = int(wrong[0])
        raise BadData(f"reports, row {row}: expected {length} bytes", row)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return content[ends[0] : ends[-1]].reshape(-1, length)


def _of_partition(error: BadData, partition: int, start: int) -> BadData:
    """The error with the row of the partition, instead of that of a batch."""
    if error.row is None:
        return error
    row = start + error.row
    return BadData(f"partition {partition}, row {row}: {str(error).partition(': ')[2]}", row)


def _partition() -> int:
    """The number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise BadData("there is no task of Spark")
    return int(context.partitionId())
