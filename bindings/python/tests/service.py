"""A real service, which the command runs, and a server that answers as it is told to."""

from __future__ import annotations

import http.server
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import COMMAND, command

import tidegate as tg

#: Waits end after so many seconds: the machine may be very busy.
PATIENCE = 60.0


class Service:
    """A service in a folder of its own, on a free port of this machine."""

    def __init__(self, folder: Path, tls: Path | None = None) -> None:
        made = command("init", folder, "--json")
        assert made.returncode == 0, made.stderr
        said = json.loads(made.stdout)
        self.config, self.tokens = Path(said["config"]), said["tokens"]
        self.operator_key: str = said["operator_key"]
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._listen("127.0.0.1:0")
        if tls is not None:
            for name in ("certificate.pem", "key.pem"):
                (folder / name).write_bytes((tls / name).read_bytes())
                (folder / name).chmod(0o600)
            section = '[tls]\ncertificate = "certificate.pem"\nkey = "key.pem"\n'
            self.config.write_text(self.config.read_text() + section)

    def _listen(self, address: str) -> None:
        text = re.sub(r"(?m)^(# )?listen = .*$", f'listen = "{address}"', self.config.read_text(), count=1)
        self.config.write_text(text)

    def start(self) -> None:
        """Starts it, and waits until it listens. After the first time, it is at the same address."""
        said = self.config.with_suffix(".log")
        with said.open("w") as log:
            self._process = process = subprocess.Popen([COMMAND, "serve", "--config", self.config], stderr=log)

        def address() -> str | None:
            assert process.poll() is None, said.read_text()
            found = re.search(r"listening: (https?://127\.0\.0\.1:\d+)\n", said.read_text())
            return found and found[1]

        self.url = until(address)
        self._listen(self.url.partition("://")[2])

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def client(self, role: str = "operator", **options: Any) -> tg.Client:
        return tg.Client(self.url, self.tokens[role], **options)


def until(found: Callable[[], Any]) -> Any:
    """Waits until something is found."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        result = found()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError("nothing was found in time")


class Told(http.server.BaseHTTPRequestHandler):
    """Answers each request with the next of the answers: a status, headers and a body."""

    protocol_version = "HTTP/1.1"
    answers: list[tuple[int, dict[str, str], bytes]]
    seen: list[tuple[str, str, dict[str, str], bytes]]

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.seen.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def told(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[Any]]]:
    """A server that gives these answers, the last one for ever: its address, and the requests that it saw."""
    handler = type("Handler", (Told,), {"answers": list(answers), "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
