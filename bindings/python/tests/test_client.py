"""The client against a real service."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import ROOT, command
from service import PATIENCE, Service, until

import tidegate as tg

VISITS = {
    "mechanism": "central.uniform",
    "epsilon": 4,
    "window": 2,
    "domain": ["home", "shop", "way, or none"],
    "queries": [{"name": "two", "value": "shop", "delta": 2, "unit": "counts"}],
    "monitors": [{"name": "any", "value": "home", "unit": "counts", "direction": "above", "start": -1e9}],
}
EVENTS = [{"user": f"u{user}", "value": "shop"} for user in range(50)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service") / "new")
    running.start()
    try:
        running.client().create("visits", VISITS, tick=1)
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="module")
def retired(service: Service) -> str:
    """A stream that has ended, with some releases."""
    client = service.client()
    spec = {**VISITS, "every": "1s"}
    client.create("retired", spec, tick=1)
    until(lambda: len(client.releases("retired")) >= 3)
    client.retire("retired")
    # Its open timestamp is finished.
    until(lambda: client.stream("retired").open is None)
    list(client.follow("retired"))
    return "retired"


def sent(client: tg.Client, name: str, *arguments: object, **options: object) -> int:
    """Sends events once there is an open timestamp."""

    def try_it() -> int | None:
        try:
            return client.send(name, *arguments, **options)  # type: ignore[arg-type]
        except tg.ServiceError as error:
            if error.status != 409:
                raise
            return None

    taken: int = until(try_it)
    return taken


def test_a_stream_is_created_paused_resumed_and_retired(service: Service) -> None:
    client = service.client()
    made = client.create("rooms", VISITS, tick=1, epoch=0)
    assert (made.name, made.mechanism, made.status, made.tick) == ("rooms", "central.uniform", "running", 1)
    assert client.create("rooms", tg.Stream(VISITS), tick=1).name == "rooms", "the same guarantee"
    with pytest.raises(tg.ServiceError, match="never changes") as refused:
        client.create("rooms", {**VISITS, "epsilon": 8}, tick=1)
    assert (refused.value.status, refused.value.code) == (409, "changed")
    assert client.pause("rooms").status == "paused"
    assert client.resume("rooms").status == "running"
    assert client.retire("rooms").status == "retired"
    assert "rooms" in [stream.name for stream in client.streams()] and client.stream("rooms").status == "retired"
    assert client.values("rooms") == VISITS["domain"]
    assert client.operator_key() == service.operator_key


def test_roles_are_those_of_tokens(service: Service) -> None:
    for role, call in (
        ("analyst", lambda client: client.retire("visits")),
        ("ingest", lambda client: client.releases("visits")),
        ("analyst", lambda client: client.send("visits", EVENTS)),
    ):
        with pytest.raises(tg.ServiceError) as refused:
            call(service.client(role))
        assert (refused.value.status, refused.value.code) == (403, "role")
    with pytest.raises(tg.ServiceError) as refused:
        tg.Client(service.url, "tg_a_" + "0" * 43).streams()
    assert refused.value.status == 401
    with pytest.raises(tg.ServiceError) as refused:
        service.client().stream("nothing")
    assert (refused.value.status, refused.value.code) == (404, "no_stream")


@pytest.mark.parametrize("kind", [list, pl.DataFrame, pd.DataFrame, pa.Table.from_pylist])
def test_events_come_as_mappings_or_tables(service: Service, kind: type) -> None:
    assert sent(service.client("ingest"), "visits", kind(EVENTS)) == len(EVENTS)
    renamed = [{"who": event["user"], "place": event["value"]} for event in EVENTS]
    if kind is not list:
        assert sent(service.client("ingest"), "visits", kind(renamed), user="who", value="place") == len(EVENTS)


def test_wrong_events_have_a_position(service: Service) -> None:
    with pytest.raises(tg.ServiceError, match="expected value and user") as refused:
        sent(service.client("ingest"), "visits", [*EVENTS, {"user": "ann", "values": "shop"}])
    assert (refused.value.status, refused.value.position, refused.value.code) == (400, len(EVENTS), "malformed")
    with pytest.raises(tg.BadData, match="row 1: expected a mapping") as bad:
        service.client("ingest").send("visits", [EVENTS[0], "shop"])  # type: ignore[list-item]
    assert bad.value.row == 1
    with pytest.raises(tg.ServiceError) as refused:
        service.client("ingest").send("visits", EVENTS, timestamp=1)
    assert refused.value.status == 409, "this timestamp is over"


def by_command(service: Service, folder: Path, name: str) -> str:
    """The releases of a stream, as the command prints them."""
    token = folder / "token"
    token.write_text(service.tokens["analyst"])
    token.chmod(0o600)
    said = command("query", "releases", "--server", service.url, "--token-file", token, "--stream", name)
    assert said.returncode == 0, said.stderr
    return said.stdout


def test_numbers_and_frequencies_are_read_as_well(service: Service, tmp_path: Path) -> None:
    client = service.client()
    numbers = {"mechanism": "scalar.laplace", "epsilon": 1, "domain": {"low": 0, "high": 9}, "protects": "reading"}
    local = {"mechanism": "local.lbu", "epsilon": 1, "window": 3, "domain": 4, "population": 500}
    client.create("numbers", numbers, tick=1)
    client.create("local", local, tick=1, epoch=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc))

    def send() -> bool:
        opened = client.stream("numbers").open
        with contextlib.suppress(tg.ServiceError):
            return opened is not None and client.send("numbers", [{"value": 7}], timestamp=opened) == 1
        return False

    until(send)
    until(lambda: len(client.releases("numbers")) >= 1 and len(client.releases("local")) >= 1)
    for name, unit in (("numbers", "value"), ("local", "frequency")):
        client.retire(name)
        list(client.follow(name))
        released = client.releases(name)
        assert unit in released.columns and released.to_csv() == by_command(service, tmp_path, name)
    with pytest.raises(tg.ServiceError) as refused:
        client.values("numbers")
    assert (refused.value.status, client.values("local")) == (404, ["0", "1", "2", "3"])
    asked = client.query("local", 3, unit="counts")
    assert asked == client.releases("local").query(3, unit="counts")


def test_releases_equal_those_of_the_command(service: Service, retired: str, tmp_path: Path) -> None:
    client = service.client("analyst")
    released = client.releases(retired)
    assert released.to_csv() == by_command(service, tmp_path, retired)
    assert len(released) >= 3 and repr(released) == f"Releases({len(released)} of central.uniform)"
    last = client.releases(retired, last=2, library="pandas")
    assert isinstance(last.table, pd.DataFrame) and len(last) == 2
    assert isinstance(client.releases(retired, library="pyarrow").table, pa.Table)
    table = released.table
    assert isinstance(table, pl.DataFrame) and table["time"].dtype == pl.Datetime("us", "UTC")
    times = table["t"].unique().sort().to_list()
    some = client.releases(retired, start=times[1], end=times[1]).table
    assert some["t"].unique().to_list() == [times[1]]
    assert len(client.releases(retired, last=0)) == 0


def test_pages_are_followed(service: Service, retired: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = service.client("analyst")
    whole = client.releases(retired).to_csv(), client.answers(retired)
    monkeypatch.setattr("tidegate._client.PAGE", 1)
    assert (client.releases(retired).to_csv(), client.answers(retired)) == whole
    assert {"two", "any"} == {answer.get("query", answer.get("monitor")) for answer in whole[1]}


def test_queries_of_the_service_equal_those_of_its_releases(service: Service, retired: str) -> None:
    client = service.client("analyst")
    released = client.releases(retired)
    assert client.query(retired, "shop", last=2, unit="counts") == released.query("shop", last=2, unit="counts")
    assert client.query(retired, between=("home", "shop")) == released.query(between=("home", "shop"))
    assert client.query(retired, top=2, confidence=0.5) == released.query(top=2, confidence=0.5)
    repaired = client.query(retired, "shop", repair="norm_sub")
    assert repaired == released.query("shop", repair="norm_sub")
    with pytest.raises(tg.ServiceError) as refused:
        client.query(retired, "shop", at=1)
    assert (refused.value.status, refused.value.code) == (404, "not_released")
    with pytest.raises(tg.ServiceError, match="the domain has no value"):
        client.query(retired, "garage")
    last = [answer for answer in client.answers(retired) if answer.get("query") == "two"][-1]
    found = released.query("shop", last=2, unit="counts", at=last["t"])
    assert (found.value, found.low, found.high) == (last["value"], last["low"], last["high"])


def numbers(events: list[tg.FeedEvent], kind: str = "release") -> list[int]:
    return [event.t for event in events if event.kind == kind]


def test_the_feed_of_an_ended_stream_ends(service: Service, retired: str) -> None:
    client = service.client("analyst")
    released = client.releases(retired).table["t"].unique().sort().to_list()
    with client.follow(retired) as feed:
        events = list(feed)
    assert numbers(events) == released and {event.kind for event in events} == {"release", "answer", "monitor"}
    assert all(event.time is not None and event.time.endswith("Z") for event in events)
    assert [event.t for event in events] == sorted(event.t for event in events)
    assert feed.position == events[-1].id and list(feed) == []
    assert list(client.follow(retired, after=events[-2].id)) == events[-1:]
    assert list(client.follow(retired, since="now")) == []


def test_a_feed_is_followed_asynchronously(service: Service) -> None:
    async def three() -> list[tg.FeedEvent]:
        async with service.client("analyst").follow("visits", since="now") as feed:
            with pytest.raises(asyncio.TimeoutError):
                # A wait that is given up loses nothing.
                while True:
                    await asyncio.wait_for(anext(feed), 0.001)
            events = []
            async for event in feed:
                events.append(event)
                if len(numbers(events)) == 3:
                    return events
        raise AssertionError("the feed has no end")

    found = numbers(asyncio.run(asyncio.wait_for(three(), PATIENCE)))
    assert found == list(range(found[0], found[0] + 3)), "none is missing, none comes twice"


def test_a_closed_feed_ends_for_who_waits(service: Service) -> None:
    client = service.client()
    client.create("silent", VISITS, tick=3600)
    feed = client.follow("silent", since="now")
    waiting = threading.Thread(target=lambda: list(feed))
    waiting.start()
    until(lambda: feed._reader._response is not None)
    feed.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_wait_without_events_ends_the_feed(service: Service) -> None:
    client = service.client()
    client.create("silent", VISITS, tick=3600)
    assert list(client.follow("silent", wait=0.3)) == []

    async def follow() -> list[tg.FeedEvent]:
        return [event async for event in client.follow("silent", wait=0.3)]

    assert asyncio.run(follow()) == []


def test_a_feed_goes_on_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    service = Service(tmp_path / "new")
    service.start()
    try:
        client = service.client()
        client.create("visits", VISITS, tick=1)
        events: list[tg.FeedEvent] = []
        with client.follow("visits", patience=PATIENCE) as feed:
            for end in (service.stop, service.kill):
                events += itertools.islice(feed, 3)
                end()
                service.start()
            events += itertools.islice(feed, 3)
        assert len({event.id for event in events}) == 9
        stored = list(client.follow("visits", wait=0.5))
        assert stored[: len(events)] == events, "none is missing"
        service.stop()
        with pytest.raises(tg.ServiceError, match="not available"):
            next(client.follow("visits", patience=0.01))
        with pytest.raises(tg.ServiceError, match="not available"):
            list(client.follow("visits", wait=0.1))
    finally:
        service.kill()


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    certificates = ROOT / "crates/server/tests/server/tls"
    service = Service(tmp_path / "new", certificates)
    service.start()
    try:
        assert service.url.startswith("https://")
        for call in (lambda client: client.streams(), lambda client: next(client.follow("visits"))):
            with pytest.raises(tg.ServiceError, match="certificate is not trusted") as refused:
                call(service.client(attempts=100))
            assert refused.value.code == "certificate", "another attempt would not help"
        context = ssl.create_default_context(cafile=certificates / "authority.pem")
        # The certificate of the tests does not name the key of its authority, which later versions of Python ask for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        client = service.client(context=context)
        client.create("visits", VISITS, tick=1)
        with client.follow("visits", patience=PATIENCE) as feed:
            assert numbers(list(itertools.islice(feed, 3)))
            waiting = threading.Thread(target=lambda: list(feed))
            waiting.start()
            time.sleep(0.1)
            feed.close()
            waiting.join(PATIENCE)
            assert not waiting.is_alive()
    finally:
        service.kill()


def test_nobody_else_sees_the_token(service: Service) -> None:
    client = service.client("operator")
    secret = service.tokens["operator"]
    seen = [repr(client), str(client), repr(vars(client)), repr(vars(client._transport))]
    seen += [repr(client.stream("visits")), json.dumps(client.stream("visits").spec)]
    with pytest.raises(tg.ServiceError) as refused:
        client.stream("nothing")
    seen += [repr(refused.value), str(refused.value)]
    assert not [text for text in seen if secret in text]
