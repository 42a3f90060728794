"""CPU seconds of discrete Laplace noise on a million counts, against opendp.

Both take a numpy array and return whole numbers; both release under pure differential privacy with an epsilon of one.

    pip install opendp bindings/python
    python bindings/python/benches/noise.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

import tidegate as tg

EPSILON = 1.0

dp.enable_features("contrib")


def tidegate(counts: np.ndarray) -> np.ndarray:
    return tg.Ledger(EPSILON).histogram(counts, EPSILON).counts


def opendp(counts: np.ndarray) -> np.ndarray:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return np.array(dp.m.make_laplace(*space, scale=1 / EPSILON)(counts))


def measured(run: Callable[[np.ndarray], np.ndarray], counts: np.ndarray) -> float:
    """CPU seconds of a run, whose noise is checked."""
    begun = time.process_time()
    noisy = run(counts)
    took = time.process_time() - begun
    spread = (noisy - counts).var()
    expected = 2 * np.exp(-EPSILON) / (1 - np.exp(-EPSILON)) ** 2
    assert len(counts) < 10_000 or 0.9 < spread / expected < 1.1
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, default=1_000_000, help="how many counts (default: %(default)s)")
    chosen = parser.parse_args()
    counts = np.random.default_rng(1).poisson(100, chosen.counts)
    print(f"CPU seconds for discrete Laplace noise on {chosen.counts} counts, and how many times those of tidegate")
    own = 0.0
    for library, run in {"tidegate": tidegate, f"opendp {dp.__version__}": opendp}.items():
        measured(run, counts[:1000])
        seconds = measured(run, counts)
        own = own or seconds
        print(f"{library:16}{seconds:>12.3f}{seconds / own:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
