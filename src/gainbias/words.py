"""What the words after `gainbias evaluate` and `gainbias compare` mean."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from typing import Any

from gainbias.options import read_settings


def chosen_environment(options: argparse.Namespace) -> Any:
    """Return an id, or a function that makes environments with the settings that were asked for."""
    settings = read_settings(options.set)
    if not settings:
        return options.source
    from gainbias.tasks.environments import optional

    return functools.partial(optional("gymnasium").make, options.source, **settings)


def read_policy(words: str | None) -> Any:
    """Return the policy that ``random``, ``FILE.npy`` or ``MODULE:NAME`` means; modules here are found."""
    if words is None:
        raise ValueError("an environment needs a policy: --policy random, FILE.npy or MODULE:NAME")
    if words == "random":
        return words
    if words.endswith(".npy"):
        import numpy

        return numpy.load(words, allow_pickle=False)
    module, colon, name = words.partition(":")
    if not colon:
        raise ValueError(f"--policy must be random, FILE.npy or MODULE:NAME, found {words!r}")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ValueError(f"module {module} has no {name}") from None
    finally:
        sys.path.remove(os.getcwd())


def evaluation_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `evaluate`, `evaluate_log` and `compare` are all given."""
    names = ("algorithm", "confidence", "on_termination", "time_limit")
    return {name: getattr(options, name) for name in names} | {"params": read_settings(options.param)}


def log_columns(options: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of a log that were named: several for a state of several numbers."""
    roles = ("state", "next_state", "reward", "episode", "terminated", "truncated", "step")
    named = {role: getattr(options, role) for role in roles if getattr(options, role)}
    return {role: names[0] if len(names) == 1 else tuple(names) for role, names in named.items()}
