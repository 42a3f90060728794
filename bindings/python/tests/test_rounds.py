"""Local streams whose devices are elsewhere: questions, answers, states between the two."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg

DEVICES = 40_000
SLOTS = np.arange(DEVICES) * 65_536 // DEVICES
VALUES = np.repeat([0, 1, 2, 3], [DEVICES // 2, DEVICES // 4, DEVICES // 8, DEVICES // 8])
TRUTH = np.array([0.5, 0.25, 0.125, 0.125])
MECHANISMS = [one.name for one in tg.mechanisms() if one.family == "local" and one.name != "plbu"]

pytestmark = pytest.mark.filterwarnings("ignore::tidegate.SeededWarning")


def stream(mechanism: str = "lpa", **keys: Any) -> tg.Stream:
    tree = {"domain": 4} if mechanism.startswith("mtsp") else {"domain": ["a", "b", "c", "d"]}
    return tg.Local(mechanism, epsilon=4, window=4, population=DEVICES, **tree, **keys)


def counted(questions: list[tg.Question], seed: int | None = None) -> list[tg.oracles.Aggregate | None]:
    """The aggregates of a fleet whose values do not change; each device has one slot."""
    order = np.random.default_rng(1).permutation(DEVICES)
    reports = [question.simulate(VALUES[order], SLOTS, seed=seed) for question in questions]
    return [question.oracle.aggregate(part) for question, part in zip(questions, reports, strict=True)]


def run(running: tg.Stream, timestamps: range, seed: int | None = None) -> list[tg.Releases[Any]]:
    released = []
    for timestamp in timestamps:
        step = running.open(timestamp)
        while isinstance(step, list):
            step = running.answer(step, counted(step, seed))
        released.append(step)
    return released


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_asks_and_releases(mechanism: str) -> None:
    running = stream(mechanism)
    released = run(running, range(6))
    assert [len(one) for one in released] == [1] * 6
    assert all(one.to_csv().count("\n") > 1 for one in released)
    (budget,) = running.budget()
    assert budget.epsilon == 4 and budget.last == 5
    assert budget.spent <= 4 and not running.seeded


def test_releases_are_near_the_truth_within_their_variance() -> None:
    table = run(stream("lpu", oracle="grr"), range(3))[-1].to_csv().splitlines()
    columns = table[0].split(",")
    rows = [dict(zip(columns, line.split(","), strict=True)) for line in table[1:]]
    for row, truth in zip(rows, TRUTH, strict=True):
        # 6 sigma: a false alarm of 2e-9 a value; which devices are asked adds to the stated variance.
        sampling = truth * (1 - truth) / (DEVICES / 4)
        assert abs(float(row["frequency"]) - truth) < 6 * (float(row["variance"]) + sampling) ** 0.5


def test_a_state_saved_between_question_and_answer_goes_on_alike(tmp_path: Path) -> None:
    whole, path = stream("lpa", oracle="oue"), tmp_path / "visits.state"
    parted = stream("lpa", oracle="oue", state=path, new_state=True)
    for timestamp in range(5):
        step, same = whole.open(timestamp), parted.open(timestamp)
        while isinstance(step, list):
            assert step == same == parted.open_questions
            parted.close()
            parted = tg.Stream.load(path)
            assert parted.open_questions == step
            aggregates = counted(step, seed=timestamp)
            step, same = whole.answer(step, aggregates), parted.answer(step, aggregates)
        assert not isinstance(same, list)
        assert step.to_csv() == same.to_csv()
        assert parted.open_questions == []


def test_a_question_is_paid_for_before_it_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "visits.state"
    running = stream("lbu", state=path, new_state=True)
    before = path.read_bytes()
    questions = running.open(0)
    assert isinstance(questions, list) and path.read_bytes() != before
    assert sum(question.epsilon for question in questions) == 1
    running.close()
    with tg.Stream.load(path) as loaded:
        with pytest.raises(tg.TidegateError, match="still waits for answers"):
            loaded.open(1)


def test_a_state_that_cannot_be_saved_asks_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    running = stream("lbu", state=folder / "visits.state", new_state=True)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(tg.TidegateError):
        running.open(0)
    assert running.open_questions == []


def test_wrong_answers_are_refused_and_change_nothing() -> None:
    running = stream("lbu", oracle="grr")
    questions = running.open(0)
    assert isinstance(questions, list)
    (question,) = questions
    answers = counted(questions)
    other = tg.oracles.OUE(4, 1).aggregate()
    expected = "aggregates, row 0: expected reports of grr over 4 values at epsilon 1"
    with pytest.raises(tg.BadData, match=expected) as bad:
        running.answer(questions, [other])
    assert bad.value.row == 0
    with pytest.raises(tg.BadData, match="expected one for each of 1 questions"):
        running.answer(questions, [])
    late = tg.Question(7, 0, question.slots, question.epsilon, question.kind, question.domain, question.ranges)
    with pytest.raises(tg.TidegateError, match="timestamp 7 does not answer what was asked"):
        running.answer([late], answers)
    broken = tg.Question(0, 0, None, question.epsilon, "nothing", 4, None)
    with pytest.raises(tg.BadData, match="questions, row 0"):
        running.answer([broken], answers)
    assert running.open_questions == questions
    assert isinstance(running.answer(questions, answers), tg.Releases)
    with pytest.raises(tg.TidegateError, match="no question is open"):
        running.answer(questions, answers)


def test_no_report_is_an_answer() -> None:
    running = stream("lpu")
    questions = running.open(0)
    assert isinstance(questions, list)
    assert isinstance(running.answer(questions, [None]), tg.Releases)


def test_seeded_reports_mark_the_release_and_the_stream() -> None:
    running = stream("lpu")
    (private,) = run(running, range(1))
    assert not private.seeded
    (seeded,) = run(running, range(1, 2), seed=4)
    assert seeded.seeded and running.seeded


def test_standing_queries_are_answered() -> None:
    queries = [{"name": "first", "value": "a"}]
    (released,) = run(stream("lpu", queries=queries), range(1))
    assert [answer["query"] for answer in released.answers] == ["first"]


def test_other_families_are_asked_nothing() -> None:
    central = tg.Central("ba", epsilon=1, window=7, domain=["a", "b"])
    assert central.open_questions == []
    with pytest.raises(tg.TidegateError, match="a central stream does not take answers"):
        central.open(0)


def test_questions_survive_json_and_pickle() -> None:
    seen = []
    for mechanism in ["lbu", "lpu", "mtsp"]:
        step = stream(mechanism).open(0)
        assert isinstance(step, list)
        seen += step
    assert {question.slots is None for question in seen} == {True, False}
    for question in seen:
        assert tg.Question.from_json(question.to_json()) == question
        assert pickle.loads(pickle.dumps(question)) == question


def test_ranges_and_slots_are_those_of_the_question() -> None:
    question = tg.Question(0, 0, (65_530, 10), tg.oracles.GRR(3, 1).epsilon, "grr", 10, (0, 4, 9))
    assert question.cells([0, 3, 4, 8, 9]).tolist() == [0, 0, 1, 1, 2]
    assert question.asks([65_529, 65_530, 65_535, 0, 3, 4]).tolist() == [False, True, True, True, True, False]
    assert question.oracle == tg.oracles.GRR(3, 1)
    assert len(question.simulate([0, 9, 5], [0, 4, 65_530])) == 2
