"""Channels of sequences: how a symbol is answered."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _tidegate
from ._errors import BadSpec
from ._html import MOST_COLUMNS, html_table
from ._keywords import keywords
from ._model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Epsilon = float | str | decimal.Decimal


class Channel(NamedTuple):
    """A channel that answers one symbol, or one batch of them, as :func:`channel` returns it."""

    #: Row x has the probability of each answer for symbol x.
    matrix: npt.NDArray[np.float64]
    #: The probability of each symbol.
    prior: npt.NDArray[np.float64]
    #: The probability of each answer.
    output: npt.NDArray[np.float64]
    #: What an answer may tell.
    epsilon: float
    #: What an answer tells an observer who expects the prior: at most epsilon.
    leakage: float
    #: The expected distance of the answer from the symbol.
    cost: float
    #: The local differential privacy, whatever an observer expects.
    local_loss: float
    #: The name of the distance.
    distance: str
    #: The same as the command's ``--json`` prints it.
    json: str
    #: The same as a table of plain text.
    text: str

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draws the matrix, and returns the Axes of matplotlib: ``pip install tidegate[plot]``."""
        from . import _plot

        return _plot.channel(self.matrix, f"leakage {self.leakage:.4g}, cost {self.cost:.4g} ({self.distance})", ax)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        # As many columns as are shown of the matrix.
        shown = range(min(len(self.matrix), MOST_COLUMNS))
        rows = [[symbol, *(float(self.matrix[symbol, answer]) for answer in shown)] for symbol in shown]
        notes = [
            f"epsilon {self.epsilon:.6g}, leakage {self.leakage:.6g}, local loss {self.local_loss:.6g}, "
            f"cost {self.cost:.6g} ({self.distance})"
        ]
        if len(self.matrix) > len(shown):
            notes.append(f"{len(self.matrix)} symbols; further ones are not shown.")
        return html_table("Channel: probability of each answer", ["symbol", *shown], rows, notes)


def channel(
    prior: npt.ArrayLike | None = None,
    *,
    epsilon: Epsilon,
    distance: str | npt.ArrayLike | None = None,
    transitions: npt.ArrayLike | None = None,
    model: Model | None = None,
    length: int = 1,
) -> Channel:
    """The channel that answers a symbol of a sequence with the least expected distance, as ``tidegate channel`` does.

    An observer who expects the symbol with the probabilities of ``prior`` learns at most ``epsilon`` from the answer.
    ``distance`` is ``hamming``, ``absolute``, ``squared``, or a matrix with a row for each symbol. With a ``model``, or
    with ``transitions`` (row x has the probability of each symbol after x), the channel is that of the first batch of
    ``length`` symbols, whose symbols and answers are sequences; epsilon is for the whole batch.

    >>> import tidegate as tg
    >>> found = tg.channel([0.5, 0.3, 0.2], epsilon="0.5")
    >>> found.matrix.shape, found.leakage <= 0.5 + 1e-9
    ((3, 3), True)
    """
    if model is not None and (prior is not None or transitions is not None):
        raise BadSpec("model: it has a prior and transitions; leave those out")
    if transitions is not None:
        if prior is None:
            raise BadSpec("transitions: a prior is needed, too")
        model = Model.of(prior, transitions)
        prior = None
    elif prior is None and model is None:
        raise BadSpec("prior: expected the probability of each symbol, or a model")
    if length != 1 and model is None:
        raise BadSpec("length: a batch needs a model, or transitions")
    rows = None if distance is None or isinstance(distance, str) else np.asarray(distance, dtype=object)
    options = keywords(
        prior=None if prior is None else np.asarray(prior, dtype=object),
        epsilon=epsilon,
        distance=distance if isinstance(distance, str) else None,
        matrix=rows,
        length=length,
    )
    arrays, numbers, name, text_json, text = _tidegate.channel(options, None if model is None else model._native)
    weights, matrix, output = arrays
    reached, leakage, cost, loss = numbers
    return Channel(matrix, weights, output, reached, leakage, cost, loss, name, text_json, text)
