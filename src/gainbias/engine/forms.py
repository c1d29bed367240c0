"""Mistakes in an algorithm of the user's own, found before or while it is compiled, and said in words."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, read_state
from gainbias.engine.lanes import Group

if TYPE_CHECKING:
    from gainbias.engine.work import Plan


def check_form(plan: Plan, group: Group) -> None:
    """Check what an algorithm's form gives for one of its groups.

    Raises
    ------
    ValueError
        If the step is no plain function, or the state is not what kernels and outputs can work with.
    """
    name, form = plan.algorithm.name, plan.form
    if plan.algorithm.chains not in (1, 2):
        raise ValueError(f"{name} samples {plan.algorithm.chains!r} chains: there may be 1 or 2")
    if not inspect.isfunction(form.step):
        kind = type(form.step).__name__
        raise ValueError(f"the step of {name} must be a plain Python function, found {kind}")
    setting = plan.setting(group.width)
    state = form.init(setting, group.params(plan.algorithm, form.laned))
    if not (isinstance(state, tuple) and hasattr(state, "_fields")):
        found = type(state).__name__
        raise ValueError(f"the state of {name} must be a NamedTuple of arrays, found {found}")
    for field, array in zip(state._fields, state, strict=True):
        whole = isinstance(array, np.ndarray) and array.dtype in (np.float64, np.int64)
        if not whole:
            kind = getattr(array, "dtype", type(array).__name__)
            raise ValueError(
                f"{field!r} in the state of {name} must be an array of float64 or int64, found {kind}"
            )
        if form.laned and (array.ndim == 0 or array.shape[-1] != group.width):
            raise ValueError(
                f"{field!r} in the state of {name} must have the lanes as its last axis, {group.width} of "
                f"them, found shape {array.shape}"
            )
    shape = getattr(getattr(state, "weights", None), "shape", None)
    if form.output is read_state and shape != setting.weights.shape:
        found = "no such field" if shape is None else f"shape {shape}"
        raise ValueError(
            f"the state of {name} must have a field 'weights' of shape {setting.weights.shape}, found "
            f"{found}; or give the form an output"
        )


@contextlib.contextmanager
def compile_errors_in_words(algorithm: Algorithm) -> Iterator[None]:
    """Turn errors of the compiler into one that says what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("numba"):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = next(
            (line for line in lines if line.startswith(("Unknown", "Untyped", "NameError"))), lines[0]
        )
        raise ValueError(
            f"the step of {algorithm.name} does not compile: {cause}. A step uses scalar loops over arrays, "
            "allocates nothing, and calls only functions marked with gainbias.kernels.inlined. The whole "
            "message of the compiler is above"
        ) from error
