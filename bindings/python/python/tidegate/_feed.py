"""The feed of a service: what a stream publishes, as it is published."""

from __future__ import annotations

import asyncio
import collections
import http.client
import json
import re
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

from ._errors import ServiceError
from ._http import LONGEST_PROBLEM, Transport, is_passing, pause, retry_after

#: Silence after which a connection counts as broken, in seconds. The service breaks it every 15 seconds.
SILENCE = 45.0
#: The longest event, in bytes.
LONGEST_EVENT = 64 << 20


class FeedEvent(NamedTuple):
    """Something that a stream published."""

    #: ``release``, ``answer`` or ``monitor``.
    kind: str
    #: The timestamp that it is about.
    t: int
    #: When the timestamp begins, where the stream's timestamps have times.
    time: str | None
    #: The release or the answer, as the service stores it.
    data: dict[str, Any]
    #: The position in the feed: ``follow(.., after=id)`` goes on after it.
    id: str


class _Reader:
    """Reads events, and connects again where the connection broke."""

    def __init__(
        self, transport: Transport, stream: str, is_new: bool, after: str | None, wait: float | None, patience: float
    ) -> None:
        self._transport, self._path = transport, f"/v1/streams/{stream}"
        self.position = after
        #: Whether the feed begins at the present, which is not looked up yet.
        self._is_new = is_new and after is None
        self._wait, self._patience = wait, patience
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None
        self._socket: socket.socket | None = None
        self._rest = bytearray()
        self._ready: collections.deque[FeedEvent] = collections.deque()
        self._is_retired = False
        #: The timestamp of the last release, if that is known.
        self._last: int | None = None
        #: The state of a stream that has ended, and since when it is so.
        self._quiet: tuple[object, float] = (None, 0.0)
        self._failures = 0
        self._unreached: float | None = None
        self._closed = threading.Event()
        self._turn = threading.Lock()

    def next(self) -> FeedEvent | None:
        """The next event; None at the end. Blocks. Raises :class:`ServiceError`."""
        with self._turn:
            try:
                return self._next()
            except BaseException as error:
                if isinstance(error, ServiceError):
                    self._closed.set()
                raise
            finally:
                if self._closed.is_set():
                    self._drop()

    def _next(self) -> FeedEvent | None:
        until = None if self._wait is None else time.monotonic() + self._wait
        broken: _Broken | None = None
        while not self._closed.is_set():
            if self._ready:
                event = self._ready.popleft()
                self.position = event.id
                if event.kind == "release":
                    self._last = event.t
                return event
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                self._closed.set()
                if broken is not None:
                    raise broken.error
                break
            try:
                if self._is_retired and not self._has_more(left):
                    self._end_or_wait(left)
                elif self._response is None:
                    self._open(left)
                else:
                    self._read(left)
                broken = None
            except _Broken as error:
                broken = error
                self._recover(error, left)
        return None

    def put_back(self, event: FeedEvent) -> None:
        """Takes an event back that nobody got."""
        with self._turn:
            self._ready.appendleft(event)

    def close(self) -> None:
        """Ends the feed, also while another thread waits for an event."""
        self._closed.set()
        if self._socket is not None:
            try:
                # Wakes a thread that reads.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self._turn.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._turn.release()

    def _drop(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        self._connection, self._response, self._socket = None, None, None
        self._rest.clear()

    def _ask(self, path: str, query: dict[str, object], left: float | None) -> dict[str, Any]:
        try:
            said = self._transport.ask("GET", self._path + path, query, attempts=1, timeout=left).json()
        except ServiceError as error:
            if is_passing(error):
                raise _Broken(error) from None
            raise
        return said if isinstance(said, dict) else {}

    def _open(self, left: float | None) -> None:
        if self._is_new:
            self.position, self._is_new = self._present(left), False
        self._look_at_status(left)
        timeout = self._transport.timeout if left is None else min(left, self._transport.timeout)
        headers = {"Accept": "text/event-stream"}
        if self.position is not None:
            headers["Last-Event-ID"] = self.position
        connection = self._transport.connect(max(timeout, 0.001))
        self._connection = connection
        try:
            connection.connect()
            self._socket = connection.sock
            response = self._transport.send(connection, "GET", f"{self._path}/feed", None, headers)
            # Closed together with the connection.
            self._response = response
            body = b"" if response.status == 200 else response.read(LONGEST_PROBLEM)
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(self._transport.unavailable(error)) from None
        if response.status == 200:
            kind = response.getheader("Content-Type") or ""
            if kind.partition(";")[0].strip() != "text/event-stream":
                raise ServiceError("the service's answer is not understood: it is no feed", 200)
            return
        refusal = self._transport.refusal(response, body)
        if is_passing(refusal):
            raise _Broken(refusal, retry_after(response))
        raise refusal

    def _read(self, left: float | None) -> None:
        """Reads what there is, or waits for it."""
        assert self._response is not None and self._socket is not None
        try:
            self._socket.settimeout(SILENCE if left is None else max(min(SILENCE, left), 0.001))
            part = self._response.read1(1 << 16)
        except TimeoutError as error:
            if left is not None and left <= SILENCE:
                # The wait is over. A connection that timed out cannot be read again.
                self._drop()
                return
            raise _Broken(self._transport.unavailable(error)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Broken(self._transport.unavailable(error)) from None
        if not part:
            raise _Broken(ServiceError("the service ended the feed"))
        self._failures, self._unreached = 0, None
        self._rest += part
        if len(self._rest) > LONGEST_EVENT:
            raise ServiceError(f"the service's answer is longer than {LONGEST_EVENT} bytes", 200)
        if b"\n\n" not in self._rest[-len(part) - 1 :]:
            return
        *blocks, rest = bytes(self._rest).split(b"\n\n")
        self._rest = bytearray(rest)
        self._ready.extend(event for event in map(_event, blocks) if event is not None)
        if not self._ready:
            # A sign of life: nothing is published at present, perhaps never again.
            self._look_at_status(left)

    def _recover(self, broken: _Broken, left: float | None) -> None:
        """Waits before the next attempt. Raises the error once the service was away for too long."""
        self._drop()
        now = time.monotonic()
        if self._unreached is None:
            self._unreached = now
        self._failures += 1
        rest = max(pause(self._failures), broken.not_before)
        if now + rest - self._unreached > self._patience and not self._closed.is_set():
            raise broken.error
        self._closed.wait(rest if left is None else min(rest, max(left, 0.0)))

    def _look_at_status(self, left: float | None) -> dict[str, Any]:
        """Finds out whether the stream has ended."""
        said = self._ask("", {}, left)
        self._is_retired = said.get("status") == "retired"
        return said

    def _has_more(self, left: float | None) -> bool:
        """Whether something was published that was not read."""
        release, _, answer = (self.position or "0-0").partition("-")
        return self._has("releases", int(release), left) or self._has("answers", int(answer), left)

    def _end_or_wait(self, left: float | None) -> None:
        """Ends the feed of a stream that has ended, or waits for what it still publishes: after its end a stream
        finishes its open timestamp, and perhaps the one after.
        """
        said, now = self._look_at_status(left), time.monotonic()
        tick, present = said.get("tick"), said.get("timestamp")
        tick = float(tick) if isinstance(tick, int) else 1.0
        state = (said.get("version"), said.get("open"), self.position)
        if state != self._quiet[0]:
            self._quiet = (state, now)
        last = self._last_timestamp(left)
        is_past = last is not None and isinstance(present, int) and present >= last + 3
        # A release comes a second and a twentieth of a tick late at most.
        is_quiet = now - self._quiet[1] > 1.05 * tick + 2.0
        if self._is_retired and said.get("open") is None and (is_past or is_quiet):
            # What was published since the last look comes first.
            if not self._has_more(left):
                self._closed.set()
            return
        rest = min(max(tick / 20.0, 0.5), 15.0)
        self._closed.wait(rest if left is None else min(rest, max(left, 0.0)))

    def _last_timestamp(self, left: float | None) -> int | None:
        """The timestamp of the last release that was read."""
        number = int((self.position or "0-0").partition("-")[0])
        if number > 0 and self._last is None:
            found = self._ask("/releases", {"after": number - 1, "limit": 1}, left).get("releases")
            try:
                self._last = int(found[0]["timestamp"])  # type: ignore[index]
            except (TypeError, KeyError, IndexError, ValueError):
                raise ServiceError("the service's answer is not understood: it has no releases", 200) from None
        return self._last

    def _has(self, kind: str, after: int, left: float | None) -> bool:
        """Whether there is something after a number."""
        return bool(self._ask(f"/{kind}", {"after": after, "limit": 1}, left).get(kind))

    def _present(self, left: float | None) -> str:
        """The position after everything that is published. Looked up here, so that a connection that breaks before the
        first event loses none.
        """

        def last(kind: str) -> int:
            low, high = 0, 1
            while self._has(kind, high - 1, left):
                low, high = high, high * 2
            # There is something after low - 1, and nothing after high - 1.
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._has(kind, middle - 1, left) else (low, middle)
            return low

        return f"{last('releases')}-{last('answers')}"


def _event(block: bytes) -> FeedEvent | None:
    """An event; None for a comment. Raises :class:`ServiceError`."""
    fields: dict[str, list[str]] = {}
    for line in block.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        return None
    kind, place = fields.get("event", ["message"])[-1], fields.get("id", [""])[-1]
    try:
        said = json.loads("\n".join(fields["data"]))
        data = said["release" if kind == "release" else "answer"]
        if re.fullmatch(r"[0-9]{1,18}-[0-9]{1,18}", place) and isinstance(data, dict):
            return FeedEvent(kind, int(said["timestamp"]), said.get("time"), data, place)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise ServiceError("the service's answer is not understood: an event of the feed", 200)


class _Broken(Exception):
    """A connection that broke, or was not made."""

    def __init__(self, error: ServiceError, not_before: float = 0.0) -> None:
        super().__init__(error.message)
        self.error = error
        self.not_before = not_before


class Feed:
    """What a stream publishes, as it is published: :meth:`Client.follow` returns it.

    It is an iterator and an asynchronous iterator of :class:`FeedEvent`. A broken connection is made again, and goes
    on after the last event, so that none is missing and none comes twice. Leave it early by ``with`` or ``async with``,
    or :meth:`close`.
    """

    __module__ = "tidegate"

    def __init__(self, reader: _Reader, name: str) -> None:
        self._reader = reader
        self._name = name
        self._pending: asyncio.Future[FeedEvent | None] | None = None
        # A thread that waits for an event has the reader only, so a feed that nobody has any more ends.
        self._finish = weakref.finalize(self, reader.close)

    @property
    def position(self) -> str | None:
        """The id of the last event. ``follow(.., after=position)`` goes on after it, also in another process."""
        return self._reader.position

    def close(self) -> None:
        """Ends the feed. Threads and tasks that wait for an event see its end."""
        self._finish()

    def __iter__(self) -> Iterator[FeedEvent]:
        return self

    def __next__(self) -> FeedEvent:
        event = self._reader.next()
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> FeedEvent:
        if self._pending is not None and self._pending.get_loop() is not asyncio.get_running_loop():
            self._pending = None
        if self._pending is None:
            self._pending = _in_thread(self._reader)
        pending = self._pending
        # A wait that is cancelled, as by a timeout, loses no event: the next one goes on with it.
        try:
            event = await asyncio.shield(pending)
        finally:
            if pending.done():
                self._pending = None
        if event is None:
            raise StopAsyncIteration
        return event

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Feed:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Feed({self._name!r}, after={self.position!r})"


def _in_thread(reader: _Reader) -> asyncio.Future[FeedEvent | None]:
    """The next event, waited for by a thread that keeps neither the loop nor the process alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[FeedEvent | None] = loop.create_future()

    def settle(event: FeedEvent | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(event)
        else:
            future.set_exception(error)

    def work() -> None:
        event, failure = None, None
        try:
            event = reader.next()
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, event, failure)
        except RuntimeError:
            # The loop is closed: the event is for the next one.
            if event is not None:
                reader.put_back(event)

    threading.Thread(target=work, name="tidegate feed", daemon=True).start()
    return future
