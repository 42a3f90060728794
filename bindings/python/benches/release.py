"""CPU seconds of releasing ten million rows from polars, against the command on the same rows as CSV.

Both release the same: the outputs are compared. The command is built by `cargo build --release -p tidegate-cli`.

    python bindings/python/benches/release.py target/release/tidegate
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import tidegate as tg

PLACES = ["home", "shop", "park", "work", "school", "station", "museum", "harbour"]
#: Users of a timestamp.
USERS = 100_000


def table_of(rows: int) -> pl.DataFrame:
    numbers = np.arange(rows)
    return pl.DataFrame(
        {
            "t": numbers // USERS,
            "user": numbers % USERS,
            "value": pl.Series(np.random.default_rng(1).integers(0, len(PLACES), rows)).replace_strict(
                dict(enumerate(PLACES)), return_dtype=pl.String
            ),
        }
    )


def of_command(command: Path, spec: Path, rows: Path) -> tuple[float, float, str]:
    """CPU seconds, seconds and output of the command."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(
        [command, "release", "--spec", spec, "--seed", "1", "--input", rows], capture_output=True, text=True, check=True
    )
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took, run.stdout


def of_package(spec: Path, table: pl.DataFrame) -> tuple[float, float, str]:
    """CPU seconds, seconds and output of the package."""
    before, begun = time.process_time(), time.monotonic()
    output = tg.Stream.from_toml(spec, seed=1).release(table).to_csv()
    return time.process_time() - before, time.monotonic() - begun, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=Path, help="the command, built with --release")
    parser.add_argument("--rows", type=int, default=10_000_000, help="how many rows (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="the best of how many runs (default: %(default)s)")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", tg.SeededWarning)
    table = table_of(chosen.rows)
    with tempfile.TemporaryDirectory() as folder:
        rows, spec = Path(folder) / "rows.csv", Path(folder) / "stream.toml"
        table.write_csv(rows)
        domain = ", ".join(f'"{place}"' for place in PLACES)
        spec.write_text(f'mechanism = "central.ba"\nepsilon = 1\nwindow = 7\ndomain = [{domain}]\n')
        command = [of_command(chosen.command, spec, rows) for _ in range(chosen.repeats)]
        package = [of_package(spec, table) for _ in range(chosen.repeats)]
    assert {output for _, _, output in [*command, *package]} == {command[0][2]}, "the outputs differ"
    print(f"a release of {chosen.rows} rows, the best of {chosen.repeats} runs, and how many times that of the command")
    own = [min(run[column] for run in command) for column in range(2)]
    print(f"{'':10}{'CPU seconds':>12}{'ratio':>8}{'seconds':>12}{'ratio':>8}")
    for name, runs in {"command": command, "package": package}.items():
        cpu, wall = (min(run[column] for run in runs) for column in range(2))
        print(f"{name:10}{cpu:>12.2f}{cpu / own[0]:>8.2f}{wall:>12.2f}{wall / own[1]:>8.2f}")


if __name__ == "__main__":
    main()
