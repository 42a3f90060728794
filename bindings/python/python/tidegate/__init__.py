"""Statistics of endless streams under differential privacy.

>>> import polars as pl
>>> import tidegate as tg
>>> stream = tg.Central("track", epsilon=1, window=7, domain=["home", "shop"])
>>> released = stream.release(pl.DataFrame({"t": [0, 0], "user": ["ann", "bob"], "value": ["home", "shop"]}))
>>> released.table.shape
(2, 7)

A :class:`Stream` publishes a table; its account says what is left (:meth:`Stream.budget`), and survives a restart
(:meth:`Stream.save`, :meth:`Stream.load`). What it published answers questions (:meth:`Releases.query`).

:func:`advise` recommends a mechanism, :func:`evaluate` measures several, and a :class:`Client` uses a running service.
"""

from . import datasets, oracles, spark
from ._answers import Answer, MonitorEvent
from ._channel import Channel, channel
from ._client import Client, StreamInfo
from ._device import Device, public_key, sign_policy
from ._errors import BadData, BadSpec, BadState, BudgetExceeded, Refused, SeededWarning, ServiceError, TidegateError
from ._feed import Feed, FeedEvent
from ._lab import (
    Advice,
    Audit,
    Evaluation,
    Reproduction,
    advise,
    audit,
    evaluate,
    experiments,
    reproduce,
)
from ._ledger import Ledger, NoisyCounts
from ._model import Model
from ._releases import Releases
from ._rounds import Question
from ._stream import Budgets, Central, Local, Mechanism, Scalar, Sequence, Stream, mechanisms
from ._tidegate import Budget

__all__ = [
    "Advice",
    "Answer",
    "Audit",
    "BadData",
    "BadSpec",
    "BadState",
    "Budget",
    "BudgetExceeded",
    "Budgets",
    "Central",
    "Channel",
    "Client",
    "Device",
    "Evaluation",
    "Feed",
    "FeedEvent",
    "Ledger",
    "Local",
    "Mechanism",
    "Model",
    "MonitorEvent",
    "NoisyCounts",
    "Question",
    "Refused",
    "Releases",
    "Reproduction",
    "Scalar",
    "SeededWarning",
    "Sequence",
    "ServiceError",
    "Stream",
    "StreamInfo",
    "TidegateError",
    "advise",
    "audit",
    "channel",
    "datasets",
    "evaluate",
    "experiments",
    "mechanisms",
    "oracles",
    "public_key",
    "reproduce",
    "sign_policy",
    "spark",
]
