"""Absurd arguments to everything that is public: an exception is an answer, a panic is none.

A panic is a `PanicException`, which is no `Exception`: nothing here catches it.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import CASES, MODEL, VALUES, table_for

import tidegate as tg

NAN, INFINITY = float("nan"), float("inf")

#: Not too large, for keywords that say how much work there is.
SMALL: list[Any] = [
    None, True, False, -1, 0, -0.0, 0.5, NAN, INFINITY, -INFINITY, 5e-324, "", "\0", "\ud800", "ä" * 300, "1e999999",
    "-1", "0x10", b"", b"\xff", [], [None], [[]], [NAN], [""], ["a", "a"], {}, {"a": {}}, {None: None}, (), object(),
    decimal.Decimal("NaN"), decimal.Decimal("-1e-999"), datetime.timedelta(-1), datetime.timedelta.max,
    datetime.date.min, datetime.datetime.max, range(0), np.array([]), np.array([NAN]), np.array(["a"]), np.array(None),
    np.zeros((2, 0)), pl.DataFrame(), pd.DataFrame(), lambda: None, int, Path("/nothing/there"), -(2**63), -(10**400),
]  # fmt: skip
#: For all others, too.
LARGE: list[Any] = [2**31, 2**32 - 1, 2**32, 2**40, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**400, 1e308,
                    "9" * 400, [2**64], [1e308, -1e308], range(2**40, 2**40 + 2)]  # fmt: skip
#: Keywords of which a large number is much work.
WORK = {"population", "length", "repeats", "runs", "contribution", "order", "batch", "window", "delay", "threads",
        "domain", "class_sizes", "resolution"}  # fmt: skip

COUNTS = pl.DataFrame({"t": [0, 1], "a": [3, 4], "b": [5, 6]})
VISITS = pl.DataFrame({"t": [0, 0, 1], "user": ["ann", "bob", "ann"], "value": ["a", "b", "b"]})


def attempt(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Calls, and looks at what comes back."""
    try:
        result = call(*arguments, **keywords)
        if isinstance(result, tg.Reproduction | tg.Feed):
            return result
        repr(result)
        if hasattr(result, "_repr_html_"):
            result._repr_html_()
        return result
    except Exception as error:
        str(error)
        return error


def vary(call: Callable[..., Any], given: dict[str, Any], work: set[str] = frozenset()) -> int:  # type: ignore[assignment]
    """Replaces each keyword by each absurd value, and two of them by random ones."""
    draw = random.Random(1)
    names = [
        name
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and name != "self"
    ]
    calls = 0
    for name in names:
        for value in SMALL if name in work else SMALL + LARGE:
            attempt(call, **{**given, name: value})
            other = draw.choice(names)
            attempt(call, **{**given, name: value, other: draw.choice(SMALL if other in work else SMALL + LARGE)})
            calls += 2
    return calls


def stream(**options: Any) -> tg.Stream:
    return tg.Central("uniform", epsilon=1, window=2, domain=["a", "b"], seed=1, **options)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Files that are named by chance are in a folder of the test; nothing may panic on another thread either."""
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")
    assert "panicked" not in capfd.readouterr().err


STREAMS = {
    tg.Central: {"mechanism": "ba", "epsilon": 1, "window": 2, "domain": ["a", "b"]},
    tg.Local: {"mechanism": "lpa", "epsilon": 1, "window": 2, "domain": ["a", "b"], "population": 100},
    tg.Scalar: {"mechanism": "pegasus", "epsilon": 1, "domain": {"low": 0, "high": 9}, "protects": "reading"},
    tg.Sequence: {"mechanism": "crr", "epsilon": 1, "domain": VALUES, "model": MODEL},
}


@pytest.mark.parametrize("kind", STREAMS, ids=lambda kind: kind.__name__)
def test_streams(kind: type[tg.Stream]) -> None:
    assert vary(kind, STREAMS[kind]) > 1000
    for domain in (0, 1, 2, 2**20, 2**31, 2**40):
        attempt(kind, **{**STREAMS[kind], "domain": domain})


def test_specs() -> None:
    for spec in [*SMALL, *LARGE, {"mechanism": []}, {"mechanism": "ba", "epsilon": {}}, {"spec": {"spec": {}}}]:
        attempt(tg.Stream, spec)
    for call in (tg.Stream.from_toml, tg.Stream.load):
        vary(call, {"path": "nothing.toml"} if call is tg.Stream.from_toml else {"state": "nothing"})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spec["mechanism"])
def test_calls_of_a_stream_of_every_mechanism(case: Any) -> None:
    running = tg.Stream(case.spec)
    for value in (-1, 0, 1, 2**31, 2**63, 2**64 - 1, 10**400, NAN, "a", None):
        attempt(running.budget, value)
        attempt(running.open, value)
        attempt(tg.Stream(case.spec).open, value)
    released = attempt(tg.Stream(case.spec).release, case.table, users=case.users)
    attempt(released.query, VALUES[0], last=2**64 - 1)
    attempt(released.query, top=2**40)
    attempt(released.monitor, VALUES[0], above=-1e308, change=True, shift=2**63)
    attempt(released.plot, most=1000)
    attempt(released.to_csv), attempt(released.to_ndjson), len(released), released.columns, released.answers


def tables() -> list[Any]:
    of = pa.table
    return [
        pl.DataFrame(), pd.DataFrame(), of({}), of({"t": []}), COUNTS.head(0), COUNTS.head(1), COUNTS.reverse(),
        of([pa.array([0]), pa.array([0]), pa.array(["a"])], names=["t", "t", "a"]),
        of([pa.array([0]), pa.array(["a"]), pa.array(["a"])], names=["t", "user", "user"]),
        of([pa.array([0])] * 3, names=["", "", ""]),
        of({"t": pa.array([None], pa.null()), "user": ["a"], "value": ["a"]}),
        of({"t": [NAN, INFINITY], "user": ["a", "b"], "value": ["a", "b"]}),
        of({"t": [-1], "a": [1], "b": [1]}), of({"t": [2**63 - 1], "a": [2**62], "b": [2**62]}),
        of({"t": pa.array([2**64 - 1], pa.uint64()), "a": [1], "b": [1]}),
        of({"t": [0, 2**62], "user": ["a", "a"], "value": ["a", "b"]}),
        of({"t": [0], "a": pa.array([2**64 - 1], pa.uint64()), "b": pa.array([2**64 - 1], pa.uint64())}),
        of({"t": [0], "a": [[1]], "b": [{"c": 1}]}), of({"t": [0], "a": [b"\xff"], "b": [b""]}),
        of({"t": [0.5], "a": [1.5], "b": [-1.5]}), of({"t": [True], "user": [True], "value": [True]}),
        of({"t": ["\0"], "user": ["\0"], "value": ["\0"]}), of({"t": ["9" * 400], "user": [""], "value": ["a"]}),
        of({"t": pa.array([10**37], pa.decimal128(38)), "user": ["a"], "value": ["a"]}),
        of({"t": pa.array([-(2**31)], pa.date32()), "user": ["a"], "value": ["a"]}),
        *(of({"t": pa.array([time], pa.timestamp(unit)), "user": ["a"], "value": ["a"]})
          for unit in ("s", "ms", "us", "ns") for time in (-(2**63), 2**63 - 1, -1, 0)),
        of({"t": pa.array([0], pa.timestamp("s", "Nowhere/Land")), "user": ["a"], "value": ["a"]}),
        of({"t": pa.array(["0"]).dictionary_encode(), "user": pa.array(["a"], pa.large_string()), "value": ["a"]}),
        of({"t": pa.array([1], pa.duration("s")), "user": ["a"], "value": ["a"]}),
        of({"t": pa.array([1], pa.time64("ns")), "user": ["a"], "value": ["a"]}),
        of({"t": pa.array([1.0], pa.float16()), "user": ["a"], "value": ["a"]}),
        of({"t": pa.nulls(3, pa.int64()), "user": pa.nulls(3, pa.string()), "value": pa.nulls(3, pa.string())}),
        pd.DataFrame([[0, 1, 2]], columns=[0, 1, 2]), pl.DataFrame({"t": [object()]}), VISITS.lazy(), np.zeros((2, 2)),
        of({f"c{column}": [0] for column in range(2000)}), {"t": [0]}, "table", None, 7, [],
    ]  # fmt: skip


@pytest.mark.parametrize("every", [None, "1d", "1h", "1s", "1mo"])
def test_tables(every: str | None) -> None:
    for kind, options in STREAMS.items():
        given = options if every is None else {**options, "every": every, "origin": "2026-01-01"}
        for table in tables():
            running = kind(**given)
            attempt(running.release, table)
            attempt(running.release, table, through="9" * 30)
            attempt(running.budget)
    for table in tables():
        attempt(stream().release, COUNTS, users=table)
        attempt(stream().release(COUNTS).plot, truth=table)
        attempt(tg.Model.fit, table, domain=["a", "b"])
        attempt(tg.evaluate, table, "lbu", epsilon=1, window=2, repeats=1, domain=["a", "b"])
        attempt(tg.advise, kind="counts", trust="local", population=9, domain=2, epsilon=1, length=3, sample=table)


def test_releases() -> None:
    assert vary(stream().release, {"table": COUNTS}) > 500
    released = stream().release(COUNTS)
    assert vary(released.query, {"value": "a"}) > 500
    assert vary(released.monitor, {"value": "a", "above": 0.5}) > 500
    assert vary(released.plot, {"values": "a"}, {"ax"}) > 200
    empty = stream().release(COUNTS.head(0))
    for call in (empty.query, empty.monitor, empty.plot, empty.to_csv, lambda: empty.table, empty._repr_html_):
        attempt(call)
    attempt(empty.query, "a"), attempt(empty.plot, "a"), attempt(empty.plot, kind="heat")


def test_the_laboratory() -> None:
    few = {"length": 5, "repeats": 1, "population": 50, "window": 2, "seed": 1}
    assert vary(tg.evaluate, {"data": "sin", "mechanisms": "lbu", "epsilon": 1, **few}, WORK) > 2000
    least = {"kind": "counts", "trust": "curator", "population": 50, "domain": 2, "epsilon": 1, "window": 2,
             "length": 3, "repeats": 1, "mechanisms": ["uniform"]}  # fmt: skip
    assert vary(tg.advise, least, WORK) > 1500
    assert vary(lambda **keywords: tg.audit("grr", **keywords), {"epsilon": 1, "runs": 20}) == 0
    for name, value in ((name, value) for name in inspect.signature(tg.audit).parameters for value in SMALL):
        if name != "mechanisms":
            attempt(tg.audit, "grr", **{"epsilon": 1, "runs": 20, name: value})
    assert vary(tg.channel, {"prior": [0.5, 0.5], "epsilon": 1}, {"length"}) > 400
    model = tg.Model.of([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    for length in (0, 1, 3, 40, 2**31, 2**63):
        attempt(tg.channel, model=model, epsilon=1, length=length)
    assert vary(tg.Model.fit, {"table": VISITS, "domain": ["a", "b"]}, {"order"}) > 500
    vary(tg.Model.of, {"prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.1, 0.9]]})
    vary(tg.Model.load, {"path": "nothing"})
    vary(tg.datasets.load, {"name": "sin", "length": 3, "population": 9}, WORK)
    for name in SMALL:
        attempt(tg.datasets.load, name, length=3, population=9)
        attempt(tg.reproduce, name, out="here", quick=True)


def test_oracles_and_devices() -> None:
    for kind in (tg.oracles.GRR, tg.oracles.OUE, tg.oracles.OLH, tg.oracles.Hadamard, tg.oracles.Subset):
        vary(kind, {"d": 3, "epsilon": 1})
        oracle = kind(3, 1)
        for value in [*SMALL, *LARGE]:
            attempt(oracle.perturb, value)
            attempt(oracle.perturb, [0], seed=value)
            attempt(oracle.variance, value)
            attempt(oracle.variance, 3, value)
            attempt(oracle.aggregate, value)
            attempt(oracle.aggregate().add, value)
            attempt(oracle.aggregate(oracle.perturb([0, 1])).estimate().interval, value)
            attempt(lambda: oracle.aggregate() + value)  # noqa: B023
    vary(tg.oracles.Oracle, {"kind": "grr", "d": 3, "epsilon": 1})
    vary(tg.oracles.auto, {"d": 3, "epsilon": 1})
    vary(tg.Device, {name: "a" for name in inspect.signature(tg.Device).parameters})
    vary(tg.sign_policy, {name: "a" for name in inspect.signature(tg.sign_policy).parameters})
    vary(tg.public_key, {"operator": "0" * 64})


def test_ledgers_and_batches() -> None:
    vary(tg.Ledger, {"epsilon": 1})
    assert vary(tg.Ledger(1000).histogram, {"counts": [1, 2], "epsilon": "0.1"}) > 400
    oracle = tg.oracles.GRR(3, 1)
    good = oracle.aggregate(oracle.perturb([0])).__getstate__()[0]
    for value in [*SMALL, *LARGE]:
        attempt(tg.spark.merge, value)
        attempt(tg.spark.merge, [{"batch": "a", "aggregate": value}, {"batch": value, "aggregate": good}])
        attempt(tg.spark.aggregate, value, oracle, batch=value)
        attempt(tg.spark.perturb, VISITS, value, oracle)
        for column in (pa.array([0, 1]), pa.array([b"a"])):
            attempt(lambda: list(tg.spark.perturbed([pa.record_batch([column], names=["a"])], value, 0)))  # noqa: B023
            attempt(lambda: list(tg.spark.counted([value], oracle, 0, "a")))  # noqa: B023


def test_rounds() -> None:
    def asked() -> tuple[tg.Stream, list[tg.Question]]:
        running = tg.Local("lpa", epsilon=1, window=10, domain=["a", "b"], population=100)
        questions = running.open(0)
        assert isinstance(questions, list)
        return running, questions

    for value in [*SMALL, *LARGE]:
        running, questions = asked()
        attempt(running.answer, value, [None])
        attempt(running.answer, questions, value)
        attempt(running.answer, questions, [value] * len(questions))
        attempt(running.answer, questions, [None] * len(questions), population=value)
        attempt(tg.Question.from_json, value)
        for field in ("timestamp", "phase", "slots", "epsilon", "kind", "domain", "ranges"):
            given = {name: getattr(questions[0], name) for name in questions[0].__dataclass_fields__} | {field: value}
            wrong = attempt(tg.Question, **given)
            attempt(asked()[0].answer, [wrong] * len(questions), [None] * len(questions))
            attempt(lambda: wrong.simulate([0], [0]))  # noqa: B023


def test_the_client() -> None:
    vary(tg.Client, {"url": "http://127.0.0.1:1", "token": "a"})
    client = tg.Client("http://127.0.0.1:1", attempts=1, timeout=1)
    for call in (client.releases, client.answers, client.query, client.values, client.stream, client.pause):
        vary(call, {"name": "visits"})
    vary(client.create, {"name": "visits", "spec": STREAMS[tg.Central], "tick": 1})
    vary(client.send, {"name": "visits", "events": [{"user": "a", "value": "b"}]})
    vary(client.follow, {"name": "visits"})
    for page in (b"", b"{}", b"[" * 9999, b'{"spec": {}}', b'{"next": 1e999}', b"\xff"):
        attempt(tg._tidegate.next_page, page)
        attempt(tg._tidegate.published, page, [page])


def test_everything_public_is_tried() -> None:
    """A new name belongs into a test above, or here if it only holds results."""
    text = Path(__file__).read_text(encoding="utf-8")
    results = {"Advice", "Answer", "Audit", "Budget", "Budgets", "Channel", "Evaluation", "FeedEvent", "Mechanism",
               "MonitorEvent", "NoisyCounts", "Releases", "StreamInfo", "mechanisms", "experiments"}  # fmt: skip
    for name in tg.__all__:
        is_error = inspect.isclass(getattr(tg, name)) and issubclass(getattr(tg, name), Exception)
        assert is_error or name in results or f"tg.{name}" in text, name
