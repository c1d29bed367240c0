"""What is installed: versions, and which optional parts are missing."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Any

import gainbias


def health() -> dict[str, Any]:
    """Return versions of what is needed, and of each extra's parts (None where one is missing).

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
    return {"versions": versions, "extras": extras}


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _parsed(requirement: str) -> tuple[str, str | None]:
    """Return the distribution that a requirement names, and its extra if it belongs to one."""
    name = re.match(r"[\w.-]+", requirement)
    extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
    return name.group() if name else requirement, extra.group(1) if extra else None
