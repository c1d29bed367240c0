"""What results depend on beside their settings: sources of this package, and versions of others."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata

import gainbias
from gainbias.sources import PACKAGE

RECORDED = ("numpy", "scipy", "numba", "gymnasium", "mo-gymnasium", "pandas", "pyarrow")
"""Packages whose versions are recorded."""

NOT_OF_RESULTS = ("report", "testing", "theory", "cli.py", "evaluate.py")
"""Parts of this package that no stored result depends on."""


@cache
def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on; None for those that are missing.

    Examples
    --------
    >>> sorted(package_versions())[:2]
    ['gymnasium', 'mo-gymnasium']
    """
    return {name: _version(name) for name in RECORDED}


@cache
def code_version() -> str:
    """Return the version of this package, and a hash of its sources and of the versions of others.

    A change of any of them makes stored results out of date: tasks come from gymnasium, and the last digits
    of results from numpy and the compiler.

    Examples
    --------
    >>> code_version().startswith(gainbias.__version__)
    True
    """
    digest = hashlib.sha256(repr(package_versions()).encode())
    for source in sorted(path for ending in ("py", "csv") for path in PACKAGE.rglob(f"*.{ending}")):
        name = source.relative_to(PACKAGE)
        if name.parts[0] not in NOT_OF_RESULTS:
            digest.update(f"{name}\n".encode() + source.read_bytes())
    return f"{gainbias.__version__}+{digest.hexdigest()[:16]}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
