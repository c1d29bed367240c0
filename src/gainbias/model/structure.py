"""The structure of a chain: its classes, transient states and periods, all in linear time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse import csgraph

from gainbias.kernels import is_large, kernel
from gainbias.model.checks import CsrArray
from gainbias.notebook import InNotebooks
from gainbias.types import Ints


@dataclass(frozen=True, eq=False)
class Structure(InNotebooks):
    """The classes of a chain: which states reach each other, and which are visited forever.

    Classes are numbered by their smallest state, so the numbers do not depend on the algorithm.

    Attributes
    ----------
    num_classes : int
        Number of communicating classes.
    class_of : int ndarray, shape (n,)
        The class of each state.
    recurrent : tuple of int ndarray
        The states of each recurrent (closed) class, ascending; classes in the order of their smallest state.
    transient : int ndarray
        The states outside every recurrent class, ascending.
    """

    num_classes: int
    class_of: NDArray[np.intp]
    recurrent: tuple[NDArray[np.intp], ...]
    transient: NDArray[np.intp]

    def describe_recurrent(self, most: int = 3) -> str:
        """Return the recurrent classes in words, for a message, with the states of at most `most` of them.

        Examples
        --------
        >>> import numpy as np, scipy.sparse as sparse
        >>> find_structure(sparse.csr_array(np.eye(2))).describe_recurrent()
        '2 recurrent classes: {0}, {1}'
        """
        shown = [_set_of_states(states) for states in self.recurrent[:most]]
        more = [f"and {len(self.recurrent) - most} more"] if len(self.recurrent) > most else []
        noun = "class" if len(self.recurrent) == 1 else "classes"
        return f"{len(self.recurrent)} recurrent {noun}: {', '.join(shown + more)}"


def find_structure(csr: CsrArray) -> Structure:
    """Return the classes of the chain with transition matrix `csr`.

    Parameters
    ----------
    csr : scipy.sparse.csr_array, shape (n, n)
        Transition probabilities without stored zeros.

    Returns
    -------
    Structure

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sparse
    >>> structure = find_structure(sparse.csr_array(np.array([[0.5, 0.5], [0.0, 1.0]])))
    >>> structure.num_classes, structure.recurrent, structure.transient
    (2, (array([1]),), array([0]))
    """
    num_classes, labels = csgraph.connected_components(csr, directed=True, connection="strong")
    recurrent: tuple[NDArray[np.intp], ...]
    if num_classes == 1:
        class_of, transient = np.zeros(labels.size, np.intp), np.empty(0, np.intp)
        recurrent = (np.arange(labels.size),)
    else:
        class_of = _numbered_by_smallest_state(labels, num_classes)
        class_of_row = np.repeat(class_of, np.diff(csr.indptr))
        is_open = np.zeros(num_classes, dtype=bool)
        is_open[class_of_row[class_of_row != class_of[csr.indices]]] = True
        is_transient = is_open[class_of]
        recurrent_states = np.flatnonzero(~is_transient)
        by_class = recurrent_states[np.argsort(class_of[recurrent_states], kind="stable")]
        sizes = np.bincount(class_of, minlength=num_classes)[~is_open]
        ends = np.cumsum(sizes)
        recurrent = tuple(by_class[end - size : end] for size, end in zip(sizes, ends, strict=True))
        transient = np.flatnonzero(is_transient)
    for array in (class_of, transient, *recurrent):
        array.flags.writeable = False
    return Structure(int(num_classes), class_of, recurrent, transient)


def class_periods(csr: CsrArray, structure: Structure) -> NDArray[np.int64]:
    """Return the period of each recurrent class.

    With d(s) the depth of state s in a spanning tree of its class, the period is the greatest common
    divisor of d(s) + 1 - d(s') over all transitions s -> s' of the class.

    Parameters
    ----------
    csr : scipy.sparse.csr_array, shape (n, n)
        Transition probabilities without stored zeros.
    structure : Structure
        The classes of this chain.

    Returns
    -------
    int ndarray, shape (number of recurrent classes,)

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sparse
    >>> cycle = sparse.csr_array(np.roll(np.eye(3), 1, axis=1))
    >>> class_periods(cycle, find_structure(cycle))
    array([3])
    """
    if is_large(csr.shape[0]):
        return search_periods(csr.indptr, csr.indices, np.array([block[0] for block in structure.recurrent]))
    states = np.concatenate(structure.recurrent)
    sizes = np.array([block.size for block in structure.recurrent])
    roots = np.cumsum(sizes) - sizes

    position = np.full(csr.shape[0], -1, dtype=csr.indices.dtype)
    position[states] = np.arange(states.size)
    rows = csr if np.array_equal(states, np.arange(csr.shape[0])) else csr[states]
    successors = position[rows.indices]  # never -1, because the classes are closed

    depth = _tree_depths(rows.indptr, successors, roots)
    differences = np.repeat(depth, np.diff(rows.indptr)) + 1 - depth[successors]
    return np.gcd.reduceat(np.abs(differences), rows.indptr[roots])


@kernel
def search_periods(indptr: Ints, indices: Ints, roots: Ints) -> Ints:
    """Return the period of each recurrent class, given one state of each.

    A search stops as soon as the transitions that it has seen have no common divisor.
    """
    depth = np.full(len(indptr) - 1, -1, np.int64)
    queue = np.empty(len(indptr) - 1, np.int64)
    periods = np.zeros(len(roots), np.int64)
    for c in range(len(roots)):
        queue[0], depth[roots[c]] = roots[c], 0
        begin, end, period = 0, 1, 0
        while begin < end and period != 1:
            state = queue[begin]
            begin += 1
            for entry in range(indptr[state], indptr[state + 1]):
                target = indices[entry]
                if depth[target] < 0:
                    depth[target] = depth[state] + 1
                    queue[end] = target
                    end += 1
                else:
                    other = abs(depth[state] + 1 - depth[target])
                    while other != 0:
                        period, other = other, period % other
        periods[c] = period
    return periods


def _numbered_by_smallest_state(labels: NDArray[np.int32], num_classes: int) -> NDArray[np.intp]:
    smallest = np.empty(num_classes, dtype=np.intp)
    smallest[labels[::-1]] = np.arange(labels.size)[::-1]  # the last write wins: the smallest state
    number = np.empty(num_classes, dtype=np.intp)
    number[np.argsort(smallest)] = np.arange(num_classes)
    return number[labels]


def _tree_depths(
    indptr: NDArray[np.integer], successors: NDArray[np.integer], roots: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return the depth of each state in a breadth-first forest grown from `roots`.

    An extra state that leads to all roots turns the forest into one tree, so that one search is enough
    however many classes there are. Depths follow from the parents by pointer jumping, in log2(depth) passes.
    """
    source = indptr.size - 1
    forest = sparse.csr_array(
        (
            np.ones(successors.size + roots.size),
            np.concatenate([successors, roots]).astype(np.int32),
            np.append(indptr, indptr[-1] + roots.size).astype(np.int32),
        ),
        shape=(source + 1, source + 1),
    )
    _, parent = csgraph.breadth_first_order(forest, source, directed=True, return_predecessors=True)
    parent[source] = source
    depth = np.ones(source + 1, dtype=np.int64)
    depth[source] = 0
    ancestor = parent
    while np.any(ancestor != source):
        depth += depth[ancestor]
        ancestor = ancestor[ancestor]
    return depth[:source]


def _set_of_states(states: NDArray[np.intp], most: int = 5) -> str:
    shown = ", ".join(str(state) for state in states[:most])
    return f"{{{shown}, ... {states.size} states}}" if states.size > most else f"{{{shown}}}"
