"""Which columns a log has, and what each means: a `Table` and the roles of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from numpy.typing import NDArray

from gainbias.suggest import did_you_mean, did_you_mean_or_known

Chunk: TypeAlias = dict[str, NDArray[Any]]
"""Some rows of all columns, under the names of their roles: "state", "reward" and so on."""

USUAL_NAMES = {
    "state": ("state", "observation", "obs"),
    "reward": ("reward",),
    "next": ("next", "next_state", "next_observation", "next_obs"),
    "episode": ("episode", "episode_id", "trajectory", "trajectory_id"),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
    "step": ("step",),
    "time": (),
    "duration": (),
    "reward_rate": (),
    "action": (),
    "chance": (),
}
"""Names under which a column is found automatically, for each role."""

COLUMN_KINDS = {
    "state": "iufb",
    "next": "iufb",
    "reward": "iufb",
    "reward_rate": "iufb",
    "terminated": "b",
    "truncated": "b",
    "step": "iuf",
    "action": "iufb",
    "chance": "iuf",
}
"""Kinds of NumPy's dtypes that a column may have, for each role; 0 and 1 are true and false too."""

OWN_ARGUMENTS = ("state", "reward", "reward_rate", "time", "duration", "action", "behaviour")
"""Roles of columns that are arguments of `evaluate_log` themselves."""

NAMES_OF_ENDS = ("done", "dones", "terminal", "terminals", "timeout", "timeouts")
"""Columns with these names may mark ends or cuts of episodes; their names do not say which."""

INDEX = "(index)"
"""In place of the name of a column: the index of a pandas table."""

Name: TypeAlias = "str | tuple[str, ...]"
"""A column, or columns that make up vectors together."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a log other than state and reward, for `evaluate_log`.

    Parameters
    ----------
    next_state : str or tuple of str, optional
        State to which the step of a row led; several columns if a state has several numbers.
    episode : str, optional
        A new value begins an episode. An episode does not come back.
    terminated : str, optional
        Whether the step of a row ended its episode.
    truncated : str, optional
        Whether the episode was cut off after the step of a row, without an end.
    step : str, optional
        Number of the step, which grows by 1 within an episode.

    Examples
    --------
    >>> import gainbias as gb
    >>> log = {"state": [0, 1] * 4, "reward": [1.0, 3.0] * 4, "run": [1] * 4 + [2] * 4}
    >>> gb.evaluate_log(log, columns=gb.Columns(episode="run")).diagnostics.num_transitions
    6

    A dictionary says the same:

    >>> gb.evaluate_log(log, columns={"episode": "run"}).diagnostics.num_transitions
    6
    """

    next_state: Name | None = None
    episode: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    step: str | None = None


def as_columns(given: Columns | Mapping[str, Name] | None) -> Columns:
    """Return the columns, which were given as a record, as a mapping or not at all."""
    if given is None or isinstance(given, Columns):
        return given or Columns()
    if not isinstance(given, Mapping):
        raise ValueError(f"columns must be a mapping or gainbias.Columns, found {given!r}")
    for role in given:
        if role in OWN_ARGUMENTS:
            raise ValueError(f"{role} is an argument of its own: leave it out of columns, and say {role}=...")
        known = [one.name for one in fields(Columns)]
        if role not in known:
            raise ValueError(f"columns: unknown key {role!r}: {did_you_mean_or_known(role, known)}")
    chosen: Any = dict(given)
    return Columns(**chosen)


def argument(role: str, name: str) -> str:
    """Return the argument of `evaluate_log` that says which column has a role.

    Examples
    --------
    >>> argument("reward", "'earned'"), argument("episode", "'run'")
    ("reward='earned'", "columns={'episode': 'run'}")
    """
    return f"{role}={name}" if role in OWN_ARGUMENTS else f"columns={{{role!r}: {name}}}"


@dataclass(frozen=True, eq=False)
class Table:
    """A log that can be read.

    Attributes
    ----------
    chunks : callable
        From names of columns for each role to chunks of rows, in their order. It may be called again.
    names : list of str
        All columns.
    times : list of str
        Columns and index levels that by their type have dates, times or durations.
    index : list of str
        Levels of the index of a pandas table, which are read like columns; `INDEX` if it has no name.
    zoned : list of str
        Those of `times` that have a time zone. They are read in universal time.
    fits : callable
        Whether a column, given its name, has a number or a text for each row of another one. True and
        false do not count as numbers here.
    notes : list of str
        How the source was changed before it could be read, in words.
    dated : list of str
        Columns of texts or objects, in memory, that begin with a date or a duration.
    counting : str
        How rows are counted, to say after the number of one that is wrong.
    """

    chunks: Callable[[dict[str, Name]], Iterator[Chunk]]
    names: list[str]
    times: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    fits: Callable[[str, Name], bool] = lambda name, other: True
    zoned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dated: list[str] = field(default_factory=list)
    counting: str = ""

    def is_zoned(self, name: str) -> bool | None:
        """Whether a column has a time zone; None if its type does not tell."""
        return name in self.zoned if name in self.times else None


def chosen_columns(names: list[str], given: Mapping[str, Name | None]) -> dict[str, Name]:
    """Return the name of the column for each role that has one.

    Examples
    --------
    >>> chosen_columns(["x", "observation", "reward"], {"state": None, "episode": None, "reward": None})
    {'state': 'observation', 'reward': 'reward'}
    """
    chosen: dict[str, Name] = {}
    for role, name in given.items():
        if name is not None:
            name = name if isinstance(name, str) else tuple(name)
            missing = [part for part in ((name,) if isinstance(name, str) else name) if part not in names]
            if missing:
                raise ValueError(no_column(missing[0], names))
            chosen[role] = name
        else:
            found = [usual for usual in USUAL_NAMES[role] if usual in names]
            if len(found) > 1:
                own = "next_state" if role == "next" else role
                raise ValueError(
                    f"columns {', '.join(found)} may all be the {role}: say {argument(own, '...')} which is"
                )
            if found:
                chosen[role] = found[0]
            elif role in ("state", "reward"):
                raise ValueError(
                    f"the log has no column of {role}s ({', '.join(USUAL_NAMES[role])}), it has "
                    f"{', '.join(names)}: say which holds them, {role}=...; or, for the mean of a column of "
                    "plain numbers, evaluate_series(log, column=...)"
                )
    twice = [part for part in parts_of(chosen) if names.count(part) > 1]
    if twice:
        raise ValueError(f"the log has several columns {twice[0]!r}: rename or drop all but one")
    return chosen


def no_column(name: str, names: list[str], role: str = "") -> str:
    """Return that a log has no such column, and which one may be meant, or which it has.

    Examples
    --------
    >>> no_column("stat", ["state", "reward"]), no_column("x", ["state", "reward"], role="time")
    ("the log has no column 'stat': did you mean 'state'?", "the log has no column 'x' for time, it has ...")
    """
    near = did_you_mean(name, names)
    known = f": {near}" if near else f", it has {', '.join(names)}"
    return f"the log has no column {name!r}{f' for {role}' if role else ''}{known}"


def parts_of(roles: dict[str, Name]) -> list[str]:
    """Return the columns that make up all roles."""
    parts = [part for name in roles.values() for part in ((name,) if isinstance(name, str) else name)]
    return list(dict.fromkeys(parts))
