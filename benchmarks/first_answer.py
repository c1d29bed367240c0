"""How long the first answer takes on a fresh machine, where nothing is compiled yet.

    python -m benchmarks.first_answer

Every call is made in a process of its own, in an empty folder, with an empty folder for compiled kernels:
once, and once more with what is compiled then. Shown are seconds that pass, seconds of processor time, and
after how many seconds the message came that code is compiled. Snippets are those of README.md. On a busy
machine look at processor time only.
"""

from __future__ import annotations

import doctest
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"

COMMANDS = (
    "evaluate numbers.csv",
    "evaluate events.csv --column queue --time at",
    "evaluate log.csv",
    "evaluate FrozenLake-v1 --policy random",
    "solve frozen-lake",
    "run frozen-lake --algorithm single-chain",
    "demo",
)
"""What somebody may type first."""

BEGIN = "import numpy as np\nimport gainbias as gb\n"


def write_files(folder: Path) -> None:
    """Write numbers, an event log and a log of states, of 20,000 rows each."""
    rng = np.random.default_rng(0)
    numbers = rng.exponential(size=20_000)
    states = rng.integers(0, 5, 20_000)
    for name, head, columns in (
        ("numbers.csv", "ms", [numbers]),
        ("events.csv", "at,queue", [np.cumsum(numbers), states]),
        ("log.csv", "state,reward", [states, 2 * states]),
    ):
        rows = np.column_stack(columns)
        np.savetxt(folder / name, rows, fmt="%g", delimiter=",", header=head, comments="")


def calls() -> dict[str, list[str]]:
    """Return the words of each call by its name."""
    named = {f"gainbias {words}": ["-m", "gainbias", *words.split()] for words in COMMANDS}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        code = doctest.script_from_examples(block)
        last = [line for line in code.splitlines() if line and not line.startswith("#")][-1]
        named[f"README: {last[:60]}"] = ["-c", BEGIN + code]
    return named


def timed(words: list[str], cache: Path) -> tuple[float, float, float | None]:
    """Return how long a call takes, its processor time, and when it said that it compiles."""
    folder = Path(tempfile.mkdtemp(dir=cache.parent))
    write_files(folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, said = time.perf_counter(), None
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr or ():
            if "compiling" in line and said is None:
                said = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


def main() -> None:
    """Print a row for each call."""
    print("| first | processor | message | again | processor | call |\n|---:|---:|---:|---:|---:|---|")
    for name, words in calls().items():
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            passed, used, said = timed(words, cache)
            again, used_again, _ = timed(words, cache)
        message = "-" if said is None else f"{said:.1f}"
        row = (f"{passed:.1f}", f"{used:.1f}", message, f"{again:.1f}", f"{used_again:.1f}", f"`{name}`")
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
