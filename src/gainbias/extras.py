"""Optional dependencies: a clear error where one is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

EXTRAS = {
    "distributed": "cluster",
    "gymnasium": "gym",
    "matplotlib": "report",
    "mo_gymnasium": "mo",
    "pandas": "data",
    "pyarrow": "data",
}
"""The extra that brings each optional module."""


def require(*modules: str) -> None:
    """Raise an error that says what to install if a module is missing.

    Parameters
    ----------
    *modules : str
        Names of modules, as in `EXTRAS`.

    Raises
    ------
    ImportError
        It names the extras to install.

    Examples
    --------
    >>> require("pandas", "pyarrow")
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ImportError(_what_to_install(missing))


def optional(module: str) -> Any:
    """Import an optional module, or raise the error of `require`.

    Examples
    --------
    >>> optional("pandas").__name__
    'pandas'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(_what_to_install([module])) from error


def _what_to_install(missing: list[str]) -> str:
    names = ", ".join(module.replace("_", "-") for module in missing)
    extras = ",".join(dict.fromkeys(EXTRAS[module] for module in missing))
    return f"this needs {names}: pip install 'gainbias[{extras}]'"
