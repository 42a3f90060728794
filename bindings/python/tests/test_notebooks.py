"""The notebooks run, and are committed without outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "bindings/python/notebooks").glob("*.ipynb"))
RUNNER = Path(__file__).with_name("notebook.py")


def run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # The synthetic data sets, whatever is set outside.
    environment = {name: value for name, value in os.environ.items() if name != "TIDEGATE_DATA"}
    environment |= {"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", RUNNER, path],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_there_are_five_notebooks() -> None:
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    done = run(path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[" in done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path: Path) -> None:
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    cells = book["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_a_failing_cell_is_named(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "id": "cell-07", "source": ["1 / 0"]}
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": [cell]}))
    done = run(tmp_path / "bad.ipynb", tmp_path)
    assert done.returncode == 1 and 'File "bad.ipynb, cell-07", line 1' in done.stderr
