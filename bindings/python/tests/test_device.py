"""The device agent: its policy, its account, its state on disk."""

from __future__ import annotations

import json
import pickle
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg

SECRET = "07" * 32
#: Seconds of a timestamp.
TICK = 4


def policy(**changes: Any) -> str:
    keys = {"epsilon": 1, "window": 1, "domain": 4, "epoch": 0, "seconds": TICK, "slot_key": "01" * 16}
    return tg.sign_policy("visits", operator=SECRET, **(keys | changes))


def device(folder: Path, signed: str | None = None, source: str = "place", **keys: Any) -> tg.Device:
    return tg.Device(folder, source, signed or policy(), tg.public_key(SECRET), **keys)


def question(agent: tg.Device, phase: int = 0, epsilon: str = "1", **changes: Any) -> tg.Question:
    asked = tg.Question(agent.now, phase, None, Decimal(epsilon), "grr", 4, None)
    return tg.Question.from_json(json.dumps(json.loads(asked.to_json()) | changes))


def at_next_timestamp(agent: tg.Device) -> None:
    """Waits for the beginning of the next timestamp."""
    now = agent.now
    while agent.now == now:
        time.sleep(0.02)


def test_a_report_is_on_disk_before_it_leaves(tmp_path: Path) -> None:
    agent, file = device(tmp_path), tmp_path / "place.device"
    assert agent.beginning == "new"
    # A new device may have spent its window before it lost its state.
    with pytest.raises(tg.BudgetExceeded, match="too little budget"):
        agent.answer(question(agent), 1)
    at_next_timestamp(agent)
    asked, before = question(agent), file.read_bytes()
    report = agent.answer(asked, 1)
    assert file.read_bytes() != before
    assert len(report) == asked.oracle.report_length
    assert asked.oracle.aggregate(report).reports == 1
    assert agent.answer(asked, 3) == report
    identity = agent.report_id(asked)
    with pytest.raises(tg.BudgetExceeded):
        agent.answer(question(agent, phase=1), 1)
    with pytest.raises(tg.BadState, match="another device or process has this folder open"):
        device(tmp_path)
    agent.close()
    with pytest.raises(tg.BadState, match="closed"):
        agent.answer(asked, 1)
    with device(tmp_path) as again:
        assert again.beginning == "resumed"
        if again.now == asked.timestamp:
            assert again.answer(asked, 2) == report
        assert again.report_id(asked) == identity


def test_questions_beyond_the_policy_are_refused_with_a_reason(tmp_path: Path) -> None:
    agent = device(tmp_path)
    at_next_timestamp(agent)
    reasons = [
        ("not_now", question(agent, timestamp=agent.now + 5), {}),
        ("other_domain", question(agent, domain=5), {}),
        ("other_stream", question(agent), {"stream": "others"}),
        ("not_asked", question(agent, cohort={"slots": {"first": 0, "count": 0}}), {}),
    ]
    for reason, asked, keys in reasons:
        with pytest.raises(tg.Refused, match=reason.replace("_", " ")) as refused:
            agent.answer(asked, 1, **keys)
        assert refused.value.reason == reason
        assert pickle.loads(pickle.dumps(refused.value)).reason == reason
    with pytest.raises(tg.BadData, match="question:"):
        agent.answer("{}", 1)


@pytest.mark.parametrize("outside", [4, -1, 2**70])
def test_values_outside_the_domain_spend_and_say_nothing(tmp_path: Path, outside: int) -> None:
    agent = device(tmp_path)
    at_next_timestamp(agent)
    with pytest.raises(tg.BadData, match="value: expected a value of the policy's domain") as bad:
        agent.answer(question(agent), outside)
    assert str(outside) not in str(bad.value)
    with pytest.raises((tg.BudgetExceeded, tg.Refused)):
        agent.answer(question(agent), 1)


def test_only_the_owner_consents_to_another_policy(tmp_path: Path) -> None:
    device(tmp_path).close()
    with pytest.raises(tg.BadState, match="epsilon 2 instead of 1"):
        device(tmp_path, policy(epsilon=2))
    with device(tmp_path, policy(epsilon=2), consent=True) as agent:
        assert agent.beginning == "other_policy"
        assert agent.policy["protects"]["epsilon"] == "2"


def test_a_damaged_state_counts_as_spent(tmp_path: Path) -> None:
    device(tmp_path).close()
    (tmp_path / "place.device").write_bytes(b"nonsense")
    with device(tmp_path) as agent:
        assert agent.beginning == "lost"
        with pytest.raises(tg.BudgetExceeded):
            agent.answer(question(agent), 1)
    with device(tmp_path, witness=b"another machine") as agent:
        assert agent.beginning == "lost"


def test_policies_that_the_operator_did_not_sign_are_refused(tmp_path: Path) -> None:
    changed = json.loads(policy())
    changed["policy"]["protects"]["epsilon"] = "2"
    for signed, problem in [(json.dumps(changed), "not signed by the operator"), ("{}", "policy: missing field")]:
        with pytest.raises(tg.BadSpec, match=problem):
            device(tmp_path, signed)
    with pytest.raises(tg.BadSpec, match="not signed by the operator"):
        tg.Device(tmp_path, "place", policy(), tg.public_key("08" * 32))
    with pytest.raises(tg.BadSpec, match="operator: expected 64 hexadecimal digits"):
        tg.Device(tmp_path, "place", policy(), "07")
    with pytest.raises(tg.BadSpec, match="source: a source of data"):
        device(tmp_path, source="../place")
    assert not list(tmp_path.glob("*.device"))
    for wrong in [{"epsilon": "0"}, {"domain": 1}, {"window": 0}, {"seconds": 0}]:
        with pytest.raises(tg.BadSpec, match="policy:"):
            policy(**wrong)


def test_a_device_cannot_be_copied(tmp_path: Path) -> None:
    with device(tmp_path) as agent, pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(agent)
