"""Compiled code on disk: when it is kept, and when it may be used again.

`kernel_digest` names a kernel by what it does: its byte code and constants, those of every function that it
can reach, and the values of the globals that these read. Neither the names nor the places of files enter the
digest, nor comments or line numbers. The kernel's compiled code is kept in a folder of that name, below
`cache_folder`. So an edited function is compiled again wherever it is defined and whatever calls it, and a
moved function never gets the code of another.

(numba's own cache checks only the file of the kernel itself, and would serve stale code when a function that
the kernel calls, in another file, has changed. It adds its version and the processor to the key by itself.)
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

OUTSIDE = ("builtins", "math", "numba", "numpy", "operator")
"""Packages whose functions enter a digest only by name: their versions are part of every digest."""


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, or None when nothing is kept.

    Set ``GAINBIAS_CACHE=0`` to compile afresh in every process.

    Examples
    --------
    >>> folder = cache_folder()
    >>> folder is None or folder.name == "kernels"
    True
    """
    if os.environ.get("GAINBIAS_CACHE", "1") == "0":
        return None
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "gainbias" / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def is_own(function: Callable[..., Any]) -> bool:
    """Return whether a function belongs to this package.

    Examples
    --------
    >>> is_own(is_own), is_own(lambda: 0)
    (True, False)
    """
    package, name = __name__.partition(".")[0], function.__module__
    file = getattr(sys.modules.get(name), "__file__", None)  # none for functions typed at a prompt
    return name.startswith(f"{package}.") and file == function.__code__.co_filename


def kernel_digest(function: Callable[..., Any], settings: object = None) -> str | None:
    """Return a digest of everything that a kernel does, or None if it reads a value that this cannot cover.

    Parameters
    ----------
    function : function
        The Python form of the kernel.
    settings : object
        How it is compiled; its `repr` becomes part of the name.

    Examples
    --------
    >>> kernel_digest(lambda x: 2.0 * x) == kernel_digest(lambda x: 3.0 * x)
    False
    >>> kernel_digest(lambda x: 2.0 * x) == kernel_digest(lambda x: 2.0 * x)
    True
    """
    digest = hashlib.sha256(repr((sys.version_info[:2], np.__version__, settings)).encode())
    numbers: dict[int, int] = {}  # in the order in which functions are met, so that recursion ends
    todo: list[FunctionType] = []

    def follow(reached: Any) -> str:
        if id(reached) not in numbers:
            numbers[id(reached)] = len(numbers)
            todo.append(reached)
        return f"function {numbers[id(reached)]}"

    try:
        follow(function)
        while todo:
            for line in _parts(todo.pop(), follow):
                digest.update(f"{line}\n".encode())
    except _CannotBeNamedError:
        return None
    return digest.hexdigest()[:24]


class _CannotBeNamedError(Exception):
    """A kernel reads a value whose meaning a digest cannot cover."""


def _parts(function: FunctionType, follow: Callable[[Any], str]) -> Iterator[str]:
    """Yield everything a function is made of: its code, defaults, free variables and the globals it reads."""
    yield from _code_parts(function.__code__, function.__globals__, follow)
    yield _describe(function.__defaults__ or (), follow)
    for cell in function.__closure__ or ():
        yield _describe(cell.cell_contents, follow)


def _code_parts(code: CodeType, known: dict[str, Any], follow: Callable[[Any], str]) -> Iterator[str]:
    yield repr((code.co_argcount, code.co_flags, code.co_code, code.co_names, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant, known, follow)
        else:
            yield _describe(constant, follow)
    read = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for name in sorted(read):
        value = known.get(name, getattr(builtins, name, None))
        yield f"{name}: {_describe(value, follow)}"


def _describe(value: Any, follow: Callable[[Any], str]) -> str:
    """Return a description of a value that compiled code depends on; functions wait for their own turn."""
    implementations = getattr(value, "implementations", None)
    if isinstance(implementations, dict):  # a function with one implementation for each type
        kinds = [f"{_describe(kind, follow)} {follow(part)}" for kind, part in implementations.items()]
        return f"by type {kinds}"
    if hasattr(value, "py_func"):  # a compiled kernel
        return f"kernel {getattr(value, 'targetoptions', None)} {follow(value.py_func)}"
    if isinstance(value, type):
        return f"type {value.__name__} {getattr(value, '_fields', ())}"
    if isinstance(value, tuple):
        return f"{type(value).__name__} {[_describe(entry, follow) for entry in value]}"
    if isinstance(value, frozenset):
        return f"set {sorted(_describe(entry, follow) for entry in value)}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return f"{type(value).__name__} {value!r}"
    home = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
    if isinstance(value, np.ufunc) or home.partition(".")[0] in OUTSIDE:
        if isinstance(value, ModuleType | np.ufunc | FunctionType | BuiltinFunctionType) or callable(value):
            return f"outside {home} {value.__name__}"
    elif isinstance(value, FunctionType):
        return follow(value)
    raise _CannotBeNamedError
