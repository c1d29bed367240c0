"""The user's own parts of a study: functions by reference, and problems as arrays.

A *reference* names something in a module of the user, as in ``"my_module:make_task"``. Nothing is imported
when a description is read, only when it is run: `own_task` and `own_algorithm` import; everything else works
with the text. So a results folder can be looked at without running anything that it names.

A process or a problem inside a study is an `OwnProblem`: arrays, packed as an .npz file, which are sent
with the units and kept in the results folder. Nothing in such a file can be executed.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.algorithms.algorithm import Algorithm
from gainbias.experiments.provenance import Reach, folder_of, folder_or_none
from gainbias.features import Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess, read_process
from gainbias.store import DamagedError, read_plain, write_whole
from gainbias.suggest import did_you_mean_or_known
from gainbias.tasks.registry import TASKS
from gainbias.tasks.task import ProtocolName, Settings, Task

REFERENCE_FORM = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""A module, a colon, and a name in it."""

DIGEST = "digest"
"""The setting by which problems of the same name are told apart."""

PROBLEMS = "problems"
"""The folder of a study's own problems, in its results folder."""

MOST_PROBLEM_BYTES = 2**28
"""Largest size of a problem that is sent with the units."""

MOST_STATES_OF_REWARDS = 5_000
"""Sparse rewards of transitions are stored as a dense array up to this number of states."""


def is_reference(name: Any) -> bool:
    """Whether a name refers to something in a module.

    Examples
    --------
    >>> is_reference("my_module:make_task"), is_reference("boyan-chain")
    (True, False)
    """
    return isinstance(name, str) and REFERENCE_FORM.fullmatch(name) is not None


def begins_in(name: str, homes: Mapping[str, str]) -> Reach:
    """Return the module in which something begins, if any: that of a reference, or its home here."""
    if is_reference(name):
        return (name.partition(":")[0],)
    return (homes[name],) if name in homes else ()


def look_beside(folder: Path, name: Any) -> None:
    """Let the module of a reference be found if it is in the folder of the study's description.

    Raises
    ------
    ValueError
        If another module of the same name would be imported instead.
    """
    if not is_reference(name):
        return
    top = name.partition(":")[0].partition(".")[0]
    is_there, found = (folder / f"{top}.py").is_file() or (folder / top).is_dir(), folder_or_none(top)
    if is_there and found is None:
        sys.path.append(str(folder.resolve()))
    elif is_there and found != folder.resolve():
        raise ValueError(f"the module {top} in {folder} is hidden by that in {found}: give it another name")


def imported(reference: str, where: str) -> Any:
    """Import what a reference names; messages begin with `where`."""
    module, _, name = reference.partition(":")
    try:
        folder_of(module.partition(".")[0])
        loaded = import_module(module)
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"{where}: {reference} cannot be imported: {error}") from error
    if not hasattr(loaded, name):
        known = [own for own in vars(loaded) if not own.startswith("_")]
        raise ValueError(f"{where}: {module} has no {name!r}: {did_you_mean_or_known(name, known)}")
    return getattr(loaded, name)


def own_task(reference: str, seed: int, protocol: ProtocolName, settings: Settings) -> Task:
    """Return the task that a user's function makes from a seed and settings."""
    make = imported(reference, "tasks")
    if not callable(make):
        raise ValueError(f"tasks: {reference} must be a function of a seed, found {type(make).__name__}")
    made = make(seed, **settings)
    if isinstance(made, Task):
        return made
    if isinstance(made, MarkovRewardProcess):
        made = Problem(made, Tabular())
    if not isinstance(made, Problem):
        kinds = "a MarkovRewardProcess, a Problem or a Task"
        raise ValueError(f"tasks: {reference} must return {kinds}, found {type(made).__name__}")
    return _task(reference, made, seed, protocol, settings)


def own_algorithm(reference: str) -> Algorithm:
    """Return the user's algorithm that a reference names: a record, or a function that returns one."""
    found = imported(reference, "algorithms")
    if callable(found):
        try:
            found = found()
        except Exception as error:  # a user's function may raise anything
            raise ValueError(f"algorithms: {reference} makes no algorithm: {error}") from error
    if not isinstance(found, Algorithm):
        raise ValueError(f"algorithms: {reference} must be a gb.Algorithm, found {type(found).__name__}")
    return found


def _task(name: str, problem: Problem, seed: int, protocol: ProtocolName, settings: Settings) -> Task:
    return Task(name, problem, seed, protocol, {**settings}, {}, "")


@dataclass(frozen=True)
class OwnProblem:
    """A process or a problem as arrays.

    Attributes
    ----------
    digest : str
        Hash of the arrays.
    archive : bytes
        The arrays as an .npz file.
    """

    digest: str
    archive: bytes = field(repr=False, compare=False)

    def task(self, name: str, seed: int, protocol: ProtocolName, settings: Settings) -> Task:
        """Return the task; the seed decides only the sample path."""
        return _task(name, _problem(self), seed, protocol, settings)

    def keep(self, folder: Path) -> None:
        """Write it to a results folder, unless it is already there and complete."""
        try:
            stored_problem(folder, self.digest)
        except (ValueError, OSError):
            write_whole(folder / PROBLEMS / f"{self.digest}.npz", self.archive)


@lru_cache(maxsize=4)
def _problem(own: OwnProblem) -> Problem:
    process = read_process(io.BytesIO(own.archive))
    with np.load(io.BytesIO(own.archive), allow_pickle=False) as parts:
        features = parts["features"] if "features" in parts.files else Tabular()
    return Problem(process, features)


class ProblemEntry(dict[str, Any]):
    """The entry of a problem among the tasks of a study: its name and digest, with the problem beside it."""

    def __init__(self, name: str, problem: OwnProblem) -> None:
        super().__init__({"id": name, DIGEST: problem.digest})
        self.problem = problem


def as_entry(entry: Any, where: str) -> Any:
    """Return the entry of a study for a process, a problem or a file; any other entry as it is."""
    if isinstance(entry, MarkovRewardProcess | Problem):
        own = as_own_problem(entry)
        return ProblemEntry(f"problem-{own.digest[:8]}", own)
    if not isinstance(entry, Mapping) or not {"npz", "problem"} & entry.keys():
        return entry
    [(kind, value), *others] = [(key, entry[key]) for key in entry if key != "id"]
    if others:
        raise ValueError(f"{where}: a problem of your own has no settings, found {others[0][0]}")
    try:
        own = _read_entry(kind, value)
    except (OSError, ValueError) as error:
        raise ValueError(f"{where}.{kind}: {error}") from error
    name = entry.get("id", Path(value).stem if kind == "npz" else f"problem-{own.digest[:8]}")
    if not isinstance(name, str) or not name or name in TASKS or is_reference(name):
        raise ValueError(f"{where}.id: must be a name that no task of the package has, found {name!r}")
    return ProblemEntry(name, own)


def _read_entry(kind: str, value: Any) -> OwnProblem:
    if kind == "npz" and isinstance(value, str | Path):
        return read_problem(Path(value))
    if kind == "problem" and isinstance(value, MarkovRewardProcess | Problem):
        return as_own_problem(value)
    words = "the path of an .npz file" if kind == "npz" else "a MarkovRewardProcess or a Problem"
    raise ValueError(f"must be {words}, found {value!r:.100}")


ARRAYS = ("transitions", "rewards", "features", "format", "shape", "data", "indices", "indptr")
"""The arrays that are read from an .npz file."""


def read_problem(path: Path) -> OwnProblem:
    """Return the process or the problem in an .npz file: what `read_process` reads, and `features`, (n, d).

    Raises
    ------
    ValueError
        If the file is something else, or too large, or contains something that a sweep cannot run.
    """
    content = read_plain(path)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError(f"{path} is not an .npz file")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > MOST_PROBLEM_BYTES:
        raise ValueError(
            f"{path} holds {size / 1e6:,.0f} MB of arrays, at most {MOST_PROBLEM_BYTES / 1e6:,.0f}"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as parts:
        for name in parts.files:
            if name not in (*ARRAYS, "labels"):
                raise ValueError(f"{path}: {name} is none of {', '.join(ARRAYS)}, which a sweep can run")
        found = {name: parts[name] for name in ARRAYS if name in parts.files}
    return _checked(found, str(path))


def stored_problem(folder: Path, digest: str) -> OwnProblem:
    """Return a problem from a results folder, which must be what was written."""
    path = folder / PROBLEMS / f"{digest}.npz"
    if not path.exists():
        raise DamagedError(f"{path} is missing: write it again with --resume")
    found = read_problem(path)
    if found.digest != digest:
        raise DamagedError(f"{path} is not what was written: write it again with --resume")
    return found


def as_own_problem(value: MarkovRewardProcess | Problem) -> OwnProblem:
    """Return a process or a problem as arrays.

    Examples
    --------
    >>> process = MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> one, other = as_own_problem(process), as_own_problem(Problem(process, Tabular()))
    >>> one.digest == other.digest, one.task("mine", 0, "literal", {}).problem
    (True, Problem(2 states, 2 tabular features))
    """
    process = value if isinstance(value, MarkovRewardProcess) else value.mrp
    if process.rate is not None or process.durations is not None:
        raise ValueError(
            "a sweep counts steps, but those of a process with rates or durations differ in time"
        )
    rewards: Any = process.rewards if process.transition_rewards is None else process.transition_rewards
    if hasattr(rewards, "toarray"):
        if process.num_states > MOST_STATES_OF_REWARDS:
            raise ValueError("sparse rewards of transitions of a large process: refer to a function instead")
        rewards = rewards.toarray()
    arrays = {"rewards": rewards}
    if sparse.issparse(process.transitions):
        names = ("data", "indices", "indptr")
        arrays |= {name: getattr(process.transitions, name) for name in names}
        arrays |= {"shape": np.array(process.transitions.shape), "format": np.array(b"csr")}
    else:
        arrays["transitions"] = process.transitions
    if isinstance(value, Problem) and value.features.given is not None:
        given: Any = value.features.given
        if 8 * given.shape[0] * given.shape[1] > MOST_PROBLEM_BYTES:
            raise ValueError(f"features of shape {given.shape} are too many: refer to a function instead")
        arrays["features"] = given.toarray() if hasattr(given, "toarray") else given
    return _checked(arrays, type(value).__name__)


def _checked(arrays: Mapping[str, Any], what: str) -> OwnProblem:
    """Return arrays as a problem that can be run."""
    digest, archive = hashlib.sha256(b"problem 1"), io.BytesIO()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    np.savez_compressed(archive, **arrays)
    own = OwnProblem(digest.hexdigest()[:24], archive.getvalue())
    try:
        _problem(own)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{what} holds no problem that can be run: {error}") from error
    return own
