"""Optional dependencies: a clear error where one is missing."""

from __future__ import annotations

from importlib.util import find_spec


def require(extras: str, *modules: str) -> None:
    """Raise an error that says what to install if a module is missing.

    Parameters
    ----------
    extras : str
        The extras that bring the modules, separated by commas.
    *modules : str
        Names of modules.

    Examples
    --------
    >>> require("data", "json")
    >>> require("data", "no_such_module")
    Traceback (most recent call last):
    ImportError: this needs no_such_module: pip install 'gainbias[data]'
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ImportError(f"this needs {', '.join(missing)}: pip install 'gainbias[{extras}]'")
