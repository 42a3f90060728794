"""Long and many calls: Ctrl-C, threads, memory."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time

import polars as pl
import pytest
from cases import table_for

import tidegate as tg

CENTRAL = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop", "way, or none"]}


def many(rows: int) -> pl.DataFrame:
    numbers = pl.int_range(rows, eager=True)
    return pl.DataFrame({"t": numbers // 1_000, "user": numbers % 1_000}).with_columns(value=pl.lit("home"))


def test_ctrl_c_stops_a_release_within_a_second_and_spends_nothing() -> None:
    stream = tg.Stream(CENTRAL)
    table = many(20_000_000)
    sent = []

    def interrupt() -> None:
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        stream.release(table)
    stopped = time.monotonic()
    thread.join()
    assert stopped - sent[0] < 1
    assert stream.budget()[0].last is None
    assert len(stream.release(many(2_000))) == 2


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


def test_memory_does_not_grow_over_a_thousand_calls() -> None:
    stream = tg.Stream(CENTRAL)
    table = many(1_000)

    def peak_of(calls: range) -> int:
        for t in calls:
            stream.release(table.with_columns(t=pl.lit(t))).to_csv()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    warm = peak_of(range(200))
    assert peak_of(range(200, 1_200)) - warm < 8 << 10
