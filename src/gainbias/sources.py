"""Where compiled kernels are kept, in a folder named by a hash of all sources that they can depend on."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels for exactly these sources, or None when caching is off.

    Examples
    --------
    >>> folder = cache_folder()
    >>> folder is None or folder.parent.name == "gainbias"
    True
    """
    if os.environ.get("GAINBIAS_CACHE", "1") == "0":
        return None
    digest = hashlib.sha256(str(PACKAGE).encode())
    for name, checksum in source_checksums().items():
        digest.update(f"{name} {checksum}".encode())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "gainbias" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@cache
def source_checksums() -> dict[str, str]:
    """Return a checksum of each source of kernels, by its path in the package, as they are at the first call.

    Examples
    --------
    >>> "kernels.py" in source_checksums()
    True
    """
    return {str(source.relative_to(PACKAGE)): _checksum(source) for source in kernel_sources()}


def _checksum(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def is_as_hashed(function: Callable[..., Any]) -> bool:
    """Whether a function's file is still the one that the name of the cache's folder covers.

    Examples
    --------
    >>> is_as_hashed(is_as_hashed)
    True
    """
    source = Path(function.__code__.co_filename)
    return source_checksums().get(str(source.relative_to(PACKAGE))) == _checksum(source)


def kernel_sources() -> list[Path]:
    """Return the files that a kernel can depend on.

    They are those that import this one, those of algorithms, whose steps become parts of kernels, and all
    that these import.

    Examples
    --------
    >>> {"numeric.py", "double_chain.py"} <= {source.name for source in kernel_sources()}
    True
    """
    sources = {source: source.read_text(encoding="utf-8") for source in PACKAGE.rglob("*.py")}
    found: set[Path] = set()
    algorithms = PACKAGE / "algorithms"
    todo = [s for s, text in sources.items() if "gainbias.kernels import" in text or s.parent == algorithms]
    while todo:
        source = todo.pop()
        if source not in found:
            found.add(source)
            names = re.findall(r"^from gainbias\.([\w.]+) import", sources[source], flags=re.MULTILINE)
            paths = [PACKAGE / name.replace(".", "/") for name in names]
            todo += [
                file
                for path in paths
                for file in (path.with_suffix(".py"), path / "__init__.py")
                if file in sources
            ]
    return sorted(found)


def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is part of this package, so that the name of the cache's folder covers it.

    Examples
    --------
    >>> is_own(is_own), is_own(lambda: 0)
    (True, False)
    """
    return Path(function.__code__.co_filename).is_relative_to(PACKAGE)
