"""Memory does not grow over a thousand calls, whether they succeed or fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: One process makes all calls, and prints by how many bytes each kind let it grow.
PROGRAM = """
import gc, json
from pathlib import Path
import numpy as np, pyarrow as pa
import tidegate as tg

SPEC = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]}
stream, failing = tg.Stream(SPEC), tg.Stream(SPEC)
local = tg.Local("lpa", epsilon=1, window=5, domain=["home", "shop"], population=1000)
oracle = tg.oracles.OLH(64, 1)
values, slots = np.arange(1000) % 64, np.arange(1000) * 65
reports = oracle.perturb(values)
damaged = reports.array.copy()
damaged[-1] = 255
sequences = pa.table({"t": np.arange(1000) // 10, "user": np.arange(1000) % 10, "value": ["home", "shop"] * 500})
kept = []


def visits(t, last="home"):
    return pa.table({"t": np.full(1000, t), "user": np.arange(1000), "value": ["home"] * 999 + [last]})


def fails(call):
    try:
        call()
    except tg.TidegateError:
        return
    raise AssertionError("the call did not fail")


def rounds(t):
    step = local.open(t)
    while isinstance(step, list):
        parts = [question.simulate(np.zeros(1000, int), slots) for question in step]
        step = local.answer(step, [question.oracle.aggregate(part) for question, part in zip(step, parts)])


CALLS = {
    "a leak": lambda t: kept.append(bytes(16_000)),
    "release": lambda t: stream.release(visits(t)).to_csv(),
    "failing release": lambda t: fails(lambda: failing.release(visits(t, last="pub"))),
    "stream": lambda t: tg.Stream(SPEC).release(visits(0)).table,
    "failing stream": lambda t: fails(lambda: tg.Stream(SPEC | {"epsilon": -1})),
    "budget": lambda t: stream.budget(),
    "rounds": rounds,
    "perturb": lambda t: oracle.aggregate(oracle.perturb(values)).estimate().interval(),
    "failing perturb": lambda t: fails(lambda: oracle.perturb(values + 1)),
    "failing aggregate": lambda t: fails(lambda: oracle.aggregate(damaged)),
    "evaluate": lambda t: tg.evaluate("sin", "lpu", 1, length=5, population=200, repeats=1).rows,
    "failing evaluate": lambda t: fails(lambda: tg.evaluate("sin", "nothing", 1)),
    "channel": lambda t: tg.channel([0.5, 0.3, 0.2], epsilon=1),
    "model": lambda t: tg.Model.fit(sequences, domain=["home", "shop"]).to_json(),
    "failing model": lambda t: fails(lambda: tg.Model.fit(sequences, domain=["home"])),
}


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


grown = {}
for name, call in CALLS.items():
    for t in range(100):
        call(t)
    before = resident()
    for t in range(100, 1_100):
        call(t)
    grown[name] = resident() - before
print(json.dumps(grown))
"""

#: Each call above handles some 16 kB of data: if it kept them, a thousand would be 16 MB.
ALLOWED = 8 << 20

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="a process's size is read from /proc")


def test_memory_does_not_grow_over_a_thousand_calls() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    grown = json.loads(run.stdout)
    # The measure sees a leak.
    assert grown.pop("a leak") > ALLOWED
    assert {name: size for name, size in grown.items() if size > ALLOWED} == {}
