"""Runs all benchmarks, one after the other, and writes what they print into README.md beside it.

    python bindings/python/benches/report.py target/release/tidegate
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

TEXT = """# Benchmarks

This page is written by `report.py`, from a release build of the package and of the command:

```sh
pip install bitarray scikit-learn statsmodels pure-ldp multi-freq-ldpy 'xxhash<4' opendp polars bindings/python
cargo build --release -p tidegate-cli
python bindings/python/benches/report.py target/release/tidegate
```

Each script measures all libraries in one process, one after the other, in CPU seconds, which count all threads.
`--help` shows its options. Measured on {cores} cores with Python {python}.

## Frequency oracles

Perturbation and estimate of a million values, numpy arrays in and out included. The aim is 50 times, for GRR 20 times.

```text
{oracles}```

## Noise

```text
{noise}```

## Releases

The aim is 1.3 times the command's own time.

```text
{release}```
"""


def output_of(script: str, *arguments: str) -> str:
    run = subprocess.run([sys.executable, HERE / script, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    print(run.stdout, flush=True)
    return run.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the command, built with --release")
    chosen = parser.parse_args()
    text = TEXT.format(
        cores=os.cpu_count(),
        python=platform.python_version(),
        oracles=output_of("oracles.py"),
        noise=output_of("noise.py"),
        release=output_of("release.py", chosen.command),
    )
    (HERE / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
