"""A spec and a table for every mechanism."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import polars as pl

import tidegate as tg

VALUES = ["home", "shop", "way, or none"]
CLASSES = [{"name": "low", "epsilon": 2, "window": 5}, {"name": "high", "epsilon": 0.5, "window": 3}]
MODEL = {"prior": [0.5, 0.3, 0.2], "transitions": [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]]}
USERS = 60
TIMESTAMPS = 12


@dataclass(frozen=True)
class Case:
    """A mechanism, its spec, and a table for it."""

    mechanism: tg.Mechanism
    spec: dict[str, Any]
    table: pl.DataFrame
    users: dict[str, str] | None

    def csv(self) -> str:
        return self.table.write_csv()

    def users_csv(self) -> str | None:
        if self.users is None:
            return None
        return "user,class\n" + "".join(f"{user},{name}\n" for user, name in self.users.items())


def case_of(mechanism: tg.Mechanism) -> Case:
    spec: dict[str, Any] = {"mechanism": mechanism.full_name}
    users = None
    by_class = mechanism.name.startswith(("pbd", "pba", "plbu", "personal"))
    match mechanism.family:
        case "scalar":
            spec |= {"epsilon": 1, "domain": {"low": 0, "high": 100}, "protects": "reading"}
            if not mechanism.name.startswith(("laplace", "clamped", "constant", "pegasus_median")):
                spec["delay"] = 3
            if mechanism.name == "pegasus":
                del spec["delay"]
        case "sequence":
            spec |= {"epsilon": 1, "domain": VALUES}
            if mechanism.name in ("crr", "batched", "crr_robust"):
                spec["model"] = MODEL
            if mechanism.name == "batched":
                spec["length"] = 3
        case _ if by_class:
            spec |= {"domain": VALUES, "classes": CLASSES}
            users = {f"u{user}": CLASSES[user % 2]["name"] for user in range(USERS)}
        case family:
            spec |= {"epsilon": 2, "window": 5, "domain": VALUES}
            if family == "local":
                spec["population"] = USERS
    return Case(mechanism, spec, table_for(mechanism.family), users)


def table_for(family: str, timestamps: int = TIMESTAMPS, users: int = USERS) -> pl.DataFrame:
    """A table that suits a family."""
    draw = random.Random(7)
    if family == "scalar":
        values = [str(draw.randint(0, 100)) if t != 4 else "none" for t in range(timestamps)]
        return pl.DataFrame({"t": list(range(timestamps)), "value": values})
    rows = [
        (t, f"u{user}", draw.choice(VALUES))
        for t in range(timestamps)
        for user in range(users)
        if family == "sequence" or draw.random() < 0.9
    ]
    return pl.DataFrame(rows, schema=["t", "user", "value"], orient="row")


CASES = [case_of(mechanism) for mechanism in tg.mechanisms()]
