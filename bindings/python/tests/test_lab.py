"""The laboratory: the same as the command, whatever the caller's tables, and stopped by Ctrl-C."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import command

import tidegate as tg

#: Names that are tables of the command's, with dates, users and values outside ASCII.
VISITS = pl.DataFrame(
    {
        "day": [f"2026-03-{day:02}" for day in range(1, 13) for _ in range(3)],
        "uid": ["änn", "bob", "čim"] * 12,
        "place": ["home", "schöp", "home", "home", "home", "schöp"] * 6,
    }
)
NUMBERS = pl.DataFrame({"t": range(40), "value": [float(t % 7) for t in range(40)]})


def of_command(*arguments: str | Path, code: int = 0) -> Any:
    run = command(*arguments, "--json")
    assert run.returncode == code, run.stderr
    return json.loads(run.stdout)


def without(rows: list[dict[str, Any]], *keys: str) -> str:
    """The rows as text, so that numbers are compared digit by digit, and the order of keys counts."""
    return json.dumps([{key: value for key, value in row.items() if key not in keys} for row in rows])


@pytest.mark.parametrize(
    ("data", "mechanisms", "keywords", "options"),
    [
        ("sin", ["lbu", "lpa", "uniform"], {"epsilon": [0.5, "1"], "window": [5, 10]}, ["--window", "5,10"]),
        ("lns", ["mtsp"], {"epsilon": [0.5, 1], "queries": True}, ["--queries"]),
        ("lns", "pba", {"epsilon": [0.5, 1], "classes": [{"epsilon": 1, "window": 9, "weight": 2}]}, ["--classes", "1:9:2"]),
        ("bursts", ["laplace", "contin"], {"epsilon": [0.5, 1], "delay": [0, 3], "contribution": 5},
         ["--delay", "0,3", "--contribution", "5"]),
        ("bursts", "bucorder", {"epsilon": [0.5, 1], "buckets": 3, "smoother": "median", "within_domain": True},
         ["--buckets", "3", "--smoother", "median", "--within-domain"]),
        ("markov_90", ["crr", "rr"], {"epsilon": [0.5, 1], "order": 2, "distance": "absolute"},
         ["--order", "2", "--distance", "absolute"]),
        ("sin", "lpu", {"epsilon": [0.5, 1], "oracle": "olh", "smooth": True, "repair": "norm_sub"},
         ["--oracle", "olh", "--smooth", "--repair", "norm_sub"]),
    ],
)  # fmt: skip
def test_an_evaluation_is_the_commands(data: str, mechanisms: Any, keywords: Any, options: list[str]) -> None:
    found = tg.evaluate(data, mechanisms, **keywords, length=30, repeats=2, seed=7)
    names = mechanisms if isinstance(mechanisms, str) else ",".join(mechanisms)
    expected = of_command(
        "evaluate", "--dataset", data, "--mechanism", names, "--epsilon", "0.5,1", "--length", "30", "--repeats", "2",
        "--seed", "7", *options,
    )  # fmt: skip
    assert without(found.rows, "seconds") == without(expected, "seconds")
    assert json.loads(found.to_json()) == found.rows
    assert found.seed == 7 and found.table.height == len(found) == len(expected)


def test_an_unseeded_evaluation_says_its_seed() -> None:
    first = tg.evaluate("sin", "lpu", 1, length=20, population=1000, repeats=2)
    again = tg.evaluate("sin", "lpu", 1, length=20, population=1000, repeats=2, seed=first.seed)
    assert without(first.rows, "seconds") == without(again.rows, "seconds")


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame, pa.table], ids=["polars", "pandas", "pyarrow"])
def test_a_table_is_evaluated_as_the_commands_file(kind: Any, tmp_path: Path) -> None:
    VISITS.write_csv(tmp_path / "visits.csv")
    table = kind(VISITS.to_dict(as_series=False))
    found = tg.evaluate(
        table, ["uniform", "ba"], 1, window=3, domain=["home", "schöp"], repeats=3, seed=3, time="day", user="uid",
        value="place", every="1d", origin="2026-03-01",
    )  # fmt: skip
    expected = of_command(
        "evaluate", "--dataset", tmp_path / "visits.csv", "--mechanism", "uniform,ba", "--epsilon", "1", "--window", "3",
        "--values", "home,schöp", "--repeats", "3", "--seed", "3", "--time", "day", "--user", "uid", "--value", "place",
        "--every", "1d", "--origin", "2026-03-01",
    )  # fmt: skip
    assert without(found.rows, "seconds", "dataset") == without(expected, "seconds", "dataset")
    assert isinstance(found.table, type(table))
    assert pl.DataFrame(found)["mse"].to_list() == [row["mse"] for row in expected]


def test_numbers_and_symbols_of_a_table_are_evaluated() -> None:
    found = tg.evaluate(NUMBERS, ["laplace", "clamped"], 1, domain=(0, 6), repeats=2, seed=1)
    assert [row["mechanism"] for row in found.rows] == ["laplace", "clamped"]
    found = tg.evaluate(
        VISITS, "rr", 1, domain=["home", "schöp"], repeats=2, seed=1, time="day", user="uid", value="place", every="1d"
    )
    assert 0 < found.rows[0]["error_rate"] < 1


def test_what_changes_nothing_is_warned_of() -> None:
    found = tg.evaluate("sin", "lpu", 1, length=10, population=1000, repeats=1, delay=2, seed=1)
    assert found.warnings[0] == "delay changes nothing for lpu"
    assert "warning: delay changes nothing" in repr(found) and "lpu" in repr(found)


ADVISE = ["--kind", "counts", "--trust", "curator", "--population", "5000", "--domain", "4", "--window", "7"]


def test_advice_is_the_commands(tmp_path: Path) -> None:
    spec = tmp_path / "stream.toml"
    found = tg.advise(kind="counts", trust="curator", population=5000, domain=4, window=7, epsilon=1, repeats=2, length=30)
    run = command(
        "advise", *ADVISE, "--epsilon", "1", "--repeats", "2", "--length", "30", "--json", "--write-spec", spec
    )
    assert found.to_json() == run.stdout, run.stderr
    assert found.spec() == spec.read_text(encoding="utf-8")
    assert found.recommended in [row["mechanism"] for row in found.rows]
    assert found.why and found.otherwise and found.table.height == len(found)
    assert tg.Stream.from_toml(spec).mechanism.endswith(str(found.recommended))


def test_advice_solves_for_a_budget() -> None:
    found = tg.advise(
        kind="counts", trust="curator", population=5000, domain=["a", "b", "c", "d"], window=7, target_error=1e-5,
        solve="epsilon", mechanisms="uniform",
    )  # fmt: skip
    expected = of_command("advise", *ADVISE, "--target-error", "1e-5", "--solve", "epsilon", "--mechanism", "uniform")
    assert found.answer == expected and found.rows == expected["needs"]
    with pytest.raises(tg.BadSpec, match="no mechanism can be recommended"):
        found.spec()


def test_advice_of_numbers_from_a_sample(tmp_path: Path) -> None:
    stream = tg.Scalar("laplace", epsilon=1, domain={"low": 0, "high": 6}, protects="reading", seed=5)
    released = stream.release(NUMBERS)
    released.to_csv(tmp_path / "released.csv")
    keywords: dict[str, Any] = {"kind": "numbers", "domain": (0, 6), "epsilon": 1, "repeats": 2}
    of_table = tg.advise(**keywords, sample=released)
    of_file = tg.advise(**keywords, sample=tmp_path / "released.csv")
    expected = of_command(
        "advise", "--kind", "numbers", "--domain", "0..6", "--epsilon", "1", "--repeats", "2", "--sample",
        tmp_path / "released.csv",
    )  # fmt: skip
    assert of_table.answer == of_file.answer == expected
    raw = tg.advise(**keywords, sample=NUMBERS)
    assert "it may be raw data" in raw.warnings[0]


def test_advice_of_a_spec_keeps_its_keys() -> None:
    spec = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]}
    keywords: dict[str, Any] = {"population": 1000, "mechanisms": ["ba", "uniform"], "length": 30, "repeats": 2}
    found = tg.advise(spec, **keywords)
    assert found.answer == tg.advise(tg.Stream(spec), **keywords).answer
    assert found.answer["spec_mechanism"] == "ba"
    with pytest.raises(tg.BadSpec, match="epsilon: the spec says it already"):
        tg.advise(spec, epsilon=2)
    with pytest.raises(tg.BadSpec, match="population is needed with this spec"):
        tg.advise(spec)


def test_an_audit_is_the_commands() -> None:
    found = tg.audit("grr", "uniform", epsilon=1, runs=1000, seed=4)
    expected = of_command("audit", "grr", "uniform", "--epsilon", "1", "--runs", "1000", "--seed", "4")
    assert without(found.rows, "seconds") == without(expected, "seconds")
    assert not found.broken and "grr" in repr(found)


def test_a_channel_is_the_commands() -> None:
    found = tg.channel([0.5, 0.3, 0.2], epsilon=0.5, distance="absolute")
    expected = command("channel", "--prior", "0.5,0.3,0.2", "--epsilon", "0.5", "--distance", "absolute", "--json")
    assert found.json == expected.stdout
    printed = json.loads(found.json)
    assert found.matrix.tolist() == printed["channel"] and found.output.tolist() == printed["output"]
    assert (found.leakage, found.cost, found.epsilon) == (printed["leakage"], printed["cost"], printed["epsilon"])
    text = command("channel", "--prior", "0.5,0.3,0.2", "--epsilon", "0.5", "--distance", "absolute").stdout
    assert repr(found) == text.rstrip("\n")
    # A matrix of the same distances gives the same channel.
    distances = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    by_matrix = tg.channel([0.5, 0.3, 0.2], epsilon=0.5, distance=distances)
    assert by_matrix.distance == "matrix" and abs(by_matrix.cost - found.cost) < 1e-6


def test_data_sets_are_what_the_command_lists() -> None:
    listed = json.loads(command("data", "--json").stdout)["datasets"]
    assert tg.datasets.catalogue() == listed and tg.datasets.names() == [one["name"] for one in listed]
    counts = tg.datasets.load("sin", population=1000, length=10, seed=3)
    assert counts.counts is not None and (counts.counts.sum(axis=1) == 1000).all()
    assert counts.table.columns == ["t", "0", "1"] and counts.numbers is None
    released = tg.Central("uniform", epsilon=1, window=5, domain=2, seed=1).release(counts.table)
    assert len(released) == 10
    numbers = tg.datasets.load("numbers_white", length=10, domain=(0, 50))
    assert numbers.domain == (0, 50, 1) and numbers.numbers is not None and numbers.numbers.max() <= 50
    symbols = tg.datasets.load("markov:3:0.9", length=12, population=2)
    assert symbols.sequences is not None and [len(one) for one in symbols.sequences] == [12, 12]
    assert symbols.table.height == 24 and symbols.kind == "symbols"
    assert repr(counts) == "Dataset(sin: 10 timestamps, 2 values, 1000 users)"


def test_a_figure_is_reproduced_as_by_the_command(tmp_path: Path) -> None:
    listed = json.loads(command("reproduce", "--list", "--json").stdout)
    assert tg.experiments() == listed
    name = min((one for one in listed if not one["needs_data"]), key=lambda one: one["seconds"])["name"]
    found = tg.reproduce(name, out=tmp_path / "ours", quick=True, seed=2)
    expected = of_command("reproduce", name, "--out", tmp_path / "theirs", "--quick", "--seed", "2")
    assert without(found.rows, "seconds") == without(expected, "seconds")
    files = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "theirs").iterdir()) and f"{name}.csv" in files
    numbers = [(tmp_path / folder / f"{name}.csv").read_text(encoding="utf-8") for folder in ("ours", "theirs")]
    assert numbers[0] == numbers[1]


SIN: dict[str, Any] = {"length": 5, "population": 100, "repeats": 1}
HOSTILE = [
    float("nan"), float("inf"), -1, 0, 2**63, 2**70, -(2**70), "", "ä", [], [[]], object(), b"x", {"a": 1}, 1e308, True,
]  # fmt: skip


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"mechanisms": "lpx"}, 'there is no mechanism "lpx"'),
        ({"mechanisms": []}, "mechanism needs at least one"),
        ({"mechanisms": ["lpu", "lpu"]}, "mechanism has lpu twice"),
        ({"epsilon": []}, "epsilon needs at least one"),
        ({"epsilon": float("nan")}, "epsilon: expected a finite number"),
        ({"epsilon": -1}, "epsilon: "),
        ({"window": 0}, "window: expected a whole number, 1 or more"),
        ({"window": [5, 5]}, "window has 5 twice"),
        ({"delay": -1}, "delay: expected a whole number, 0 or more"),
        ({"oracle": "olx"}, "or auto for the best"),
        ({"order": 3}, "order: expected an order of 1 or 2"),
        ({"distance": "far"}, 'distance: there is no "far"'),
        ({"threads": 10**9}, "threads: expected at most 1024"),
        ({"classes": [{"epsilon": 1}]}, "classes: the key window is missing"),
        ({"mechanisms": "laplace"}, "laplace"),
        ({"data": "sinn"}, 'there is no data set "sinn" \\(did you mean sin'),
        ({"data": "no/such.csv"}, None),
        ({"data": NUMBERS, "mechanisms": "laplace"}, "domain"),
        ({"data": "msnbc_spmf", "mechanisms": "rr", "data_dir": "/nowhere"}, None),
        ({"smooth": True, "mechanisms": "mtsp"}, "smooth changes nothing for mtsp"),
    ],
)
def test_a_bad_keyword_is_named(keywords: dict[str, Any], why: str | None) -> None:
    given = {"data": "sin", "mechanisms": "lpu", "epsilon": 1, **SIN} | keywords
    if not isinstance(given["data"], str) or given["data"] != "sin":
        given = {key: value for key, value in given.items() if key not in ("population", "length")}
    with pytest.raises((tg.BadSpec, tg.BadData), match=why):
        tg.evaluate(given.pop("data"), given.pop("mechanisms"), given.pop("epsilon"), **given)


@pytest.mark.parametrize(
    "keyword",
    ["mechanisms", "epsilon", "window", "delay", "population", "length", "domain", "resolution", "repeats", "seed",
     "oracle", "classes", "contribution", "batch", "order", "distance", "effort", "threshold", "buckets", "truncation",
     "smoother", "neighbours", "repair", "time", "every", "origin", "duplicates", "empty", "threads"],
)  # fmt: skip
def test_no_keyword_of_an_evaluation_panics(keyword: str) -> None:
    for value in HOSTILE:
        if keyword == "repeats" and value == 2**63:
            continue  # as many runs as that are no error
        for data, mechanism in (("sin", "lpu"), ("bursts", "bucorder"), (NUMBERS, "clamped")):
            given: dict[str, Any] = {"mechanisms": mechanism, "epsilon": 1, "repeats": 1, keyword: value}
            if isinstance(data, str):
                given = {"length": 5} | given
            try:
                tg.evaluate(data, given.pop("mechanisms"), given.pop("epsilon"), **given)
            except tg.TidegateError:
                pass


@pytest.mark.parametrize("call", [tg.advise, tg.audit, tg.channel, tg.datasets.load])
def test_no_keyword_of_the_others_panics(call: Any) -> None:
    base: dict[Any, dict[str, Any]] = {
        tg.advise: {"kind": "counts", "trust": "curator", "population": 50, "domain": 4, "window": 3, "epsilon": 1,
                    "mechanisms": "uniform", "length": 12, "repeats": 1, "delay": None, "classes": None,
                    "class_sizes": None, "most_bytes": None, "metric": None, "target_error": None, "solve": None,
                    "seed": None, "resolution": None, "contribution": None, "threads": None},
        tg.audit: {"epsilon": 1, "runs": 20, "window": None, "domain": None, "confidence": None, "seed": None,
                   "threads": None, "family": "oracle"},
        tg.channel: {"prior": [0.5, 0.5], "epsilon": 1, "distance": None, "transitions": None, "length": 1},
        tg.datasets.load: {"name": "sin", "population": 10, "length": 3, "domain": None, "seed": None},
    }  # fmt: skip
    for keyword in base[call]:
        for value in HOSTILE:
            if keyword in ("runs", "repeats") and value == 2**63:
                continue  # as many runs as that are no error
            given = base[call] | {keyword: value}
            arguments = [given.pop("name")] if call is tg.datasets.load else ["grr"] if call is tg.audit else []
            try:
                call(*arguments, **given)
            except (tg.TidegateError, TypeError):
                pass


def test_what_does_not_fit_in_memory_is_refused() -> None:
    counts: dict[str, Any] = {"kind": "counts", "trust": "local", "population": 100, "epsilon": 1, "mechanisms": "lpu"}
    for keywords, why in (({"domain": 2**32 - 1}, "at most 16777216"), ({"domain": 4, "length": 10**12}, "is too long")):
        with pytest.raises(tg.BadSpec, match=why):
            tg.advise(**counts, **keywords)
    with pytest.raises(tg.BadSpec, match="length must be between"):
        tg.datasets.load("sin", length=10**12)
    with pytest.raises(tg.BadSpec, match="window"):
        tg.audit("lpa", window=10**9)


def test_a_bad_row_of_a_table_is_named() -> None:
    bad = NUMBERS.with_columns(t=pl.when(pl.col("t") == 7).then(3).otherwise(pl.col("t")))
    with pytest.raises(tg.BadData) as caught:
        tg.evaluate(bad, "laplace", 1, domain=(0, 6))
    assert (caught.value.row, caught.value.column) == (7, "t")


def test_other_threads_go_on_during_an_evaluation() -> None:
    done = threading.Event()

    def evaluate() -> None:
        tg.evaluate("lns", "lpa", 1, repeats=20, seed=1)
        done.set()

    thread = threading.Thread(target=evaluate)
    thread.start()
    steps = 0
    while not done.wait(0.005):
        steps += 1
    thread.join()
    assert steps > 10
