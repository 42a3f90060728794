"""The package releases what the command does, byte for byte."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cases import CASES, Case, case_of, table_for
from conftest import ROOT, command, write_spec

import tidegate as tg

SEED = 20_260_301


def released(case: Case, folder: Path, *options: str | Path) -> str:
    spec = write_spec(folder, case.spec)
    arguments: list[str | Path] = ["release", "--spec", spec, "--seed", str(SEED), *options]
    if (users := case.users_csv()) is not None:
        (folder / "users.csv").write_text(users, encoding="utf-8")
        arguments += ["--users", folder / "users.csv"]
    run = command(*arguments, input=case.csv())
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mechanism.full_name)
def test_every_mechanism_releases_what_the_command_does(case: Case, tmp_path: Path) -> None:
    expected = released(case, tmp_path)
    assert len(expected.splitlines()) > 3
    of_file = tg.Stream.from_toml(tmp_path / "stream.toml", seed=SEED).release(case.table, users=case.users)
    assert of_file.to_csv() == expected
    of_keys = tg.Stream(case.spec, seed=SEED).release(case.table.to_arrow(), users=case.users)
    assert of_keys.to_csv() == expected
    assert of_keys.to_ndjson() == released(case, tmp_path, "--json")
    # The typed columns hold the same; polars reads empty text as none.
    table = of_file.table
    read = pl.read_csv(io.StringIO(expected), schema=table.schema).with_columns(pl.col("spent").fill_null(""))
    assert table.equals(read)
    assert of_file.seeded and table["seeded"].all()


FAMILIES = {"central": tg.Central, "local": tg.Local, "scalar": tg.Scalar, "sequence": tg.Sequence}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mechanism.full_name)
def test_every_mechanism_is_made_by_the_keywords_of_its_family(case: Case) -> None:
    keys = {key: value for key, value in case.spec.items() if key != "mechanism"}
    stream = FAMILIES[case.mechanism.family](case.mechanism.name, **keys)
    assert stream.spec == tg.Stream(case.spec).spec


def named(name: str) -> tg.Mechanism:
    return next(mechanism for mechanism in tg.mechanisms() if mechanism.full_name == name)


@pytest.mark.parametrize("name", ["central.track", "local.lpa", "scalar.contin", "sequence.crr"])
def test_a_state_goes_from_the_package_to_the_command_and_back(name: str, tmp_path: Path) -> None:
    case = case_of(named(name))
    spec, state = write_spec(tmp_path, case.spec), tmp_path / "stream.state"
    key = tmp_path / "stream.key" if name.startswith("scalar") else None
    parts = [case.table.filter(pl.col("t") % 12 // 4 == part) for part in range(3)]
    with tg.Stream.from_toml(spec, state=state, new_state=True, key=key) as stream:
        first = stream.release(parts[0])
        assert not first.seeded
        assert stream.budget()[0].last == (None if name.startswith("sequence") else 3) or name.startswith("sequence")
        busy = command("release", "--spec", spec, "--state", state, *(["--key", key] if key else []), input="t\n")
        assert busy.returncode == 2 and "is used by another run" in busy.stderr
    options = ["--key", key] if key else []
    run = command("release", "--spec", spec, "--state", state, *options, input=parts[1].write_csv())
    assert run.returncode == 0, run.stderr
    with tg.Stream.load(state, key=key) as stream:
        again = "after" if name.startswith("sequence") else "with which the last run ended"
        with pytest.raises(tg.BadData, match=again):
            stream.release(parts[1])
        stream.release(parts[2])
        budget = stream.budget()
    told = json.loads(command("budget", state, "--json").stdout)
    assert [one.spent for one in budget] == [one["spent"] for one in told["budgets"]]
    assert budget[0].last == told["last"] and budget[0].users == told["users"]


def test_series_and_queries_are_those_of_the_command(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "mechanism": "central.track",
        "epsilon": 1,
        "window": 7,
        "domain": ["car", "bicycle"],
        "series_names": ["bridge", "market"],
        "across_series": 2,
        "every": "1d",
        "origin": "2026-03-01",
        "queries": [{"name": "all", "first": "car", "last": "bicycle", "delta": 2, "unit": "counts"}],
    }
    table = pl.DataFrame(
        {
            "date": ["2026-03-01", "2026-03-01", "2026-03-03"],
            "who": ["ann", "bob", "ann"],
            "vehicle": ["car", "bicycle", "car"],
            "place": ["bridge", "market", "market"],
        }
    )
    path, answers = write_spec(tmp_path, spec), tmp_path / "answers.ndjson"
    columns = {"time": "date", "user": "who", "value": "vehicle", "series": "place"}
    options = [part for key, name in columns.items() for part in (f"--{key}", name)]
    run = command(
        *["release", "--spec", path, "--seed", "1", "--answers", answers, "--through", "2026-03-05", *options],
        input=table.write_csv(),
    )
    assert run.returncode == 0, run.stderr
    stream = tg.Stream(spec, seed=1)
    released = stream.release(table, **columns, through="2026-03-05")  # type: ignore[arg-type]
    assert released.to_csv() == run.stdout
    assert released.answers == [json.loads(line) for line in answers.read_text().splitlines()]
    assert released.answers[0]["series"] == "bridge"


def test_a_table_of_counts_is_read_as_the_command_reads_it(tmp_path: Path) -> None:
    case = case_of(named("central.bd"))
    counts = table_for("central").group_by("t", "value").len().sort("t").pivot("value", index="t", values="len")
    counts = counts.fill_null(0).select("t", *case.spec["domain"][::-1])
    run = command("release", "--spec", write_spec(tmp_path, case.spec), "--seed", "5", input=counts.write_csv())
    assert run.returncode == 0, run.stderr
    assert tg.Stream(case.spec, seed=5).release(counts).to_csv() == run.stdout
