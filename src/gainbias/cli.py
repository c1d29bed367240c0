"""The command line: `gainbias VERB`, one function per verb, nothing heavy imported before it is needed.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
import zipfile
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gainbias

if TYPE_CHECKING:
    from gainbias import MarkovRewardProcess, Solution

DONE, FAILED, WRONG_INPUT = 0, 1, 2

SOLVE_EXAMPLE = """\
example:
  python -c "import numpy; numpy.savez('machine.npz', transitions=[[0.9, 0.1], [0.5, 0.5]], rewards=[1, -2])"
  gainbias solve machine.npz
"""
SOLVE_FILE = """\
an .npz file with the array `rewards`, (n,) or (n, n), optionally `labels`, and either a dense array
`transitions` or the parts of a sparse matrix under the names that scipy.sparse.save_npz uses
(`format`, `shape`, `data`, `indices`, `indptr`)"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``gainbias``; default: those of the process.

    Examples
    --------
    >>> main(["solve", "missing.npz"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (ValueError, OSError) as error:
        print(f"gainbias: {error}", file=sys.stderr)
        return WRONG_INPUT
    except RuntimeError as error:  # of which ConvergenceError is one
        print(f"gainbias: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("gainbias: interrupted", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gainbias",
        description="What a policy is worth in the long run: gain and bias of Markov reward processes.",
        epilog=SOLVE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gainbias {gainbias.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    solve = verbs.add_parser(
        "solve",
        help="exact gain, bias and stationary law of a process in a file",
        epilog=SOLVE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    solve.add_argument("file", metavar="FILE.npz", help=" ".join(SOLVE_FILE.split()))
    solve.add_argument(
        "--tol", type=float, default=1e-10, help="error that is allowed (default: %(default)s)"
    )
    solve.add_argument("--method", default="auto", help="how to solve (default: %(default)s)")
    solve.set_defaults(run=_solve)

    listing = verbs.add_parser(
        "list",
        help="algorithms: what each converges to, and its row in the paper's table of earlier work",
        epilog="example:\n  gainbias list algorithms",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listing.add_argument("what", choices=["algorithms"], help="what to list")
    listing.set_defaults(run=_list)

    doctor = verbs.add_parser(
        "doctor",
        help="versions, and which optional parts are present",
        epilog="example:\n  gainbias doctor",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.set_defaults(run=_doctor)
    for verb in (solve, listing, doctor):
        verb.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _solve(options: argparse.Namespace) -> int:
    process = _load(options.file)
    start = time.perf_counter()
    solution = gainbias.solve(process, tol=options.tol, method=options.method)
    answer = _summary(solution, time.perf_counter() - start)
    if options.json:
        _print_json(answer)
    else:
        _print_answer(answer)
    return DONE


def _load(path: str) -> MarkovRewardProcess:
    import numpy as np
    import scipy.sparse as sparse

    expected = f"must be {' '.join(SOLVE_FILE.split())}"
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is no .npz file, {expected}")
    try:
        with np.load(path, allow_pickle=False) as parts:
            names = set(parts.files)
            if "rewards" not in names or not names & {"transitions", "data"}:
                raise ValueError(f"{path} holds {sorted(names)}, {expected}")
            rewards = parts["rewards"]
            labels = parts["labels"].tolist() if "labels" in names else None
            dense = parts["transitions"] if "transitions" in names else None
        transitions: Any = sparse.load_npz(path) if dense is None else dense
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): write it again") from error
    return gainbias.MarkovRewardProcess(transitions, rewards, labels)


def _summary(solution: Solution, seconds: float, most: int = 3) -> dict[str, Any]:
    import numpy as np

    order = np.argsort(solution.bias, kind="stable")
    labels = solution.mrp.labels

    def entry(state: int) -> dict[str, Any]:
        name = {} if labels is None else {"label": str(labels[state])}
        return {"state": state, **name, "bias": float(solution.bias[state])}

    return {
        "gain": solution.gain,
        "method": solution.method,
        "error_bound": solution.error_bound,
        "residual": solution.residual,
        "iterations": solution.iterations,
        "num_states": solution.mrp.num_states,
        "seconds": seconds,
        "fingerprint": solution.mrp.fingerprint,
        "notes": list(solution.notes),
        "lowest_bias": [entry(int(state)) for state in order[:most]],
        "highest_bias": [entry(int(state)) for state in order[::-1][:most]],
    }


def _print_answer(answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts = Table(show_header=False, title="Solution")
    facts.add_row("gain", f"{answer['gain']:.12g}")
    facts.add_row("method", answer["method"])
    facts.add_row("error bound", f"{answer['error_bound']:.1e}")
    facts.add_row("states", str(answer["num_states"]))
    facts.add_row("seconds", f"{answer['seconds']:.3g}")
    extremes = Table("state", "bias", title="Lowest and highest bias")
    shown: set[int] = set()
    for name in ("lowest_bias", "highest_bias"):
        for entry in answer[name]:
            if entry["state"] not in shown:
                shown.add(entry["state"])
                extremes.add_row(escape(entry.get("label", str(entry["state"]))), f"{entry['bias']:.12g}")
        extremes.add_section()
    console = Console()
    console.print(facts, extremes)
    for note in answer["notes"]:
        console.print(note, markup=False)


def _list(options: argparse.Namespace) -> int:
    from gainbias.algorithms.listing import describe_algorithms

    algorithms = describe_algorithms()
    if options.json:
        _print_json(algorithms)
    else:
        _print_algorithms(algorithms)
    return DONE


def _print_algorithms(algorithms: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(
        Column("id", no_wrap=True),
        "converges to",
        "uses",
        "row in the paper's Table 1",
        Column("parameters", overflow="fold"),
        show_lines=True,
    )
    for entry in algorithms:
        parameters = ", ".join(f"{name}={default}" for name, default in entry["parameters"].items())
        source = entry["table_row"] or ("ours" if entry["ours"] else "-")
        table.add_row(
            entry["id"], entry["converges_to"], str(entry["transitions_per_step"]), source, parameters
        )
    Console().print(table)


def _doctor(options: argparse.Namespace) -> int:
    from importlib import metadata

    versions = {"python": platform.python_version(), "gainbias": gainbias.__version__}
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in metadata.requires("gainbias") or []:
        name, extra = _parsed(requirement)
        if extra is None:
            versions[name] = metadata.version(name)
        elif extra not in ("test", "docs", "all"):
            extras.setdefault(extra, {})[name] = _installed_version(name)
    if options.json:
        _print_json({"versions": versions, "extras": extras})
    else:
        _print_health(versions, extras)
    return DONE


def _parsed(requirement: str) -> tuple[str, str | None]:
    """Return the distribution that a requirement names, and its extra if it belongs to one."""
    name = re.match(r"[\w.-]+", requirement)
    extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
    return name.group() if name else requirement, extra.group(1) if extra else None


def _installed_version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _print_health(versions: dict[str, str], extras: dict[str, dict[str, str | None]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    base = Table("part", "version", title="Needed")
    for name, version in versions.items():
        base.add_row(name, version)
    optional = Table("extra", "part", "version", title="Optional")
    for extra, parts in extras.items():
        for name, found in parts.items():
            optional.add_row(extra, name, found or escape(f"missing: pip install 'gainbias[{extra}]'"))
    Console().print(base, optional)


def _print_json(answer: Any) -> None:
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    sys.exit(main())
