"""What all tests share: the command, specs of all mechanisms, and tables that suit them."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("TIDEGATE_COMMAND", ROOT / "target/debug/tidegate"))


def command(*arguments: str | Path, input: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command, which the workspace's tests build."""
    assert COMMAND.exists(), f"there is no command {COMMAND}: cargo build -p tidegate-cli, or set TIDEGATE_COMMAND"
    return subprocess.run(
        [COMMAND, *arguments], input=input, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False
    )


@pytest.fixture(autouse=True)
def no_seed_warnings() -> Iterator[None]:
    """Seeds are what tests are for; one test shows that they warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.SeededWarning)
        yield


def toml(value: Any) -> str:
    """A value of a spec in TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case dict():
            return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(toml(item) for item in value) + "]"
        case _:
            return str(value)


def write_spec(folder: Path, spec: dict[str, Any]) -> Path:
    path = folder / "stream.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in spec.items()), encoding="utf-8")
    return path
