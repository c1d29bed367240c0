"""The entries of sparse and tabular rows inside kernels, one by one, so that a loop over them serves both."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.features.rows import Rows, SparseRows, TabularRows
from gainbias.kernels import ByType


@ByType
def places_of(rows: Rows, here: int) -> tuple[int, int]:
    """Return the place of the first entry of a row, and the place behind its last one."""
    raise TypeError("declared for sparse and tabular rows")


@places_of.of(SparseRows)
def _places_of_sparse(rows: SparseRows, here: int) -> tuple[int, int]:
    return rows.start[here], rows.start[here + 1]


@places_of.of(TabularRows)
def _places_of_tabular(rows: TabularRows, here: int) -> tuple[int, int]:
    return here, here + 1


@ByType
def entry_at(rows: Rows, place: int) -> tuple[Any, float]:
    """Return the feature and the number of an entry."""
    raise TypeError("declared for sparse and tabular rows")


@entry_at.of(SparseRows)
def _entry_at_sparse(rows: SparseRows, place: int) -> tuple[Any, float]:
    # One type of integers for all: what is called with it need not be compiled for another.
    return np.int64(rows.column[place]), rows.entry[place]


@entry_at.of(TabularRows)
def _entry_at_tabular(rows: TabularRows, place: int) -> tuple[int, float]:
    return place, 1.0
