"""A phone against a real service, by the code that UniFFI generates. Python stands for Kotlin and Swift.

phone.py GENERATED COMMAND: the folder of the generated module with its library, and the command `tidegate`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

GENERATED, COMMAND = (Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(GENERATED))

import tidegate_phone as tp  # noqa: E402

#: Waits end after so many seconds: the machine may be very busy.
PATIENCE = 60.0

#: Seconds of a tick.
TICK = 2

BATCH = "application/vnd.tidegate.batch"

SPEC = {"mechanism": "local.lbu", "epsilon": 1, "window": 1, "domain": 4, "population": 1}


def until(found):
    """Waits until something is found."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.05)
    raise AssertionError("nothing was found in time")


class Service:
    """A service in a folder of its own, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        made = subprocess.run([COMMAND, "init", folder, "--json"], capture_output=True, check=True)
        said = json.loads(made.stdout)
        config, self.tokens = Path(said["config"]), said["tokens"]
        self.operator = bytes.fromhex(said["operator_key"])
        text = re.sub(r"(?m)^(# )?listen = .*$", 'listen = "127.0.0.1:0"', config.read_text(), count=1)
        config.write_text(text)
        log = config.with_suffix(".log")
        with log.open("w") as errors:
            self.process = subprocess.Popen([COMMAND, "serve", "--config", config], stderr=errors)

        def address():
            assert self.process.poll() is None, log.read_text()
            found = re.search(r"listening: (http://127\.0\.0\.1:\d+)\n", log.read_text())
            return found and found[1]

        self.url = until(address)

    def call(self, path: str, body: bytes | None = None, role: str | None = None, kind: str = "application/json") -> str:
        headers = {"content-type": kind}
        if role:
            headers["authorization"] = f"Bearer {self.tokens[role]}"
        request = urllib.request.Request(self.url + path, body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


class Store:
    """A store that compares before it replaces, with a second place for the mark."""

    def __init__(self) -> None:
        self.contents, self.version, self.mark = None, None, None

    def stored(self) -> tp.Stored:
        return tp.Stored(contents=self.contents, mark=self.mark)

    def replace(self, save: tp.ToSave) -> None:
        assert self.version == save.replaces, "another device has gone on"
        self.contents, self.version = save.contents, save.version


class Phone:
    """An app that is opened for a moment: each time is a new run of its steady clock."""

    def __init__(self, service: Service, store: Store, policy: str, until: int = 2**40) -> None:
        self.service, self.store, self.run, self.began = service, store, os.urandom(16), time.monotonic()
        self.enrolment = tp.Enrolment(
            source="position",
            policy=policy,
            operator=service.operator,
            absences=tp.Absences.SIGNED_TIME(until=until),
            witness=b"",
        )

    def clocks(self) -> tp.Clocks:
        return tp.Clocks(wall=int(time.time()), run=self.run, steady=int(time.monotonic() - self.began))

    def opening(self, consents: bool = False) -> tp.Opening:
        return tp.Opening(self.enrolment, self.store.stored(), self.clocks(), consents)

    def open(self) -> tuple:
        opening = self.opening()
        save = opening.save()
        self.store.replace(save)
        opened = opening.confirm(self.store.contents)
        self.store.mark = save.mark
        return opened.device, opened.begun

    def attest(self, device: tp.Device) -> None:
        nonce = device.ask_time(self.clocks())
        device.attest(self.clocks(), self.service.call(f"/v1/time?nonce={nonce}"))

    def reply(self, device: tp.Device, question: str, value: int = 2) -> tp.Reply:
        answering = device.answer(self.clocks(), "visits", question, value)
        save = answering.save()
        if save is None:
            return answering.confirm(None)
        self.store.replace(save)
        reply = answering.confirm(self.store.contents)
        self.store.mark = save.mark
        return reply


class OfAPhone(unittest.TestCase):
    """Each test has a store of its own; all share the service."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.service = Service(Path(cls.folder.name))
        declared = {"name": "visits", "tick": TICK, "spec": SPEC}
        cls.service.call("/v1/streams", json.dumps(declared).encode(), "operator")
        cls.policy = until(lambda: cls.service.call("/v1/streams/visits/policy"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.stop()
        cls.folder.cleanup()

    def question(self) -> str:
        """The question of the present, with most of its tick left."""

        def asked():
            questions = json.loads(self.service.call("/v1/streams/visits/questions"))["questions"]
            fresh = [open_ for open_ in questions if open_["closes"] / 1000 - time.time() > TICK / 4]
            return fresh and json.dumps(fresh[0]["question"])

        return until(asked)

    def send(self, batch: bytes) -> dict:
        return json.loads(self.service.call("/v1/streams/visits/reports", batch, "ingest", BATCH))

    def test_an_app_that_comes_and_goes_is_counted(self) -> None:
        store, accepted = Store(), 0
        end = time.monotonic() + PATIENCE
        while accepted < 3:
            self.assertLess(time.monotonic(), end, "it is not counted")
            phone = Phone(self.service, store, self.policy)
            device, _ = phone.open()
            question = self.question()
            phone.attest(device)
            reply = phone.reply(device, question)
            if not reply.is_REPORT():
                self.assertIn(reply.reason, ["budget", "not_now", "answered"])
                continue
            receipt = self.send(reply.batch)
            accepted += receipt["accepted"]
            # The next run repeats the identical bytes, while the timestamp lasts.
            again, begun = Phone(self.service, store, self.policy).open()
            self.assertEqual(begun, tp.Begun.RESUMED)
            repeated = phone.reply(again, question)
            if repeated.is_REPORT():
                self.assertEqual(repeated.batch, reply.batch)
                self.assertEqual(self.send(repeated.batch)["accepted"], 0)

    def test_without_a_signed_time_nothing_is_answered(self) -> None:
        phone = Phone(self.service, Store(), self.policy)
        device, begun = phone.open()
        self.assertEqual(begun, tp.Begun.NEW)
        reply = phone.reply(device, self.question())
        self.assertIn(reply.reason, ["no_time", "not_now"])
        with self.assertRaisesRegex(tp.DeviceError.Time, "not asked for"):
            device.attest(phone.clocks(), self.service.call(f"/v1/time?nonce={'0' * 32}"))

    def test_a_given_up_save_closes_the_device(self) -> None:
        store = Store()
        phone = Phone(self.service, store, self.policy)
        opening = phone.opening()
        with self.assertRaises(tp.DeviceError.NotSaved):
            opening.confirm(b"other contents")
        with self.assertRaises(tp.DeviceError.Outstanding):
            opening.save()
        device, _ = phone.open()
        question = self.question()
        phone.attest(device)
        # The first look at the clocks is saved, whatever is answered.
        answering = device.answer(phone.clocks(), "visits", question, 2)
        self.assertIsNotNone(answering.save())
        for call in (lambda: device.ask_time(phone.clocks()), lambda: phone.reply(device, question)):
            with self.assertRaises(tp.DeviceError.Outstanding):
                call()
        store.replace(answering.save())
        answering.confirm(store.contents)
        with self.assertRaises(tp.DeviceError.Outstanding):
            answering.confirm(store.contents)
        self.assertIsNotNone(device.ask_time(phone.clocks()))

    def test_old_copies_are_lost_and_terms_are_the_owners(self) -> None:
        store = Store()
        phone = Phone(self.service, store, self.policy)
        phone.open()
        old, version = store.contents, store.version
        phone.open()
        store.contents, store.version = old, version
        _, begun = phone.open()
        self.assertEqual(begun, tp.Begun.LOST)
        longer = Phone(self.service, store, self.policy, until=2**41)
        with self.assertRaisesRegex(tp.DeviceError.Consent, "only the device's owner"):
            longer.opening()
        longer.opening(consents=True)
        said = tp.statement(longer.enrolment, longer.clocks())
        self.assertIn("While it is away, this device goes by its own clock and the service's signed time", said)

    def test_wrong_arguments_are_named(self) -> None:
        phone = Phone(self.service, Store(), self.policy)
        device, _ = phone.open()
        with self.assertRaisesRegex(tp.DeviceError.Argument, "^question: "):
            device.answer(phone.clocks(), "visits", "{}", 2)
        phone.run = b"x" * 17
        with self.assertRaisesRegex(tp.DeviceError.Argument, "^run: has at most 16 bytes"):
            device.ask_time(phone.clocks())
        phone.enrolment.policy = self.policy.replace('"epsilon"', '"epsilom"', 1)
        with self.assertRaisesRegex(tp.DeviceError.Argument, "^policy: "):
            phone.opening()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
