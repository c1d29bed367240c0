"""The command line: `gainbias VERB`, one function per verb, nothing heavy imported before it is needed.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gainbias
from gainbias.options import chosen_step_size, chosen_steps, chosen_task, parser, read_settings
from gainbias.report.plain import as_json
from gainbias.words import chosen_environment, evaluation_settings, log_columns, read_policy

DONE, FAILED, WRONG_INPUT = 0, 1, 2


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
    options = parser().parse_args(words)
    options.command = shlex.join(["gainbias", *words])
    try:
        return VERBS[options.verb](options)
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
    process = read_process(options.source) if is_file else chosen_task(options, options.source).problem.mrp
    start = time.perf_counter()
    solution = gainbias.solve(process, tol=options.tol, method=options.method)
    return _answer(options, solution_summary(solution, time.perf_counter() - start), show_solution)


def _run(options: argparse.Namespace) -> int:
    from gainbias.report.answers import trace_summary
    from gainbias.report.terminal import show_trace

    task = chosen_task(options, options.task)
    start = time.perf_counter()
    trace = gainbias.run(
        options.algorithm,
        task.problem,
        chosen_steps(options.steps, task),
        chosen_step_size(options.step_size, task),
        seeds=range(options.seeds),
        params=read_settings(options.param),
        sampling=options.sampling,
        tail_average=options.tail_average,
    )
    return _answer(options, trace_summary(trace, time.perf_counter() - start), show_trace)


def _bound(options: argparse.Namespace) -> int:
    from gainbias.report.guarantees import show_bound

    task = chosen_task(options, options.task)
    rewards_only = options.algorithm == "reward-estimate" and options.step_size is None
    bound = gainbias.bound(
        options.algorithm,
        task,
        num_steps=chosen_steps(options.steps, task),
        step_size=None if rewards_only else chosen_step_size(options.step_size, task),
        sampling=options.sampling,
        as_printed=options.as_printed,
        **read_settings(options.param),
    )
    return _answer(options, bound.to_dict(), show_bound)


def _evaluate(options: argparse.Namespace) -> int:
    from gainbias.report.estimates import show_estimate

    common = evaluation_settings(options)
    if options.source.endswith(".parquet") or os.path.isfile(options.source):
        if options.policy is not None:
            raise ValueError("a log is of the policy that made it: leave out --policy")
        estimate = gainbias.evaluate_log(options.source, gaps=options.gaps, **log_columns(options), **common)
    else:
        if log_columns(options):
            raise ValueError(f"{options.source} is no log: leave out --{next(iter(log_columns(options)))}")
        estimate = gainbias.evaluate(
            chosen_environment(options),
            read_policy(options.policy),
            num_steps=options.steps,
            target_half_width=options.target_half_width,
            max_steps=options.max_steps,
            chains=options.chains,
            seed=options.seed,
            **common,
        )
    _answer(options, estimate.to_dict(), show_estimate)  # first, so that a wrong path does not lose it
    if options.save:
        estimate.save(options.save)
    if options.plot:
        gainbias.plot(estimate).savefig(options.plot)
    return DONE if estimate.diagnostics.is_complete else FAILED


def _compare(options: argparse.Namespace) -> int:
    from gainbias.report.estimates import show_comparison

    if len(options.policy) != 2:
        raise ValueError(f"two policies are compared, found {len(options.policy)}: say --policy twice")
    comparison = gainbias.compare(
        chosen_environment(options),
        *map(read_policy, options.policy),
        num_steps=options.steps,
        chains=options.chains,
        seed=options.seed,
        **evaluation_settings(options),
    )
    _answer(options, comparison.to_dict(), show_comparison)
    complete = (one.diagnostics.is_complete for one in (comparison.first, comparison.second))
    return DONE if all(complete) else FAILED


def _claims(options: argparse.Namespace) -> int:
    from gainbias.experiments.claims.registry import check_claims
    from gainbias.report.headline import show_claims, write_claims

    results = check_claims(options.claims or None, seed=options.seed, quick=options.quick)
    if options.output:
        write_claims(results, Path(options.output))
    return _answer(options, [result.to_dict() for result in results], show_claims)


def _reproduce(options: argparse.Namespace) -> int:
    try:
        results = gainbias.reproduce(
            options.output,
            protocols=options.protocol,
            tasks=options.task,
            instances=options.instances,
            shorten=options.shorten,
            settings=read_settings(options.set),
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


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "solve": _solve,
    "run": _run,
    "bound": _bound,
    "evaluate": _evaluate,
    "compare": _compare,
    "claims": _claims,
    "reproduce": _reproduce,
    "report": _report,
    "doctor": _doctor,
}


if __name__ == "__main__":
    sys.exit(main())
