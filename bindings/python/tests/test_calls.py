"""Calls of several threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from cases import table_for

import tidegate as tg

CENTRAL = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop", "way, or none"]}


def many(rows: int) -> pl.DataFrame:
    numbers = pl.int_range(rows, eager=True)
    return pl.DataFrame({"t": numbers // 1_000, "user": numbers % 1_000}).with_columns(value=pl.lit("home"))


def test_other_threads_go_on_during_a_release() -> None:
    table = many(3_000_000)
    done = threading.Event()

    def release() -> None:
        tg.Stream(CENTRAL).release(table)
        done.set()

    thread = threading.Thread(target=release)
    thread.start()
    steps = 0
    while not done.wait(0.005):
        steps += 1
    thread.join()
    assert steps > 20


def test_threads_may_share_a_stream() -> None:
    stream = tg.Stream(CENTRAL)
    released: list[int] = []
    refused: list[tg.BadData] = []

    def release(t: int) -> None:
        try:
            released.extend(stream.release(table_for("central", 1).with_columns(t=pl.lit(t)))["t"].to_list())
        except tg.BadData as error:
            refused.append(error)

    threads = [threading.Thread(target=release, args=(t,)) for t in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A late table is refused, and no timestamp is released twice: it has one row for each value.
    assert len(released) == 3 * len(set(released))
    assert len(refused) < 16 and stream.budget()[0].last == max(released) == 15


class InStep:
    """A table whose second half is read only once all others have been read half."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        first, second = (many(2_000).slice(half * 1_000, 1_000).to_arrow().to_batches()[0] for half in range(2))

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            self.barrier.wait(timeout=60)
            yield second

        return pa.RecordBatchReader.from_batches(first.schema, batches()).__arrow_c_stream__(requested_schema)


def test_streams_in_several_threads_release_at_the_same_time() -> None:
    barrier = threading.Barrier(4)
    streams = [tg.Stream(CENTRAL, seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        released = list(pool.map(lambda stream: stream.release(InStep(barrier)), streams))
    for seed, one in enumerate(released):
        assert one.to_csv() == tg.Stream(CENTRAL, seed=seed).release(many(2_000)).to_csv()


def at_work() -> int:
    """How many other threads of this process run, or would if a core were free, instead of waiting for a lock."""
    own, states = str(threading.get_native_id()), []
    for task in Path("/proc/self/task").iterdir():
        if task.name != own:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return states.count("R")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the states of threads are read from /proc")
def test_two_threads_release_on_two_cores() -> None:
    table = many(1_000_000)
    threads = [threading.Thread(target=tg.Stream(CENTRAL).release, args=(table,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    samples = []
    while all(thread.is_alive() for thread in threads):
        samples.append(at_work())
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    assert len(samples) > 10
    # One lock for both would leave one of them waiting at any time.
    assert sum(count >= 2 for count in samples) > len(samples) / 2
