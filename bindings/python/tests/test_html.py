"""What notebooks show."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import polars as pl
from cases import CASES, VALUES

import tidegate as tg

EVIL = "<script>alert(1)</script>&\"'"


class Shown(HTMLParser):
    """Checks that every tag is closed, and gathers the texts of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def shown(thing: Any) -> Shown:
    text = thing._repr_html_()
    assert len(text) < 100_000
    found = Shown(text)
    assert found.tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    return found


def test_releases_of_every_mechanism_are_shown() -> None:
    for case in CASES:
        out = tg.Stream(case.spec).release(case.table, users=case.users)
        found = shown(out)
        assert found.cells[: len(out.columns)] == out.columns
        rows = (len(found.cells) - len(out.columns)) // len(out.columns)
        assert rows == min(20, out.table.height), case.spec


def test_what_is_shown_is_escaped_and_bounded() -> None:
    domain = [EVIL, *(f"{'long ' * 100}{value}" for value in range(5000))]
    out = tg.Central("uniform", epsilon=1, window=1, domain=domain).release(
        pl.DataFrame({"t": range(3), "user": ["ann"] * 3, "value": [EVIL] * 3})
    )
    found = shown(out)
    assert EVIL in found.cells and len(found.cells) == 7 * 21 and all(len(cell) <= 60 for cell in found.cells)


def test_budgets_are_shown() -> None:
    names = ["north", EVIL]
    budget = tg.Central("ba", epsilon=1, window=7, domain=VALUES, series_names=names, across_series=1).budget()
    assert isinstance(budget, list) and repr(budget).startswith("[Budget(")
    cells = shown(budget).cells
    assert {"north", EVIL, "7", "1"} <= set(cells) and cells[:2] == ["series", "class"]


def test_results_of_the_laboratory_are_shown() -> None:
    found = tg.evaluate("sin", ["lbu", "lpu"], epsilon=1, length=30, population=5000, repeats=2, seed=1)
    assert {"mechanism", "lbu", "lpu", "mse"} <= set(shown(found).cells)
    assert "do not publish" in found._repr_html_()
    advice = tg.advise(
        kind="counts", trust="curator", population=500, domain=4, window=7, epsilon=1, mechanisms=["uniform"], length=9
    )
    assert "uniform" in shown(advice).cells and "Recommended: " in advice._repr_html_()
    audit = tg.audit("grr", epsilon=1, runs=500)
    assert "grr" in shown(audit).cells and "No promise is broken" in audit._repr_html_()
    channel = tg.channel([1 / 40] * 40, epsilon=1)
    assert len(shown(channel).cells) == 16 * 17 and "40 symbols" in channel._repr_html_()


def test_a_model_shows_nothing_of_its_table() -> None:
    visits = pl.DataFrame({"t": [0, 1, 2, 3], "user": ["ann"] * 4, "value": ["home", "home", "work", "home"]})
    model = tg.Model.fit(visits, domain=["home", "work"])
    assert shown(model).cells == ["property", "value", "symbols", "2", "seeded", "False"]
