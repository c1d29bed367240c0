"""Places of the states of a task on its map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gainbias.tasks.task import Task
from gainbias.types import Floats, Ints

MAP_GRIDS = {
    "frozen-lake": (4, 4),
    "cliff-walking": (4, 12),
    "grid-world-5x5": (5, 5),
    "grid-world-10x10": (10, 10),
    "grid-world-2x11": (2, 11),
    "taxi": (5, 5, 5, 4),
    "resource-gathering": (5, 5, 2, 2),
}
"""Rows and columns of the map, and what else a state has."""

PANELS = {
    "taxi": {
        (0, 2): "passenger at R, wants to Y",
        (1, 2): "at G, wants to Y",
        (3, 2): "at B, wants to Y",
        (4, 2): "in the taxi, wants to Y",
    },
    "resource-gathering": {
        (0, 0): "nothing yet",
        (1, 0): "holds gold",
        (0, 1): "holds gem",
        (1, 1): "holds both",
    },
}
"""Maps that are drawn of a task whose states have more than a place, by what else they have."""


@dataclass(frozen=True, eq=False)
class Places:
    """The map of a task.

    Attributes
    ----------
    titles : sequence of str
        Of the panels; a map that needs no words has one panel with an empty title.
    panels, rows, columns : (n,) int arrays
        Where each state is; the panel is -1 for states that are not drawn.
    """

    titles: Sequence[str]
    panels: Ints
    rows: Ints
    columns: Ints

    def spread(self, values: Floats) -> list[Floats]:
        """Return values of the states as one (rows, columns) array for each panel, NaN where no state is."""
        cells = np.full((len(self.titles), self.rows.max() + 1, self.columns.max() + 1), np.nan)
        drawn = self.panels >= 0
        cells[self.panels[drawn], self.rows[drawn], self.columns[drawn]] = values[drawn]
        return list(cells)


NOWHERE = Places([""], *np.zeros((3, 0), dtype=np.int64))
"""The map of a task whose states have no places."""


def places_of(task: Task) -> Places | None:
    """Return where the states of a task are, or None if they have no places.

    Examples
    --------
    >>> import gainbias as gb
    >>> places_of(gb.task("grid-world-2x11")).columns[-1]
    np.int64(10)
    >>> places_of(gb.task("two-loop")) is None
    True
    """
    count = task.problem.mrp.num_states
    if task.name.startswith("deep-sea"):
        rows, columns = np.array(task.problem.mrp.labels, dtype=np.int64).T
        return Places([""], np.zeros(count, dtype=np.int64), rows, columns)
    shape = MAP_GRIDS.get(task.name, (0,))
    if count != np.prod(shape):
        return None
    rows, columns, *others = np.unravel_index(np.arange(count), shape)
    titles = PANELS.get(task.name, {(): ""})
    panels = np.full(count, -1, dtype=np.int64)
    for number, held in enumerate(titles):
        panels[np.all([entry == part for entry, part in zip(others, held, strict=True)], axis=0)] = number
    return Places(list(titles.values()), panels, rows, columns)
