"""The device agent, and policies that operators sign for it."""

from __future__ import annotations

import decimal
import json
import operator as _operators
import os
from types import TracebackType
from typing import Any

from . import _tidegate
from ._errors import BadData, BadSpec
from ._rounds import Question


class Device:
    """A device that answers questions about one source of data, and keeps its own account.

    Its state is a file in ``folder``, named after ``source``, and is on disk before a report leaves: crashes, retries,
    set clocks and copied disks cannot make it spend twice. ``policy`` is what :func:`sign_policy` or the service
    signed; ``operator`` is the operator's public key, which the device trusts. ``witness`` tells this machine from a
    copy of it.

    A new device counts a whole window as spent, because earlier answers are unknown. An enrolled one keeps its policy:
    another is refused with :class:`BadState`, unless the owner of the data consents (``consent=True``).
    """

    __module__ = "tidegate"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        source: str,
        policy: str,
        operator: str,
        *,
        witness: bytes = b"",
        consent: bool = False,
    ) -> None:
        self._native = _tidegate.Device(
            os.fspath(folder), source, policy, _key("operator", operator), list(witness), consent
        )

    def answer(self, question: Question | str, value: int, *, stream: str | None = None) -> bytes:
        """The report to a question, for a value of the domain. The report and its spend are on disk on return.

        The same question gets the same report again. A :class:`Refused` may be told to the collector, and so may a
        :class:`BudgetExceeded`; no other exception, because it may depend on the value. ``stream`` is the name of the
        stream that asks, if it is another than the policy's.
        """
        number = _operators.index(value)
        if not 0 <= number < 1 << 32:
            # No domain has it: the device spends as for any other value, and then raises.
            number = (1 << 32) - 1
        text = question.to_json() if isinstance(question, Question) else question
        return bytes(self._native.answer(self.policy["stream"] if stream is None else stream, text, number))

    def report_id(self, question: Question | str) -> bytes:
        """The identity of the report for a question: equal for retries, different for every other question."""
        return bytes(self._native.report_id(question.to_json() if isinstance(question, Question) else question))

    @property
    def now(self) -> int:
        """The timestamp by the device's own clock."""
        now = self._native.now()
        if now is None:
            raise BadData("the device's clock shows a time before the stream's epoch")
        return now

    @property
    def beginning(self) -> str:
        """How it was opened: ``resumed``, ``new``, ``other_policy`` (with consent), or ``lost`` (state not trusted)."""
        return self._native.beginning

    @property
    def policy(self) -> dict[str, Any]:
        """The policy that it follows."""
        policy: dict[str, Any] = json.loads(self._native.policy)
        return policy

    def close(self) -> None:
        """Gives the folder free for others."""
        self._native.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Device({self.policy['stream']})"

    def __reduce__(self) -> Any:
        raise TypeError("a device cannot be copied or pickled, because two copies would spend one budget twice")


def sign_policy(
    stream: str,
    *,
    epsilon: float | str | decimal.Decimal,
    window: int | None,
    domain: int,
    epoch: int,
    seconds: int,
    slot_key: str,
    operator: str,
    oracle: str | None = None,
) -> str:
    """What a stream promises its devices, signed by its operator, as JSON for :class:`Device`.

    Every ``window`` timestamps (``None`` for all time) lose at most ``epsilon``. Timestamp 0 begins ``epoch`` seconds
    after 1970, and each takes ``seconds``. ``slot_key`` is the key of the hash that divides devices into slots, 32
    hexadecimal digits; ``operator`` is the operator's secret key, 64 of them: keep it safe. ``oracle`` restricts
    questions to one oracle.

    >>> import tidegate as tg
    >>> secret, slots = "07" * 32, "01" * 16
    >>> policy = tg.sign_policy("visits", epsilon=1, window=24, domain=5, epoch=0, seconds=3600, slot_key=slots,
    ...                         operator=secret)
    >>> tg.public_key(secret)[:8]
    'ea4a6c63'
    """
    policy = {
        "stream": stream,
        "protects": {
            "epsilon": str(epsilon),
            "window": "unbounded" if window is None else {"timestamps": window},
            "domain": domain,
        },
        "oracle": oracle,
        "ticks": {"epoch": epoch, "seconds": seconds},
        "slot_key": list(_key("slot_key", slot_key, 16)),
    }
    return _tidegate.sign_policy(json.dumps(policy), _key("operator", operator))


def public_key(operator: str) -> str:
    """The public key of an operator's secret one; both have 64 hexadecimal digits."""
    return bytes(_tidegate.public_key(_key("operator", operator))).hex()


def _key(name: str, digits: str, length: int = 32) -> bytes:
    """The bytes of a key. The message does not contain it."""
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != length:
        raise BadSpec(f"{name}: expected {2 * length} hexadecimal digits")
    return key
