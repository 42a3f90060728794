"""The device agent: an operator signs a policy, a device keeps its own account and answers questions.

    python device_agent.py FOLDER

The state in FOLDER is on disk before a report leaves: crashes, retries and copies cannot make the device spend twice.
"""

from __future__ import annotations

import decimal
import secrets
import sys
import time

import tidegate as tg

PLACES = ["home", "shop", "park"]
#: Seconds of a timestamp; an hour or a day in earnest.
TICK = 4


def main(folder: str) -> None:
    # The operator keeps the secret; devices know the public key and check the signature.
    secret = secrets.token_hex(32)
    policy = tg.sign_policy(
        "visits", epsilon=1, window=1, domain=len(PLACES), epoch=0, seconds=TICK, slot_key=secrets.token_hex(16),
        operator=secret,
    )  # fmt: skip
    with tg.Device(folder, "place", policy, tg.public_key(secret)) as device:
        # A new device counts its first window as spent, because it may have lost an earlier account.
        first = device.now
        while device.now == first:
            time.sleep(0.05)
        asked = tg.Question(device.now, 0, None, decimal.Decimal(1), "olh", len(PLACES), None)
        report = device.answer(asked.to_json(), PLACES.index("shop"))
        print(f"a report of {len(report)} bytes")
        assert device.answer(asked, PLACES.index("home")) == report, "a retry gets the same report"
        greedy = tg.Question(asked.timestamp, 1, None, decimal.Decimal(1), "olh", len(PLACES), None)
        try:
            device.answer(greedy, PLACES.index("shop"))
        except (tg.BudgetExceeded, tg.Refused) as refused:
            print(f"refused: {refused}")
        # The collector counts reports, whatever devices they come from.
        print(asked.oracle.aggregate(report))


if __name__ == "__main__":
    main(sys.argv[1])
