"""The client against servers that misbehave."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import socket
import threading
import time
import traceback

import pytest
from service import told

import tidegate as tg

TOKEN = "tg_a_secret-of-a-test"
BUSY = (503, {"Retry-After": "0"}, b'{"error": "busy", "message": "try again"}')
STREAMS = (200, {}, b'{"streams": []}')


def client(url: str, attempts: int = 3, timeout: float = 5.0) -> tg.Client:
    return tg.Client(url, TOKEN, attempts=attempts, timeout=timeout)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_passing_failure_is_tried_again(status: int) -> None:
    with told((status, {"Retry-After": "0"}, b"{}"), STREAMS) as (url, seen):
        assert client(url).streams() == [] and len(seen) == 2
        assert seen[0] == seen[1] and seen[0][2]["Authorization"] == f"Bearer {TOKEN}"


def test_retries_end_and_wait_as_long_as_asked() -> None:
    with told((429, {"Retry-After": "1"}, BUSY[2])) as (url, seen):
        began = time.monotonic()
        with pytest.raises(tg.ServiceError, match=r"tried 2 times") as refused:
            client(url, attempts=2).streams()
        assert time.monotonic() - began >= 1 and len(seen) == 2
        assert (refused.value.status, refused.value.code) == (429, "busy")


def test_events_of_no_timestamp_are_sent_again_only_where_they_were_not_taken() -> None:
    taken = (200, {}, b'{"taken": 1}')
    events = [{"user": "ann", "value": "shop"}]
    with told(BUSY, taken) as (url, seen):
        with pytest.raises(tg.ServiceError) as refused:
            client(url).send("visits", events)
        assert len(seen) == 1 and refused.value.taken == 0
    with told(BUSY, taken) as (url, seen):
        assert client(url).send("visits", events, timestamp=7) == 1 and len(seen) == 2
        assert seen[0][3] == seen[1][3] == b'{"user": "ann", "value": "shop"}'
    with told((429, {"Retry-After": "0"}, b"{}"), taken) as (url, seen):
        assert client(url).send("visits", events) == 1 and len(seen) == 2


def test_many_events_are_sent_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate._client.MOST_EVENTS", 2)
    wrong = (400, {}, b'{"error": "malformed", "message": "no", "position": 1, "taken": 1}')
    with told((200, {}, b'{"taken": 2}'), wrong) as (url, seen):
        with pytest.raises(tg.ServiceError) as refused:
            client(url).send("visits", [{"value": number} for number in range(5)], timestamp=0)
        assert (refused.value.position, refused.value.taken, len(seen)) == (3, 3, 2)


def test_redirects_are_not_followed() -> None:
    with told(STREAMS) as (other, elsewhere):
        with told((307, {"Location": f"{other}/v1/streams"}, b"")) as (url, seen):
            with pytest.raises(tg.ServiceError, match="sends elsewhere") as refused:
                client(url).streams()
            assert refused.value.status == 307 and len(seen) == 1 and elsewhere == []


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"no JSON"),
        (200, {}, b"[" * 100_000),
        (200, {}, b"[]"),
        (200, {}, b'{"streams": [1]}'),
        (200, {}, b'{"streams": [{"spec": []}]}'),
        (200, {"Content-Length": "100"}, b'{"streams": []}'),
        (200, {"Content-Length": "", "Transfer-Encoding": "chunked"}, b"5\r\n{"),
    ],
)
def test_an_answer_that_is_none_is_an_error(answer: tuple[int, dict[str, str], bytes]) -> None:
    with told(answer) as (url, _), pytest.raises(tg.ServiceError):
        client(url, attempts=1).streams()


@pytest.mark.parametrize("page", [b"[]", b'{"releases": [{}], "next": null}', b'{"releases": [], "next": -1}', b"\xff"])
def test_releases_that_are_none_are_an_error(page: bytes) -> None:
    stream = {"spec": {"family": "central", "mechanism": "uniform", "epsilon": 1, "window": 2, "domain": ["a", "b"]}}
    with told((200, {}, json.dumps(stream).encode()), (200, {}, page)) as (url, _):
        with pytest.raises(tg.ServiceError, match="not understood"):
            client(url, attempts=1).releases("visits")


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate._http.LONGEST_ANSWER", 1000)
    with told((200, {}, b" " * 2000 + b'{"streams": []}')) as (url, _):
        with pytest.raises(tg.ServiceError, match="longer than 1000 bytes"):
            client(url).streams()


def test_a_server_that_hangs_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        with pytest.raises(tg.ServiceError, match="not available"):
            client(f"http://127.0.0.1:{server.getsockname()[1]}", attempts=1, timeout=0.2).streams()
        assert time.monotonic() - began < 30


def test_a_server_that_trickles_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def trickle() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not done.wait(0.05):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle)
        thread.start()
        with pytest.raises(tg.ServiceError, match="not available"):
            client(f"http://127.0.0.1:{server.getsockname()[1]}", attempts=1, timeout=0.5).streams()
        done.set()
        thread.join()


EVENT = b'event: release\nid: 1-0\ndata: {"number":1,"timestamp":7,"release":{"a":1}}\n\n'


@pytest.mark.parametrize(
    "body",
    [
        EVENT.replace(b"1-0", b"one\\u007f"),
        EVENT.replace(b'"release"', b'"answer"'),
        b"data: {}\n\n",
        b"data: [\n\n",
        b"event: release\nid: 1-0\ndata: \xff\n\n",
    ],
)
def test_events_that_are_none_are_an_error(body: bytes) -> None:
    feed = (200, {"Content-Type": "text/event-stream"}, body)
    with told((200, {}, b'{"status": "running"}'), feed) as (url, _):
        with pytest.raises(tg.ServiceError, match="not understood: an event"):
            next(client(url).follow("visits"))


def test_a_feed_goes_on_after_its_last_event() -> None:
    status = (200, {}, b'{"status": "running"}')
    kind = {"Content-Type": "text/event-stream"}
    second = EVENT.replace(b"1-0", b"2-0").replace(b":7", b":8")
    # The connection breaks within the second event.
    rest = (200, kind, b": still here\n\n" + second)
    answers = [status, (200, kind, EVENT + second[:20]), BUSY, status, rest, status]
    with told(*answers) as (url, seen):
        feed = client(url).follow("visits")
        assert [(event.id, event.t) for event in (next(feed), next(feed))] == [("1-0", 7), ("2-0", 8)]
        feed.close()
    sent = [headers.get("Last-Event-ID") for _, path, headers, _ in seen if path.endswith("/feed")]
    assert sent == [None, "1-0"]


@pytest.mark.parametrize(
    "url",
    ["", "visits", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port", "http://ann:word@127.0.0.1", "http://[::1",
     "http://127.0.0.1/?a", "http://127.0.0.1#a", "http://example.org", "http://127.0.0.1 .example.org", "http://a\nb"],
)  # fmt: skip
def test_wrong_addresses_are_refused(url: str) -> None:
    with pytest.raises(tg.ServiceError, match="the service's address"):
        tg.Client(url, TOKEN)


def test_plain_http_is_for_this_machine_unless_allowed() -> None:
    for url in ("http://localhost:1", "http://127.8.8.8:1", "http://[::1]:1", "https://example.org"):
        assert tg.Client(url, TOKEN).url == url
    assert tg.Client("http://example.org/", allow_plain=True).url == "http://example.org"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nHost: b", "ä", 7])
def test_wrong_tokens_are_refused_and_not_shown(token: object) -> None:
    with pytest.raises(tg.ServiceError, match="visible ASCII") as refused:
        tg.Client("http://127.0.0.1:1", token)  # type: ignore[arg-type]
    assert str(token) not in str(refused.value) or token == ""


@pytest.mark.parametrize("name", ["", "a/b", "..", "a?b", "A", "a" * 65, "ä", None, 7])
def test_names_that_would_change_the_path_are_refused(name: str) -> None:
    with pytest.raises(tg.BadSpec, match="a stream has a name"):
        client("http://127.0.0.1:1").releases(name)


def test_a_service_that_says_the_token_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"error": TOKEN, "message": f"{TOKEN} is\x1b[31m wrong" + "!" * 1000}).encode()
    with caplog.at_level(logging.DEBUG), told((403, {}, body)) as (url, _):
        with pytest.raises(tg.ServiceError) as refused:
            client(url).streams()
    shown = "".join(traceback.format_exception(refused.value)) + repr(refused.value) + caplog.text
    assert TOKEN not in shown and "\x1b" not in shown and len(str(refused.value)) < 300
    assert refused.value.__context__ is None or TOKEN not in repr(refused.value.__context__)


def test_a_client_is_neither_copied_nor_pickled_with_its_token() -> None:
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(client("http://127.0.0.1:1"))
