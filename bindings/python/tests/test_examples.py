"""The examples run; mypy checks their types elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "bindings/python/examples"
VISITS = "date,uid,place\n2026-03-01,ann,home\n2026-03-01,bob,shop\n2026-03-02,ann,park\n"


def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-W", "error", EXAMPLES / name, *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)


def test_no_example_is_left_out() -> None:
    tested = {"first_release.py", "local_rounds.py", "device_agent.py", "oracles.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


@pytest.mark.parametrize(
    ("name", "told"),
    [("local_rounds.py", "no device lost more than 1 within 10 days"), ("oracles.py", "intervals contain the truth")],
)
def test_an_example_runs(name: str, told: str) -> None:
    done = run(name)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_the_device_agent_refuses_a_second_question(tmp_path: Path) -> None:
    done = run("device_agent.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "refused: " in done.stdout and "1 reports" in done.stdout


def test_the_first_release_goes_on_and_names_bad_rows(tmp_path: Path) -> None:
    visits, published, state = (tmp_path / name for name in ["visits.csv", "published.csv", "visits.state"])
    visits.write_text(VISITS)
    first = run("first_release.py", visits, published, state)
    assert first.returncode == 0, first.stderr
    assert "2 days in" in first.stdout and "a window of 7 days" in first.stdout
    assert published.read_text().count("\n") == 7
    visits.write_text("date,uid,place\n2026-03-03,ann,home\n2026-03-03,bob,pub\n")
    second = run("first_release.py", visits, published, state)
    assert second.returncode == 1 and 'row 1, column "place"' in second.stderr
    visits.write_text("date,uid,place\n2026-03-03,ann,home\n")
    third = run("first_release.py", visits, published, state)
    assert third.returncode == 0 and "1 days in" in third.stdout
