"""A local stream with a collection of one's own: ask devices, count reports in several places, release.

    python local_rounds.py

Devices are simulated here. In earnest, a question travels as `question.to_json()`, and each device answers it with
`tg.Device`, as device_agent.py does.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import tidegate as tg

DEVICES = 20_000
COLLECTORS = 4
PLACES = ["home", "shop", "park"]


def collect(
    question: tg.Question, values: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
) -> tg.oracles.Aggregate | None:
    """Asks each part of the fleet from another collector, and adds what these have counted."""
    total: tg.oracles.Aggregate | None = None
    for part in range(COLLECTORS):
        reports = question.simulate(values[part::COLLECTORS], slots[part::COLLECTORS])
        if len(reports) == 0:
            continue
        # Aggregates are small, and travel as pickles or by other means.
        sent = pickle.dumps(question.oracle.aggregate(reports))
        received: tg.oracles.Aggregate = pickle.loads(sent)
        total = received if total is None else total + received
    return total


def main() -> None:
    stream = tg.Local("lpa", epsilon=1, window=10, domain=PLACES, population=DEVICES)
    slots = np.random.default_rng(1).permutation(DEVICES) * 65_536 // DEVICES
    for day in range(3):
        values = np.random.default_rng(day).choice(len(PLACES), DEVICES, p=[0.6, 0.3, 0.1])
        step: Sequence[tg.Question] | tg.Releases[Any] = stream.open(day)
        while isinstance(step, list):
            counted = [collect(question, values, slots) for question in step]
            step = stream.answer(step, counted)
        assert isinstance(step, tg.Releases)
        print(step.to_csv(), end="")
    (budget,) = stream.budget()
    print(f"no device lost more than {budget.epsilon:g} within {budget.window} days")


if __name__ == "__main__":
    main()
