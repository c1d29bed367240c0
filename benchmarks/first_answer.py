"""How long the first answer takes on a fresh machine, where nothing is compiled yet.

    python -m benchmarks.first_answer

Every call is made in a process of its own, in an empty folder, with an empty folder for compiled kernels:
once, and once more with what is compiled then. Shown are seconds that pass, seconds of processor time,
after how many seconds the message came that code is compiled, and how many kernels were compiled. Snippets
are those of README.md, and a few more. On a busy machine look at processor time only.
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
    "compare FrozenLake-v1 --policy random --policy left.npy",
    "solve frozen-lake",
    "solve taxi",
    "solve random-walk-1000",
    "solve deep-sea",
    "bound frozen-lake",
    "run frozen-lake --algorithm single-chain",
    "demo",
)
"""What somebody may type first."""

BEGIN = "import numpy as np\nimport gainbias as gb\n"

GRID = """
import scipy.sparse as sparse
line = sparse.diags_array([np.ones(SIDE - 1), np.ones(SIDE - 1)], offsets=[1, -1])
rates = (sparse.kron(sparse.eye_array(SIDE), line) + sparse.kron(line, sparse.eye_array(SIDE))).tocsr()
generator = rates - sparse.diags_array(rates.sum(axis=1))
gb.solve(gb.MarkovRewardProcess.from_rates(generator, reward_rates=np.arange(SIDE**2)))
"""

SNIPPETS = {
    "gb.evaluate_log(log, action=..., policy=...)": """
rng = np.random.default_rng(0)
states, actions = rng.integers(0, 5, 20_001), rng.integers(0, 2, 20_000)
log = {"state": states[:-1], "action": actions, "reward": states[1:], "next_state": states[1:]}
gb.evaluate_log(log, action="action", policy=lambda state: 1)
""",
    "gb.exact_curve, 1,000 steps": """
gb.exact_curve("double-chain", gb.task("frozen-lake"), 1000, gb.Harmonic(20, 200))
""",
    "gb.solve, a grid of 90,000 states": GRID.replace("SIDE", "300"),
    "gb.solve, a grid of 490,000 states": GRID.replace("SIDE", "700"),
}
"""What else somebody may ask first in Python."""


def write_files(folder: Path) -> None:
    """Write numbers, an event log and a log of states, of 20,000 rows each, and a policy for a lake."""
    np.save(folder / "left.npy", np.zeros(16, dtype=int))
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
    return named | {name: ["-c", BEGIN + code] for name, code in SNIPPETS.items()}


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
    print("| first | processor | message | kernels | again | processor | call |")
    print("|---:|---:|---:|---:|---:|---:|---|")
    for name, words in calls().items():
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            passed, used, said = timed(words, cache)
            kernels = len(list(cache.rglob("*.nbc")))
            again, used_again, _ = timed(words, cache)
        message = "-" if said is None else f"{said:.1f}"
        shown = f"{passed:.1f}", f"{used:.1f}", message, str(kernels), f"{again:.1f}", f"{used_again:.1f}"
        print("|", " | ".join((*shown, f"`{name}`")), "|", flush=True)


if __name__ == "__main__":
    main()
