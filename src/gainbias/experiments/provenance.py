"""What results were made with: sources of this package, versions of others, the machine, and when.

`code_version` is part of the id of every unit of work, so a change of sources or versions makes what is
stored out of date; `made_with` tells later on which of them changed. `circumstances` is the part of a
manifest that any study has.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import gainbias

PACKAGE = Path(gainbias.__file__).parent
RECORDED = ("numpy", "scipy", "numba", "gymnasium", "mo-gymnasium", "pandas", "pyarrow")
"""Packages whose versions are recorded."""

NOT_OF_RESULTS = ("report", "testing", "evaluation", "cli")
"""Parts of this package that no stored run depends on."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""What sets the threads of linear algebra, the first that is set."""

_ONE_PARSER = threading.Lock()
"""Python 3.11 cannot parse in several threads at a time, as those of a Dask cluster within one process."""


@cache
def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on; None for those that are missing.

    Examples
    --------
    >>> sorted(package_versions())[:2]
    ['gymnasium', 'mo-gymnasium']
    """
    return {name: _version(name) for name in RECORDED}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def code_version(without: tuple[str, ...] = NOT_OF_RESULTS) -> str:
    """Return the version of this package, and a hash of its code and of the versions of others.

    A change of any of them makes stored results out of date: tasks come from gymnasium, and the last digits
    of results from numpy and the compiler. Comments, docstrings, and names and places of files do not count.

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


def _sources(without: tuple[str, ...]) -> list[bytes]:
    """Return a hash of what each source means, in an order that does not depend on names of files.

    Comments, docstrings and the layout of lines mean nothing, nor do the name and the place of a file.
    """
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".csv")]
    kept = [path for path in sources if path.relative_to(PACKAGE).parts[0] not in without]
    with _ONE_PARSER:
        return sorted(_digest(path.read_bytes(), path.suffix == ".py") for path in kept)


@cache
def _digest(content: bytes, is_code: bool) -> bytes:
    return hashlib.sha256(_meaning(content) if is_code else content).digest()


def _meaning(source: bytes) -> bytes:
    """Return the syntax tree of a module without docstrings and without places of own modules."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gainbias":
            node.module = "gainbias"
    return ast.dump(tree).encode()


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


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


def hash_of(known: Any) -> str:
    """Return a hash of something that JSON can hold.

    Examples
    --------
    >>> hash_of({"task": "taxi"}) == hash_of({"task": "boyan-chain"})
    False
    """
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:24]


def circumstances(ids: Iterable[str], *, command: str, reused: int, seconds: float) -> dict[str, Any]:
    """Return the part of a manifest that any study has.

    Parameters
    ----------
    ids : iterable of str
        Of all units of the study.
    command : str
        What was typed.
    reused : int
        Number of units that had been stored before.
    seconds : float
        How long the others took.

    Examples
    --------
    >>> circumstances(["one", "another"], command="gainbias sweep", reused=0, seconds=1.25)["units"]
    2
    """
    in_order, finished = sorted(ids), time.time()
    return {
        "study": hash_of(in_order),
        "command": command,
        "started": _clock(finished - seconds),
        "finished": _clock(finished),
        "seconds": round(seconds, 1),
        "code": code_version(),
        "python": sys.version.split()[0],
        "platform": platform.machine(),
        "packages": package_versions(),
        "units": len(in_order),
        "reused": reused,
    }


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
