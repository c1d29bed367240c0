"""The parser of the command line: verbs, their options and their help; nothing heavy is imported here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

import gainbias
from gainbias.suggest import did_you_mean_or_known, nearest


class Words(argparse.ArgumentParser):
    """The parser of the whole or of one verb, which answers for unknown words itself, with its own usage."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Return what was typed, as the base class does, and nothing unknown."""
        verbs = verbs_of(self)
        first = next((word for word in args or () if not word.startswith("-")), None)
        if verbs and first is not None and first not in verbs:
            self.error(f"there is no verb {first}: {did_you_mean_or_known(first, verbs)}")
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown, args or ())
        return found, unknown

    def _refuse(self, unknown: list[str], typed: Sequence[str]) -> NoReturn:
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if not options:
            actions = self._option_string_actions
            several = [word for word in typed if isinstance(actions.get(word), argparse._AppendAction)]
            hint = f": name {several[0]} before each" if several else ""
            self.error(f"unexpected words: {' '.join(unknown)}{hint}")
        if any(options[0] in verb._option_string_actions for verb in verbs_of(self).values()):
            self.error(f"{options[0]} comes after the verb: gainbias VERB {options[0]}")
        near = nearest(options[0], self._option_string_actions)
        hint = f": did you mean {near}?" if near else ""
        self.error(f"there is no option {options[0]}{hint}")


def verbs_of(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the verbs of a command line; none if it has no verbs.

    Examples
    --------
    >>> list(verbs_of(parser()))[:2]
    ['demo', 'list']
    """
    kinds = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    return {name: verb for verbs in kinds for name, verb in verbs.choices.items()}


def count(words: str) -> int:
    """Return a positive whole number, which may be written like 1e4 or 10_000.

    Examples
    --------
    >>> count("1e4"), count("10_000")
    (10000, 10000)
    """
    try:
        number = int(words) if words.strip("+-_0123456789") == "" else float(words)
        if number >= 1 and number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"must be a positive whole number, as in 10000 or 1e4, found {words!r}")


LOG_COLUMNS = {
    "state": "the state before a step; several times for a state of several numbers",
    "next-state": "the state after it, named in the same way",
    "reward": "what the step earned, paid once; for what is paid as long as a row lasts, --reward-rate",
    "episode": "a new value begins an episode",
    "terminated": "whether the step ended its episode",
    "truncated": "whether the episode was cut off after the step, without an end",
    "step": "number of the step, which grows by 1 within an episode",
}
"""Columns of a log, and what each holds."""

EXAMPLES = """\
examples:
  gainbias demo
  gainbias evaluate latencies.csv --column ms
  gainbias solve frozen-lake
  gainbias help evaluate
"""

SOLVE_EXAMPLE = """\
examples:
  gainbias solve frozen-lake
  python -c "import numpy; numpy.savez('machine.npz', transitions=[[0.9, 0.1], [0.5, 0.5]], rewards=[1, -2])"
  gainbias solve machine.npz
"""


EVALUATE_EXAMPLE = """\
examples:
  gainbias evaluate FrozenLake-v1 --policy random --steps 20000
  python -c "import numpy; numpy.save('left.npy', [0] * 16)"
  gainbias evaluate FrozenLake-v1 --policy left.npy --set is_slippery=false --steps 20000 --json
  gainbias evaluate Pendulum-v1 --policy random --features fourier,4 --steps 20000
  gainbias evaluate log.parquet --state position --reward earned --page answer.html
  gainbias evaluate log.parquet --state position --reward earned --action choice --policy new.npy
  gainbias evaluate latencies.csv --column ms --quantile 0.5 --quantile 0.99
  gainbias evaluate events.csv --column queue --time at
  cut -d, -f2 latencies.csv | gainbias evaluate -

A policy is random, FILE.npy with the action of each discrete observation or the probabilities of all actions,
or MODULE:NAME, a function from an observation to an action or an agent with a method predict. An environment
is an id of Gymnasium, or MODULE:NAME, a class of your own or a function that makes environments.
"""

COMPARE_EXAMPLE = """\
examples:
  python -c "import numpy; numpy.save('left.npy', [0] * 16)"
  gainbias compare FrozenLake-v1 --policy random --policy left.npy --steps 20000
  gainbias compare log.parquet --state position --reward earned --action choice \\
    --policy new.npy --policy random
"""


REPORT_EXAMPLE = """\
examples:
  gainbias report results/reproduction --output study.html
  gainbias evaluate FrozenLake-v1 --policy random --steps 20000 --save lake.npz
  gainbias report lake.npz
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; ``verb`` of what it returns names the verb."""
    whole = Words(
        prog="gainbias",
        description="What a system, or a policy, is worth in the long run, and how sure that is.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("-V", "--version", action="version", version=f"gainbias {gainbias.__version__}")
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", parser_class=Words)
    for add in (
        _add_demo,
        _add_list,
        _add_solve,
        _add_run,
        _add_bound,
        _add_evaluate,
        _add_compare,
        _add_claims,
        _add_reproduce,
        _add_sweep,
        _add_report,
        _add_doctor,
        _add_completion,
        _add_help,
    ):
        add(verbs)
    for verb in verbs_of(whole).values():
        verb.usage = _short_usage(verb)
    return whole


def _short_usage(verb: argparse.ArgumentParser) -> str:
    """Return how a verb is typed: with what it must have, and without the list of all options."""
    needed = [
        f"{action.option_strings[-1]} {action.metavar or action.dest.upper()}"
        for action in verb._actions
        if action.option_strings and action.required
    ]
    words = [
        {"?": f"[{action.metavar}]", "*": f"[{action.metavar} ...]"}.get(
            str(action.nargs), str(action.metavar or action.dest)
        )
        for action in verb._actions
        if not action.option_strings
    ]
    return " ".join([verb.prog, "[options]", *needed, *words])


def help_on(verb: str | None) -> str:
    r"""Return the help of a verb, or of the whole.

    Examples
    --------
    >>> help_on("doctor").partition("\n")[0]
    'usage: gainbias doctor [options]'
    """
    whole = parser()
    if verb is None:
        return whole.format_help()
    if verb not in (known := verbs_of(whole)):
        raise ValueError(f"there is no verb {verb}: {did_you_mean_or_known(verb, known)}")
    return known[verb].format_help()


def _verb(verbs: Any, name: str, help: str, example: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=help,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("--json", action="store_true", help="print JSON instead of rows")
    verb.add_argument(
        "--quiet",
        action="store_true",
        help="print only the answer, in plain rows; warnings and errors still appear",
    )
    return verb


def _add_demo(verbs: Any) -> None:
    about = "show each kind of answer for one small queue, and write a page: no input, less than a minute"
    example = "examples:\n  gainbias demo\n  gainbias demo --output /tmp/queue"
    verb = _verb(verbs, "demo", about, example)
    verb.add_argument(
        "--output",
        metavar="FOLDER",
        default="gainbias-demo",
        help="a new folder, for data and pages (default: %(default)s)",
    )


def _add_list(verbs: Any) -> None:
    about = "list algorithms with what each converges to, or tasks"
    verb = _verb(verbs, "list", about, "examples:\n  gainbias list algorithms\n  gainbias list tasks")
    verb.add_argument(
        "what", choices=(known := ["algorithms", "tasks"]), metavar="|".join(known), help="what to list"
    )


def _add_solve(verbs: Any) -> None:
    about = "compute the exact gain, bias and stationary law of a task, or of a process in a file"
    verb = _verb(verbs, "solve", about, SOLVE_EXAMPLE)
    verb.add_argument(
        "source",
        metavar="TASK|FILE.npz",
        help="id of a task, as gainbias list tasks shows them; or a file with arrays, as below",
    )
    verb.add_argument("--tol", type=float, default=1e-10, help="tolerated error (default: %(default)s)")
    verb.add_argument("--method", default="auto", help="how to solve (default: %(default)s)")
    verb.add_argument("--device", default="cpu", help="cpu or gpu (default: %(default)s)")
    _add_task_options(verb)


def _add_run(verbs: Any) -> None:
    example = "example:\n  gainbias run frozen-lake --algorithm single-chain --seeds 3"
    verb = _verb(verbs, "run", "run one algorithm on a task, beside the exact answer", example)
    _add_run_options(verb)
    verb.add_argument("--seeds", type=int, default=1, help="number of sample paths (default: %(default)s)")
    verb.add_argument(
        "--tail-average", type=float, help="average the weights after this fraction of the steps"
    )
    verb.add_argument("--device", default="cpu", help="cpu or gpu (default: %(default)s)")


def _add_bound(verbs: Any) -> None:
    example = (
        "examples:\n  gainbias bound boyan-chain --algorithm double-chain --sampling iid --step-size 3e-5 "
        "--steps 3e6\n  gainbias bound frozen-lake --all --epsilon 0.1"
    )
    about = "say what a theorem guarantees on a task: the bound, its conditions and its constants"
    verb = _verb(verbs, "bound", about, example)
    _add_run_options(verb)
    verb.add_argument(
        "--as-printed", action="store_true", help="use the paper's printed form, not the corrected one"
    )
    verb.add_argument(
        "--all",
        action="store_true",
        help="the number of samples for each row of the paper's comparison table",
    )
    verb.add_argument("--epsilon", type=float, help="with --all: target squared error (default: 0.01)")
    verb.add_argument("--discount", type=float, help="with --all: discount of discounted TD (default: 0.99)")


def _add_run_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("task", metavar="TASK", help="id of a task, as gainbias list tasks shows them")
    verb.add_argument(
        "--algorithm",
        default="single-chain",
        help="id of an algorithm, as gainbias list algorithms shows them (default: %(default)s)",
    )
    verb.add_argument("--steps", type=count, help="number of steps (default: the paper's, or 100000)")
    verb.add_argument(
        "--step-size",
        metavar="A[,C0[,XI]]",
        help="constant a, or a/(t+c0), or a/(t+c0)^xi "
        "(default: the paper's for its tasks, else 150/(t+1000), or the algorithm's own)",
    )
    verb.add_argument("--sampling", default="markov", help="markov or iid (default: %(default)s)")
    verb.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the algorithm"
    )
    _add_task_options(verb)


def _add_task_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--seed", type=int, default=0, help="seed of the task (default: %(default)s)")
    verb.add_argument(
        "--protocol",
        default="literal",
        help="whose features a task of the paper has: literal, inferred or fair (default: %(default)s)",
    )
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the task")


def _add_evaluate(verbs: Any) -> None:
    about = (
        "estimate what a policy earns per step in the long run, from an environment or a log, or the mean "
        "and the quantiles of a column of numbers, with error bars"
    )
    verb = _verb(verbs, "evaluate", about, EVALUATE_EXAMPLE)
    verb.add_argument(
        "source",
        metavar="ENV|LOG",
        help="id of an environment or MODULE:NAME; or FILE.parquet, FILE.csv, FILE.jsonl, a folder of "
        "Parquet files, or a load generator's FILE.json; - reads a column or a CSV table from standard input",
    )
    verb.add_argument(
        "--policy",
        action=OnePolicy,
        help="random, FILE.npy or MODULE:NAME; for a log: what it would have earned, with --action",
    )
    verb.add_argument(
        "--target-half-width",
        type=float,
        metavar="WIDTH",
        help="run until the gain's interval is this narrow; for a column: say how long it must be",
    )
    verb.add_argument("--anytime", action="store_true", help="make the interval hold however often you look")
    verb.add_argument(
        "--max-steps",
        type=count,
        default=10_000_000,
        help="with --target-half-width: steps at most (default: %(default)s)",
    )
    _add_series_options(verb)
    _add_evaluation_options(verb)
    _add_log_options(verb, discounted=True)
    files = verb.add_argument_group("files to write")
    files.add_argument(
        "--save", metavar="FILE.npz", help="also keep the estimate, for load_estimate or load_series"
    )
    files.add_argument("--plot", metavar="FILE.png", help="also draw the estimate")
    files.add_argument(
        "--page", metavar="FILE.html", help="also write its interactive page, to open and send"
    )
    files.add_argument("--overwrite", action="store_true", help="replace files that exist already")


def _add_log_options(verb: argparse.ArgumentParser, discounted: bool = False) -> None:
    log = verb.add_argument_group("a log, by its columns")
    for role, about in LOG_COLUMNS.items():
        log.add_argument(f"--{role}", action="append", metavar="COLUMN", help=about)
    log.add_argument(
        "--gaps",
        default="error",
        choices=["error", "break"],
        help="where rows are missing: stop with an error, or go on as after a break (default: %(default)s)",
    )
    _add_time_options(verb)
    other = verb.add_argument_group("another policy than the one that made the log")
    other.add_argument(
        "--action", metavar="COLUMN", help="the column of actions; --policy is the other policy"
    )
    other.add_argument(
        "--behaviour",
        metavar="POLICY",
        help="the policy that made the log, as --policy; or a column of probabilities",
    )
    other.add_argument("--ratio-features", help="features of the ratio, as --features")
    if discounted:
        other.add_argument("--discount", type=float, help="learn discounted values, with this discount")


def _add_time_options(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("times of a log or a column")
    group.add_argument(
        "--time",
        metavar="COLUMN",
        help="column of the times at which rows begin; the answer is per unit of time, or, for --column, "
        "over time",
    )
    group.add_argument(
        "--duration",
        metavar="COLUMN",
        help="column that says how long rows last; or, for an environment, a key of info",
    )
    group.add_argument(
        "--reward-rate", metavar="COLUMN", help="column of rewards per unit of time, paid while a row lasts"
    )
    group.add_argument("--end", metavar="TIME", help="when the last row ended")
    group.add_argument(
        "--per",
        metavar="UNIT",
        help="unit of the answer: second, minute, hour (default), day or week, where times are dates; "
        "where they are plain numbers, how many of them make a unit",
    )


def _add_series_options(verb: argparse.ArgumentParser) -> None:
    group = verb.add_argument_group("a column of numbers")
    group.add_argument("--column", help="evaluate this column of a file as plain numbers")
    group.add_argument(
        "--quantile",
        action="append",
        type=float,
        metavar="LEVEL",
        help="of the column, between 0 and 1; several times for several (default: 0.5, 0.95 and 0.99)",
    )
    group.add_argument(
        "--ratio-to", metavar="COLUMN", help="divide the sum of the column by the sum of this one"
    )
    group.add_argument("--group", metavar="COLUMN", help="evaluate the rows of each group separately")
    group.add_argument("--skip", type=count, help="leave out this many first rows, a known warm-up")


def _add_compare(verbs: Any) -> None:
    about = (
        "estimate how much more one policy earns per step than another, with common random numbers or from "
        "the log of a third one"
    )
    verb = _verb(verbs, "compare", about, COMPARE_EXAMPLE)
    verb.add_argument(
        "source", metavar="ENV|LOG", help="id of an environment or MODULE:NAME; or a log, as for evaluate"
    )
    verb.add_argument(
        "--policy", action="append", required=True, help="give it twice: random, FILE.npy or MODULE:NAME"
    )
    _add_evaluation_options(verb)
    _add_log_options(verb)


class OnePolicy(argparse.Action):
    """Takes one policy, and says who takes two."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, value: Any, name: Any = None) -> None:
        """Store the policy, unless there is one."""
        if getattr(namespace, self.dest) is not None:
            parser.error("--policy is given twice: gainbias evaluate takes one, gainbias compare two")
        setattr(namespace, self.dest, value)


def _add_evaluation_options(verb: argparse.ArgumentParser) -> None:
    run = verb.add_argument_group("an environment, and how values are learned")
    run.add_argument("--steps", type=count, default=100_000, help="transitions in all (default: %(default)s)")
    run.add_argument("--chains", type=int, help="independent copies of the environment (default: 4)")
    run.add_argument(
        "--seed", type=int, default=0, help="seed of environment and actions (default: %(default)s)"
    )
    run.add_argument(
        "--algorithm", default="auto", help="the algorithm that learns the values (default: %(default)s)"
    )
    run.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the algorithm"
    )
    run.add_argument(
        "--step-size",
        default="auto",
        metavar="A[,C0[,XI]]",
        help="for an algorithm that learns step by step: auto, or constant a, a/(t+c0), a/(t+c0)^xi",
    )
    run.add_argument(
        "--features",
        default="auto",
        help="auto; tiles[,TILES[,TILINGS]], fourier[,ORDER], radial[,CENTRES[,WIDTH]] or "
        "polynomial[,DEGREE]; FILE.npy with a row for each discrete observation; or MODULE:NAME",
    )
    verb.add_argument(
        "--confidence", type=float, default=0.95, help="confidence of intervals (default: %(default)s)"
    )
    run.add_argument(
        "--on-termination",
        default="zero",
        help="how the end of an episode leads back to the start: zero, by a step of its own with reward 0; "
        "or reward, by its last step (default: %(default)s)",
    )
    verb.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="answer after this many seconds at the latest"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the environment"
    )


def _add_where(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--engine", default="local", help="local or dask (default: %(default)s)")
    verb.add_argument("--workers", type=int, help="number of processes (default: one for each core)")
    verb.add_argument("--address", help="address of the scheduler of a Dask cluster")
    verb.add_argument(
        "--wait", metavar="TIME", help="how long to wait for workers of a cluster, as in 2h (default: 30s)"
    )


def _add_claims(verbs: Any) -> None:
    example = (
        "examples:\n  gainbias claims reward-estimate splitting\n  gainbias claims --output results/claims"
    )
    verb = _verb(verbs, "claims", "test the paper's headline claims", example)
    verb.add_argument("claims", nargs="*", metavar="CLAIM", help="id of a claim (default: all, some minutes)")
    verb.add_argument(
        "--quick", action="store_true", help="run a small version for a first look, marked as such"
    )
    verb.add_argument("--seed", type=int, default=0, help="seed of everything random (default: %(default)s)")
    _add_where(verb)
    verb.add_argument("--output", metavar="FOLDER", help="also store figures, a page and JSON in this folder")
    verb.add_argument("--overwrite", action="store_true", help="replace the claims that the folder holds")
    _add_recompute(verb)


def _add_recompute(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--recompute", action="store_true", help="compute finished units again if their code has changed"
    )


def _add_reproduce(verbs: Any) -> None:
    example = "example:\n  gainbias reproduce --output results/reproduction --instances 100"
    verb = _verb(verbs, "reproduce", "rebuild the study of the paper: tables, figures, verdicts", example)
    verb.add_argument(
        "--output", default="results/reproduction", help="results folder (default: %(default)s)"
    )
    verb.add_argument("--instances", type=int, default=30, help="in the fair protocol (default: %(default)s)")
    verb.add_argument("--protocol", action="append", help="literal, inferred or fair (default: all three)")
    verb.add_argument("--task", action="append", help="id of a task (default: the paper's fifteen)")
    verb.add_argument("--shorten", type=int, default=1, help="divide the steps by this, for a quick look")
    _add_where(verb)
    verb.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the tasks that have it"
    )
    verb.add_argument("--overwrite", action="store_true", help="start afresh in a folder that holds a study")
    verb.add_argument("--resume", action="store_true", help="go on in a folder that holds a study")
    _add_recompute(verb)


def _add_sweep(verbs: Any) -> None:
    example = (
        "examples:\n  gainbias sweep study.toml --dry-run\n  gainbias sweep study.toml --resume\n"
        "  gainbias sweep study.toml --engine dask --address tcp://192.168.0.1:8786\n"
        "  gainbias sweep --status results/study\n  gainbias sweep --verify results/study --sample 20"
    )
    verb = _verb(verbs, "sweep", "run a study of many runs, described in a file", example)
    verb.add_argument("study", nargs="?", metavar="STUDY.toml", help="tasks, algorithms, grids")
    what = verb.add_mutually_exclusive_group()
    what.add_argument("--status", metavar="FOLDER", help="show the progress of the study in a folder")
    what.add_argument("--verify", metavar="FOLDER", help="compute some stored units again, and compare")
    verb.add_argument(
        "--dry-run", action="store_true", help="only say how many runs there are, and how long they take"
    )
    verb.add_argument("--output", metavar="FOLDER", help="results folder (default: results/ and the name)")
    verb.add_argument("--resume", action="store_true", help="go on in a folder that holds a study")
    verb.add_argument("--overwrite", action="store_true", help="start afresh in a folder that holds a study")
    _add_recompute(verb)
    _add_where(verb)
    verb.add_argument("--device", default="cpu", help="cpu or gpu (default: %(default)s)")
    verb.add_argument(
        "--max-units",
        type=int,
        default=100_000,
        help="refuse a study with more units, each one algorithm on one sample path (default: %(default)s)",
    )
    verb.add_argument(
        "--unit-seconds", type=float, help="end a unit that takes longer, and count it as failed"
    )
    verb.add_argument("--unit-memory", type=float, metavar="BYTES", help="the same for memory, such as 4e9")
    verb.add_argument(
        "--sample", type=int, default=10, help="number of units to verify (default: %(default)s)"
    )


def _add_report(verbs: Any) -> None:
    about = "write the interactive page of a finished study, or of a stored estimate"
    verb = _verb(verbs, "report", about, REPORT_EXAMPLE)
    verb.add_argument("results", metavar="RESULTS|FILE.npz", help="results folder, or what --save wrote")
    place = "report/index.html in RESULTS, or FILE.html"
    verb.add_argument("--output", metavar="FILE", help=f"the page (default: {place})")
    verb.add_argument("--overwrite", action="store_true", help="replace a file that exists already")


def _add_doctor(verbs: Any) -> None:
    about = "show versions, missing optional parts, threads and compiled kernels"
    _verb(verbs, "doctor", about, "example:\n  gainbias doctor")


COMPLETION_EXAMPLE = """\
examples:
  gainbias completion bash > ~/.local/share/bash-completion/completions/gainbias
  gainbias completion zsh > ~/.gainbias.zsh      (and in ~/.zshrc: source ~/.gainbias.zsh)
  gainbias completion fish > ~/.config/fish/completions/gainbias.fish
"""


def _add_completion(verbs: Any) -> None:
    about = "print a script that lets a shell complete verbs, options and ids"
    verb = _verb(verbs, "completion", about, COMPLETION_EXAMPLE)
    verb.add_argument("shell", choices=["bash", "zsh", "fish"], help="which shell")


def _add_help(verbs: Any) -> None:
    verb = _verb(verbs, "help", "show what a verb does, and its options", "example:\n  gainbias help solve")
    verb.add_argument("topic", nargs="?", metavar="VERB", help="(default: all verbs)")
