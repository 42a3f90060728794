"""The source distribution holds all that a build needs, and what is installed all that users do."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import tidegate as tg

#: Files that a source includes; those for documentation tests are not needed for a build.
INCLUDED = re.compile(r'(#\[cfg\(doctest\)\]\n)?[^\n]*include_(?:str|bytes)!\("([^"]+)"\)')


def metadata(folder: Path) -> dict[str, Any]:
    """What Cargo tells about the package, without the network."""
    run = subprocess.run(
        ["cargo", "metadata", "--offline", "--format-version", "1"], cwd=folder, capture_output=True, timeout=300
    )
    assert run.returncode == 0, run.stderr.decode()
    told: dict[str, Any] = json.loads(run.stdout)
    return told


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, as `maturin sdist` packs it."""
    folder = tmp_path_factory.mktemp("sdist")
    maturin = [sys.executable, "-m", "maturin", "sdist", "--manifest-path", ROOT / "bindings/python/Cargo.toml"]
    run = subprocess.run([*maturin, "--out", folder], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    (packed,) = folder.glob("tidegate-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


def test_the_source_distribution_has_all_crates_that_the_package_needs(unpacked: Path) -> None:
    here, there = metadata(ROOT / "bindings/python"), metadata(unpacked / "bindings/python")
    versions = {(package["name"], package["version"]) for package in here["packages"]}
    # The same versions are built, also where the network has newer ones.
    assert {(package["name"], package["version"]) for package in there["packages"]} <= versions
    own = [package for package in there["packages"] if package["source"] is None]
    assert len(own) > 5
    for package in own:
        crate = Path(package["manifest_path"]).parent
        original = ROOT / crate.relative_to(unpacked)
        files = {path.relative_to(original) for path in (original / "src").rglob("*") if path.is_file()}
        assert files and [str(path) for path in files if not (crate / path).is_file()] == []


def test_the_source_distribution_has_what_its_sources_include(unpacked: Path) -> None:
    included = [
        (source, name)
        for source in [*unpacked.glob("crates/*/src/**/*.rs"), *unpacked.glob("papers/src/**/*.rs")]
        for for_tests, name in INCLUDED.findall(source.read_text(encoding="utf-8"))
        if not for_tests
    ]
    assert len(included) > 10
    assert [(str(source), name) for source, name in included if not (source.parent / name).is_file()] == []


def test_the_source_distribution_has_licences_types_and_tests(unpacked: Path) -> None:
    for name in ["LICENSE-MIT", "LICENSE-APACHE"]:
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()
    project = tomllib.loads((unpacked / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["build-system"]["build-backend"] == "maturin"
    for name in ["python/tidegate/py.typed", "python/tidegate/_tidegate.pyi", "bindings/python/tests/conftest.py"]:
        assert (unpacked / name).is_file()


def test_what_is_installed_has_types_and_licences() -> None:
    installed = importlib.metadata.distribution("tidegate")
    names = {path.name for path in installed.files or []}
    assert {"py.typed", "_tidegate.pyi", "LICENSE-MIT", "LICENSE-APACHE"} <= names
    sources = {path.name for path in (ROOT / "bindings/python/python/tidegate").glob("*.py")}
    assert sources <= names
    # One binary serves every version of Python from 3.10 on.
    assert any(name.endswith((".abi3.so", ".pyd")) for name in names)
    assert "cp310-abi3" in (installed.read_text("WHEEL") or "")
    assert Path(tg.__file__).parent != ROOT / "bindings/python/python/tidegate"
