"""Requests to a service: with a token, within a time, and again where that is safe."""

from __future__ import annotations

import http.client
import ipaddress
import json
import random
import ssl
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from ._errors import ServiceError

#: The longest answer, in bytes.
LONGEST_ANSWER = 256 << 20
#: The longest answer of an error, and the longest text that is taken from one.
LONGEST_PROBLEM, MOST_WORDS = 64 << 10, 200
#: The longest pause between two attempts, in seconds.
LONGEST_PAUSE = 30.0


class Token:
    """A bearer token, which shows itself to nobody but the service."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text or not all("!" <= letter <= "~" for letter in text):
            raise ServiceError("a token has visible ASCII characters only, and at least one")
        self._text = text

    def header(self) -> str:
        """The content of the header."""
        return f"Bearer {self._text}"

    def hide(self, text: str) -> str:
        """A text without the token in it."""
        return text.replace(self._text, "(token)")

    def __repr__(self) -> str:
        return "Token(..)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is not pickled: make another client where it is needed")


class Address(NamedTuple):
    """Where a service is."""

    is_plain: bool
    host: str
    port: int
    path: str
    text: str

    @staticmethod
    def of(url: str, allow_plain: bool) -> Address:
        """Checks an address. Raises :class:`ServiceError`."""
        wrong = ServiceError("the service's address: expected http://HOST:PORT or https://HOST")
        if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
            raise wrong
        try:
            parts = urllib.parse.urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not host:
            raise wrong
        if "@" in parts.netloc:
            raise ServiceError("the service's address: no user and no password belong into it; use a token")
        if "?" in url or "#" in url:
            raise ServiceError("the service's address: it has a question mark or a hash, which it must not")
        is_plain = parts.scheme == "http"
        if is_plain and not allow_plain and not _is_own(host):
            raise ServiceError(
                "the service's address: plain http is for this machine only, unless allow_plain=True; use https"
            )
        return Address(is_plain, host, port or (80 if is_plain else 443), parts.path.rstrip("/"), url.rstrip("/"))


def _is_own(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Answer(NamedTuple):
    """A successful answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The content. Raises :class:`ServiceError`."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ServiceError("the service's answer is not understood: it is no JSON", self.status) from None


class _Again(Exception):
    """An attempt that another one may follow."""

    def __init__(self, error: ServiceError, not_before: float = 0.0, is_known: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.not_before = not_before
        #: Whether the request is known to have had no effect.
        self.is_known = is_known


class Transport:
    """Sends requests to one service. Each has a connection of its own, so threads can share it."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout: float,
        attempts: int,
        allow_plain: bool,
        context: ssl.SSLContext | None,
    ) -> None:
        self.address = Address.of(url, allow_plain)
        self.token = None if token is None else Token(token)
        if not 0 < timeout <= 3600:
            raise ServiceError("timeout: expected seconds, more than 0 and at most 3600")
        if not 1 <= attempts <= 100:
            raise ServiceError("attempts: expected 1 to 100")
        self.timeout, self.attempts = float(timeout), int(attempts)
        self._context = None if self.address.is_plain else context or ssl.create_default_context()

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        body: bytes | None = None,
        media_type: str = "application/json",
        is_repeatable: bool = True,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Sends a request, and again where the service is not available. One that is not repeatable is sent again only
        where it is known to have had no effect. Raises :class:`ServiceError`.
        """
        most = self.attempts if attempts is None else attempts
        seconds = self.timeout if timeout is None else max(min(timeout, self.timeout), 0.001)
        for attempt in range(1, most + 1):
            try:
                return self._attempt(method, path, query, body, media_type, seconds)
            except _Again as again:
                if attempt == most or not (is_repeatable or again.is_known):
                    tried = f" (tried {attempt} times)" if attempt > 1 else ""
                    error = again.error
                    raise ServiceError(error.message + tried, error.status, error.code) from None
                time.sleep(min(max(pause(attempt), again.not_before), LONGEST_PAUSE))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A connection, which is made by its first request."""
        host, port = self.address.host, self.address.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context)

    def send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> http.client.HTTPResponse:
        """Sends a request, and returns its answer up to the body. Raises OSError and HTTPException."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self.address.path + path + ("?" + urllib.parse.urlencode(given) if given else "")
        # Nothing is compressed: an answer's length would depend on its content.
        sent = {"Accept-Encoding": "identity", "User-Agent": "tidegate-python", **headers}
        if self.token is not None:
            sent["Authorization"] = self.token.header()
        connection.request(method, target, body=body, headers=sent)
        return connection.getresponse()

    def refusal(self, response: http.client.HTTPResponse, body: bytes) -> ServiceError:
        """The error that an answer is."""
        status = response.status
        if 300 <= status < 400:
            return ServiceError(f"the service sends elsewhere ({status}), which is not followed", status)
        try:
            problem = json.loads(body)
        except (ValueError, RecursionError):
            problem = None
        problem = problem if isinstance(problem, dict) else {}
        said, code = problem.get("message"), problem.get("error")
        words = self.words(said) if isinstance(said, str) else "it does not say why"
        code = self.words(code) if isinstance(code, str) else None
        number = {name: problem.get(name) for name in ("position", "taken")}
        counts = {name: value for name, value in number.items() if isinstance(value, int)}
        shown = f"{status}, {code}" if code else str(status)
        return ServiceError(f"the service refuses ({shown}): {words}", status, code, **counts)

    def words(self, text: str) -> str:
        """A text of the service: short, printable and without the token."""
        hidden = text if self.token is None else self.token.hide(text)
        return "".join(letter for letter in hidden if letter.isprintable())[:MOST_WORDS]

    def _attempt(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: bytes | None,
        media_type: str,
        timeout: float,
    ) -> Answer:
        until = time.monotonic() + timeout
        connection = self.connect(timeout)
        response: http.client.HTTPResponse | None = None
        try:
            try:
                connection.connect()
            except OSError as error:
                failure = self.unavailable(error)
                if not is_passing(failure):
                    raise failure from None
                raise _Again(failure, is_known=True) from None
            headers = {"Accept": "application/json"}
            if body is not None:
                headers["Content-Type"] = media_type
            try:
                response = self.send(connection, method, path, query, headers, body)
                is_good = 200 <= response.status < 300
                read = self._read(connection, response, LONGEST_ANSWER if is_good else LONGEST_PROBLEM, until)
            except (OSError, http.client.HTTPException) as error:
                raise _Again(self.unavailable(error)) from None
        finally:
            if response is not None:
                response.close()
            connection.close()
        if is_good:
            return Answer(response.status, read)
        refusal = self.refusal(response, read)
        if is_passing(refusal):
            raise _Again(refusal, retry_after(response), response.status == 429)
        raise refusal

    def unavailable(self, error: Exception) -> ServiceError:
        """The error of a connection."""
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = self.words(error.verify_message)
            return ServiceError(f"the service's certificate is not trusted: {reason}", None, "certificate")
        reason = getattr(error, "strerror", None) or type(error).__name__
        return ServiceError(f"the service is not available: {self.words(str(reason))}")

    def _read(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, most: int, until: float
    ) -> bytes:
        """Reads a whole answer within its length and its time."""
        parts: list[bytes] = []
        length = 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer takes too long")
            if connection.sock is not None:
                connection.sock.settimeout(left)
            part = response.read1(1 << 20)
            if not part:
                # A body that breaks off has some bytes left.
                if response.length:
                    raise http.client.IncompleteRead(b"")
                return b"".join(parts)
            length += len(part)
            if length > most:
                raise ServiceError(f"the service's answer is longer than {most} bytes", response.status)
            parts.append(part)


def is_passing(error: ServiceError) -> bool:
    """Whether another attempt may succeed."""
    if error.status is None:
        return error.code != "certificate"
    return error.status in (408, 429) or error.status >= 500


def pause(attempt: int) -> float:
    """The pause after an attempt, in seconds: random, between half and all of one that doubles."""
    most = min(0.25 * 2.0 ** min(attempt - 1, 16), LONGEST_PAUSE)
    return most * random.uniform(0.5, 1.0)


def retry_after(response: http.client.HTTPResponse) -> float:
    """For how many seconds the service asks."""
    text = (response.getheader("Retry-After") or "").strip()
    return min(float(text), LONGEST_PAUSE) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
