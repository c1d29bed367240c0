"""The command line: `gainbias VERB`, one function per verb, nothing heavy imported before it is needed.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gainbias
from gainbias.report.plain import as_json

DONE, FAILED, WRONG_INPUT = 0, 1, 2

SOLVE_EXAMPLE = """\
examples:
  gainbias solve frozen-lake
  python -c "import numpy; numpy.savez('machine.npz', transitions=[[0.9, 0.1], [0.5, 0.5]], rewards=[1, -2])"
  gainbias solve machine.npz
"""


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
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(words)
    options.command = shlex.join(["gainbias", *words])
    try:
        return int(options.run(options))
    except MemoryError as error:
        print(f"gainbias: not enough memory: {error}", file=sys.stderr)
        return FAILED
    except (ValueError, OSError, ImportError) as error:
        print(f"gainbias: {error}", file=sys.stderr)
        return FAILED if getattr(error, "errno", None) == errno.ENOSPC else WRONG_INPUT
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
    for add in (_add_list, _add_solve, _add_run, _add_reproduce, _add_report, _add_doctor):
        add(verbs)
    return parser


def _verb(verbs: Any, name: str, run: Callable[..., int], help: str, example: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=help,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(run=run)
    verb.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return verb


def _add_list(verbs: Any) -> None:
    about = "algorithms and what each converges to, or tasks"
    verb = _verb(verbs, "list", _list, about, "examples:\n  gainbias list algorithms\n  gainbias list tasks")
    verb.add_argument("what", choices=["algorithms", "tasks"], help="what to list")


def _add_solve(verbs: Any) -> None:
    about = "exact gain, bias and stationary law of a task, or of a process in a file"
    verb = _verb(verbs, "solve", _solve, about, SOLVE_EXAMPLE)
    verb.add_argument(
        "source", metavar="TASK|FILE.npz", help="id of a task, or a file (see the documentation)"
    )
    verb.add_argument("--tol", type=float, default=1e-10, help="error that is allowed (default: %(default)s)")
    verb.add_argument("--method", default="auto", help="how to solve (default: %(default)s)")
    _add_task_options(verb)


def _add_run(verbs: Any) -> None:
    example = "example:\n  gainbias run frozen-lake --algorithm single-chain --seeds 3"
    verb = _verb(verbs, "run", _run, "run one algorithm on a task, beside the exact answer", example)
    verb.add_argument("task", metavar="TASK", help="id of a task")
    verb.add_argument("--algorithm", default="single-chain", help="id of an algorithm (default: %(default)s)")
    verb.add_argument("--steps", type=int, help="number of steps (default: the paper's, or 100000)")
    verb.add_argument(
        "--step-size",
        metavar="A[,C0[,XI]]",
        help="constant a, or a/(t+c0), or a/(t+c0)^xi (default: the paper's)",
    )
    verb.add_argument("--seeds", type=int, default=1, help="number of sample paths (default: %(default)s)")
    verb.add_argument("--sampling", default="markov", help="markov or iid (default: %(default)s)")
    verb.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="of the algorithm")
    verb.add_argument(
        "--tail-average", type=float, help="average the weights after this fraction of the steps"
    )
    _add_task_options(verb)


def _add_task_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--seed", type=int, default=0, help="seed of the task (default: %(default)s)")
    verb.add_argument(
        "--protocol", default="literal", help="literal, inferred or fair (default: %(default)s)"
    )
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the task")


def _add_reproduce(verbs: Any) -> None:
    example = "example:\n  gainbias reproduce --output results/reproduction --instances 100"
    verb = _verb(
        verbs, "reproduce", _reproduce, "rebuild the study of the paper: tables, figures, verdicts", example
    )
    verb.add_argument(
        "--output", default="results/reproduction", help="results folder (default: %(default)s)"
    )
    verb.add_argument("--instances", type=int, default=30, help="in the fair protocol (default: %(default)s)")
    verb.add_argument("--protocol", action="append", help="literal, inferred or fair (default: all three)")
    verb.add_argument("--task", action="append", help="id of a task (default: the paper's fifteen)")
    verb.add_argument("--shorten", type=int, default=1, help="divide the steps by this, for a quick look")
    verb.add_argument("--workers", type=int, help="number of processes (default: one for each core)")
    verb.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the tasks that have it"
    )
    verb.add_argument("--overwrite", action="store_true", help="start afresh in a folder that holds a study")
    verb.add_argument("--resume", action="store_true", help="go on in a folder that holds a study")


def _add_report(verbs: Any) -> None:
    example = "example:\n  gainbias report results/reproduction --output study.html"
    verb = _verb(verbs, "report", _report, "write the interactive page of a finished study", example)
    verb.add_argument("results", metavar="RESULTS", help="results folder of the study")
    verb.add_argument("--output", metavar="FILE", help="the page (default: report/index.html in RESULTS)")


def _add_doctor(verbs: Any) -> None:
    about = "versions, and which optional parts are present"
    _verb(verbs, "doctor", _doctor, about, "example:\n  gainbias doctor")


def _list(options: argparse.Namespace) -> int:
    from gainbias.algorithms.listing import describe_algorithms
    from gainbias.report import terminal
    from gainbias.tasks.listing import describe_tasks

    if options.what == "algorithms":
        return _answer(options, describe_algorithms(), terminal.show_algorithms)
    return _answer(options, describe_tasks(), terminal.show_tasks)


def _solve(options: argparse.Namespace) -> int:
    from gainbias.model.files import read_process
    from gainbias.report.answers import solution_summary
    from gainbias.report.terminal import show_solution

    is_file = os.path.exists(options.source) or options.source.endswith(".npz")
    process = read_process(options.source) if is_file else _task(options, options.source).problem.mrp
    start = time.perf_counter()
    solution = gainbias.solve(process, tol=options.tol, method=options.method)
    return _answer(options, solution_summary(solution, time.perf_counter() - start), show_solution)


def _run(options: argparse.Namespace) -> int:
    from gainbias.report.answers import trace_summary
    from gainbias.report.terminal import show_trace

    task = _task(options, options.task)
    default_steps = task.paper.num_steps if task.paper else 100_000
    start = time.perf_counter()
    trace = gainbias.run(
        options.algorithm,
        task.problem,
        default_steps if options.steps is None else options.steps,
        _step_size(options.step_size, task),
        seeds=range(options.seeds),
        params=_settings(options.param),
        sampling=options.sampling,
        tail_average=options.tail_average,
    )
    return _answer(options, trace_summary(trace, time.perf_counter() - start), show_trace)


def _step_size(words: str | None, task: gainbias.Task) -> Any:
    if words is None:
        paper = task.paper
        return (
            gainbias.Harmonic(paper.step_numerator, paper.step_offset)
            if paper
            else gainbias.Harmonic(150, 1000)
        )
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError as error:
        raise ValueError(
            f"--step-size must be one to three numbers, as in 150,1000, found {words!r}"
        ) from error
    kinds = {1: gainbias.Constant, 2: gainbias.Harmonic, 3: gainbias.Polynomial}
    if len(numbers) not in kinds:
        raise ValueError(f"--step-size must be one to three numbers, found {words!r}")
    return kinds[len(numbers)](*numbers)


def _task(options: argparse.Namespace, name: str) -> gainbias.Task:
    return gainbias.task(name, seed=options.seed, protocol=options.protocol, **_settings(options.set))


def _settings(pairs: list[str]) -> dict[str, Any]:
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"settings are NAME=VALUE, found {pair!r}")
        try:
            settings[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.replace("-", "_")] = float(value) if value in ("inf", "-inf") else value
    return settings


def _reproduce(options: argparse.Namespace) -> int:
    try:
        results = gainbias.reproduce(
            options.output,
            protocols=options.protocol,
            tasks=options.task,
            instances=options.instances,
            shorten=options.shorten,
            settings=_settings(options.set),
            workers=options.workers,
            overwrite=options.overwrite,
            resume=options.resume,
            command=options.command,
        )
        from gainbias.report.reproduction import report_on  # only now, when it is known that pandas is there
        from gainbias.report.terminal import show_study

        written = [str(path) for path in report_on(results.folder)]
    except KeyboardInterrupt:
        print(
            f"gainbias: interrupted; what was finished is kept in {options.output}: go on with --resume",
            file=sys.stderr,
        )
        return FAILED
    return _answer(
        options, {"folder": str(results.folder), "written": written, **results.manifest}, show_study
    )


def _report(options: argparse.Namespace) -> int:
    from gainbias.report.interactive.folder import page_on
    from gainbias.report.terminal import show_page

    return _answer(options, page_on(options.results, options.output), show_page)


def _doctor(options: argparse.Namespace) -> int:
    from gainbias.report.health import health
    from gainbias.report.terminal import show_health

    return _answer(options, health(), show_health)


def _answer(options: argparse.Namespace, answer: Any, show: Callable[[Any], None]) -> int:
    """Print an answer as JSON or as a table."""
    if options.json:
        print(as_json(answer))
    else:
        show(answer)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
