"""What results were made with: the code that a unit can reach, versions of others, the machine, and when.

`code_of` is part of the id of every unit of work, so a change of the code that it can reach makes stored
results out of date; `made_with` shows later what changed. `code_version` is that of the whole package,
which workers must share. `circumstances` is the part of a manifest that any study has.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import gainbias

PACKAGE = Path(gainbias.__file__).parent
RECORDED = ("numpy", "scipy", "numba", "gymnasium", "mo-gymnasium", "pandas", "pyarrow")
"""Packages whose versions are recorded."""

NOT_OF_RESULTS = ("report", "testing", "evaluation", "cli")
"""Parts of this package that no stored run depends on."""

COUNTED = {
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "pymetis": "pymetis",
    "gymnasium": "gymnasium",
    "mo_gymnasium": "mo-gymnasium",
}
"""Names of other packages as imported and as installed, if this package computes with them; the rest are
used to store, show and draw."""

REGISTRIES = {
    "gainbias.algorithms.registry": ("gainbias.algorithms.",),
    "gainbias.tasks.registry": ("gainbias.tasks.chains", "gainbias.tasks.gym"),
    "gainbias.experiments.cell": ("gainbias.theory",),
}
"""Modules that import things that only some units use, and what these are; a unit that uses one names it."""

COLLECTS = "gainbias.experiments.claims."
"""Modules whose names begin like this may use all entries of registries, as the user's may."""

MACHINERY = {
    *(f"gainbias.experiments.{name}" for name in ("engines", "workers", "runner", "results", "provenance")),
    *(f"gainbias.{name}" for name in ("progress", "extras", "suggest")),
}
"""Modules that send units to workers, store the answers and show progress: they compute nothing."""

IMPORTING = ("import_module", "optional", "__import__")
"""Functions that import the module whose name they are given."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables for the threads of linear algebra; the first that is set counts."""

_ONE_PARSER = threading.Lock()
"""Python 3.11 cannot parse in several threads at a time, as in a Dask cluster within one process."""


@cache
def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that results depend on; None for those that are missing.

    Examples
    --------
    >>> sorted(package_versions())[:2]
    ['gymnasium', 'mo-gymnasium']
    """
    return {name: installed_version(name) for name in RECORDED}


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def code_version() -> str:
    """Return the version of this package, and a hash of its code and of the versions of others.

    Workers must have the same. A stored unit depends on less: see `code_of`.

    Examples
    --------
    >>> code_version().startswith(gainbias.__version__)
    True
    """
    digest = hashlib.sha256(repr(package_versions()).encode())
    paths = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".csv"))
    kept = [path for path in paths if path.relative_to(PACKAGE).parts[0] not in NOT_OF_RESULTS]
    for content in sorted(_digest(path) for path in kept):
        digest.update(content)
    return f"{gainbias.__version__}+{digest.hexdigest()[:16]}"


Reach: TypeAlias = tuple[str, ...]
"""Names of the modules in which a unit begins: its own, and those of the task and the algorithm it names."""


class MissingModuleError(ValueError):
    """A module of the user's own cannot be found from here."""


@cache
def code_of(reach: Reach) -> str:
    """Return a hash of the code that a unit can reach, and of the versions that matter for its numbers.

    The code is the syntax of all modules that its own modules import, directly or not; comments,
    docstrings, and names and places of files do not count. The versions are those of the packages that these
    modules import.

    Parameters
    ----------
    reach : tuple of str
        Names of the modules in which the unit begins.

    Raises
    ------
    MissingModuleError
        If a module of the user's own cannot be found.

    Examples
    --------
    >>> code_of(("gainbias.algorithms.lstd",)) == code_of(("gainbias.algorithms.td_lambda",))
    False
    """
    modules, packages = reached(reach)
    digest = hashlib.sha256(repr(sorted(packages.items())).encode())
    for content in sorted(modules.values()):
        digest.update(content)
    return digest.hexdigest()[:16]


def made_with(reach: Reach) -> dict[str, Any]:
    """Return data that later show why stored results are out of date.

    Returns
    -------
    dict
        "reach"; "modules", a short hash of each module that counts; "packages", the versions of others.

    Examples
    --------
    >>> found = made_with(("gainbias.tasks.chains.classic",))
    >>> "gainbias.model.process" in found["modules"], "gymnasium" in found["packages"]
    (True, False)
    """
    modules, packages = reached(reach)
    digests = {name: content.hex()[:12] for name, content in sorted(modules.items())}
    return {"reach": list(reach), "modules": digests, "packages": packages}


@cache
def reached(reach: Reach) -> tuple[dict[str, bytes], dict[str, str | None]]:
    """Return a hash of each module that can be reached, and the versions of the packages they import.

    Imports inside functions count, too; imports for type checkers only do not, nor does `MACHINERY`. A
    registry imports every entry, but a unit uses only those that it names: imports from `REGISTRIES` to
    entries are followed only for code that may use any of them, such as claims and the user's modules.
    """
    found, packages = dict[str, bytes](), set[str]()
    own = _own_places(reach)
    waiting = [(name, name.startswith(COLLECTS) or not _is_ours(name)) for name in reach]
    seen = set[tuple[str, bool]]()
    while waiting:
        name, any_entry = waiting.pop()
        path = _source_of(name, own)
        if path is None or name in MACHINERY or (name, any_entry) in seen:
            continue
        seen.add((name, any_entry))
        source = _parsed(path.read_bytes(), name, path.name == "__init__.py")
        found[name] = source.digest
        data = (path.parent / "data").glob("*.csv") if source.reads_data else ()
        found.update((f"{name}: {each.name}", _digest(each)) for each in data)
        for imported in (*source.imports, *_parents(name)):
            if not _is_ours(imported) and imported.partition(".")[0] not in own:
                packages.add(imported.partition(".")[0])
            elif any_entry or not imported.startswith(REGISTRIES.get(name, "-")):
                waiting.append((imported, any_entry))
    return found, _versions(packages, bool(own))


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "gainbias"


def _parents(name: str) -> list[str]:
    """Return the packages that contain a module, whose code runs first; that of ours computes nothing."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(2 if _is_ours(name) else 1, len(parts))]


def _source_of(name: str, own: Mapping[str, Path]) -> Path | None:
    """Return the file of a module; None if the name is that of something in a module."""
    top, *inner = name.split(".")
    if top != "gainbias":
        place = own[top].joinpath(top, *inner)
    elif inner:
        place = PACKAGE.joinpath(*inner)
    else:
        return None
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _own_places(reach: Reach) -> dict[str, Path]:
    """Return the folders in which the user's own modules are, by the first part of their names.

    Modules beside the named ones are the user's own, too, but not in a folder of installed packages.
    """
    found = dict[str, Path]()
    for name in reach:
        if _is_ours(name):
            continue
        top = name.partition(".")[0]
        found[top] = folder = folder_of(top)
        if _source_of(name, found) is None:
            raise MissingModuleError(f"there is no module {name!r} in {folder / top}")
        if folder.name not in ("site-packages", "dist-packages"):
            beside = (path for path in folder.iterdir() if path.suffix == ".py" or path.is_dir())
            found |= {path.stem: folder for path in beside if folder_or_none(path.stem) == folder}
    return found


def folder_of(top: str) -> Path:
    """Return the folder that a module or package lies in, without importing it.

    Examples
    --------
    >>> folder_of("gainbias") == PACKAGE.parent
    True
    """
    if folder := folder_or_none(top):
        return folder
    raise MissingModuleError(
        f"cannot find the module {top!r}, which the study names: it must be in the folder of the study's "
        "description, or where Python finds modules (PYTHONPATH), on every machine"
    )


def folder_or_none(top: str) -> Path | None:
    """Return the same, or None."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        return None
    places = list(spec.submodule_search_locations or [str(spec.origin)])
    return Path(places[0]).resolve().parent


def _versions(imported: Iterable[str], has_own: bool) -> dict[str, str | None]:
    """Return the versions of packages that count, by the names under which they are installed.

    All packages that only the user's own modules import count.
    """
    found = {COUNTED[name]: installed_version(COUNTED[name]) for name in imported if name in COUNTED}
    if has_own:
        installed = metadata.packages_distributions()
        names = {name for top in imported for name in installed.get(top, ())}
        found |= {name: installed_version(name) for name in names - {"pandas", "pyarrow", "gainbias"}}
    return dict(sorted(found.items()))


class ParsedSource(NamedTuple):
    """The syntax of a module, its possible imports, and whether it reads data of its package."""

    digest: bytes
    imports: frozenset[str]
    reads_data: bool


def _digest(path: Path) -> bytes:
    content = path.read_bytes()
    is_code = path.suffix == ".py"
    return _parsed(content, "", False).digest if is_code else hashlib.sha256(content).digest()


@cache
def _parsed(content: bytes, name: str, is_package: bool) -> ParsedSource:
    with _ONE_PARSER:
        tree = ast.parse(content)
    imports = _imports(tree, name if is_package else name.rpartition(".")[0])
    return ParsedSource(hashlib.sha256(_meaning(tree)).digest(), imports, "importlib.resources" in imports)


def _meaning(tree: ast.Module) -> bytes:
    """Return the syntax tree of a module without docstrings and without the places of the user's modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            node.module = "gainbias"
    return ast.dump(tree).encode()


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imports(tree: ast.Module, package: str) -> frozenset[str]:
    """Return the names of modules that a source may import, and the names that it takes from them."""
    found, names = set[str](), set[str]()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            names |= {alias.asname or "gainbias" for alias in node.names if alias.name == "gainbias"}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and node.args and _names_a_module(node):
            found.add(node.args[0].value)  # type: ignore[attr-defined]
    found |= {f"gainbias.{name}" for name in _taken(tree, names)}
    return frozenset(_homes(found))


def _names_a_module(call: ast.Call) -> bool:
    called = getattr(call.func, "id", getattr(call.func, "attr", ""))
    first = call.args[0]
    return called in IMPORTING and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _taken(tree: ast.Module, names: set[str]) -> set[str]:
    """Return what is used from this package if it is imported under a name, as in ``gb.solve``."""
    if not names:
        return set()
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    taken = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id in names]
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    anything = set(_public()) if len(uses) > len(taken) else set()  # as in getattr(gb, name)
    return {node.attr for node in taken} | anything


def _homes(names: Iterable[str]) -> set[str]:
    """Return names of modules, and the modules that define public names of this package among them."""
    found = set(names)
    public = {f"gainbias.{name}": home for name, home in _public().items()}
    return found | {public[name] for name in found & public.keys()}


def _public() -> dict[str, str]:
    """Return the modules of the public names of this package."""
    homes: dict[str, str] = vars(gainbias)["_HOMES"]
    return homes


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
    """Return a hash of something that JSON can represent.

    Examples
    --------
    >>> hash_of({"task": "taxi"}) == hash_of({"task": "boyan-chain"})
    False
    """
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:24]


def circumstances(ids: Iterable[str], *, command: str, reused: int, seconds: float) -> dict[str, Any]:
    """Return the part of a manifest that every study has.

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
