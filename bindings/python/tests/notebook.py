"""Runs the cells of a notebook in one namespace, and shows the last expression of each as a notebook would.

Notebooks here have no magics, so that this is all they need: a kernel of Jupyter would add thirty packages, sockets and
seconds for each.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any


def run(path: Path) -> None:
    """Runs a notebook. A failing cell raises, and the traceback names it."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        name = f"{path.name}, {cell['id']}"
        tree = ast.parse("".join(cell["source"]), name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), space)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), name, "eval"), space)
            rich = getattr(shown, "_repr_html_", None)
            if shown is not None:
                print(f"[{name}]", repr(shown) if rich is None else rich(), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
