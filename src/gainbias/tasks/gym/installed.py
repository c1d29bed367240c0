"""The installed Gymnasium: its ids, and the tables in its environments.

`from_gymnasium` makes a process of such a table and a policy, `gymnasium_table` reads the table alone.
Gymnasium is imported when a function is called: it is an optional dependency. A module that imports this
one depends on the version of Gymnasium, so those that do not need it import `continuing` instead.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from gainbias.extras import optional
from gainbias.model.process import MarkovRewardProcess
from gainbias.suggest import alike
from gainbias.tasks.gym.continuing import Endings, Policy, States, continuing
from gainbias.tasks.gym.table import TransitionTable

HARMLESS_WRAPPERS = {
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RenderCollection",
    "TimeLimit",
}
"""They change neither transitions nor rewards; a time limit is not an end of an episode."""


def from_gymnasium(
    env_or_id: Any,
    policy: Policy,
    *,
    states: States = "reachable",
    endings: Endings = "split",
) -> MarkovRewardProcess:
    """Return the process of a policy in a Gymnasium environment that has a table of its transitions.

    After the end of an episode the next one starts: a terminal state leads to the start distribution with
    reward 0 (see `continuing`). Time limits are not ends.

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
        What to do with an end in a state where episodes also start or continue (see `continuing`).

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
    return continuing(gymnasium_table(env_or_id), policy, states=states, endings=endings)


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
    gymnasium = optional("gymnasium")
    if not isinstance(env_or_id, str):
        return _table_of(gymnasium, env_or_id)
    name = installed_id(env_or_id)
    env = gymnasium.make(name)
    try:
        return _table_of(gymnasium, env)
    finally:
        env.close()


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
    """Return the ids that may have been meant, as the rest of a sentence."""
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
        ) + (f". Similar ids are {', '.join(near)}" if near else "")
    if near:
        return f": did you mean {' or '.join(map(repr, near))}?"
    return ": an environment of your own is given as its class, on the command line as MODULE:NAME"


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
