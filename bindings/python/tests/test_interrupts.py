"""Ctrl-C: a process that gets a real SIGINT during a long call stops it within a second."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGIN = """
import signal, sys, threading, time
import numpy as np, pyarrow as pa
import tidegate as tg

signal.signal(signal.SIGINT, signal.default_int_handler)  # A process in the background ignores it.
signal.alarm(120)
SPEC = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]}
stream = tg.Stream(SPEC)
zeroes = np.zeros(50_000_000, np.uint8)


def hour(t):
    return pa.record_batch({"t": np.full(1000, t), "user": np.arange(1000), "value": ["home"] * 1000})


def endless():
    t = 0
    while True:
        yield hour(t)
        t += 1


def announce():
    main = threading.main_thread().ident
    while "tidegate" not in sys._current_frames()[main].f_code.co_filename:
        time.sleep(0.01)
    print("calling", flush=True)


def call():
"""

END = """

threading.Thread(target=announce, daemon=True).start()
try:
    while True:
        call()
except KeyboardInterrupt:
    stopped = time.monotonic()
# What was stopped has spent nothing, and the stream goes on.
assert stream.budget()[0].last is None
assert len(stream.release(pa.Table.from_batches([hour(0)]))) == 1
print(stopped)
"""

#: Calls that take much longer than a second, if they end at all.
CALLS = {
    "release": "stream.release(pa.RecordBatchReader.from_batches(hour(0).schema, endless()))",
    "evaluate": 'tg.evaluate("lns", "lpa", 1, repeats=1_000_000)',
    "audit": 'tg.audit("lpa", runs=10**12)',
    "advise": 'tg.advise(kind="counts", trust="local", population=10**6, domain=16, epsilon=1, repeats=10**9)',
    "reproduce": 'tg.reproduce("ldp-ids-fig5", out="figures", repeats=10**9)',
    "perturb": "tg.oracles.GRR(4, 1).perturb(zeroes)",
    "aggregate": "tg.oracles.OLH(1 << 22, 1).aggregate(tg.oracles.OLH(1 << 22, 1).perturb(zeroes[:30_000]))",
}


def seconds_until_stopped(call: str, folder: Path) -> float:
    program = f"{BEGIN}    {call}\n{END}"
    child = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(0.1)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert (first, child.returncode) == ("calling\n", 0), errors
    return float(rest) - sent


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_stops_a_call_within_a_second(call: str, tmp_path: Path) -> None:
    # On a busy machine one of three attempts may be late without a fault of the call, which takes far longer.
    assert any(seconds_until_stopped(CALLS[call], tmp_path) < 1 for _ in range(3))
