"""tg.spark on local clusters of PySpark: `make spark` runs it, because PySpark is large and needs Java."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate as tg

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed: make spark")
pytestmark = [pytest.mark.filterwarnings("default")]

ORACLE = tg.oracles.OLH(10, 4)
ROWS = 8_000
PARTITIONS = 4


def session(master: str, **settings: Any) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    builder = SparkSession.builder.master(master).appName("tidegate").config("spark.ui.enabled", "false")
    for name, value in ({"driver.bindAddress": "127.0.0.1", "driver.host": "127.0.0.1"} | settings).items():
        builder = builder.config(f"spark.{name}", str(value))
    return builder.getOrCreate()


def values_of(spark: Any) -> Any:
    frame = spark.range(0, ROWS, 1, PARTITIONS)
    return frame.selectExpr("id AS user", "IF(id % 4 = 0, 7, 3) AS place")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers, which Spark takes for two machines: it runs no duplicate where the first one is."""
    home = Path(pyspark.__file__).parent
    with contextlib.ExitStack() as started, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()

        def start(kind: str, *arguments: str) -> None:
            program = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
            environment = os.environ | {"SPARK_HOME": str(home)}
            log = started.enter_context((folder / f"{kind}-{arguments[1]}.log").open("w"))
            process = subprocess.Popen([*program, "--webui-port", "0"], env=environment, stdout=log, stderr=log)
            started.callback(process.wait)
            started.callback(process.kill)

        start("Master", "--host", "127.0.0.1", "--port", str(port))
        for number in (2, 3):
            own = ["--host", f"127.0.0.{number}", "--cores", "1", "--memory", "1g"]
            start("Worker", *own, "--work-dir", str(folder / f"worker-{number}"), f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"


def sink(folder: Path, then: Callable[[Path, int, int], None]) -> Any:
    """Writes the rows that a task gets to a file of its attempt, as one would to a store that tasks share."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.attemptNumber()
        for batch in batches:
            for row in batch.to_pylist():
                part = folder / f"{partition}-{attempt}.part"
                part.write_text(json.dumps(row))
                part.rename(folder / f"{partition}-{attempt}.json")
            yield batch
        then(folder, partition, attempt)

    return work


def stored(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def check(merged: tg.oracles.Aggregate) -> None:
    assert merged.reports == ROWS
    estimate = merged.estimate()
    # 6 sigma: a false alarm of 2e-9 a value.
    for value, truth in [(3, 0.75), (7, 0.25), (0, 0)]:
        assert abs(estimate.frequencies[value] - truth) < 6 * ORACLE.variance(ROWS, truth) ** 0.5


def test_a_task_that_fails_and_runs_again_counts_once(tmp_path: Path) -> None:
    spark = session(f"local[2,{PARTITIONS}]")
    try:
        reports = tg.spark.perturb(values_of(spark), "place", ORACLE)
        assert reports.columns == ["report"]
        counted = tg.spark.aggregate(reports, ORACLE, batch="monday")

        def fail_once(_: Path, partition: int, attempt: int) -> None:
            if partition == 1 and attempt == 0:
                raise RuntimeError("the machine was lost")

        taken = counted.mapInArrow(sink(tmp_path, fail_once), counted.schema).collect()
        # Spark takes one result of each task, and the store has both of the second.
        check(tg.spark.merge(taken))
        kept = stored(tmp_path)
        assert [row["batch"] for row in kept] == ["monday/0", "monday/1", "monday/1", "monday/2", "monday/3"]
        assert sum(row["reports"] for row in kept) == ROWS * 5 // 4
        check(tg.spark.merge(kept))
        # In one step, without a store.
        check(tg.spark.merge(counted))
        wrong = tg.spark.perturb(values_of(spark), "user", ORACLE)
        with pytest.raises(Exception, match=r"partition \d, row \d+: expected a number from 0 to 9"):
            wrong.count()
    finally:
        spark.stop()


def test_a_speculative_duplicate_counts_once(tmp_path: Path) -> None:
    stored_at = tmp_path / "store"
    stored_at.mkdir()
    settings = {"speculation.quantile": 0.5, "speculation.multiplier": 1.0, "speculation.interval": "100ms"}
    settings |= {"speculation": "true", "speculation.efficiency.enabled": "false", "executor.memory": "512m"}
    # No work before both workers are there.
    settings |= {"scheduler.minRegisteredResourcesRatio": 1.0, "cores.max": 2}
    settings |= {"scheduler.maxRegisteredResourcesWaitingTime": "120s"}
    with cluster(tmp_path) as master:
        spark = session(master, **settings)
        try:

            def wait_for_the_other(folder: Path, partition: int, attempt: int) -> None:
                # The first attempt is slow, so that Spark starts another elsewhere. Then both have stored a result.
                end = time.monotonic() + 600
                while partition == 2 and attempt == 0 and not (folder / "2-1.json").exists() and time.monotonic() < end:
                    time.sleep(0.05)

            counted = tg.spark.aggregate(tg.spark.perturb(values_of(spark), "place", ORACLE), ORACLE, batch="monday")
            taken = counted.mapInArrow(sink(stored_at, wait_for_the_other), counted.schema).collect()
            kept = stored(stored_at)
            assert [row["batch"] for row in kept].count("monday/2") == 2
            assert sum(row["reports"] for row in kept) > ROWS
            check(tg.spark.merge(taken))
            check(tg.spark.merge(kept))
        finally:
            spark.stop()
