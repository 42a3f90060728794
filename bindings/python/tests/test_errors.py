"""Errors: their classes, their messages, and what they leave behind."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cases import CASES, Case

import tidegate as tg

CENTRAL = {"mechanism": "central.ba", "epsilon": 1, "window": 7, "domain": ["home", "shop"]}
VISITS = pl.DataFrame({"t": [0, 0, 1], "user": ["ann", "bob", "ann"], "value": ["home", "shop", "shop"]})
NUMBERS = {"mechanism": "scalar.laplace", "epsilon": 1, "domain": {"low": 0, "high": 9}, "protects": "reading"}


def test_one_class_catches_all() -> None:
    for kind in (tg.BadData, tg.BadSpec, tg.BadState, tg.BudgetExceeded):
        assert issubclass(kind, tg.TidegateError)
    error = tg.BadData("no", 3, "value")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.row, again.column) == ("no", 3, "value")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mechanism": "central.trak"}, 'there is no mechanism "central.trak" \\(did you mean central.track\\?\\)'),
        ({"mechanism": "central.ba"}, "domain"),
        (CENTRAL | {"epsilon": -1}, "epsilon"),
        (CENTRAL | {"domian": 3}, "domian"),
        (CENTRAL | {"oracle": "grr"}, "oracle"),
        (CENTRAL | {"epsilon": None}, "needs the key epsilon"),
        ({"mechanism": "sequence.crr", "epsilon": 1, "domain": 2, "model": "no.json"}, "the model no.json cannot be"),
    ],
)
def test_a_bad_spec_is_refused(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(tg.BadSpec, match=why):
        tg.Stream(spec)


def test_a_bad_file_is_refused_with_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('mechanism = "central.ba"\nepsilon = 1\nwindow = 0\ndomain = 2\n')
    with pytest.raises(tg.BadSpec, match='bad.toml, line 3, key "window"'):
        tg.Stream.from_toml(path)


@pytest.mark.parametrize(
    ("table", "row", "column", "why"),
    [
        ([1], None, None, "list has none"),
        (VISITS.drop("value"), None, None, "t,user,value"),
        (VISITS.drop("t"), None, None, 'no column "t": name the column of times with time=NAME \\(columns.time'),
        (VISITS.with_columns(value=pl.lit("pub")), 0, "value", "a value of the domain"),
        (VISITS.with_columns(user=pl.lit("ann")), 1, "user", "no other line at the same timestamp"),
        (VISITS.with_columns(user=pl.lit(None)), 0, "user", "a user: some text"),
        (VISITS.with_columns(user=pl.lit(1.0)), None, "user", "users as text or whole numbers"),
        (VISITS.with_columns(t=pl.Series([1, 0, 0])), 1, "t", "sort the lines by time"),
        (VISITS.with_columns(t=pl.lit("2026-03-01")), 0, "t", 'every = "1d" in the spec, or every=1d'),
        (VISITS.with_columns(value=pl.lit([1])), None, None, 'column "value": expected text'),
    ],
)
def test_bad_data_are_refused_with_row_and_column(table: Any, row: int | None, column: str | None, why: str) -> None:
    stream = tg.Stream(CENTRAL)
    with pytest.raises(tg.BadData, match=why) as caught:
        stream.release(table)
    assert (caught.value.row, caught.value.column) == (row, column)
    # Nothing of it stays.
    assert stream.budget()[0].last is None
    assert len(stream.release(VISITS)) == 2


def test_a_million_rows_with_bad_ones_name_the_first() -> None:
    rows, bad = 1_000_000, 765_432
    table = pl.DataFrame({"t": pl.int_range(rows, eager=True) // 10_000, "user": pl.int_range(rows, eager=True)})
    value = pl.when(pl.col("user").is_in([bad, bad + 7])).then(pl.lit("secret")).otherwise(pl.lit("home"))
    with pytest.raises(tg.BadData) as caught:
        tg.Stream(CENTRAL).release(table.with_columns(value=value))
    assert (caught.value.row, caught.value.column) == (bad, "value")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mechanism.full_name)
def test_after_a_refused_table_a_stream_goes_on_as_if_there_had_been_none(case: Case) -> None:
    first = case.table.filter(pl.col("t") < 6)
    rest = case.table.filter(pl.col("t") >= 6)
    unsorted = pl.concat([rest, first.head(1)])
    refused, other = tg.Stream(case.spec), tg.Stream(case.spec)
    for stream in (refused, other):
        stream.release(first, users=case.users)
    with pytest.raises(tg.BadData):
        refused.release(unsorted, users=case.users)
    for stream in (refused, other):
        stream.release(rest, users=case.users)
    [left, expected] = [[budget.last for budget in stream.budget()] for stream in (refused, other)]
    assert left == expected


def test_states_are_guarded(tmp_path: Path) -> None:
    state = tmp_path / "a.state"
    with pytest.raises(tg.BadState, match="there is no state .*pass new_state"):
        tg.Stream(CENTRAL, state=state)
    stream = tg.Stream(CENTRAL, state=state, new_state=True)
    with pytest.raises(tg.BadState, match="is used by another run"):
        tg.Stream.load(state)
    stream.close()
    with pytest.raises(tg.BadState, match="the stream is closed"):
        stream.release(VISITS)
    with pytest.raises(tg.BadState, match="exists"):
        tg.Stream(CENTRAL).save(state)
    with pytest.raises(tg.BadState, match="it is the state of another spec"):
        tg.Stream(CENTRAL | {"epsilon": 2}, state=state)
    damaged = bytearray(state.read_bytes())
    damaged[-1] ^= 1
    state.write_bytes(damaged)
    with pytest.raises(tg.BadState, match="the state is damaged"):
        tg.Stream.load(state)
    with pytest.raises(tg.TidegateError, match="the state of a stream of numbers holds readings: key must name"):
        tg.Stream(NUMBERS).save(tmp_path / "b.state")
    with pytest.raises(tg.TidegateError, match="seed|state"):
        tg.Stream(CENTRAL, seed=1, state=state)


def test_a_saved_stream_saves_every_release_before_it_returns(tmp_path: Path) -> None:
    state = tmp_path / "a.state"
    stream = tg.Stream(CENTRAL)
    stream.save(state)
    before = state.read_bytes()
    stream.release(VISITS)
    assert state.read_bytes() != before
    stream.close()
    assert tg.Stream.load(state).budget()[0].last == 1
    # A folder in the way of the next state: nothing is released, and nothing is spent.
    with tg.Stream.load(state) as stream:
        (tmp_path / ".a.state.partial").mkdir()
        with pytest.raises(tg.TidegateError, match="cannot be written"):
            stream.release(VISITS.with_columns(t=pl.col("t") + 5))
        assert stream.budget()[0].last == 1


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(tg.TidegateError, match="through: expected a timestamp|through is for specs with a timeline"):
        tg.Stream(NUMBERS).release(VISITS, through=5)
    with pytest.raises(tg.TidegateError, match="users is for mechanisms in which each class"):
        tg.Stream(CENTRAL).release(VISITS, users={"ann": "low"})


def test_a_stream_is_neither_copied_nor_pickled_and_shows_no_data() -> None:
    stream = tg.Stream(CENTRAL)
    released = stream.release(VISITS)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spend one budget twice"):
            take(stream)
    for shown in (repr(stream), repr(released), str(vars(stream))):
        assert "ann" not in shown and "shop" not in shown


def test_a_seed_warns_and_marks() -> None:
    with pytest.warns(tg.SeededWarning, match="seeded with 7") as caught:
        stream = tg.Central("ba", epsilon=1, window=7, domain=["home", "shop"], seed=7)
    assert caught[0].filename == __file__
    released = stream.release(VISITS)
    assert stream.seeded and released.seeded and all(released["seeded"])
    assert not tg.Stream(CENTRAL).release(VISITS).seeded


def test_a_stream_has_one_state(tmp_path: Path) -> None:
    with tg.Stream(CENTRAL, state=tmp_path / "a.state", new_state=True) as stream:
        with pytest.raises(tg.BadState, match="a budget has one state"):
            stream.save(tmp_path / "b.state")
        stream.save(tmp_path / "a.state")
    assert not (tmp_path / "b.state").exists()


def test_a_forked_process_spends_nothing(tmp_path: Path) -> None:
    with tg.Stream(CENTRAL, state=tmp_path / "a.state", new_state=True) as stream:
        child = os.fork()
        if child == 0:
            try:
                stream.release(VISITS)
            except tg.BadState as error:
                os._exit(7 if "a copy would spend" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert stream.release(VISITS)
