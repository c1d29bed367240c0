"""What results depend on beside their settings: sources of this package, and versions of others."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import gainbias

PACKAGE = Path(gainbias.__file__).parent
RECORDED = ("numpy", "scipy", "numba", "gymnasium", "mo-gymnasium", "pandas", "pyarrow")
"""Packages whose versions are recorded."""

NOT_OF_RESULTS = ("report", "testing", "evaluation", "cli.py", "options.py", "parsing.py", "words.py")
"""Parts of this package that no stored run depends on."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""What sets the threads of linear algebra, the first that is set."""


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
def code_version(without: tuple[str, ...] = NOT_OF_RESULTS) -> str:
    """Return the version of this package, and a hash of its sources and of the versions of others.

    A change of any of them makes stored results out of date: tasks come from gymnasium, and the last digits
    of results from numpy and the compiler.

    Parameters
    ----------
    without : tuple of str
        Parts of this package that do not matter.

    Examples
    --------
    >>> code_version().startswith(gainbias.__version__)
    True
    """
    digest = hashlib.sha256(repr(package_versions()).encode())
    for content in _sources(without):
        digest.update(content)
    return f"{gainbias.__version__}+{digest.hexdigest()[:16]}"


@cache
def made_with(code: str) -> dict[str, Any]:
    """Return what tells, later on, why stored results are out of date.

    Parameters
    ----------
    code : str
        One that `code_version` gives in this process.

    Returns
    -------
    dict
        "sources", a hash of the sources alone, and "packages", the versions of others.

    Examples
    --------
    >>> sorted(made_with(code_version()))
    ['packages', 'sources']
    """
    without = NOT_OF_RESULTS if code == code_version() else ()
    sources = hashlib.sha256(b"".join(_sources(without))).hexdigest()[:16]
    return {"sources": f"{gainbias.__version__}+{sources}", "packages": package_versions()}


def _sources(without: tuple[str, ...]) -> Iterator[bytes]:
    for source in sorted(path for ending in ("py", "csv") for path in PACKAGE.rglob(f"*.{ending}")):
        name = source.relative_to(PACKAGE)
        if name.parts[0] not in without:
            yield f"{name}\n".encode() + source.read_bytes()


@cache
def machine() -> str:
    """Return the kind of processor; between kinds, the last digits of results may differ.

    Examples
    --------
    >>> machine().startswith(platform.machine())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join([platform.machine(), *names[:1]] if names else [platform.machine(), platform.processor()])


def has_one_thread() -> bool:
    """Whether linear algebra in this process has one thread; with more, the last digits may differ."""
    return next((os.environ[name] for name in THREADS if name in os.environ), "") == "1"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
