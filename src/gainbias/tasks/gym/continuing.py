"""From environments with episodes to processes that never end.

`continuing` follows a policy in a table and joins its episodes; `ergodic` gives every transition a small
chance, as the paper does; `from_gymnasium` and `gymnasium_table` read the tables that Gymnasium's
environments carry. Gymnasium is imported when a function is called: it is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from gainbias.model.checks import CsrArray, float_csr, probability_csr
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.suggest import alike
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
        What to do with an end in a state where episodes also start or go on, so that the state alone does
        not tell. ``"split"`` gives such ends states of their own, numbered last and labelled
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
    begin = start.size  # a node of the graph beside the states
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
    """Return the policy as probabilities, shape (n, A); what is no policy is refused."""
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
            "the process comes from rates, and a chance per step is no rate: add the rates of the missing "
            "transitions to the generator instead"
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


HARMLESS_WRAPPERS = {
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RenderCollection",
    "TimeLimit",
}
"""They change neither transitions nor rewards; a time limit is no end of an episode."""

EXTRAS = {"gymnasium": "gym", "mo_gymnasium": "mo"}


def from_gymnasium(
    env_or_id: Any,
    policy: Policy,
    *,
    states: States = "reachable",
    endings: Endings = "split",
) -> MarkovRewardProcess:
    """Return the process of a policy in a Gymnasium environment that has a table of its transitions.

    After the end of an episode the next one starts: a terminal state leads to the start distribution with
    reward 0 (see `continuing`). Time limits are no ends.

    Parameters
    ----------
    env_or_id : gymnasium.Env or str
        An environment with the attributes ``P`` and ``initial_state_distrib``, as those of
        `gymnasium.envs.toy_text`, or its id. An id without a version means the newest one, as in Gymnasium.
    policy : array_like of int, shape (n,), array_like, shape (n, A), or callable
        The action in each state of the table, the probability of each action, or a function from an
        observation to an action.
    states : {"reachable", "visited", "all"}
        Keep the states that some policy can reach from the start, those that this policy reaches, or every
        state of the table.
    endings : {"split", "restart"}
        What to do with an end in a state where episodes also start or go on (see `continuing`).

    Returns
    -------
    MarkovRewardProcess
        Labelled by the observations.

    Examples
    --------
    >>> import numpy as np
    >>> import gainbias as gb
    >>> lake = gb.from_gymnasium("FrozenLake-v1", np.full((16, 4), 0.25))
    >>> lake.num_states, round(gb.solve(lake).gain, 6)
    (16, 0.001607)
    """
    return continuing(_read(env_or_id), policy, states=states, endings=endings)


def gymnasium_table(env_or_id: Any) -> TransitionTable:
    """Read the table of transitions that a Gymnasium environment carries.

    Parameters
    ----------
    env_or_id : gymnasium.Env or str
        As in `from_gymnasium`.

    Returns
    -------
    TransitionTable

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.gymnasium_table("CliffWalking-v1")
    TransitionTable(48 states, 4 actions, 192 outcomes)
    """
    return _read(env_or_id)


def _read(env_or_id: Any) -> TransitionTable:
    gymnasium = optional("gymnasium")
    if not isinstance(env_or_id, str):
        return _table_of(gymnasium, env_or_id)
    name = installed_id(env_or_id)
    env = gymnasium.make(name)
    try:
        return _table_of(gymnasium, env)
    finally:
        env.close()


def optional(module: str) -> Any:
    """Import an optional module, or say which extra has it."""
    try:
        return import_module(module)
    except ImportError as error:
        extra = EXTRAS[module]
        raise ImportError(
            f"this needs {module.replace('_', '-')}, which is not installed: pip install 'gainbias[{extra}]'"
        ) from error


def installed_id(wanted: str) -> str:
    """Return an id that Gymnasium has; one without a version means the newest version, as in Gymnasium.

    Parameters
    ----------
    wanted : str
        ``NAME-vN``, ``NAME``, or ``MODULE:`` and one of these, where importing the module registers it.

    Raises
    ------
    ValueError
        If there is no such environment, or no such version of it.

    Examples
    --------
    >>> installed_id("FrozenLake-v1"), installed_id("FrozenLake")
    ('FrozenLake-v1', 'FrozenLake-v1')
    """
    module, colon, name = wanted.rpartition(":")
    if colon:
        _import_for(wanted, module)
        return f"{module}:{installed_id(name)}"
    registry = optional("gymnasium").registry
    if wanted in registry:
        return wanted
    versions = _versions(wanted)
    if versions:
        return versions[-1]
    raise ValueError(
        f"gymnasium {metadata.version('gymnasium')} has no environment {wanted!r}{_what_there_is(wanted)}"
    )


def _import_for(wanted: str, module: str) -> None:
    try:
        import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise ValueError(
            f"{wanted!r} names a module that registers the environment, and {module!r} cannot be imported: "
            f"{error}"
        ) from error


def _versions(stem: str) -> list[str]:
    """Return the ids of an environment without a version, the newest last."""
    registry = optional("gymnasium").registry
    found = {spec.version: name for name, spec in registry.items() if name == f"{stem}-v{spec.version}"}
    return [found[version] for version in sorted(found)]


def _what_there_is(wanted: str) -> str:
    """Return which ids may have been meant, as the rest of a sentence."""
    registry = optional("gymnasium").registry
    head, _, version = wanted.rpartition("-v")
    others = _versions(head) if version.isdecimal() else []
    if others:
        return f", only {', '.join(others)}: say which version is meant, or {head!r} for the newest"
    near = alike(wanted, map(str, registry))
    space, slash, _ = wanted.partition("/")
    if slash and not any(str(name).startswith(f"{space}/") for name in registry):
        return (
            f": nothing is registered under {space}/: import the package that does it, or say "
            f"'PACKAGE:{wanted}'"
        ) + (f". Near it are {', '.join(near)}" if near else "")
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def _table_of(gymnasium: Any, env: Any) -> TransitionTable:
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            f"env_or_id must be a gymnasium environment or its id, found {type(env).__name__}: vector "
            "environments and those of gym have no model that could be read"
        )
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ not in HARMLESS_WRAPPERS:
            raise ValueError(
                f"the wrapper {type(layer).__name__} may change transitions or rewards, which the table of "
                "the environment does not know: pass env.unwrapped if you mean the environment without it"
            )
        layer = layer.env
    base = env.unwrapped
    for attribute in ("P", "initial_state_distrib"):
        if not hasattr(base, attribute):
            raise ValueError(
                f"{type(base).__name__} has no attribute {attribute!r}, so its model cannot be read: that "
                "works for FrozenLake, CliffWalking, Taxi and environments that are written like them"
            )
    if getattr(base, "fickle_passenger", False):
        raise ValueError("with fickle_passenger=True the steps of Taxi do not follow its table P")
    return TransitionTable(base.P, base.initial_state_distrib)
