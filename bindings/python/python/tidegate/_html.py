"""Tables in HTML, for notebooks: escaped, and bounded in size."""

from __future__ import annotations

import html
from collections.abc import Iterable
from collections.abc import Sequence as List

#: The most rows, columns and letters of a cell that are shown.
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS = 20, 16, 60


def html_table(title: str, columns: List[str], rows: List[List[object]], notes: Iterable[str] = ()) -> str:
    """A table with a title, and notes below it."""
    shown = list(rows[:MOST_ROWS])
    heads = "".join(f'<th style="text-align: left">{_cell(name)}</th>' for name in columns[:MOST_COLUMNS])
    lines = ["".join(f"<td>{_cell(item)}</td>" for item in row[:MOST_COLUMNS]) for row in shown]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    said = [_text(note, 300) for note in notes]
    if len(rows) > len(shown):
        said.append("Further rows are not shown.")
    if len(columns) > MOST_COLUMNS:
        said.append("Further columns are not shown.")
    below = "".join(f"<p>{note}</p>" for note in said[:MOST_ROWS])
    caption = f'<caption style="text-align: left; font-weight: bold">{_text(title, 300)}</caption>'
    return f"<div><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def _cell(item: object) -> str:
    if item is None:
        return ""
    if isinstance(item, float):
        return f"{item:.6g}"
    if isinstance(item, (list, tuple)):
        return _text(", ".join(str(part) for part in item[:MOST_COLUMNS]), MOST_LETTERS)
    return _text(str(item), MOST_LETTERS)


def _text(text: str, most: int) -> str:
    return html.escape(text if len(text) <= most else text[: most - 1] + "…")
