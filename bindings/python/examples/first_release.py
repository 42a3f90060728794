"""A first release: from a CSV of visits to a CSV that may be published, with an account that survives a restart.

    python first_release.py visits.csv published.csv visits.state

The columns are `date`, `uid` and `place`. Run it again with later visits: it goes on with the same budget.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import tidegate as tg


def stream(state: Path) -> tg.Stream:
    """The stream of the state, or a new one."""
    if state.exists():
        return tg.Stream.load(state)
    places = ["home", "shop", "park"]
    return tg.Central(
        "track", epsilon=1, window=7, domain=places, every="1d", origin="2026-03-01", state=state, new_state=True
    )


def main(visits: Path, published: Path, state: Path) -> None:
    table = pl.read_csv(visits)
    with stream(state) as running:
        try:
            released = running.release(table, time="date", user="uid", value="place")
        except tg.BadData as error:
            sys.exit(f"{visits}: {error}")
        # The budget is on disk by now, so the releases may leave.
        released.to_csv(published)
        print(f"{len(released)} days in {published}")
        for budget in running.budget():
            print(f"a window of {budget.window} days: {budget.spent:g} of {budget.epsilon:g} spent")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
