"""The records that the kernels of the elimination take."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from gainbias.model.checks import FloatArray

Floats = FloatArray

# Index arrays: 32 bits where the size allows, 64 bits for offsets.
Ints = NDArray[Any]


class Sparse(NamedTuple):
    """A sparse matrix by rows: the entries of row i are at ``indptr[i]`` to ``indptr[i + 1] - 1``."""

    indptr: Ints
    indices: Ints
    data: Floats


class Fronts(NamedTuple):
    """The dense blocks of an elimination, children before parents.

    Attributes
    ----------
    order, position : (n,) int arrays
        The state at each position of the elimination, and the position of each state.
    first : (fronts + 1,) int array
        Front f eliminates the positions ``first[f]`` to ``first[f + 1] - 1``.
    start, boundary : (fronts + 1,) and (..) int arrays
        ``boundary[start[f]:start[f + 1]]`` are the later positions that front f touches, ascending.
    num_children : (fronts,) int array
        How many fronts hand what is left of them to front f.
    offset : (fronts + 1,) int array
        Where the factors of front f are kept.
    """

    order: Ints
    position: Ints
    first: Ints
    start: Ints
    boundary: Ints
    num_children: Ints
    offset: Ints
