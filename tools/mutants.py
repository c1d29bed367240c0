"""Measure whether the tests notice wrong code: change the code in one place, and see whether a test fails.

Run it from the root of a checkout::

    python -m tools.mutants                      # 300 mutants; continues where an earlier run stopped
    python -m tools.mutants --only model/solve   # only mutants of files whose path begins with this
    python -m tools.mutants --list               # what would be run
    python -m tools.mutants --show KEY           # the change, as a diff
    python -m tools.mutants --write              # also put the table into docs/benchmarks.md

Places are drawn by a fixed seed, from each target in proportion to how many it has; `tools.mutations` says
what is changed. A mutant is tried on a copy of the package, with the examples of its module and the tests
that ``tools/mutant_tests.toml`` names for it. It is *killed* if one of them fails, *timed out* if they take
far longer than usual, and it *survives* if all pass: then no test needs that code to be right. Tests that
fail without any change are left out, and the run says so.

Results are kept in ``results/mutants``, line by line. A result is reused while the mutated file is unchanged,
and that of a survivor only while its tests are unchanged too.

Compiled kernels are mutated like other code; other tools for this leave out decorated functions. Mutants
that no test can tell from the original are listed in ``tools/equivalent_mutants.toml``, each with an
argument. They are not run and are counted apart.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import os
import py_compile
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.mutations import Mutant, Place, digest, draw, places_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gainbias"
RESULTS = ROOT / "results" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by make mutants -->", "<!-- end of what make mutants writes -->"
MOST_EQUIVALENT = 0.05  # of the mutants that are drawn
MOST_BYTES = 12 * 2**30  # of address space: a wrong constant may ask for a very large array
TARGETS = ("model/solve", "algorithms", "engine", "evaluation/gain", "theory/bounds")

TESTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("mutant_tests.toml").read_text())
OUTCOMES = ("killed", "timed out", "survived", "equivalent")


def tests_of(path: str) -> tuple[str, ...]:
    """Return the tests that matter for a module, by its path in the package.

    Examples
    --------
    >>> tests_of("engine/schedules.py")[0]
    'tests/engine/test_schedules.py'
    """
    known = max((prefix for prefix in TESTS if path.startswith(prefix)), key=len)
    return tuple(dict.fromkeys(f"tests/{name}" for name in TESTS[known]))


WRONG_COPY = 97
OPTIONS = ["-q", "--tb=no", "--no-header", "-m", "not slow", "-p", "no:cacheprovider"]
OPTIONS += [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
CHILD = f"""
import os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({MOST_BYTES}, {MOST_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from numba.core import caching
# The folder of a kernel is named by what it does, so code compiled for another copy of a file is as good.
caching.UserProvidedCacheLocator.get_source_stamp = lambda self: ""
caching._CacheLocator.get_suitable_cache_subpath = classmethod(lambda cls, file: Path(file).stem)
import gainbias, pytest
if not Path(gainbias.__file__).is_relative_to(sys.argv[1]):
    os._exit({WRONG_COPY})
sys.exit(pytest.main(sys.argv[2:]))
"""


class Laboratory:
    """A copy of the package in which one mutant after the other is tried."""

    def __init__(self, folder: Path, warm: Path) -> None:
        self.folder, self.warm = folder.resolve(), warm
        self._child: subprocess.Popen[str] | None = None
        self._is_stopped = False
        shutil.copytree(PACKAGE, self.folder / "gainbias", ignore=shutil.ignore_patterns("__pycache__"))
        # Byte code is checked by content, so two mutants of the same second and length are never confused.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self.folder, quiet=2, invalidation_mode=checked)

    def try_mutant(self, mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any]:
        """Run tests on the copy with one change; return the outcome, and which test failed first."""
        file = self.folder / "gainbias" / mutant.path
        before = file.read_text()
        file.write_text(mutant.apply(before))
        cache = self.folder / "cache"
        shutil.copytree(self.warm, cache, copy_function=os.link)  # numba replaces files, and never edits them
        try:
            return self.run(tests, limit, cache)
        finally:
            file.write_text(before)
            shutil.rmtree(cache)

    def run(self, tests: list[str], limit: float, cache: Path, *, stop: bool = True) -> dict[str, Any]:
        """Run tests on the copy as it is, up to the first that fails or all of them."""
        options = [*OPTIONS, f"--basetemp={self.folder / 'tmp'}", *(["-x"] if stop else [])]
        # With --times a test does not fail for taking long, which on a busy machine would say nothing.
        options.append(f"--times={self.folder}")
        # The empty file makes pytest read conftest.py even where only the examples of a module are run.
        paths = ["tests/__init__.py", *(test.replace("src/", f"{self.folder}/") for test in tests)]
        own = {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(cache), "OPENBLAS_NUM_THREADS": "1"}
        own["HYPOTHESIS_STORAGE_DIRECTORY"] = str(self.folder / "hypothesis")
        begin = time.monotonic()
        child = self._child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(self.folder), *options, *paths],
            env={**os.environ, **own},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, code = child.communicate(timeout=limit)[0], child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output, code = child.communicate()[0], None
        if self._is_stopped:  # the outcome says nothing about the mutant
            raise InterruptedError
        failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        if code == WRONG_COPY or (not stop and code in (None, 4, 5)):  # the last two: nothing was run
            raise RuntimeError(f"the tests could not be run (exit status {code}):\n{output[-2000:]}")
        outcome = "timed out" if code is None else "killed" if code else "survived"
        seconds = round(time.monotonic() - begin, 1)
        return {"outcome": outcome, "code": code, "failing": failing, "seconds": seconds}

    def stop(self) -> None:
        """End the tests that are running, because the user wants to stop."""
        self._is_stopped = True
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)


class Run:
    """The mutants of one draw, tried in several processes; results are kept line by line."""

    def __init__(self, mutants: list[Mutant], workers: int) -> None:
        self.mutants, self.workers = mutants, workers
        self._lock = threading.Lock()
        self._laboratories: list[Laboratory] = []
        self._free: queue.Queue[Laboratory] = queue.Queue()
        RESULTS.mkdir(parents=True, exist_ok=True)

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Try all mutants without a valid result; return the results of all, by id."""
        known = self.known()
        todo = [mutant for mutant in self.mutants if mutant.id not in known]
        todo.sort(key=lambda mutant: mutant.key)  # mixed, so that a run that is stopped has tried all targets
        if not todo:
            return known
        counts = Counter[str]()
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            for i in range(self.workers):
                self._laboratories.append(Laboratory(Path(folder) / str(i), RESULTS / "cache"))
                self._free.put(self._laboratories[-1])
            usual = self._unchanged(sorted({test for mutant in todo for test in _all_tests(mutant)}))
            for done, record in enumerate(self._parallel(lambda *a: self._try(*a, usual), todo), 1):
                known[record["id"]] = record
                counts[record["outcome"]] += 1
                _say(f"{done} of {len(todo)} mutants, {counts['survived']} survived | {record['id']}")
        return known

    def known(self) -> dict[str, dict[str, Any]]:
        """Return valid results: the file is the same, and tests too unless one of them failed anyway."""
        file, known = RESULTS / "results.jsonl", {}
        wanted = {mutant.id: mutant for mutant in self.mutants}
        for line in file.read_text().splitlines() if file.exists() else ():
            record = json.loads(line)
            mutant = wanted.get(record["id"])
            if mutant is not None:
                source, tests = (record[key] == value for key, value in _circumstances(mutant).items())
                if source and (tests or record["outcome"] == "killed"):
                    known[mutant.id] = record
        return known

    def _unchanged(self, tests: list[str]) -> dict[str, dict[str, Any]]:
        """Run tests on the package as it is: fill the cache, see which fail and how long they take."""
        file, cache = RESULTS / "unchanged.json", RESULTS / "cache"
        cache.mkdir(exist_ok=True)
        usual: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
        package = _digest_of(["src/gainbias"])
        keys = {test: f"{package} {_digest_of([test])}" for test in tests}

        def run(laboratory: Laboratory, test: str) -> dict[str, Any]:
            return {"test": test, **laboratory.run([test], 900.0, cache, stop=False), "key": keys[test]}

        todo = [test for test in tests if usual.get(test, {}).get("key") != keys[test]]
        for done, record in enumerate(self._parallel(run, todo), 1):
            usual[record["test"]] = record
            note = f" ({len(record['failing'])} fail without a change and are left out)"
            note *= record["code"] != 0
            _say(f"{done} of {len(todo)} test files on the code as it is: {record['test']}{note}")
            file.write_text(json.dumps(usual, indent=1))
        return usual

    def _try(
        self, laboratory: Laboratory, mutant: Mutant, usual: dict[str, dict[str, Any]]
    ) -> dict[str, Any]:
        usable = (0, 1)  # exit status: all passed, or some failed but all were read
        tests = [test for test in _all_tests(mutant) if usual[test]["code"] in usable]
        tests = [test for test in tests if test.startswith("tests/") or usual[test]["code"] == 0]
        failing = [name for test in tests for name in usual[test]["failing"]]
        limit = 60.0 + 4.0 * sum(usual[test]["seconds"] for test in tests)
        found = laboratory.try_mutant(mutant, [*tests, *(f"--deselect={name}" for name in failing)], limit)
        with self._lock:
            return keep(mutant, found)

    def _parallel(self, work: Callable[[Laboratory, Any], dict[str, Any]], todo: list[Any]) -> Iterator[Any]:
        def with_laboratory(item: Any) -> dict[str, Any]:
            laboratory = self._free.get()
            try:
                return work(laboratory, item)
            finally:
                self._free.put(laboratory)

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                yield from pool.map(with_laboratory, todo)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for laboratory in self._laboratories:
                    laboratory.stop()
                raise


def keep(mutant: Mutant, found: dict[str, Any]) -> dict[str, Any]:
    """Append what was found about a mutant to the file of results; return the line as a record."""
    record = {"id": mutant.id, "key": mutant.key, **found, **_circumstances(mutant)}
    with open(RESULTS / "results.jsonl", "a") as file:
        file.write(json.dumps(record) + "\n")
    return record


def _circumstances(mutant: Mutant) -> dict[str, str]:
    source, tests = [f"src/gainbias/{mutant.path}"], tests_of(mutant.path)
    return {"source": _digest_of(source), "tests": _digest_of(tests)}


def _all_tests(mutant: Mutant) -> list[str]:
    """Return the examples in the module's own docstrings, and the tests that matter for it."""
    module = f"src/gainbias/{mutant.path}"
    return [*([module] if ">>>" in (ROOT / module).read_text() else []), *tests_of(mutant.path)]


def _digest_of(paths: Iterable[str]) -> str:
    """Return a digest of files, and of all Python files in folders."""
    found = [ROOT / path for path in paths]
    files = [file for path in found for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return digest("".join(digest(file.read_text()) for file in files))[:16]


def _say(line: str) -> None:
    """Show progress: in one line at a terminal, and line by line elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line[:100]}", end="", file=sys.stderr, flush=True)
    else:
        print(line[:160], file=sys.stderr, flush=True)


def equivalents(file: Path = EQUIVALENT) -> dict[str, str]:
    """Return the arguments why mutants cannot be told from the original, by id."""
    return {entry["id"]: entry["argument"] for entry in tomllib.loads(file.read_text()).get("mutant", [])}


def summary(rows: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Count outcomes by group; the share is that of mutants that were noticed, equivalent ones left out.

    Parameters
    ----------
    rows : iterable of (group, outcome)

    Examples
    --------
    >>> summary([("engine", "killed"), ("engine", "survived"), ("engine", "equivalent")])[0]["share"]
    0.5
    """
    counts: dict[str, Counter[str]] = {}
    for group, outcome in rows:
        counts.setdefault(group, Counter())[outcome] += 1
    table = []
    for group, found in counts.items():
        noticed = found["killed"] + found["timed out"]
        share = noticed / max(noticed + found["survived"], 1)
        table.append({"target": group, "mutants": found.total(), **{key: found[key] for key in OUTCOMES}})
        table[-1]["share"] = round(share, 3)
    return table


def markdown(table: list[dict[str, Any]]) -> str:
    """Return a summary as a table in Markdown."""
    heads = [*table[0]]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in table:
        lines.append("| " + " | ".join([*map(str, list(row.values())[:-1]), f"{row['share']:.1%}"]) + " |")
    return "\n".join(lines)


def report(mutants: list[Mutant], outcomes: dict[str, str], json_instead: bool, write: bool) -> None:
    """Print survivors and the summary, and keep them in a file."""
    rows = [
        (group, outcomes[mutant.id])
        for mutant in mutants
        for group in (_room(mutant.path), *(["compiled kernels"] if mutant.compiled else []))
    ]
    order = [*TARGETS, "compiled kernels"]
    table = summary(sorted(rows, key=lambda row: order.index(row[0])))
    table += summary(("all", outcomes[mutant.id]) for mutant in mutants)
    survivors = {
        mutant.id: mutant.diff((PACKAGE / mutant.path).read_text())
        for mutant in mutants
        if outcomes[mutant.id] == "survived"
    }
    text = json.dumps({"summary": table, "survivors": survivors}, indent=1)
    (RESULTS / "summary.json").write_text(text + "\n")
    shown = f"{len(mutants)} mutants:\n\n{markdown(table)}"
    if json_instead:
        print(text)
    else:
        for name, diff in survivors.items():
            print(f"\nsurvived: {name}\n{diff}")
        print(f"\n{shown}\n\n'compiled kernels' are part of the rows above them.")
    if write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{shown}\n\n{END}{rest.partition(END)[2]}")


def _room(path: str) -> str:
    return next(room for room in TARGETS if path.startswith(room))


def all_places(only: str = "") -> dict[str, list[Place]]:
    """Return the places of all targets, by room, of files whose path begins with `only`."""
    rooms: dict[str, list[Place]] = {}
    for room in TARGETS:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            if (path := file.relative_to(PACKAGE).as_posix()).startswith(only):
                rooms.setdefault(room, []).extend(places_of(file.read_text(), path))
    return rooms


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="number of mutants (300)")
    parser.add_argument("--seed", type=int, default=0, help="another draw (0)")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only files whose path begins like this")
    parser.add_argument("--workers", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--list", action="store_true", help="list the mutants that are drawn, and stop")
    parser.add_argument(
        "--show", metavar="KEY", help="show one mutant, by its key or id, as a diff, and stop"
    )
    parser.add_argument("--json", action="store_true", help="print the summary and survivors as JSON")
    parser.add_argument("--write", action="store_true", help="put the summary into docs/benchmarks.md")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Draw mutants and try them, or show them."""
    parser = _parser()
    told = parser.parse_args(arguments)
    if told.only and told.write:
        parser.error("the table in docs/benchmarks.md is about all targets: leave out --only or --write")
    rooms = all_places(told.only)
    every = {mutant.id: mutant for places in rooms.values() for place in places for mutant in place}
    if told.show:
        for mutant in every.values():
            if told.show in (mutant.key, mutant.id):
                print(f"{mutant.id}\n{mutant.diff((PACKAGE / mutant.path).read_text())}")
        return
    mutants = draw(rooms, told.sample, told.seed)
    if not mutants:
        parser.error(f"there is nothing to change in the targets that begin with {told.only!r}")
    if told.list:
        for mutant in mutants:
            print(f"{mutant.key}  {mutant.path}:{mutant.line}  {mutant.operator}  |  {mutant.text}")
        return
    listed = equivalents()
    if not told.only and (unknown := listed.keys() - every.keys()):
        parser.error(f"{EQUIVALENT.name} lists mutants that no longer exist: {sorted(unknown)}")
    equivalent = [mutant for mutant in mutants if mutant.id in listed]
    if len(equivalent) > math.ceil(MOST_EQUIVALENT * len(mutants)):
        parser.error(
            f"{len(equivalent)} of {len(mutants)} are called equivalent, more than {MOST_EQUIVALENT:.0%}"
        )
    found = Run([mutant for mutant in mutants if mutant.id not in listed], told.workers).outcomes()
    outcomes = {name: record["outcome"] for name, record in found.items()}
    report(mutants, outcomes | {mutant.id: "equivalent" for mutant in equivalent}, told.json, told.write)


if __name__ == "__main__":
    main()
