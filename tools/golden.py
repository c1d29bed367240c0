"""Compare what the package answers now with what it answered before.

``tests/golden.json`` holds the answers to over 140 calls: exact solutions, runs, bounds, evaluations, a small
sweep, a shortened reproduction, JSON outputs, helps and error messages::

    python -m tools.golden check            # compare; on the machine that wrote the file, bit for bit
    python -m tools.golden check --digits 9 # compare numbers to nine digits, as between machines
    python -m tools.golden write            # rewrite the file; say in the commit what changed and why

If a change alters an answer on purpose, rewrite the file; the commit then shows the difference.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import gainbias as gb
from gainbias.cli.verbs import main as command_line

FILE = Path(__file__).parents[1] / "tests" / "golden.json"
SHOWN = 12  # entries of an array that are kept, besides its shape and its sum
CHANGING = (
    "seconds",
    "version",
    "created",
    "command",
    "processor",
    "bytes",
    "started",
    "finished",
    "machine",
)
"""What differs from run to run and says nothing about an answer: entries of records with these words."""

Call = Callable[[], Any]


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays by shape, sum and some entries, records by their fields.

    Examples
    --------
    >>> plain(np.arange(3.0))
    {'shape': [3], 'sum': 3.0, 'entries': [0.0, 1.0, 2.0]}
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "bif":
            return {
                "length": value.size,
                "different": sorted({str(entry) for entry in value.ravel()})[:SHOWN],
            }
        flat = value.ravel()
        chosen = flat[np.linspace(0, len(flat) - 1, min(SHOWN, len(flat))).astype(int)] if len(flat) else flat
        total = math.fsum(flat.tolist()) if np.isfinite(flat.astype(float)).all() else "not finite"
        return {
            "shape": list(value.shape),
            "sum": plain(total),
            "entries": [plain(x) for x in chosen.tolist()],
        }
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        kept = {str(k): v for k, v in value.items() if not any(word in str(k) for word in CHANGING)}
        return {name: plain(entry) for name, entry in kept.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        whole = list(value)
        if len(whole) > SHOWN and all(isinstance(entry, int | float) for entry in whole):
            return plain(np.array(whole, dtype=float))
        if len(whole) > SHOWN and not isinstance(whole[0], str):
            return {"length": len(whole), "entries": [plain(entry) for entry in whole[:: len(whole) // 4]]}
        return [plain(entry) for entry in whole]
    return plain({name: entry for name, entry in vars(value).items() if not name.startswith("_")})


def frame(table: Any) -> Any:
    """Return a table column by column, without what differs from run to run."""
    return {
        name: plain(column.to_numpy())
        for name, column in table.items()
        if not any(word in name for word in CHANGING) and name != "unit"
    }


# -- models -----------------------------------------------------------------------------------------------


def machine() -> gb.MarkovRewardProcess:
    """Return a machine of two states."""
    return gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, -2.0])


def walk(n: int = 400) -> gb.MarkovRewardProcess:
    """Return a birth-death chain."""
    up, down = np.full(n - 1, 0.3), np.full(n - 1, 0.4)
    stay = 1.0 - np.concatenate([up, [0.0]]) - np.concatenate([[0.0], down])
    chain = sp.diags_array([down, stay, up], offsets=[-1, 0, 1]).tocsr()
    return gb.MarkovRewardProcess(chain, np.sin(np.arange(n)))


def expander(n: int = 3_000) -> gb.MarkovRewardProcess:
    """Return a random sparse chain."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n), 6)
    chain = sp.coo_array((np.full(6 * n, 1 / 6), (rows, rng.integers(n, size=6 * n))), shape=(n, n)).tocsr()
    return gb.MarkovRewardProcess(chain, rng.normal(size=n))


def grid(n: int = 40) -> gb.MarkovRewardProcess:
    """Return a walk on a torus with drift."""
    ring = sp.diags_array([0.7, 0.3, 0.3, 0.7], offsets=[1, -1, n - 1, 1 - n], shape=(n, n))
    both = (sp.kron(ring, sp.eye_array(n)) + sp.kron(sp.eye_array(n), ring)) / 2
    return gb.MarkovRewardProcess(both.tocsr(), np.cos(np.arange(n * n)))


def blocks(coupling: float = 1e-9) -> gb.MarkovRewardProcess:
    """Return a chain of two weakly connected blocks."""
    rng = np.random.default_rng(1)
    chain = np.zeros((40, 40))
    chain[:20, :20], chain[20:, 20:] = rng.random((20, 20)), rng.random((20, 20))
    chain[0, 20] = chain[20, 0] = coupling
    return gb.MarkovRewardProcess(chain / chain.sum(axis=1, keepdims=True), rng.normal(size=40))


def seen() -> gb.Problem:
    """Return a random chain seen through features."""
    rng = np.random.default_rng(2)
    chain = rng.random((12, 12))
    mrp = gb.MarkovRewardProcess(chain / chain.sum(axis=1, keepdims=True), rng.normal(size=12))
    return gb.Problem(mrp, gb.normalise_features(rng.normal(size=(12, 4))))


def solution(mrp: gb.MarkovRewardProcess, **settings: Any) -> Any:
    """Return the contents of a solution."""
    found = gb.solve(mrp, **settings)
    if isinstance(found, gb.MultichainSolution):
        return plain({"gain": found.gain, "bias": found.bias, "method": found.method})
    names = ("gain", "bias", "stationary", "method", "iterations", "asymptotic_variance")
    return plain({name: getattr(found, name) for name in names})


def exact_calls() -> dict[str, Call]:
    """Return calls about known models."""
    rewards = np.arange(9.0).reshape(3, 3)
    chain = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    kernel = np.stack([chain, chain[::-1]], axis=1)
    two_classes = gb.MarkovRewardProcess([[1, 0, 0], [0, 1, 0], [0.3, 0.3, 0.4]], [1.0, 2.0, 5.0])
    table = gb.Problem(seen().mrp, gb.Tabular())
    return {
        "solve machine": lambda: solution(machine()),
        "solve cycle": lambda: solution(gb.MarkovRewardProcess([[0, 1], [1, 0]], [1.0, 0.0])),
        "solve rewards of moves": lambda: solution(gb.MarkovRewardProcess(chain, rewards)),
        "solve from_mdp": lambda: solution(
            gb.MarkovRewardProcess.from_mdp(kernel, np.arange(6.0).reshape(3, 2), np.array([0, 1, 0]))
        ),
        "solve from_rates": lambda: solution(
            gb.MarkovRewardProcess.from_rates([[-2.0, 2.0], [3.0, -3.0]], [1.0, 0.0])
        ),
        "solve durations": lambda: solution(
            gb.MarkovRewardProcess(
                chain, rewards, durations=1.0 + rewards, reward_rates=[1, 0, 2], duration_variances=rewards
            )
        ),
        "solve multichain": lambda: solution(two_classes, multichain=True),
        "solve walk": lambda: solution(walk()),
        "solve expander": lambda: solution(expander()),
        "solve expander krylov": lambda: solution(expander(), method="krylov"),
        "solve expander power": lambda: solution(expander(), method="power"),
        "solve grid": lambda: solution(grid()),
        "solve grid sparse-gth": lambda: solution(grid(), method="sparse-gth"),
        "solve blocks": lambda: solution(blocks()),
        "solve blocks aggregation": lambda: solution(blocks(), method="aggregation"),
        "solve ergodic": lambda: solution(gb.ergodic(two_classes, 0.1)),
        "structure": lambda: plain(two_classes.structure),
        "fingerprint": lambda: [machine().fingerprint, walk().fingerprint, seen().mrp.fingerprint],
        "deviation matrix": lambda: plain(gb.deviation_matrix(machine())),
        "kemeny constant": lambda: plain(gb.kemeny_constant(seen().mrp)),
        "second eigenvalue": lambda: plain(gb.second_eigenvalue_modulus(walk(50))),
        "mixing time": lambda: plain([gb.mixing_time(seen().mrp, 0.1), seen().mrp.mixing_time(0.01)]),
        "problem": lambda: plain([seen().fixed_point, seen().condition_numbers.as_dict()]),
        "problem table": lambda: plain([table.fixed_point, table.condition_numbers.as_dict()]),
    }


def task_calls() -> dict[str, Call]:
    """Return each small task's fingerprint and fixed point."""
    quick = (
        "random-walk-50",
        "boyan-chain",
        "two-loop",
        "frozen-lake",
        "deep-sea",
        "river-swim",
        "machine-replacement",
    )

    def described(name: str) -> Any:
        task = gb.task(name)
        return plain([task.fingerprint, task.problem.fixed_point, task.problem.solution.gain])

    return {f"task {name}": lambda name=name: described(name) for name in quick if name in gb.TASKS}


# -- algorithms and theory ----------------------------------------------------------------------------------


def trace(name: str, problem: Any, **settings: Any) -> Any:
    """Return the contents of a run."""
    found = gb.run(name, problem, 600, gb.Harmonic(2, 20), seeds=range(2), checkpoints=4, **settings)
    return plain(
        [found.steps, found.transitions, found.weights, found.gain, [str(x) for x in found.outcomes]]
    )


def run_calls() -> dict[str, Call]:
    """Return runs of all algorithms, on features where they allow them and on tables."""
    problem = seen()
    table = gb.Problem(problem.mrp, gb.Tabular())
    sparse = gb.Problem(problem.mrp, sp.csr_array(np.eye(12)[:, :7]))
    found: dict[str, Call] = {}
    for name, algorithm in gb.ALGORITHMS.items():
        found[f"run {name} table"] = lambda name=name: trace(name, table)
        if f"run {name}" and not _tabular_only(algorithm):
            found[f"run {name}"] = lambda name=name: trace(name, problem)
    lanes = [gb.Constant(0.05), gb.Harmonic(1, 10), gb.Polynomial(0.5, 10, 0.7)]
    return found | {
        "run iid": lambda: trace("double-chain", problem, sampling="iid"),
        "run sparse": lambda: trace("single-chain", sparse),
        "run averaged": lambda: trace("td-lambda", problem, tail_average=0.5),
        "run parameters": lambda: trace("td-lambda", problem, params={"trace_decay": [0.0, 0.5, 0.9]}),
        "run lanes": lambda: plain(gb.run("double-chain", problem, 500, lanes, checkpoints=3).weights),
        "run errors": lambda: plain(
            [
                gb.run("single-chain", problem, 300, gb.Harmonic(2, 20), checkpoints=3).errors(kind)
                for kind in ("full", "centred", "quotient")
            ]
        ),
    }


def _tabular_only(algorithm: Any) -> bool:
    declared = getattr(algorithm, "declared", algorithm)
    return bool(getattr(algorithm, "tabular_only", False) or getattr(declared, "tabular_only", False))


def theory_calls() -> dict[str, Call]:
    """Return bounds, exact curves and what follows from them."""
    problem = seen()
    small = gb.Problem(machine(), [[1.0], [0.2]])
    harmonic = gb.Harmonic(0.2, 100)

    def bound(name: str, **settings: Any) -> Any:
        return plain(gb.bound(name, small, num_steps=5_000, **settings).to_dict())

    def curve(name: str, **settings: Any) -> Any:
        found = gb.exact_curve(name, small, 200, gb.Harmonic(1, 10), checkpoints=5, **settings)
        return plain([found.steps, found.mean_weights, found.mean_squared_error])

    return {
        "bound double-chain iid": lambda: bound("double-chain", step_size=gb.Constant(0.05), sampling="iid"),
        "bound double-chain": lambda: bound("double-chain", step_size=harmonic),
        "bound single-chain": lambda: bound("single-chain", step_size=harmonic),
        "bound single-chain constant": lambda: bound("single-chain", step_size=gb.Constant(1e-3)),
        "bound discounted-td": lambda: bound("discounted-td", step_size=gb.Constant(0.01), sampling="iid"),
        "curve double-chain iid": lambda: curve("double-chain", sampling="iid"),
        "curve double-chain": lambda: curve("double-chain"),
        "curve single-chain": lambda: curve("single-chain", frozen=True),
        "curve td-lambda": lambda: curve("td-lambda"),
        "covariance": lambda: plain(gb.asymptotic_covariance("single-chain", problem, gb.Harmonic(40, 400))),
        "efficiency": lambda: plain(
            [
                gb.efficiency(name, problem, gb.Harmonic(40, 400), sampling=sampling)
                for name in ("single-chain", "td-lambda")
                for sampling in ("iid", "markov")
            ]
        ),
        "recommend": lambda: plain(
            [str(gb.recommend(name, small, epsilon=0.05)) for name in ("single-chain", "double-chain")]
        ),
    }


# -- evaluation and studies ---------------------------------------------------------------------------------


def events(rows: int = 6_000) -> dict[str, Any]:
    """Return the log of a small queue."""
    rng = np.random.default_rng(3)
    state = np.zeros(rows + 1, dtype=int)
    for t in range(rows):
        state[t + 1] = min(max(state[t] + rng.choice([-1, 1], p=[0.6, 0.4]), 0), 9)
    return {"state": state[:-1], "reward": -state[:-1].astype(float), "next": state[1:]}


def estimate(found: Any) -> Any:
    """Return the contents of an estimate."""
    return plain(found.to_dict())


def evaluation_calls() -> dict[str, Call]:
    """Return evaluations of environments and logs."""
    log, left = events(), np.zeros(16, dtype=int)
    return {
        "evaluate": lambda: estimate(gb.evaluate("FrozenLake-v1", left, num_steps=4_000)),
        "evaluate cliff": lambda: estimate(
            gb.evaluate("CliffWalking-v1", np.full((48, 4), 0.25), num_steps=8_000, seed=3)
        ),
        "evaluate td": lambda: estimate(
            gb.evaluate("FrozenLake-v1", np.full((16, 4), 0.25), num_steps=8_000, algorithm="td-lambda")
        ),
        "evaluate half width": lambda: estimate(
            gb.evaluate("FrozenLake-v1", np.full((16, 4), 0.25), target_half_width=0.004, num_steps=60_000)
        ),
        "evaluate_log": lambda: estimate(gb.evaluate_log(log)),
        "evaluate_log features": lambda: estimate(
            gb.evaluate_log(log, features=np.stack([np.ones(10), np.arange(10.0) / 9], axis=1))
        ),
        "evaluate_log single-chain": lambda: estimate(gb.evaluate_log(log, algorithm="single-chain")),
        "compare": lambda: plain(
            gb.compare("FrozenLake-v1", left, np.full((16, 4), 0.25), num_steps=4_000).to_dict()
        ),
    }


def study_calls(folder: Path) -> dict[str, Call]:
    """Return a small sweep and a shortened reproduction."""

    def sweep() -> Any:
        study = gb.Study(
            tasks=["two-loop"],
            algorithms=["single-chain", {"id": "td-lambda", "params": {"trace_decay": [0.0, 0.5]}}],
            num_steps=300,
            step_size=[0.1, 0.2],
            instances=3,
            checkpoints=3,
        )
        results = gb.sweep(study, folder / "sweep", workers=1)
        return {path.name: frame(_table(path)) for path in sorted(results.folder.glob("*.parquet"))}

    def reproduce() -> Any:
        results = gb.reproduce(
            folder / "study", tasks=["random-walk-50"], instances=2, shorten=500, workers=1
        )
        return {path.name: frame(_table(path)) for path in sorted(results.folder.glob("*.parquet"))}

    return {"sweep": sweep, "reproduce": reproduce}


def _table(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path)


# -- the command line ---------------------------------------------------------------------------------------

VERBS = (
    "list",
    "solve",
    "run",
    "bound",
    "evaluate",
    "compare",
    "claims",
    "reproduce",
    "sweep",
    "report",
    "doctor",
)
ANSWERS = (
    "list algorithms --json",
    "list tasks --json",
    "solve two-loop --json",
    "solve two-loop",
    "run two-loop --steps 500 --seeds 2 --json",
    "run two-loop --steps 500",
    "bound random-walk-50 --step-size 0.01 --steps 1000 --json",
    "evaluate FrozenLake-v1 --policy random --steps 3000 --json",
    "evaluate FrozenLake-v1 --policy random --steps 3000",
    "compare FrozenLake-v1 --policy random --policy random --steps 2000 --json",
)
MISTAKES = (
    "solve frozen-lak",
    "solve missing.npz",
    "solve two-loop --tol 2",
    "run two-loop --algorithm single-chian",
    "run two-loop --steps -3",
    "run two-loop --step-size zero",
    "run two-loop --algorithm td-lambda --param trace_decay=2",
    "bound two-loop --algorithm nothing",
    "evaluate FrozenLake-v1 --steps 1000",
    "evaluate NoSuchLake-v1 --policy random",
    "evaluate missing.parquet",
    "sweep missing.toml",
    "report missing",
    "claims no-such-claim",
    "reproduce --task no-such-task",
)


def spoken(words: str) -> Any:
    """Return what the command line prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command_line(words.split())
        except SystemExit as stop:
            code = stop.code
    shown = out.getvalue()
    with contextlib.suppress(ValueError):
        shown = plain(json.loads(shown))
    if isinstance(shown, str):
        shown = [line.rstrip() for line in shown.splitlines() if "seconds " not in line]
    return {"code": code, "out": shown, "err": err.getvalue().splitlines()}


def command_calls() -> dict[str, Call]:
    """Return helps, answers and mistakes on the command line."""
    typed = [*(f"{verb} --help" for verb in VERBS), "--help", *ANSWERS, *MISTAKES]
    return {f"gainbias {words}": lambda words=words: spoken(words) for words in typed}


def error_calls() -> dict[str, Call]:
    """Return mistakes in Python."""
    chain = [[0.5, 0.5], [0.5, 0.5]]
    wrong: dict[str, Call] = {
        "row sums": lambda: gb.MarkovRewardProcess([[0.5, 0.47], [0.5, 0.5]], [0.0, 1.0]),
        "negative": lambda: gb.MarkovRewardProcess([[1.5, -0.5], [0.5, 0.5]], [0.0, 1.0]),
        "shape": lambda: gb.MarkovRewardProcess([[0.5, 0.5]], [0.0]),
        "nan": lambda: gb.MarkovRewardProcess(chain, [0.0, np.nan]),
        "rewards": lambda: gb.MarkovRewardProcess(chain, [0.0, 1.0, 2.0]),
        "features": lambda: gb.Problem(machine(), np.ones((3, 1))),
        "rank": lambda: gb.Problem(machine(), np.ones((2, 2))).fixed_point,
        "reducible": lambda: gb.Problem(gb.MarkovRewardProcess(np.eye(2), [0.0, 1.0]), gb.Tabular()),
        "method": lambda: gb.solve(machine(), method="guess"),
        "algorithm": lambda: gb.run("td-lamda", seen(), 10, 0.1),
        "parameter": lambda: gb.run("td-lambda", seen(), 10, 0.1, params={"decay": 0.5}),
        "steps": lambda: gb.run("td-lambda", seen(), 0, 0.1),
        "task": lambda: gb.task("frozen-lak"),
        "log": lambda: gb.evaluate_log({"state": [0, 1], "reward": [1.0, np.nan]}),
        "policy": lambda: gb.evaluate("FrozenLake-v1", np.zeros(3, dtype=int), num_steps=100),
        "study": lambda: gb.Study(tasks=["nowhere"], algorithms=["lstd"], num_steps=10),
    }
    return {f"error {name}": lambda call=call: _message(call) for name, call in wrong.items()}


def _message(call: Call) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# -- writing and comparing ----------------------------------------------------------------------------------


def all_calls(folder: Path) -> dict[str, Call]:
    """Return every call by its name."""
    return {
        **exact_calls(),
        **task_calls(),
        **run_calls(),
        **theory_calls(),
        **evaluation_calls(),
        **study_calls(folder),
        **command_calls(),
        **error_calls(),
    }


def answers() -> Iterator[tuple[str, Any]]:
    """Make the calls one after the other, in an empty folder, as wide as a wide terminal."""
    os.environ["COLUMNS"] = "160"
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, call in all_calls(Path(folder)).items():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    with contextlib.redirect_stderr(io.StringIO()):
                        answer = call()
                said = sorted({f"{one.category.__name__}: {one.message}" for one in caught})
                yield (
                    name,
                    json.loads(json.dumps([answer, *said] if said else answer).replace(folder, "HERE")),
                )
        finally:
            os.chdir(before)


def differences(old: Any, new: Any, digits: int | None, where: str = "") -> Iterator[str]:
    """Yield one line for each place in which two answers differ.

    Examples
    --------
    >>> list(differences({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]}, None))
    ['a[1]: 2.0 became 2.5']
    >>> list(differences(1.0, 1.0 + 1e-12, 9))
    []
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            place = f"{where}.{key}" if where else key
            if key not in old or key not in new:
                yield f"{place}: {'is new' if key in new else 'is gone'}"
            else:
                yield from differences(old[key], new[key], digits, place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from differences(first, second, digits, f"{where}[{i}]")
    elif old != new and not _is_close(old, new, digits):
        yield f"{where}: {old!r} became {new!r}"


def _is_close(old: Any, new: Any, digits: int | None) -> bool:
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    tolerance = 10.0 ** -(digits or 16)
    return bool(digits and numbers and math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance))


def digest_of(found: dict[str, Any]) -> str:
    """Return a short name for all answers together."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]


def main() -> int:
    """Write the file, or compare with it; the exit code is 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["write", "check"])
    parser.add_argument("--digits", type=int, help="compare numbers to so much only; default: all bits")
    options = parser.parse_args()
    found = dict(answers())
    if options.what == "write":
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(found)} answers, {digest_of(found)}, in {FILE.name}")
        return 0
    lines = list(differences(json.loads(FILE.read_text(encoding="utf-8")), found, options.digits))
    print(*lines, f"{len(found)} answers, {len(lines)} differences", sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
