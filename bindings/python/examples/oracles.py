"""Frequency oracles: perturb a column, count in parts, estimate with intervals.

    python oracles.py

Whoever runs this sees all values: it simulates a fleet, to plan one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tidegate as tg

D = 32
DEVICES = 200_000


def main() -> None:
    weights = 1 / np.arange(1, D + 1)
    values = np.random.default_rng(1).choice(D, DEVICES, p=weights / weights.sum())
    oracle = tg.oracles.auto(D, epsilon=1)
    reports = oracle.perturb(values)
    print(f"{oracle}: {oracle.report_length} bytes a report")
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(oracle.aggregate, np.array_split(reports.array, 8)))
    estimate = sum(parts, oracle.aggregate()).estimate()
    low, high = estimate.interval(0.95)
    truth = np.bincount(values, minlength=D) / DEVICES
    print(f"{((low <= truth) & (truth <= high)).mean():.0%} of the 95 % intervals contain the truth")
    print(f"largest error {abs(estimate.frequencies - truth).max():.4f}, expected {oracle.variance(DEVICES) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
