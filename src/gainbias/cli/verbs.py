"""The verbs of the command line, one function each; nothing heavy is imported before a verb needs it.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import gainbias
from gainbias.cli import arguments
from gainbias.cli.options import help_on, parser
from gainbias.store import as_json, check_free, missing_folder

DONE, FAILED, WRONG_INPUT = 0, 1, 2

Answered = TypeVar("Answered")


def main(typed: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    typed : sequence of str, optional
        The words after ``gainbias``; default: those of the process.

    Examples
    --------
    >>> main(["solve", "missing.npz"])
    2
    """
    typed = sys.argv[1:] if typed is None else list(typed)
    words = parser()
    options = words.parse_args(typed)
    if options.verb is None:
        words.print_help(sys.stderr)
        return WRONG_INPUT
    options.command = shlex.join(["gainbias", *typed])
    try:
        code = _carried_out(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        return _pipe_closed(error)
    except MemoryError as error:
        print(f"gainbias: not enough memory: {error}", file=sys.stderr)
        return FAILED
    except (ValueError, OSError, ImportError) as error:
        print(f"gainbias: {arguments.in_words(error, options)}", file=sys.stderr)
        return FAILED if getattr(error, "errno", None) == errno.ENOSPC else WRONG_INPUT
    except (RuntimeError, KeyboardInterrupt) as error:  # ConvergenceError is one of the first
        print(f"gainbias: {str(error) or 'interrupted'}", file=sys.stderr)
        return FAILED


def _pipe_closed(error: BrokenPipeError) -> int:
    """Return DONE if the reader of the output has closed it, as ``| head`` does; FAILED otherwise."""
    try:
        print(flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes as it ends
        return DONE
    print(f"gainbias: {error}", file=sys.stderr)
    return FAILED


def _carried_out(options: argparse.Namespace) -> int:
    """Run a verb, quietly if asked to, and show warnings in words."""
    from gainbias.cli.screen import Screen, telling_of
    from gainbias.progress import Watch

    with ExitStack() as around:
        around.enter_context(_ended_as_by_the_user())
        if options.quiet:
            around.enter_context(Watch.silence())
            around.enter_context(Screen.plainly())
        around.enter_context(telling_of("gainbias"))
        return VERBS[options.verb](options)


@contextmanager
def _ended_as_by_the_user() -> Iterator[None]:
    """Let SIGTERM, as queueing systems send it, end the block as Ctrl-C does."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _demo(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_demo
    from gainbias.report.demo import demonstrate
    from gainbias.report.pages.frame import PAGE

    folder = Path(options.output)
    answers = [asdict(answer) for answer in demonstrate(folder)]
    page = folder / PAGE
    return _answer(options, {"folder": str(folder), "page": str(page), "answers": answers}, show_demo)


def _list(options: argparse.Namespace) -> int:
    from gainbias.algorithms.registry import describe_algorithms
    from gainbias.cli import show
    from gainbias.tasks.registry import describe_tasks

    if options.what == "algorithms":
        return _answer(options, describe_algorithms(), show.show_algorithms)
    return _answer(options, describe_tasks(), show.show_tasks)


def _solve(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_solution, solution_summary

    process, subject = arguments.chosen_process(options)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The notes, which are shown, say what misses the tolerance.
        warnings.simplefilter("ignore", gainbias.AccuracyWarning)
        solution = gainbias.solve(process, tol=options.tol, method=options.method, device=options.device)
    return _answer(options, solution_summary(solution, time.perf_counter() - start, subject), show_solution)


def _run(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_trace, trace_summary

    task = arguments.chosen_task(options, options.task)
    arguments.refuse_features(options.algorithm, task)
    start = time.perf_counter()
    trace = gainbias.run(
        options.algorithm,
        task,
        options.steps,
        arguments.read_step_size(options.step_size),
        seeds=range(options.seeds),
        params=arguments.read_settings(options.param),
        sampling=options.sampling,
        tail_average=options.tail_average,
        device=options.device,
    )
    _answer(options, trace_summary(trace, time.perf_counter() - start), show_trace)
    return FAILED if any(one.status == "interrupted" for one in trace.outcomes) else DONE


def _bound(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_bound

    if options.all:
        return _sample_complexities(options)
    if options.epsilon is not None or options.discount is not None:
        raise ValueError("--epsilon and --discount belong to --all; of a theorem, use --param discount=0.9")
    task = arguments.chosen_task(options, options.task)
    bound = gainbias.bound(
        options.algorithm,
        task,
        num_steps=options.steps,
        step_size=arguments.read_step_size(options.step_size),
        sampling=options.sampling,
        as_printed=options.as_printed,
        **arguments.read_settings(options.param),
    )
    return _answer(options, bound.to_dict(), show_bound)


def _sample_complexities(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_sample_complexities

    given = {
        "--algorithm": options.algorithm != "single-chain",
        "--steps": options.steps is not None,
        "--step-size": options.step_size is not None,
        "--param": bool(options.param),
        "--as-printed": options.as_printed,
    }
    if useless := [name for name, is_there in given.items() if is_there]:
        raise ValueError(f"--all is about all algorithms and finds steps itself: leave out {useless[0]}")
    table = gainbias.sample_complexities(
        arguments.chosen_task(options, options.task),
        epsilon=0.01 if options.epsilon is None else options.epsilon,
        sampling=options.sampling,
        discount=0.99 if options.discount is None else options.discount,
    )
    return _answer(options, table.to_dict(), show_sample_complexities)


def _evaluate(options: argparse.Namespace) -> int:
    with arguments.standard_input_as_file(options):
        return _evaluate_source(options)


def _evaluate_source(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_estimate

    if (settings := arguments.series_settings(options)) is not None:
        return _evaluate_series(options, settings)
    common, files = arguments.evaluation_settings(options), arguments.chosen_files(options)
    if (log := arguments.chosen_log(options)) is not None:
        named = arguments.log_settings(options) | arguments.target_settings(options)
        estimate = gainbias.evaluate_log(log, **named, **common)
    else:
        estimate = gainbias.evaluate(
            arguments.chosen_environment(options),
            arguments.read_policy(options.policy),
            num_steps=options.steps,
            target_half_width=options.target_half_width,
            anytime=options.anytime,
            duration=options.duration,
            chains=options.chains,
            seed=options.seed,
            **common,
        )
    _keep_and_answer(options, estimate, files, show_estimate)
    return DONE if estimate.diagnostics.is_complete else FAILED


def _evaluate_series(options: argparse.Namespace, settings: Mapping[str, Any]) -> int:
    from gainbias.cli.show import show_groups, show_series

    files = arguments.chosen_files(options)
    found = gainbias.evaluate_series(options.source, **settings)
    if isinstance(found, gainbias.GroupedSeries):
        _keep_and_answer(options, found, files, show_groups)
        return DONE if all(one.diagnostics.is_complete for one in found.values()) else FAILED
    answer = found.to_dict()
    if (width := options.target_half_width) is not None:
        lengths = [found.steps_for(width, level) for level in (None, *found.quantiles)]
        answer["lengths"] = [asdict(length) for length in lengths]
    _keep_and_answer(options, found, files, show_series, answer)
    return DONE if found.diagnostics.is_complete else FAILED


def _keep_and_answer(
    options: argparse.Namespace,
    found: Any,
    files: Mapping[str, Path],
    show: Callable[[Any], None],
    answer: dict[str, Any] | None = None,
) -> None:
    """Write an estimate to its files, print it (or `answer`, which says more), and say where it is."""
    answer = found.to_dict() if answer is None else answer
    made = [folder for path in files.values() if (folder := missing_folder(path.parent))]
    try:
        _keep_estimate(found, files, options)
    except BaseException:
        _answer(options, answer, show)  # a failed write must not lose the answer
        raise
    has_names = isinstance(found, gainbias.GroupedSeries)  # which replace other names in JSON
    _answer(options, answer | ({} if has_names else _where(files, made)), show)
    if has_names or not options.json:
        _say_where(options, files, made)


def _where(files: Mapping[str, Path], made: list[Path]) -> dict[str, Any]:
    """Return where files were written, for JSON; nothing if none was."""
    written = {what: str(path) for what, path in files.items()}
    return {"written": written, "made_folders": _names(made)} if files else {}


def _keep_estimate(estimate: Any, files: Mapping[str, Path], options: argparse.Namespace) -> None:
    """Write an estimate to those of its files that were named: "estimate", "figure" and "page"."""
    from gainbias.report.write import write_page_of

    for path in files.values():
        check_free(path, options.overwrite)
        path.parent.mkdir(parents=True, exist_ok=True)
    if "estimate" in files:
        estimate.save(files["estimate"], options.overwrite)
    if "figure" in files:
        gainbias.plot(estimate).figure.savefig(files["figure"])
    if "page" in files:
        made = {"Command": options.command}
        write_page_of(estimate, files["page"], made, _subject(estimate, options))


def _subject(estimate: Any, options: argparse.Namespace) -> str:
    """Return what an estimate is about, for the head of its page."""
    if not isinstance(estimate, gainbias.SeriesEstimate | gainbias.GroupedSeries):
        return str(options.source) + (f", policy {options.policy}" if options.policy else "")
    source = "standard input" if str(options.source) == "-" else Path(options.source).name
    return f"{options.column}, from {source}" if options.column else source


def _compare(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_comparison

    if len(options.policy) != 2:
        raise ValueError(f"two policies are compared, found {len(options.policy)}: say --policy twice")
    first, second = map(arguments.read_policy, options.policy)
    common = arguments.evaluation_settings(options)
    if (log := arguments.chosen_log(options)) is not None:
        if common.pop("algorithm").algorithm != "auto":
            raise ValueError("on a log policies are compared by the usual method: leave out --algorithm")
        named = arguments.log_settings(options) | arguments.asked_of_log(options)
        comparison = gainbias.compare_policies_on_log(log, first, second, **named, **common)
    else:
        comparison = gainbias.compare(
            arguments.chosen_environment(options),
            first,
            second,
            num_steps=options.steps,
            chains=options.chains,
            seed=options.seed,
            duration=options.duration,
            **common,
        )
    _answer(options, comparison.to_dict(), show_comparison)
    complete = (one.diagnostics.is_complete for one in (comparison.first, comparison.second))
    return DONE if all(complete) else FAILED


def _engine(options: argparse.Namespace) -> dict[str, Any]:
    """Return where to compute."""
    return {name: getattr(options, name) for name in ("engine", "workers", "address", "wait")}


def _claims(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_claims
    from gainbias.experiments.claims.registry import check_claims
    from gainbias.report.claims import check_claims_folder, store_claims

    folder = Path(options.output) if options.output else None
    made = [missing_folder(folder)] if folder else []
    if folder:
        check_claims_folder(folder, options.overwrite)
    results = _permitted(
        options,
        lambda recompute: check_claims(
            options.claims or None,
            seed=options.seed,
            quick=options.quick,
            **_engine(options),
            folder=folder,
            recompute=recompute or options.overwrite,
            command=options.command,
        ),
    )
    written = store_claims(results, folder, options.overwrite) if folder else []
    _answer(options, [result.to_dict() for result in results], show_claims)
    shown = ("claims.json", "claims.md", "claims.tex", "index.html")
    where = {path.name: path for path in written if path.name in shown}
    _say_where(options, where | ({"figures": folder / "figures"} if folder else {}), made)
    return DONE


def _reproduce(options: argparse.Namespace) -> int:
    new = missing_folder(Path(options.output))
    try:
        results = _permitted(
            options,
            lambda recompute: gainbias.reproduce(
                options.output,
                protocols=options.protocol,
                tasks=options.task,
                instances=options.instances,
                shorten=options.shorten,
                settings=arguments.read_settings(options.set),
                **_engine(options),
                device=options.device,
                overwrite=options.overwrite,
                resume=options.resume,
                recompute=recompute,
                command=options.command,
            ),
        )
        from gainbias.cli.show import show_study
        from gainbias.report.reproduction import report_on  # only now, when pandas is known to be there
        from gainbias.report.verdicts_page import shortfalls

        start = time.perf_counter()
        written = [str(path) for path in report_on(results.folder)]
    except KeyboardInterrupt:
        print(_kept(options.output), file=sys.stderr)
        return FAILED
    made = {
        "made_folders": _names([new]),
        "written": written,
        "report_seconds": time.perf_counter() - start,
    }
    told = {"shortened": [text.replace("*", "") for text in shortfalls(results.manifest)]}
    _answer(options, {"folder": str(results.folder), **made, **told, **results.manifest}, show_study)
    if not options.json:
        _say_where(options, {}, [new])
    return DONE


def _sweep(options: argparse.Namespace) -> int:
    from gainbias.cli import show
    from gainbias.experiments.inspection import estimate, status, verify
    from gainbias.experiments.study import as_study

    where = _engine(options)
    if options.status:
        return _answer(options, status(options.status).to_dict(), show.show_status)
    if options.verify:
        study = as_study(options.study, options.max_units) if options.study else None
        found = verify(options.verify, options.sample, study=study, **where)
        _answer(options, found.to_dict(), show.show_verification)
        return DONE if found.passed else FAILED
    if options.study is None:
        raise ValueError("say which study, as in gainbias sweep study.toml; gainbias help sweep has examples")
    study = as_study(options.study, options.max_units)
    if options.dry_run:
        return _answer(options, estimate(study, options.workers).to_dict(), show.show_calibration)
    return _run_sweep(options, study, where)


def _run_sweep(options: argparse.Namespace, study: gainbias.Study, where: dict[str, Any]) -> int:
    from gainbias.cli.show import show_sweep

    folder = Path(options.output or Path("results") / study.name)
    new = missing_folder(folder)
    again = {"resume": options.resume, "overwrite": options.overwrite, "command": options.command}
    limits = {"unit_seconds": options.unit_seconds, "unit_memory": options.unit_memory}
    try:
        results = _permitted(
            options,
            lambda recompute: gainbias.sweep(
                study,
                folder,
                max_units=options.max_units,
                recompute=recompute,
                device=options.device,
                **where,
                **again,
                **limits,
            ),
        )
        from gainbias.report.sweep import report_on_sweep

        start = time.perf_counter()
        written = report_on_sweep(results)
    except KeyboardInterrupt:
        print(_kept(folder), file=sys.stderr)
        return FAILED
    made = {
        "made_folders": _names([new]),
        "written": written,
        "report_seconds": time.perf_counter() - start,
    }
    _answer(options, {"folder": str(folder), **made, **results.manifest}, show_sweep)
    if not options.json:
        _say_where(options, {}, [new])
    return FAILED if results.manifest["failures"] or results.manifest["diverged_units"] else DONE


def _permitted(options: argparse.Namespace, work: Callable[[bool], Answered]) -> Answered:
    """Do work that must know whether it may compute finished units again; on a terminal, ask."""
    from gainbias.experiments.runner import OutdatedError

    try:
        return work(options.recompute)
    except OutdatedError as error:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        print(f"gainbias: {error}", file=sys.stderr)
        print("compute them again? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ValueError("nothing was computed") from None
    return work(True)


def _kept(folder: Any) -> str:
    return f"gainbias: interrupted; what was finished is kept in {folder}: continue with --resume"


def _report(options: argparse.Namespace) -> int:
    from gainbias.cli.show import show_page
    from gainbias.report.write import page_path, write_page

    place = page_path(arguments.existing(options.results), options.output)
    made, replaced = missing_folder(place.parent), place.exists()
    page = write_page(options.results, options.output, options.overwrite)
    answer = {"page": str(page), "bytes": page.stat().st_size}
    answer |= {"made_folders": _names([made])} if made else {}
    _answer(options, answer | ({"replaced": True} if replaced else {}), show_page)
    if not options.json:
        _say_where(options, {"replaced what was there before": page} if replaced else {}, [made])
    return DONE


def _doctor(options: argparse.Namespace) -> int:
    from gainbias.cli.doctor import health
    from gainbias.cli.show import show_health

    return _answer(options, health(), show_health)


def _completion(options: argparse.Namespace) -> int:
    from gainbias.cli.completion import completion, known_words

    script = completion(parser(), options.shell, {**known_words(), "topic": VERBS})
    return _answer(options, {"shell": options.shell, "script": script}, _print_value("script"))


def _help(options: argparse.Namespace) -> int:
    text = help_on(options.topic, options.all)
    return _answer(options, {"verb": options.topic, "help": text}, _print_value("help"))


def _print_value(name: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that prints one text of an answer unchanged."""
    return lambda answer: print(answer[name], end="")


def _say_where(options: argparse.Namespace, written: Mapping[str, Path], made: Iterable[Path | None]) -> None:
    """Say on standard error which folders were made and where files are."""
    from gainbias.cli.screen import tell

    if options.quiet:
        return
    for name in _names(made):
        tell(f"made the folder {name}")
    for what, path in written.items():
        tell(f"{what}: {path}")


def _names(folders: Iterable[Path | None]) -> list[str]:
    return list(dict.fromkeys(str(folder) for folder in folders if folder is not None))


def _answer(options: argparse.Namespace, answer: Any, show: Callable[[Any], None]) -> int:
    """Print an answer as JSON, in Python's words, or as rows, whose words name options as they are typed."""
    if options.json:
        print(as_json(answer))
    else:
        show(_as_typed(answer, options))
    return DONE


def _as_typed(answer: Any, options: argparse.Namespace) -> Any:
    """Return an answer whose verdict, warnings and notes, also in its parts, name options as typed."""
    if not isinstance(answer, dict):
        return answer
    return {
        name: arguments.as_typed(part, options)
        if name == "words"
        else [arguments.as_typed(words, options) for words in part]
        if name in ("warnings", "notes") and isinstance(part, list)
        else _as_typed(part, options)
        for name, part in answer.items()
    }


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "list": _list,
    "solve": _solve,
    "run": _run,
    "bound": _bound,
    "evaluate": _evaluate,
    "compare": _compare,
    "claims": _claims,
    "reproduce": _reproduce,
    "sweep": _sweep,
    "report": _report,
    "doctor": _doctor,
    "completion": _completion,
    "help": _help,
}
