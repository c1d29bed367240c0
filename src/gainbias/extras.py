"""Optional dependencies: a clear error where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

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
        names = ", ".join(module.replace("_", "-") for module in missing)
        extras = ",".join(dict.fromkeys(EXTRAS[module] for module in missing))
        raise ImportError(f"this needs {names}: pip install 'gainbias[{extras}]'")
