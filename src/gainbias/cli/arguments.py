"""From the words after `gainbias` to objects: environments, logs, tasks, step sizes and files."""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import importlib
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gainbias
from gainbias.cli.options import ENVIRONMENT, LOG, MEANT_FOR, NUMBERS, parser
from gainbias.cli.words import verbs_of
from gainbias.store import check_free
from gainbias.suggest import no_file

PICTURES = (".eps", ".jpg", ".pdf", ".png", ".svg", ".webp")
"""Files with names that end like this can be pictures."""


def refuse_strangers(options: argparse.Namespace, kind: str) -> None:
    """Refuse options that were typed and are meant for another kind of source than this one."""
    usual = verbs_of(parser())[options.verb]
    for name in dict.fromkeys(itertools.chain(*MEANT_FOR.values())):
        is_typed = getattr(options, name, None) != usual.get_default(name)
        if is_typed and name not in MEANT_FOR[kind]:
            flag = "--" + name.replace("_", "-")
            others = " or ".join(other for other, names in MEANT_FOR.items() if name in names)
            hint = ", or say which column, --column ..." if kind == LOG and others == NUMBERS else ""
            said = " with --column" if kind == NUMBERS and options.column is not None else ""
            raise ValueError(
                f"{flag} is for {others}, and {options.source}{said} is {kind}: leave out {flag}{hint}"
            )


def chosen_environment(options: argparse.Namespace) -> Any:
    """Return an id, or a function that makes environments with the given settings."""
    refuse_strangers(options, ENVIRONMENT)
    if options.policy is None:
        needed = "an environment needs a policy: --policy random, FILE.npy or MODULE:NAME"
        if re.search(r":|-v\d+$", options.source):  # an id
            raise ValueError(needed)
        missing = no_file(options.source)
        raise ValueError(missing if missing.endswith("?") else f"{missing}, and {needed}")
    settings = read_settings(options.set)
    if options.source.partition(":")[2].isidentifier():  # otherwise Gymnasium's MODULE:ID-v0, or an id
        own = _meant(options.source)
        if settings and hasattr(own, "step") and not isinstance(own, type):
            raise ValueError(
                f"{options.source} is no class or function: leave out --set, or name one that makes it"
            )
        return functools.partial(own, **settings) if settings else own
    if not settings:
        return options.source
    from gainbias.extras import optional
    from gainbias.tasks.gym.installed import installed_id

    return functools.partial(optional("gymnasium").make, installed_id(options.source), **settings)


def chosen_log(options: argparse.Namespace) -> str | None:
    """Return the path of a log; None if an environment was named."""
    from gainbias.evaluation.sources.readers import ENDS_OF_FILES

    source = str(options.source)
    if not (source.lower().endswith(ENDS_OF_FILES) or os.path.exists(source)):
        return None
    refuse_strangers(options, LOG)
    return source


@contextlib.contextmanager
def standard_input_as_file(options: argparse.Namespace) -> Iterator[None]:
    """Keep standard input in a file while it is read, if the source is ``-``; errors do not name the file.

    A single column needs no name in its first line.
    """
    if options.source != "-":
        yield
        return
    from gainbias.evaluation.sources.readers import is_number

    if sys.stdin.isatty():
        print("reading a column or a table from standard input; Ctrl-D ends it", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="gainbias-") as folder:
        path = os.path.join(folder, "standard-input.csv")
        with open(path, "wb") as file:
            head = sys.stdin.buffer.readline()
            names = next(csv.reader([head.decode(errors="replace").removeprefix("\ufeff")]), [])
            if len(names) > 1 and any(map(is_number, names)):
                raise ValueError(
                    f"the first line of a table names its columns, found {', '.join(names)}: keep that line, "
                    "or pass one column, as cut -d, -f2 does"
                )
            if len(names) == 1 and is_number(names[0]):
                file.write(b"number\n")
            file.write(head)
            shutil.copyfileobj(sys.stdin.buffer, file)
        options.source = path
        try:
            yield
        except ValueError as error:
            raise ValueError(str(error).replace(path, "standard input")) from error


def _has_one_column(source: str) -> bool:
    """Whether a source is a file with a single column, which then has the numbers; rewards are a log."""
    from gainbias.evaluation.sources.columns import USUAL_NAMES
    from gainbias.evaluation.sources.readers import ENDS_OF_JSON, table_of

    if not os.path.isfile(source) or source.lower().endswith(ENDS_OF_JSON):
        return False
    names = table_of(source, 1).names
    return len(names) == 1 and names[0] not in USUAL_NAMES["reward"]


def _said_of_target(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are only for a log and another policy."""
    names = ("action", "behaviour", "ratio_features", "discount")
    return {name: said for name in names if (said := getattr(options, name, None)) is not None}


def target_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what is asked about another policy on a log; nothing if none is asked about."""
    if options.policy is not None:
        return asked_of_log(options) | {"policy": read_policy(options.policy)}
    for name in _said_of_target(options):
        flag = f"--{name.replace('_', '-')}"
        raise ValueError(
            f"{flag} is for another policy than the one that made the log: say which, --policy ..., or leave "
            f"out {flag}"
        )
    return {}


def asked_of_log(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options for a log and other policies, with objects in place of their names."""
    settings = _said_of_target(options)
    if "behaviour" in settings and (":" in options.behaviour or options.behaviour.endswith(".npy")):
        settings["behaviour"] = _meant(options.behaviour)
    if "ratio_features" in settings:
        settings["ratio_features"] = _meant(options.ratio_features)
    return settings


def series_settings(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the arguments of `evaluate_series` besides the file; None for a log or an environment."""
    if options.column is None and (log_columns(options) or not _has_one_column(str(options.source))):
        return None
    if not os.path.exists(options.source):
        missing = no_file(options.source)
        raise ValueError(missing if missing.endswith("?") else f"{missing}: --column is for a file")
    refuse_strangers(options, NUMBERS)
    named = {name: getattr(options, name) for name in ("quantile", "ratio_to", "group", "skip")}
    for what in ("save", "plot", "target_half_width"):
        if options.group and getattr(options, what) is not None:
            raise ValueError(f"--{what.replace('_', '-')} is for one series: leave it out, or --group")
    both = ("column", "confidence")
    levels = named.pop("quantile")
    quantiles = {} if levels is None else {"quantiles": levels}
    return quantiles | named | time_settings(options) | {name: getattr(options, name) for name in both}


def read_policy(words: str) -> Any:
    """Return the policy that ``random``, ``FILE.npy`` or ``MODULE:NAME`` names, also from this folder."""
    if words != "random" and not words.endswith(".npy") and ":" not in words:
        raise ValueError(f"--policy must be random, FILE.npy or MODULE:NAME, found {words!r}")
    return _meant(words)


def _meant(words: str) -> Any:
    """Return the array in ``FILE.npy``, the object that ``MODULE:NAME`` names, or the words themselves."""
    if words.endswith(".npy"):
        import numpy

        try:
            return numpy.load(words, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{words} is no file of an array of numbers: {error}") from None
    module, colon, name = words.partition(":")
    if not colon:
        return words
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ValueError(f"module {module} has no {name}") from None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module needs
        raise ValueError(
            f"there is no module {module}: in MODULE:NAME, MODULE is a Python module, such as rules for "
            "rules.py in this folder, and NAME is something defined in it"
        ) from None
    finally:
        sys.path.remove(os.getcwd())


def evaluation_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments that `evaluate`, `evaluate_log` and `compare` share."""
    names = ("confidence", "on_termination", "time_limit")
    steps = options.step_size
    learning = gainbias.Learning(
        options.algorithm,
        step_size=steps if steps == "auto" else read_step_size(steps),
        params=read_settings(options.param),
    )
    return {name: getattr(options, name) for name in names} | {
        "algorithm": learning,
        "features": _meant(options.features),
    }


def log_columns(options: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of a log that were named: several columns if a state has several numbers."""
    roles = ("state", "next_state", "reward", "episode", "terminated", "truncated", "step")
    named = {role: getattr(options, role) for role in roles if getattr(options, role)}
    return {role: names[0] if len(names) == 1 else tuple(names) for role, names in named.items()}


def log_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return how a log is read."""
    columns = log_columns(options)
    named = {role: columns.pop(role, None) for role in ("state", "reward")}
    return named | time_settings(options) | {"columns": columns, "gaps": options.gaps}


def time_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options about the time of rows: columns, the end and the unit, which may be a number."""
    names = ("time", "duration", "reward_rate", "end", "per")
    settings = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if (per := settings.get("per")) is not None:
        with contextlib.suppress(ValueError):
            settings["per"] = float(per)
    return settings


def read_step_size(words: str | None) -> Any:
    """Return the step sizes that ``A[,C0[,XI]]`` means; None if the option was not given."""
    if words is None:
        return None
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError as error:
        raise ValueError(
            f"--step-size must be one to three numbers, as in 150,1000, found {words!r}"
        ) from error
    kinds = {1: gainbias.Constant, 2: gainbias.Harmonic, 3: gainbias.Polynomial}
    if len(numbers) not in kinds:
        raise ValueError(f"--step-size must be one to three numbers, found {words!r}")
    try:
        return kinds[len(numbers)](*numbers)
    except ValueError as error:
        raise ValueError(f"--step-size {words}: {error}") from error


def chosen_task(options: argparse.Namespace, name: str) -> gainbias.Task:
    """Return a task with the given settings."""
    if name in gainbias.ALGORITHMS:
        raise ValueError(f"{name} is an algorithm, not a task: gainbias run TASK --algorithm {name}")
    if name.endswith(".npz"):
        raise ValueError(
            f"{name} is a file, not a task: gainbias solve reads it, the file of a sweep may name it, and in "
            "Python gb.run takes gb.Problem(process, gb.Tabular())"
        )
    return gainbias.task(name, seed=options.seed, protocol=options.protocol, **read_settings(options.set))


def chosen_process(options: argparse.Namespace) -> tuple[Any, str]:
    """Return the process of a task or a file, and what it is in words."""
    from gainbias.model.process import read_process

    if os.path.exists(options.source) or options.source.endswith(".npz"):
        return read_process(options.source), options.source
    task = chosen_task(options, options.source)
    return task.problem.mrp, f"{gainbias.TASKS[task.name].summary} {_policy_in_words(task.settings)}".strip()


def _policy_in_words(settings: Mapping[str, Any]) -> str:
    """Return a sentence on the policy of a task, if it was learned."""
    if "episodes" not in settings:
        return ""
    return (
        f"The policy is that of {settings['episodes']:,} episodes of Q-learning, with a random action in "
        f"{settings['epsilon']:.0%} of the steps."
    )


def refuse_features(algorithm: str, task: gainbias.Task) -> None:
    """Refuse a task if the algorithm does not exist for its features, and name tasks that fit."""
    known = gainbias.ALGORITHMS.get(algorithm)
    if known and known.declared.tabular_only and task.problem.features.kind != "tabular":
        from gainbias.tasks.task import tabular

        others = [name for name, recipe in gainbias.TASKS.items() if recipe.features is tabular]
        raise ValueError(
            f"{algorithm} exists for tabular features only, and those of {task.name} are "
            f"{task.problem.features.kind}: tasks with tabular ones are {', '.join(others)}"
        )


def chosen_files(options: argparse.Namespace) -> dict[str, Path]:
    """Return the files to which an estimate goes; existing ones are refused before any work."""
    named = {"estimate": options.save, "figure": options.plot, "page": options.page}
    for option, name in zip(("--save", "--plot", "--page"), named.values(), strict=True):
        if name == "":
            raise ValueError(f"{option} needs the name of a file, found ''")
    files = {what: Path(name) for what, name in named.items() if name is not None}
    if "figure" in files:
        files["figure"] = _as_picture(files["figure"])
    if os.path.exists(options.source) and os.path.realpath(options.source) in map(
        os.path.realpath, files.values()
    ):
        raise ValueError(f"{options.source} is the log itself: name another file for the output")
    if len({os.path.realpath(path) for path in files.values()}) < len(files):
        raise ValueError("--save, --plot and --page must name different files")
    for path in files.values():
        check_free(path, options.overwrite)
    return files


def _as_picture(path: Path) -> Path:
    """Return the file of a figure with an ending, and refuse those that are no picture."""
    if not path.suffix:
        return path.with_suffix(".png")  # what matplotlib would name it
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"{path}: pictures end with {', '.join(PICTURES)}: choose one of these")
    return path


def existing(path: str) -> str:
    """Return the path of a results folder or a stored estimate, which must exist."""
    if not os.path.exists(path) and not path.endswith(".npz"):
        raise ValueError(f"there is no folder {path}")
    return path


def in_words(error: Exception, options: argparse.Namespace) -> str:
    """Return the message of an error, with options in place of arguments of functions.

    A missing or protected file gets a message of our own.
    """
    if isinstance(error, PermissionError) and error.filename is not None:
        path = os.fsdecode(error.filename)
        return f"you have no permission to use {path}: change its permissions, or name another place"
    if isinstance(error, NotADirectoryError | FileExistsError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: what is in its way is not a folder: remove it"
    if not isinstance(error, FileNotFoundError) or error.filename is None:
        return as_typed(str(error), options)
    path = os.fsdecode(error.filename)
    folder = os.path.dirname(path)
    is_folder_there = os.path.isdir(folder or ".")
    return no_file(path) if is_folder_there else f"there is no folder {folder}"


def as_typed(words: str, options: argparse.Namespace) -> str:
    """Return a text with options in place of arguments of functions.

    Examples
    --------
    >>> as_typed("time='at' gives a mean over time", argparse.Namespace(time=None))
    '--time at gives a mean over time'
    """
    words = words.replace("evaluate_series(log, column=...)", "column=...")
    names = "|".join(vars(options))
    return re.sub(rf"\b({names})=(\.\.\.|'[^']*'|gb\.)", _as_option, words)


def _as_option(said: re.Match[str]) -> str:
    """Return an argument of a function as the option that stands for it."""
    name, value = said.groups()
    value = "MODULE:NAME, which names gb." if value == "gb." else value.strip("'")
    return f"--{name.replace('_', '-')} {value}"


def read_settings(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as a dict, values read as JSON where they can be."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--param and --set take NAME=VALUE, found {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.replace("-", "_")] = float(value) if value in ("inf", "-inf") else value
    return found
