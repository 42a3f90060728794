"""Answers to queries, and events of monitors."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ._errors import ServiceError


class Answer(NamedTuple):
    """An answer to a query, computed from releases. It costs no budget."""

    #: The last timestamp of the period that it is about.
    t: int
    #: The number of users or the share; over several timestamps, their sum.
    value: float
    #: The ends of the interval that holds the truth with ``confidence``. None where the error is not known.
    low: float | None
    high: float | None
    #: None where it is not known.
    variance: float | None
    #: How sure it is that the interval holds the truth.
    confidence: float
    #: ``frequencies`` or ``counts``.
    unit: str
    #: The first timestamp of the period.
    first: int
    #: The value, in an answer about the top few.
    of: str | None
    #: Whether the period is longer than a window of the guarantee: what it tells about a user then adds up.
    spans_more_than_one_window: bool
    #: Whether the releases come from a seeded run, so that they are not private.
    seeded: bool


class MonitorEvent(NamedTuple):
    """The beginning or the end of an event that a monitor found in releases."""

    #: The timestamp.
    t: int
    #: ``started`` or ``ended``.
    event: str
    #: The number that is watched.
    score: float
    #: Its variance. None where it is not known.
    variance: float | None
    #: Whether the releases come from a seeded run, so that they are not private.
    seeded: bool


def answers_of(said: dict[str, Any]) -> Answer | list[Answer]:
    """The answer, or the answers about the top few, from what the library says."""
    try:
        if "top" in said:
            return [_answer({**said, **each}, each["of"]) for each in said["top"]]
        return _answer(said, None)
    except (KeyError, TypeError):
        raise ServiceError("the service's answer is not understood: it is no answer to a query", 200) from None


def event_of(text: str) -> MonitorEvent:
    """The event, from what the library says."""
    said = json.loads(text)
    return MonitorEvent(said["t"], said["event"], said["value"], said["variance"], said.get("seeded", False))


def _answer(said: dict[str, Any], of: str | None) -> Answer:
    return Answer(
        t=said["t"],
        value=said["value"],
        low=said.get("low"),
        high=said.get("high"),
        variance=said["variance"],
        confidence=said["confidence"],
        unit=said["unit"],
        first=said["first"],
        of=of,
        spans_more_than_one_window=said["spans_more_than_one_window"],
        seeded=said.get("seeded", False),
    )
