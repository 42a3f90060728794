"""The client of a service."""

from __future__ import annotations

import datetime
import json
import os
import re
import ssl
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as List
from typing import Any, Literal, NamedTuple, overload

from . import _tidegate
from ._answers import Answer, answers_of
from ._errors import BadData, BadSpec, ServiceError, TidegateError
from ._feed import Feed, _Reader
from ._http import Address, Transport
from ._keywords import keywords, plain
from ._lab import any_library
from ._releases import Releases
from ._stream import Stream, given_spec
from ._tables import ArrowTable, library_of

#: Releases and answers of one page.
PAGE = 1000
#: Most bytes of the events of one request.
MOST_EVENT_BYTES = 8 << 20
#: Most events of one request.
MOST_EVENTS = 100_000
#: Libraries of tables.
Library = Literal["polars", "pandas", "pyarrow"]


class StreamInfo(NamedTuple):
    """A stream of a service."""

    name: str
    #: The full name of the mechanism, such as ``central.track``.
    mechanism: str
    #: ``running``, ``paused`` or ``retired``.
    status: str
    #: The length of a timestamp, in seconds.
    tick: int
    #: The beginning of timestamp 0, in seconds since 1970.
    epoch: int
    #: The timestamp of the present.
    timestamp: int | None
    #: The timestamp that takes events or reports. None where there is none at present.
    open: int | None
    #: What stops it. Only operators see details.
    problem: str | None
    #: The spec.
    spec: dict[str, Any]
    #: Where the messages of its monitors go. Only operators see them.
    webhooks: list[str]

    def __repr__(self) -> str:
        # Webhooks may contain secrets.
        return f"StreamInfo(name={self.name!r}, mechanism={self.mechanism!r}, status={self.status!r})"


class Client:
    """A client of a running service, as ``tidegate serve`` runs one.

    ``url`` is its address, ``https://HOST`` or ``http://127.0.0.1:PORT``, and ``token`` one of its tokens: an operator
    manages streams, ingest sends events, an analyst reads. The token goes to this address only: redirects are not
    followed, and plain http to another machine needs ``allow_plain=True``. ``context`` is the TLS context, where other
    authorities are to be trusted.

    A request takes ``timeout`` seconds at most. Where the service is not available, it is sent again, up to
    ``attempts`` times, with pauses that grow or that the service asks for. Threads can share a client. Methods raise
    :class:`ServiceError`.

    >>> import tidegate as tg
    >>> client = tg.Client("http://127.0.0.1:8420", "tg_a_0123")
    >>> client
    Client('http://127.0.0.1:8420')
    >>> client.releases("visits", last=7)  # doctest: +SKIP
    Releases(7 of central.track)
    """

    __module__ = "tidegate"

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        attempts: int = 6,
        allow_plain: bool = False,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._transport = Transport(
            url, token, timeout=timeout, attempts=attempts, allow_plain=allow_plain, context=context
        )

    @property
    def url(self) -> str:
        """The address."""
        return self._address.text

    @property
    def _address(self) -> Address:
        return self._transport.address

    def streams(self) -> list[StreamInfo]:
        """All streams."""
        return [_info(said) for said in _listed(self._transport.ask("GET", "/v1/streams").json(), "streams")]

    def stream(self, name: str) -> StreamInfo:
        """One stream."""
        return _info(self._transport.ask("GET", _path(name)).json())

    def create(
        self,
        name: str,
        spec: Stream | Mapping[str, Any],
        *,
        tick: int | datetime.timedelta,
        epoch: int | datetime.datetime = 0,
        webhooks: List[str] = (),
    ) -> StreamInfo:
        """Creates a stream, with timestamps of ``tick`` seconds that begin at ``epoch``. An operator may.

        If there is one of this name with the same guarantee, its queries, monitors and webhooks are replaced; with
        another guarantee, that is an error.
        """
        seconds = tick.total_seconds() if isinstance(tick, datetime.timedelta) else tick
        declared = {
            "name": _checked(name),
            "tick": int(seconds) if seconds == int(seconds) else seconds,
            "epoch": int(epoch.timestamp()) if isinstance(epoch, datetime.datetime) else epoch,
            "spec": spec.spec if isinstance(spec, Stream) else given_spec(spec),
            "webhooks": list(webhooks),
        }
        return _info(self._transport.ask("POST", "/v1/streams", body=_json(declared)).json())

    def pause(self, name: str) -> StreamInfo:
        """Finishes the open timestamp and opens no other. An operator may."""
        return _info(self._transport.ask("POST", _path(name, "pause")).json())

    def resume(self, name: str) -> StreamInfo:
        """Goes on with a paused stream. An operator may."""
        return _info(self._transport.ask("POST", _path(name, "resume")).json())

    def retire(self, name: str) -> StreamInfo:
        """Ends a stream for ever. An operator may."""
        return _info(self._transport.ask("POST", _path(name, "retire")).json())

    def send(
        self,
        name: str,
        events: ArrowTable | Iterable[Mapping[str, Any]],
        *,
        timestamp: int | None = None,
        user: str = "user",
        value: str = "value",
    ) -> int:
        """Sends events to the open timestamp of a stream with a trusted curator, and returns how many were taken.

        ``events`` are mappings, or a table; ``user`` and ``value`` name its columns. The first value of a user in a
        timestamp counts, and no answer reveals whether there was another. With ``timestamp``, they are taken only while
        that one is open; a stream of numbers needs it. Without it, events are not sent again after a failure whose
        outcome is unknown, because the next timestamp may have begun.

        Many events are sent in several requests. An error says in ``taken`` how many were accepted before.
        """
        path, query = _path(name, "events"), {"timestamp": _whole("timestamp", timestamp)}
        taken = 0
        for body in _batches(_lines(events, user, value)):
            try:
                said = self._transport.ask(
                    "POST",
                    path,
                    query,
                    body=body,
                    media_type="application/x-ndjson",
                    is_repeatable=timestamp is not None,
                ).json()
                taken += said["taken"]
            except (KeyError, TypeError):
                raise ServiceError("the service's answer is not understood: it does not say how many") from None
            except ServiceError as error:
                position = None if error.position is None else taken + error.position
                taken += error.taken or 0
                raise ServiceError(error.message, error.status, error.code, position, taken) from None
        return taken

    def releases(
        self,
        name: str,
        *,
        start: int | None = None,
        end: int | None = None,
        last: int | None = None,
        library: Library | None = None,
    ) -> Releases[Any]:
        """What a stream has released: from timestamp ``start`` to ``end``, or the ``last`` few; all unless said.

        All pages are read. ``library`` says of which kind :attr:`Releases.table` is: of one that is installed, unless
        given.
        """
        if library not in (None, "polars", "pandas", "pyarrow"):
            raise BadSpec("library: expected polars, pandas or pyarrow")
        wanted = _whole("last", last)
        if wanted is not None and (start is not None or end is not None):
            raise BadSpec("last: not together with start and end")
        declared = self._transport.ask("GET", _path(name)).body
        if wanted == 0:
            pages: list[bytes] = []
        else:
            bounds = {"from": _whole("start", start), "to": _whole("end", end)}
            first = bounds if wanted is None else {"last": wanted}
            pages = self._pages(name, "releases", first)
        try:
            native = _tidegate.published(declared, pages)
        except TidegateError as error:
            raise ServiceError(str(error), 200) from None
        return Releases(native, library or any_library(), native.mechanism)

    def answers(self, name: str, *, start: int | None = None, end: int | None = None) -> list[dict[str, Any]]:
        """What the standing queries and the monitors of a stream have said, as :attr:`Releases.answers` has it."""
        pages = self._pages(name, "answers", {"from": _whole("start", start), "to": _whole("end", end)})
        records = (record for page in pages for record in _listed(json.loads(page), "answers"))
        return [record["answer"] for record in records]

    @overload
    def query(
        self,
        name: str,
        value: str | int,
        *,
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        repair: str | None = None,
    ) -> Answer: ...

    @overload
    def query(
        self,
        name: str,
        *,
        between: tuple[str | int, str | int],
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        repair: str | None = None,
    ) -> Answer: ...

    @overload
    def query(
        self,
        name: str,
        *,
        top: int,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        repair: str | None = None,
    ) -> list[Answer]: ...

    def query(
        self,
        name: str,
        value: str | int | None = None,
        *,
        between: tuple[str | int, str | int] | None = None,
        top: int | None = None,
        last: int | None = None,
        at: int | None = None,
        unit: str = "frequencies",
        confidence: float = 0.95,
        repair: str | None = None,
    ) -> Answer | list[Answer]:
        """Asks the service about its releases, as :meth:`Releases.query` asks about those at hand."""
        first_value, last_value = _pair(between)
        asked = keywords(
            value=value,
            first=first_value,
            last=last_value,
            top=top,
            delta=last,
            at=at,
            unit=unit,
            confidence=confidence,
            repair=repair,
        )
        return answers_of(self._transport.ask("POST", _path(name, "query"), body=asked.encode()).json())

    def values(self, name: str) -> list[str]:
        """The names of the values of a stream's domain, in their order."""
        said = self._transport.ask("GET", _path(name, "values")).json()
        names = said.get("names") if isinstance(said, dict) else None
        return [str(value) for value in (range(said["count"]) if names is None else names)]

    def operator_key(self) -> str:
        """The public key with which devices check policies, in hexadecimal digits: for :class:`Device`."""
        said = self._transport.ask("GET", "/v1/operator-key").json()
        key = said.get("key") if isinstance(said, dict) else None
        if not isinstance(key, str) or not re.fullmatch(r"[0-9a-f]{64}", key):
            raise ServiceError("the service's answer is not understood: it is no key", 200)
        return key

    def follow(
        self,
        name: str,
        *,
        since: Literal["beginning", "now"] = "beginning",
        after: str | None = None,
        wait: float | None = None,
        patience: float = 300.0,
    ) -> Feed:
        """What a stream publishes, as it is published: releases, answers and events of monitors.

        It begins with the first release, with what comes from ``now`` on, or ``after`` the id of an event that was seen
        already. It ends when the stream is retired and all of it was read, or once nothing came for ``wait`` seconds.
        A broken connection is made again; a service that cannot be reached for ``patience`` seconds is an error.

        .. code-block:: python

            for event in client.follow("visits"):
                print(event.t, event.data["statistic"])

            async with client.follow("visits", since="now") as events:
                async for event in events:
                    print(event.kind, event.t)
        """
        if since not in ("beginning", "now"):
            raise BadSpec("since: expected beginning or now")
        if after is not None and not re.fullmatch(r"[0-9]{1,18}-[0-9]{1,18}", after):
            raise BadSpec("after: expected the id of an event of this feed")
        for keyword, seconds in (("wait", wait), ("patience", patience)):
            if seconds is not None and not 0 < seconds < 1e9:
                raise BadSpec(f"{keyword}: expected a number of seconds, more than 0")
        _path(name)
        return Feed(_Reader(self._transport, name, since == "now", after, wait, patience), name)

    def _pages(self, name: str, kind: str, first: Mapping[str, object]) -> list[bytes]:
        pages: list[bytes] = []
        query: dict[str, object] = {**first, "limit": PAGE}
        while True:
            page = self._transport.ask("GET", _path(name, kind), query).body
            try:
                after = _tidegate.next_page(page)
            except TidegateError as error:
                raise ServiceError(str(error), 200) from None
            pages.append(page)
            if after is None or ("after" in query and after <= int(str(query["after"]))):
                return pages
            # The last few are those after a number, too.
            query.pop("last", None)
            query["after"] = after

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


def _checked(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_-]{1,64}", name):
        raise BadSpec("name: a stream has a name of 1 to 64 lower-case letters, digits, _ and -")
    return name


def _path(name: str, what: str | None = None) -> str:
    return f"/v1/streams/{_checked(name)}" + ("" if what is None else f"/{what}")


def _whole(keyword: str, number: int | None) -> int | None:
    if number is None:
        return None
    given = plain(keyword, number)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 1 << 63:
        raise BadSpec(f"{keyword}: expected a whole number, zero or more")
    return given


def _pair(between: tuple[Any, Any] | None) -> tuple[Any, Any]:
    if between is None:
        return None, None
    try:
        first, last = between
    except (TypeError, ValueError):
        raise BadSpec("between: expected the first value of a range and the last") from None
    return first, last


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadSpec(f"expected what JSON can hold: {error}") from None


def _listed(said: Any, key: str) -> list[dict[str, Any]]:
    found = said.get(key) if isinstance(said, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ServiceError(f"the service's answer is not understood: it has no {key}", 200)
    return found


def _info(said: Any) -> StreamInfo:
    try:
        spec = said["spec"]
        return StreamInfo(
            name=said["name"],
            mechanism=f"{spec['family']}.{spec['mechanism']}",
            status=said["status"],
            tick=said["tick"],
            epoch=said["epoch"],
            timestamp=said.get("timestamp"),
            open=said.get("open"),
            problem=said.get("problem"),
            spec=spec,
            webhooks=said.get("webhooks", []),
        )
    except (KeyError, TypeError, AttributeError):
        raise ServiceError("the service's answer is not understood: it is no stream", 200) from None


def _lines(events: ArrowTable | Iterable[Mapping[str, Any]], user: str, value: str) -> Iterable[bytes]:
    """The events as lines of JSON. Errors say where, and never what."""
    rows: Iterable[Any]
    if hasattr(events, "__arrow_c_stream__"):
        rows = _rows(events, user, value)
    else:
        rows = events
    for row, event in enumerate(rows):
        if not isinstance(event, Mapping):
            raise BadData(f"events, row {row}: expected a mapping with user and value", row)
        try:
            # NaN is a missing reading: the service takes it.
            yield json.dumps({str(key): _plain(item) for key, item in event.items()}).encode()
        except (TypeError, ValueError, RecursionError):
            raise BadData(f"events, row {row}: expected numbers and texts", row) from None


def _plain(item: Any) -> Any:
    if hasattr(item, "tolist"):
        return item.tolist()
    if isinstance(item, (datetime.date, os.PathLike)):
        return str(item)
    return item


def _rows(table: Any, user: str, value: str) -> Iterable[dict[str, Any]]:
    """The rows of a table that has the columns of events."""
    if library_of(table) == "polars":
        import polars

        frame = polars.DataFrame(table)
        names = frame.columns
        chosen = {name: frame[name].to_list() for name in (user, value) if name in names}
    else:
        import pyarrow

        frame = pyarrow.table(table)
        names = frame.column_names
        chosen = {name: frame.column(name).to_pylist() for name in (user, value) if names.count(name) == 1}
    if value not in names:
        raise BadData("events: expected a column value, or value=NAME", None, value)
    columns = {key: chosen[name] for key, name in (("user", user), ("value", value)) if name in chosen}
    if "value" not in columns:
        raise BadData("events: two columns have the name of the value", None, value)
    for items in zip(*columns.values(), strict=True):
        yield dict(zip(columns, items, strict=True))


def _batches(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Lines as bodies of requests."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (size + len(line) >= MOST_EVENT_BYTES or len(part) == MOST_EVENTS):
            yield b"\n".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    if part:
        yield b"\n".join(part)
