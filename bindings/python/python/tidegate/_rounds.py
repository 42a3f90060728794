"""Local streams whose devices are elsewhere: questions to them, and aggregates of their reports."""

from __future__ import annotations

import dataclasses
import decimal
import json
import sys
from collections.abc import Sequence as List
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._releases import Releases
from .oracles import Aggregate, Oracle, SimulatedReports, oracle_of

#: The number of slots that divide the population.
SLOTS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Question:
    """A question to the devices of a cohort: which value, or which range of values, do you hold?"""

    __module__ = "tidegate"

    #: The timestamp in question.
    timestamp: int
    #: The number of the question within its timestamp. A device answers each phase at most once.
    phase: int
    #: Who is asked: the first slot and how many; None for everyone. A device's slot is its part of the population.
    slots: tuple[int, int] | None
    #: The loss of an answer.
    epsilon: decimal.Decimal
    #: The kind of oracle that randomises an answer.
    kind: str
    #: The number of values of the domain.
    domain: int
    #: The starts of the ranges of values that are asked for; None for single values.
    ranges: tuple[int, ...] | None

    @staticmethod
    def from_json(text: str) -> Question:
        """A question as :meth:`to_json` writes it, and the service sends it."""
        given = json.loads(text)
        cohort, view = given["cohort"], given["view"]
        return Question(
            timestamp=given["timestamp"],
            phase=given["phase"],
            slots=None if cohort == "everyone" else (cohort["slots"]["first"], cohort["slots"]["count"]),
            epsilon=decimal.Decimal(given["epsilon"]),
            kind=given["oracle"],
            domain=given["domain"],
            ranges=None if view == "values" else tuple(view["ranges"]),
        )

    def to_json(self) -> str:
        """The question as JSON, to be sent to devices."""
        cohort = "everyone" if self.slots is None else {"slots": dict(zip(("first", "count"), self.slots, strict=True))}
        return json.dumps(
            {
                "timestamp": self.timestamp,
                "phase": self.phase,
                "cohort": cohort,
                "epsilon": format(self.epsilon, "f"),
                "oracle": self.kind,
                "domain": self.domain,
                "view": "values" if self.ranges is None else {"ranges": list(self.ranges)},
            }
        )

    @property
    def oracle(self) -> Oracle:
        """The oracle of the answers, with a value for each value or range that is asked for."""
        return oracle_of(self.kind, self.domain if self.ranges is None else len(self.ranges), self.epsilon)

    def asks(self, slots: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of the devices, given by their slots (0 to 65535), are asked."""
        first, count = self.slots or (0, SLOTS)
        asked: npt.NDArray[np.bool_] = (np.asarray(slots, np.int64) - first) % SLOTS < count
        return asked

    def cells(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The true answers for values of the domain: the values, or the numbers of their ranges."""
        if self.ranges is None:
            return np.asarray(values, np.int64)
        return np.searchsorted(np.array(self.ranges), np.asarray(values, np.int64), side="right") - 1

    def simulate(self, values: npt.ArrayLike, slots: npt.ArrayLike, *, seed: int | None = None) -> SimulatedReports:
        """Simulates the devices that are asked, each with its value and its slot. See :meth:`Oracle.perturb`."""
        return self.oracle.perturb(self.cells(values)[self.asks(slots)], seed=seed)


class Rounds:
    """Questions and answers of a local stream whose devices are elsewhere."""

    _native: _tidegate.Stream

    def open(self, timestamp: int) -> list[Question] | Releases[Any]:
        """Begins a timestamp of a local stream whose devices are elsewhere: returns questions to them, or a release.

        Put the questions to the devices, and go on with :meth:`answer`. If the stream has a state, it is saved before
        this returns: a question that was put is paid for.

        >>> import numpy as np
        >>> import tidegate as tg
        >>> stream = tg.Local("lpa", epsilon=1, window=10, domain=["home", "shop"], population=20_000)
        >>> values, slots = np.zeros(20_000, int), np.arange(20_000) % 65_536
        >>> step = stream.open(0)
        >>> while isinstance(step, list):
        ...     reports = [question.simulate(values, slots) for question in step]
        ...     counted = [question.oracle.aggregate(part) for question, part in zip(step, reports)]
        ...     step = stream.answer(step, counted)
        >>> step
        Releases(1 of local.lpa)
        """
        return self._step(_tidegate.open_timestamp(self._native, timestamp))

    def answer(
        self,
        questions: List[Question],
        aggregates: List[Aggregate | None],
        *,
        population: int | None = None,
    ) -> list[Question] | Releases[Any]:
        """Goes on with the reports to the open questions: returns further questions, or the release.

        There is an aggregate for each question, or None where no report came. The questions are given too, so that
        answers that come late, or twice, are not taken for others'. ``population`` is the number of users, for
        standing queries about counts. After an error the stream is as before. Raises :class:`BadData`.
        """
        texts = [question.to_json() for question in questions]
        natives = [None if aggregate is None else aggregate._native for aggregate in aggregates]
        return self._step(_tidegate.answer_questions(self._native, texts, natives, population))

    @property
    def open_questions(self) -> list[Question]:
        """The questions that wait for answers: after a restart, to be put again."""
        return [Question.from_json(text) for text in _tidegate.open_questions(self._native)]

    def _step(self, step: tuple[list[str], _tidegate.Releases | None]) -> list[Question] | Releases[Any]:
        questions, releases = step
        if releases is None:
            return [Question.from_json(text) for text in questions]
        # There is no table whose kind it could be of.
        library = next((name for name in ("polars", "pandas") if name in sys.modules), "pyarrow")
        return Releases(releases, library, self._native.mechanism)
