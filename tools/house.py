"""Measure the house: how many modules, how large, how tangled, and how many a call passes through.

Run it from the root of a checkout::

    python -m tools.house            # a table
    python -m tools.house --json     # the same, to compare two versions

It reads the sources in ``src`` as text; for the last rows it makes five calls and notes which modules they
enter. A *return* is a step from one module into another that the call has entered before, each pair of
modules counted once: how often a reader who follows the call has to go back to a file.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import statistics
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gainbias"
SHORT = 3  # lines of a function that is little more than a name


def measure_sources(package: Path = PACKAGE) -> dict[str, Any]:
    """Count modules, lines, functions, importers and repeated names.

    Examples
    --------
    >>> measure_sources()["modules"] > 100
    True
    """
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    wanted = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    nodes = {path: [one for one in ast.walk(tree) if isinstance(one, wanted)] for path, tree in trees.items()}
    every = [node for own in nodes.values() for node in own]
    rooms = [path for path in trees if path.name == "__init__.py"]
    modules = [path for path in trees if path.name != "__init__.py"]
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    sizes = [lines[path] for path in modules]
    functions = [node for node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    largest = max(modules, key=lambda path: lines[path])
    return {
        "modules": len(modules),
        "rooms": len(rooms),
        "lines": sum(lines.values()),
        "median module": statistics.median(sizes),
        "largest module": f"{largest.relative_to(package)}, {lines[largest]} lines",
        "functions": len(functions),
        f"functions of at most {SHORT} lines": sum(_body_lines(node) <= SHORT for node in functions),
        "modules with one importer": sum(count == 1 for count in _importers(nodes, package).values()),
        "repeated file names": _repeated(path.name for path in modules),
        "repeated class names": _repeated(node.name for node in every if isinstance(node, ast.ClassDef)),
        "repeated constants": _repeated(_constants(trees)),
    }


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _importers(nodes: dict[Path, list[Any]], package: Path) -> Counter[str]:
    """Count for each module the modules that import it."""
    names = {_module_name(path, package) for path in nodes}
    counts: Counter[str] = Counter()
    for path, own in nodes.items():
        found: set[str] = set()
        for node in own:
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        counts.update((found & names) - {_module_name(path, package)})
    return counts


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _constants(trees: dict[Path, ast.Module]) -> Iterator[str]:
    for tree in trees.values():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper() and len(target.id) > 1:
                    yield target.id


def _repeated(names: Iterator[str]) -> str:
    repeated = {name: count for name, count in Counter(names).items() if count > 1}
    shown = ", ".join(f"{name} {count}" for name, count in sorted(repeated.items(), key=lambda x: -x[1])[:8])
    return f"{len(repeated)} ({shown})" if repeated else "0"


def follow(call: Callable[[], object], package: Path = PACKAGE) -> tuple[int, int]:
    """Return how many modules a call passes through, and how many times it returns to one already seen.

    Examples
    --------
    >>> follow(lambda: None)
    (0, 0)
    """
    entered: dict[str, None] = {}
    edges: set[tuple[str, str]] = set()
    returns: set[tuple[str, str]] = set()
    prefix = str(package)

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(prefix):
            return
        if frame.f_code.co_name == "<module>":
            return
        here, caller = frame.f_code.co_filename, frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(prefix):
            caller = caller.f_back
        there = caller.f_code.co_filename if caller is not None else ""
        if here != there and (there, here) not in edges:
            edges.add((there, here))
            if here in entered:
                returns.add((there, here))
        entered[here] = None

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(entered), len(returns)


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the calls that are followed: one of each kind, small."""
    import numpy as np

    import gainbias as gb

    walk = gb.task("random-walk-50").problem
    process = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 0.0])
    study = gb.Study(
        algorithms=["td-lambda"], tasks=["boyan-chain"], step_size=0.01, num_steps=100, instances=2
    )
    log = {"state": np.arange(2000) % 7, "reward": np.arange(2000) % 5 + 0.5}
    return {
        "solve": lambda: gb.solve(process),
        "run": lambda: gb.run("td-lambda", walk, num_steps=100, step_size=gb.Constant(0.01), seeds=[0]),
        "evaluate": lambda: gb.evaluate("FrozenLake-v1", np.zeros(16, dtype=int), num_steps=2000),
        "evaluate_log": lambda: gb.evaluate_log(log),
        "sweep": lambda: gb.sweep(study, folder / "sweep", workers=1),
        "reproduce": lambda: gb.reproduce(
            folder / "study", tasks=["frozen-lake"], instances=1, shorten=100, workers=1
        ),
    }


def measure_calls() -> dict[str, str]:
    """Follow each call once, after it has run once to compile."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again in ("first", "second"):
            for name, call in calls(Path(folder) / again).items():
                passed, returns = follow(call)
                found[f"modules passed by {name}"] = f"{passed}, {returns} returns"
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--sources-only", action="store_true", help="make no calls")
    options = parser.parse_args()
    found = measure_sources() | ({} if options.sources_only else measure_calls())
    if options.json:
        print(json.dumps(found, indent=2))
        return
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value}")


if __name__ == "__main__":
    main()
