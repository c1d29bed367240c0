"""From environments with episodes to processes that never end.

`continuing` follows a policy in a table and joins its episodes; `ergodic` gives every transition a small
chance, as the paper does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from gainbias.model.checks import CsrArray, float_csr, probability_csr
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.tasks.gym.table import TransitionTable
from gainbias.tasks.task import as_number
from gainbias.types import Floats, Ints

States: TypeAlias = Literal["reachable", "visited", "all"]
Endings: TypeAlias = Literal["split", "restart"]
Policy: TypeAlias = "ArrayLike | Callable[[Any], int]"

MOST_RESTARTS = 20_000_000
"""Every terminal state leads to every start state: more transitions than this are refused."""


def continuing(
    table: TransitionTable,
    policy: Policy,
    *,
    states: States = "reachable",
    endings: Endings = "split",
) -> MarkovRewardProcess:
    """Follow a policy in a table, starting the next episode after each end.

    A terminal state leads to a state drawn from the start distribution, with reward 0, so every episode has
    one step more than in the table. Only `terminated` outcomes end an episode; time limits do not.

    Parameters
    ----------
    table : TransitionTable
        With rewards that are numbers (see `scalarise`).
    policy : array_like of int, shape (n,), array_like, shape (n, A), or callable
        The action in each state of the table, the probability of each action, or a function from a label of
        the table (Gymnasium's observation) to an action.
    states : {"reachable", "visited", "all"}
        Keep the states that some policy can reach from the start, those that this policy reaches, or every
        state of the table.
    endings : {"split", "restart"}
        What to do with an end in a state where episodes also start or continue, so that the state alone
        does not tell. ``"split"`` gives such ends new states, numbered last and labelled
        ``("ended", label)``. ``"restart"`` keeps the states of the table: the step that ends the episode
        leads to the start distribution at once.

    Returns
    -------
    MarkovRewardProcess
        Sparse, with rewards of transitions, labelled by the labels of the table. It need not be ergodic (see
        `ergodic`).

    Examples
    --------
    >>> import gainbias as gb
    >>> walk = gb.TransitionTable({0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 2, 6.0, True)]},
    ...                            2: {0: [(1.0, 2, 0.0, True)]}}, start=[1.0, 0.0, 0.0])
    >>> process = gb.continuing(walk, policy=[0, 0, 0])
    >>> process.transitions.toarray(), gb.solve(process).gain
    (array([[0., 1., 0.],
           [0., 0., 1.],
           [1., 0., 0.]]), 2.0)
    """
    _check_choices(table, states, endings)
    size = table.num_states
    probabilities = _action_probabilities(policy, table)
    every = _moves_of(table)
    if states == "visited":
        every = every.only(probabilities[every.source, every.action] > 0.0)
    reached, terminal = _reached_and_terminal(every, table.start)
    keep = np.ones(size, dtype=np.bool_) if states == "all" else reached | terminal
    moves = every.only((keep & ~terminal)[every.source])
    shared = moves.ended & ~terminal[moves.target]
    split = np.unique(moves.target[shared]) if endings == "split" else np.empty(0, dtype=np.int64)
    restarts = np.concatenate([np.flatnonzero(terminal), size + np.arange(split.size)])
    if endings == "split":
        moves.target[shared] = size + np.searchsorted(split, moves.target[shared])
        parts = [moves]
    else:
        parts = [moves.only(~shared), moves.only(shared).to_start(table.start)]
    parts.append(_returns(restarts).to_start(table.start))
    kept = np.concatenate([np.flatnonzero(keep), size + np.arange(split.size)])
    labels = [table.labels[state] for state in np.flatnonzero(keep)]
    labels += [("ended", table.labels[state]) for state in split]
    kernel, rewards = _matrices(parts, kept, table.num_actions)
    chosen = probabilities[np.minimum(kept, size - 1)]
    chosen[np.isin(kept, restarts)] = np.eye(table.num_actions)[0]
    return MarkovRewardProcess.from_mdp(kernel, rewards, chosen, labels)


def _reached_and_terminal(moves: _Moves, start: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which states episodes pass through, and which only end them, each of shape (n,).

    Only what can be reached from the start counts: a table may have entries for states in which its
    environment never is.
    """
    begin = start.size  # a node of the graph in addition to the states
    going = moves.only(~moves.ended)
    firsts = np.flatnonzero(start)
    rows = np.concatenate([going.source, np.full(firsts.size, begin)])
    columns = np.concatenate([going.target, firsts])
    graph = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(begin + 1, begin + 1))
    order = sparse.csgraph.breadth_first_order(graph, begin, return_predecessors=False)
    reached = np.isin(np.arange(begin), order)
    ends = moves.target[moves.ended & reached[moves.source]]
    return reached, np.isin(np.arange(begin), ends) & ~reached


class _Moves(NamedTuple):
    """Transitions of a table or a chain, as columns of shape (m,)."""

    source: Ints
    action: Ints
    target: Ints
    probability: Floats
    reward: Floats
    ended: NDArray[np.bool_]

    def only(self, chosen: NDArray[np.bool_]) -> _Moves:
        return _Moves._make(part[chosen] for part in self)

    def to_start(self, start: Floats) -> _Moves:
        """Return the same moves, each led to a state drawn from `start` instead."""
        begins = np.flatnonzero(start)
        if self.source.size * begins.size > MOST_RESTARTS:
            raise ValueError(
                f"{self.source.size} ends lead to {begins.size} start states each, more than "
                f"{MOST_RESTARTS} transitions: start in fewer states"
            )
        repeated = _Moves._make(np.repeat(part, begins.size) for part in self)
        return repeated._replace(
            target=np.tile(begins, self.source.size),
            probability=repeated.probability * np.tile(start[begins], self.source.size),
        )


def _moves_of(table: TransitionTable) -> _Moves:
    actions = table.pairs % table.num_actions
    return _Moves(table.states, actions, table.successors, table.probabilities, table.rewards, table.ended)


def _returns(restarts: Ints) -> _Moves:
    """Return the step with reward 0 from each terminal state, by action 0; its target is still open."""
    zeros = np.zeros(restarts.size, dtype=np.int64)
    ones = np.ones(restarts.size)
    return _Moves(restarts, zeros, zeros, ones, 0.0 * ones, ones > 0.0)


def _matrices(parts: list[_Moves], kept: Ints, num_actions: int) -> tuple[list[CsrArray], list[CsrArray]]:
    """Return, for each action, the kernel between kept states and the mean rewards of its entries."""
    moves = _Moves._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    place = np.full(int(kept.max()) + 1, -1)
    place[kept] = np.arange(kept.size)
    kernel, rewards = [], []
    for action in range(num_actions):
        taken = moves.only(moves.action == action)
        places = place[taken.source], place[taken.target]
        shape = (kept.size, kept.size)
        probability: CsrArray = sparse.csr_array((taken.probability, places), shape=shape)
        earned: CsrArray = sparse.csr_array((taken.probability * taken.reward, places), shape=shape)
        for matrix in (probability, earned):  # the same entries in both, so that they divide
            matrix.sum_duplicates()
        earned.data /= probability.data
        kernel.append(probability)
        rewards.append(earned)
    return kernel, rewards


def _action_probabilities(policy: Policy, table: TransitionTable) -> Floats:
    """Return the policy as probabilities, shape (n, A); refuse anything else."""
    given = np.asarray([policy(label) for label in table.labels] if callable(policy) else policy)
    if given.shape == (table.num_states, table.num_actions):
        return probability_csr(float_csr(given, "policy"), lambda row: f"row {row} of policy").toarray()
    if given.shape != (table.num_states,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"policy must be integers of shape ({table.num_states},), an action for each state of the "
            f"table, or have shape ({table.num_states}, {table.num_actions}), the probability of each "
            f"action in each state, found shape {given.shape} and dtype {given.dtype}"
        )
    wrong = np.flatnonzero((given < 0) | (given >= table.num_actions))
    if wrong.size:
        raise ValueError(
            f"the policy takes action {given[wrong[0]]} in state {wrong[0]}, actions must be between 0 and "
            f"{table.num_actions - 1}"
        )
    return np.asarray(np.eye(table.num_actions)[given])


def _check_choices(table: TransitionTable, states: str, endings: str) -> None:
    if table.rewards.ndim != 1:
        raise ValueError(
            f"the rewards of the table are vectors of length {table.rewards.shape[1]}: choose weights with "
            "gb.scalarise first"
        )
    if states not in ("reachable", "visited", "all"):
        raise ValueError(f"states must be 'reachable', 'visited' or 'all', found {states!r}")
    if endings not in ("split", "restart"):
        raise ValueError(f"endings must be 'split' or 'restart', found {endings!r}")


MOST_SMOOTHED_STATES = 5_000
"""The result has every transition: for a sparse process of more states than this it is refused."""


def ergodic(mrp: MarkovRewardProcess, epsilon: float) -> MarkovRewardProcess:
    """Give every transition a positive probability, as the paper does.

    In each row the entries that are 0 share `epsilon` equally and the others are multiplied by
    ``1 - epsilon``: for ``epsilon = 0.1``, [0, 0, 1, 0, 0] becomes [0.025, 0.025, 0.9, 0.025, 0.025]. A row
    without zeros stays as it is. The expected rewards R(s) stay too: they are those of the process before.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        A process with at most 5,000 states if it is sparse, because the result is dense.
    epsilon : float
        At least 0 and below 1; 0 changes nothing.

    Returns
    -------
    MarkovRewardProcess
        Dense, ergodic unless `epsilon` is 0.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.ergodic(gb.MarkovRewardProcess([[0.0, 1.0], [0.5, 0.5]], [1.0, 0.0]), 0.1).transitions
    array([[0.1, 0.9],
           [0.5, 0.5]])
    """
    epsilon = as_number(epsilon, "epsilon", at_least=0.0, below=1.0)
    refuse_durations(mrp, "ergodic")
    if mrp.rate is not None:
        raise ValueError(
            "the process comes from rates, and a probability per step is not a rate: add the rates of the "
            "missing transitions to the generator instead"
        )
    if epsilon == 0.0:
        return mrp
    if sparse.issparse(mrp.transitions) and mrp.num_states > MOST_SMOOTHED_STATES:
        raise ValueError(
            f"the result would have all {mrp.num_states} x {mrp.num_states} transitions, and the process is "
            f"sparse: at most {MOST_SMOOTHED_STATES} states are filled up. A few transitions may be enough "
            "to make the process ergodic: add them yourself, or pass dense transitions if you have the memory"
        )
    chain = mrp.csr.toarray()
    zeros = chain == 0.0
    missing = zeros.sum(axis=1, keepdims=True)
    share = epsilon / np.maximum(missing, 1)
    scale = np.where(missing > 0, 1.0 - epsilon, 1.0)
    return MarkovRewardProcess(np.where(zeros, share, scale * chain), mrp.rewards, mrp.labels)
