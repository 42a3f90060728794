"""Queries and monitors over releases."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from cases import table_for

import tidegate as tg

DOMAIN = ["home", "shop", "way, or none"]
SPECS: dict[str, dict[str, Any]] = {
    "counts": {"mechanism": "central.ba", "epsilon": 2, "window": 5, "domain": DOMAIN},
    "shares": {"mechanism": "local.lpa", "epsilon": 2, "window": 5, "domain": DOMAIN, "population": 60},
    "tree": {"mechanism": "mtsp", "epsilon": 2, "window": 5, "domain": DOMAIN, "population": 60},
    "smooth": {"mechanism": "central.uniform", "epsilon": 2, "window": 5, "domain": DOMAIN, "smooth": True},
}
QUERIES: dict[str, dict[str, Any]] = {
    "value": {"value": "shop"},
    "period": {"value": "shop", "last": 4},
    "range": {"between": ("home", "shop"), "last": 2, "confidence": 0.5},
    "counts": {"value": "home", "last": 3, "unit": "counts"},
    "top": {"top": 2},
}


def standing(name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The same query in a spec."""
    renamed = {"last": "delta"}
    spec = {renamed.get(key, key): item for key, item in asked.items() if key != "between"}
    if "between" in asked:
        spec |= dict(zip(("first", "last"), asked["between"], strict=True))
    return {"name": name, **spec}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_query_answers_as_a_standing_query_does(spec: dict[str, Any]) -> None:
    queries = [standing(name, asked) for name, asked in QUERIES.items()]
    released = tg.Stream({**spec, "queries": queries}, seed=1).release(table_for("central"))
    answered = 0
    for said in released.answers:
        found = released.query(at=said["t"], **QUERIES[said["query"]])
        for answer, printed in zip(found, said["top"], strict=True) if "top" in said else [(found, said)]:
            assert isinstance(answer, tg.Answer) and answer.t == said["t"] and answer.seeded
            for name in ("value", "low", "high", "variance", "unit", "first", "of"):
                assert getattr(answer, name) == printed.get(name), name
            assert answer.confidence == said["confidence"]
            answered += 1
    assert answered > 50
    last = released.table["t"].max()
    assert released.query("shop", last=4) == released.query("shop", last=4, at=last)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """With 400 independent answers at confidence 0.8, 280 to 360 hold the truth but for a chance of 1e-6."""
    counts = pl.DataFrame({"t": range(400), "home": [500] * 400, "shop": [300] * 400})
    released = tg.Central("uniform", epsilon=1, window=1, domain=["home", "shop"], seed=5).release(counts)
    answers = [released.query("shop", at=t, unit="counts", confidence=0.8) for t in range(400)]
    held = sum(answer.low <= 300 <= answer.high for answer in answers if answer.low is not None and answer.high)
    assert 280 <= held <= 360


def test_monitors_find_what_those_of_the_spec_find() -> None:
    monitor = {"value": "shop", "unit": "counts", "above": 20.0, "until": 18.0}
    change = {"value": "home", "unit": "counts", "last": 2, "change": True, "shift": 3, "below": -2.0}
    sure = {"between": ("home", "shop"), "unit": "counts", "above": 37.0, "confidence": 0.6}
    declared = [
        {"name": "a", "value": "shop", "unit": "counts", "direction": "above", "start": 20, "end": 18},
        {"name": "b", "value": "home", "unit": "counts", "delta": 2, "score": "change", "shift": 3,
         "direction": "below", "start": -2},
        {"name": "c", "first": "home", "last": "shop", "unit": "counts", "direction": "above", "start": 37,
         "confidence": 0.6},
    ]  # fmt: skip
    spec = {**SPECS["counts"], "mechanism": "central.uniform", "epsilon": 20, "monitors": declared}
    released = tg.Stream(spec, seed=3).release(table_for("central", timestamps=60))
    for name, watched in (("a", monitor), ("b", change), ("c", sure)):
        said = [(one["t"], one["event"], one["value"]) for one in released.answers if one["monitor"] == name]
        found = released.monitor(**watched)  # type: ignore[arg-type]
        assert [(event.t, event.event, event.score) for event in found] == said and len(said) >= 2, name


def test_series_are_asked_about_one_by_one() -> None:
    users = [(f"u{u}", place) for u in range(40) for place in ("north", "south")[: 1 + u % 2]]
    rows = [(t, user, "shop", place) for t in range(3) for user, place in users]
    table = pl.DataFrame(rows, schema=["t", "user", "value", "place"], orient="row")
    stream = tg.Central(
        "uniform", epsilon=50, window=1, domain=DOMAIN, series_names=["north", "south"], across_series=2
    )
    released = stream.release(table, series="place")
    assert released.series == ["north", "south"]
    north, south = (released.query("shop", unit="counts", series=name).value for name in released.series)
    assert north > 30 > south > 10
    with pytest.raises(tg.BadSpec, match="series: there are 2"):
        released.query("shop")
    with pytest.raises(tg.BadSpec, match="no series of this name"):
        released.query("shop", series="west")


def test_questions_that_have_no_answer_are_refused() -> None:
    released = tg.Central("uniform", epsilon=1, window=2, domain=DOMAIN).release(table_for("central"))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "ask about one of these"),
        ({"value": "shop", "top": 1}, "ask about one of these"),
        ({"value": "garage"}, "the domain has no value"),
        ({"top": 4}, "top"),
        ({"top": 1, "last": 2}, "leave last out"),
        ({"value": "shop", "last": 0}, "last: expected"),
        ({"value": "shop", "last": -1}, "last"),
        ({"value": "shop", "unit": "people"}, "unit"),
        ({"value": "shop", "confidence": 1.0}, "confidence"),
        ({"value": "shop", "confidence": float("nan")}, "confidence"),
        ({"between": ("shop", "home")}, "range"),
        ({"between": "shop"}, "between"),
        ({"value": "shop", "repair": "glue"}, "repair"),
        ({"value": "shop", "series": "north"}, "series"),
    ]
    for asked, said in wrong:
        with pytest.raises(tg.BadSpec, match=said):
            released.query(**asked)
    for asked in ({"value": "shop", "last": 99}, {"value": "shop", "at": 99}):
        with pytest.raises(tg.TidegateError, match="was not released"):
            released.query(**asked)  # type: ignore[call-overload]
    for watched, said in (
        ({"value": "shop"}, "above a number, or below"),
        ({"value": "shop", "above": 1, "below": 1}, "above a number, or below"),
        ({"above": 1}, "watch one of these"),
        ({"value": "shop", "above": 1, "shift": 2}, "change=True"),
        ({"value": "shop", "above": 1, "until": 2}, "end"),
    ):
        with pytest.raises(tg.BadSpec, match=said):
            released.monitor(**watched)  # type: ignore[arg-type]
    numbers = tg.Scalar(epsilon=1, domain={"low": 0, "high": 9}, protects="reading", delay=1)
    with pytest.raises(tg.BadSpec, match="releases no such numbers"):
        numbers.release(pl.DataFrame({"t": [0, 1], "value": [1, 2]})).query("shop")


def test_counts_of_unknown_users_are_refused() -> None:
    stream = tg.Local("lpa", epsilon=1, window=10, domain=DOMAIN, population=20_000)
    step = stream.open(0)
    while isinstance(step, list):
        step = stream.answer(step, [None] * len(step))
    assert step.query("shop").unit == "frequencies"
    with pytest.raises(tg.TidegateError, match="users"):
        step.query("shop", unit="counts")
