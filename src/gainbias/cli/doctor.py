"""The state of the installation: versions, optional parts, threads, and kernels that are compiled already."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import gainbias
from gainbias.experiments.provenance import THREADS, installed_version, machine
from gainbias.kernels import cache_folder, usable_cores


def health() -> dict[str, Any]:
    """Return the state of this installation.

    Returns
    -------
    dict
        "versions" of required packages; "extras", the versions of the packages of each extra (None if
        missing); "threads", cores and threads of linear algebra; "kernels", which are compiled
        already, and where; "gpu", its name and free memory, or what is missing.

    Examples
    --------
    >>> "numpy" in health()["versions"]
    True
    """
    versions = {"python": platform.python_version(), "gainbias": gainbias.__version__}
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in metadata.requires("gainbias") or []:
        name, extra = _parsed(requirement)
        if extra is None:
            versions[name] = metadata.version(name)
        elif extra not in ("test", "docs", "all"):
            extras.setdefault(extra, {})[name] = installed_version(name)
    return {
        "versions": versions,
        "extras": extras,
        "threads": _threads(),
        "kernels": _kernels(),
        "gpu": _gpu(),
    }


def _threads() -> dict[str, Any]:
    """Return the processor, its cores, and how many threads linear algebra may use (None: one per core)."""
    chosen = next((int(os.environ[name]) for name in THREADS if os.environ.get(name, "").isdigit()), None)
    return {"processor": machine(), "cores": usable_cores(), "linear_algebra": chosen}


def _kernels() -> dict[str, Any]:
    """Return where compiled kernels are kept, how many there are, and how much disk space they take."""
    folder = cache_folder()
    kept = [file for file in folder.rglob("*") if file.is_file()] if folder else []
    return {
        "compiled": os.environ.get("NUMBA_DISABLE_JIT", "0") == "0",
        "folder": folder and str(folder),
        "stored": sum(file.suffix == ".nbi" for file in kept),
        "megabytes": round(sum(file.stat().st_size for file in kept) / 1e6, 1),
    }


def _gpu() -> dict[str, Any]:
    """Return the name and the free memory of the GPU, or one sentence about what is missing."""
    from gainbias.kernels.gpu import device_name, free_memory, what_is_missing

    missing = what_is_missing()
    if missing:
        return {"device": None, "free_gigabytes": None, "missing": missing}
    return {"device": device_name(), "free_gigabytes": round(free_memory() / 2**30, 1), "missing": None}


def _parsed(requirement: str) -> tuple[str, str | None]:
    """Return the distribution that a requirement names, and its extra if it belongs to one."""
    name = re.match(r"[\w.-]+", requirement)
    extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
    return name.group() if name else requirement, extra.group(1) if extra else None
