"""CPU seconds of perturbing and estimating a million values, against pure-ldp and multi-freq-ldpy.

All run in this process, one after the other, numpy arrays in and out included; `time.process_time` counts all threads.
The others are given fewer values, because they would take hours, and their time is scaled up: it is proportional.

    pip install bitarray scikit-learn statsmodels pure-ldp multi-freq-ldpy 'xxhash<4' bindings/python
    python bindings/python/benches/oracles.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

import tidegate as tg

EPSILON = 1.0
#: The values of others at a domain of one; they get as many fewer as the domain has more.
CELLS_OF_OTHERS = {"GRR": 1 << 24, "OUE": 1 << 21, "OLH": 1 << 19}
#: The most values that others get.
MOST = 50_000

Run = Callable[[np.ndarray, int], np.ndarray]


def tidegate(kind: str) -> Run:
    def run(values: np.ndarray, d: int) -> np.ndarray:
        oracle = getattr(tg.oracles, kind)(d, EPSILON)
        return oracle.aggregate(oracle.perturb(values)).estimate().frequencies

    return run


def pure_ldp(client_of: Any, server_of: Any, **keys: bool) -> Run:
    def run(values: np.ndarray, d: int) -> np.ndarray:
        def same(index: int) -> int:
            return index

        client = client_of(EPSILON, d, index_mapper=same, **keys)
        server = server_of(EPSILON, d, index_mapper=same, **keys)
        for value in values.tolist():
            server.aggregate(client.privatise(value))
        return np.array([server.estimate(value, suppress_warnings=True) for value in range(d)]) / len(values)

    return run


def multi_freq(client: Any, estimate: Callable[[list[Any], int], np.ndarray]) -> Run:
    return lambda values, d: estimate([client(value, d, EPSILON) for value in values.tolist()], d)


RUNS: dict[str, dict[str, Run]] = {
    "GRR": {
        "tidegate": tidegate("GRR"),
        "pure-ldp": pure_ldp(DEClient, DEServer),
        "multi-freq-ldpy": multi_freq(GRR.GRR_Client, lambda reports, d: GRR.GRR_Aggregator_MI(reports, d, EPSILON)),
    },
    "OUE": {
        "tidegate": tidegate("OUE"),
        "pure-ldp": pure_ldp(UEClient, UEServer, use_oue=True),
        "multi-freq-ldpy": multi_freq(UE.UE_Client, lambda reports, d: UE.UE_Aggregator_MI(reports, EPSILON)),
    },
    "OLH": {
        "tidegate": tidegate("OLH"),
        "pure-ldp": pure_ldp(LHClient, LHServer, use_olh=True),
        "multi-freq-ldpy": multi_freq(LH.LH_Client, lambda reports, d: LH.LH_Aggregator_MI(reports, d, EPSILON)),
    },
}


def measured(run: Run, values: np.ndarray, d: int) -> float:
    """CPU seconds of a run, whose estimate is checked."""
    begun = time.process_time()
    estimate = run(values, d)
    took = time.process_time() - begun
    assert estimate.shape == (d,)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=1_000_000, help="how many values (default: %(default)s)")
    parser.add_argument("--domains", type=int, nargs="+", default=[128, 1024])
    chosen = parser.parse_args()
    rng = np.random.default_rng(1)
    print(f"CPU seconds for {chosen.values} values at epsilon {EPSILON:g}, and how many times those of tidegate")
    print(f"{'oracle':8}{'d':>6}  {'library':16}{'measured on':>12}{'seconds':>12}{'ratio':>9}")
    for kind, runs in RUNS.items():
        for d in chosen.domains:
            own = 0.0
            for library, run in runs.items():
                is_own = library == "tidegate"
                count = chosen.values if is_own else min(MOST, CELLS_OF_OTHERS[kind] // d, chosen.values)
                values = rng.integers(0, d, count)
                # Compiled code is compiled, and pages are there, before the clock starts.
                measured(run, values[:100], d)
                seconds = measured(run, values, d) * chosen.values / count
                own = seconds if is_own else own
                print(f"{kind:8}{d:>6}  {library:16}{count:>12}{seconds:>12.3f}{seconds / own:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
