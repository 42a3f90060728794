"""Models of sequences: learned as by the command, and usable in a stream."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import command

import tidegate as tg

DOMAIN = ["home", "wörk", "away"]
ROWS = [(t, user, DOMAIN[(t * t + user) % 3]) for t in range(60) for user in range(5)]
VISITS = pl.DataFrame(ROWS, schema=["t", "user", "value"], orient="row")


def fitted(folder: Path, *options: str) -> str:
    VISITS.write_csv(folder / "visits.csv")
    run = command("model", "fit", "--input", folder / "visits.csv", "--domain", ",".join(DOMAIN), *options)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        ({}, []),
        ({"order": 2, "pseudo_count": 0.5}, ["--order", "2", "--pseudo-count", "0.5"]),
        ({"epsilon": "0.5", "contribution": 20, "seed": 3}, ["--epsilon", "0.5", "--contribution", "20", "--seed", "3"]),
        ({"epsilon": 1, "contribution": 9, "seed": 3, "order": 2},
         ["--epsilon", "1", "--contribution", "9", "--seed", "3", "--order", "2"]),
    ],
)  # fmt: skip
def test_a_model_is_learned_as_by_the_command(keywords: Any, options: list[str], tmp_path: Path) -> None:
    expected = fitted(tmp_path, *options)
    model = tg.Model.fit(VISITS, domain=DOMAIN, **keywords)
    assert model.to_json() == expected
    model.save(tmp_path / "ours.json")
    assert (tmp_path / "ours.json").read_text(encoding="utf-8") == expected
    assert tg.Model.load(tmp_path / "ours.json").to_json() == expected
    assert model.symbols == 3 and model.seeded == ("seed" in keywords)
    assert pickle.loads(pickle.dumps(model)).to_json() == expected


def test_a_private_model_differs_from_fit_to_fit() -> None:
    first, second = (tg.Model.fit(VISITS, domain=DOMAIN, epsilon=1, contribution=20) for _ in range(2))
    assert first.to_json() != second.to_json() and not first.seeded


def test_a_stream_takes_a_model_as_it_takes_its_file(tmp_path: Path) -> None:
    model = tg.Model.fit(VISITS, domain=DOMAIN, order=2)
    model.save(tmp_path / "m.json")
    for mechanism, keywords in (("crr", {}), ("batched", {"length": 2})):
        made = [
            tg.Sequence(mechanism, epsilon=1, domain=DOMAIN, model=given, seed=4, **keywords).release(VISITS).to_csv()
            for given in (model, tmp_path / "m.json")
        ]
        assert made[0] == made[1] and len(made[0]) > 100


def test_a_seeded_model_marks_the_stream() -> None:
    model = tg.Model.fit(VISITS, domain=DOMAIN, epsilon=1, contribution=20, seed=1)
    assert tg.Sequence("crr", epsilon=1, domain=DOMAIN, model=model).seeded and repr(model) == "Model(3 symbols, seeded)"


def test_the_channel_of_a_model_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(fitted(tmp_path), encoding="utf-8")
    expected = command("channel", "--model", tmp_path / "m.json", "--length", "2", "--epsilon", "1", "--json")
    found = tg.channel(model=tg.Model.load(tmp_path / "m.json"), length=2, epsilon=1)
    assert found.json == expected.stdout and found.matrix.shape == (9, 9)
    assert json.loads(found.json)["channel"] == found.matrix.tolist()


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"domain": []}, "domain"),
        ({"domain": 1}, "at least two symbols"),
        ({"domain": ["a", "a"]}, "two values are called"),
        ({"domain": -3}, "domain: "),
        ({"order": 3}, "order: expected 1 or 2"),
        ({"order": -1}, "order: "),
        ({"epsilon": 1}, "epsilon and contribution need each other"),
        ({"contribution": 4}, "epsilon and contribution need each other"),
        ({"epsilon": 0, "contribution": 4}, "epsilon"),
        ({"epsilon": float("nan"), "contribution": 4}, "epsilon: expected a finite number"),
        ({"seed": 1}, "seed goes with epsilon"),
        ({"pseudo_count": -1}, "pseudo"),
        ({"pseudo_count": float("inf")}, "pseudo_count: expected a finite number"),
        ({"origin": "ä"}, "origin"),
        ({"every": "1x"}, "every|input"),
    ],
)
def test_a_bad_keyword_is_named(keywords: dict[str, Any], why: str) -> None:
    with pytest.raises(tg.BadSpec, match=why):
        tg.Model.fit(VISITS, **({"domain": DOMAIN} | keywords))


def test_a_bad_row_is_named() -> None:
    with pytest.raises(tg.BadData, match="a symbol of domain") as caught:
        tg.Model.fit(VISITS, domain=["home", "away", "shop"])
    row = next(row for row, (_, _, value) in enumerate(ROWS) if value == "wörk")
    assert (caught.value.row, caught.value.column) == (row, "value")
    assert "wörk" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"prior": [2.0]}', "ä", '{"seeded": 3}', '"x"'])
def test_a_file_that_is_no_model_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(text, encoding="utf-8")
    with pytest.raises(tg.BadSpec, match="is not a model"):
        tg.Model.load(tmp_path / "m.json")
    with pytest.raises(tg.BadSpec, match="cannot be read"):
        tg.Model.load(tmp_path / "none.json")


@pytest.mark.parametrize("prior", [[], [1], [0.5], [0.5, "x"], [2, -1], [float("nan"), 1], "ä", [[0.5], [0.5]], 0.5])
def test_no_probabilities_panic(prior: Any) -> None:
    with pytest.raises(tg.BadSpec):
        tg.Model.of(prior, [[0.9, 0.1], [0.1, 0.9]])
    with pytest.raises(tg.BadSpec):
        tg.Model.of([0.5, 0.5], [prior, prior])
