"""The parser of the command line: verbs, their options and their help; nothing heavy is imported here."""

from __future__ import annotations

import argparse
from typing import Any

import gainbias
from gainbias.cli.words import OfColumns, OnePolicy, Paragraphs, Words, count, verbs_of
from gainbias.suggest import did_you_mean_or_known

LOG_COLUMNS = {
    "state": "the state before a step; repeat it for several numbers",
    "next-state": "the state after it, named in the same way",
    "reward": "what the step earned, at once; see also --reward-rate",
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


NUMBERS, LOG, ENVIRONMENT = "a column of numbers", "a log", "an environment"
"""What can be evaluated."""

LEARNED = ("features", "algorithm", "param", "step_size", "on_termination", "time_limit", "policy")

MEANT_FOR = {
    NUMBERS: (
        *("column", "quantile", "ratio_to", "group", "skip", "time", "duration"),
        "target_half_width",
    ),
    LOG: (
        *(role.replace("-", "_") for role in LOG_COLUMNS),
        *("gaps", "time", "duration", "reward_rate", "end", "per"),
        *("action", "behaviour", "ratio_features", "discount"),
        *LEARNED,
    ),
    ENVIRONMENT: (
        *("steps", "chains", "seed", "set", "duration", "target_half_width", "anytime"),
        *LEARNED,
    ),
}
"""Destinations of the options of `evaluate` and `compare` by what they are for; others are for all."""

EVALUATE_FIRST = (
    *("help", "json", "column", "quantile", "state", "reward", "time", "action"),
    *("policy", "steps", "page"),
)
"""The options that `evaluate --help` shows."""

EVALUATE_EXAMPLES = """\
examples:
  gainbias evaluate latencies.csv --column ms
  gainbias evaluate events.csv --column queue --time at
  gainbias evaluate log.csv --state position --reward earned
  gainbias evaluate FrozenLake-v1 --policy random
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

COMPARE_FIRST = ("help", "json", "policy", "state", "reward", "action", "steps", "set")
"""The options that `compare --help` shows."""

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


def parser() -> Words:
    """Return the parser of the command line; ``verb`` of what it returns names the verb."""
    whole = Words(
        prog="gainbias",
        description="What a system, or a policy, is worth in the long run, and how sure that is.",
        epilog=EXAMPLES,
        formatter_class=Paragraphs,
    )
    whole.add_argument("-V", "--version", action="version", version=f"gainbias {gainbias.__version__}")
    verbs = whole.add_subparsers(dest="verb", metavar="VERB", parser_class=Words)
    for add in (
        _add_demo,
        _add_evaluate,
        _add_compare,
        _add_report,
        _add_solve,
        _add_list,
        _add_run,
        _add_bound,
        _add_sweep,
        _add_reproduce,
        _add_claims,
        _add_doctor,
        _add_completion,
        _add_help,
    ):
        add(verbs)
    for verb in verbs_of(whole).values():
        verb.usage = _short_usage(verb)
    return whole


def _short_usage(verb: argparse.ArgumentParser) -> str:
    """Return how a verb is typed: with its required arguments, and without the list of all options."""
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


def help_on(verb: str | None, has_all: bool = False) -> str:
    r"""Return the help of a verb, or of the whole; with the options that matter most, or with all.

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
    return known[verb].format_whole_help() if has_all else known[verb].format_help()


def _verb(verbs: Any, name: str, help: str, example: str, about: str | None = None) -> Words:
    verb: Words = verbs.add_parser(
        name,
        help=help,
        description=about or f"{help[0].upper()}{help[1:]}.",
        epilog=example,
        formatter_class=Paragraphs,
    )
    verb.add_argument("--json", action="store_true", help="print JSON instead of rows")
    verb.add_argument(
        "--quiet",
        action="store_true",
        help="print only the answer, in plain rows; warnings and errors still appear",
    )
    return verb


def _add_demo(verbs: Any) -> None:
    about = "see each kind of answer in less than a minute, without input"
    example = "examples:\n  gainbias demo\n  gainbias demo --output /tmp/queue"
    verb = _verb(verbs, "demo", about, example)
    verb.add_argument(
        "--output",
        metavar="FOLDER",
        default="gainbias-demo",
        help="a new folder, for data and pages (default: %(default)s)",
    )


def _add_list(verbs: Any) -> None:
    about = "list tasks, or algorithms with what each converges to"
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
    _add_device(verb)
    _add_task_options(verb)


def _add_run(verbs: Any) -> None:
    example = "example:\n  gainbias run frozen-lake --algorithm single-chain --seeds 3"
    verb = _verb(verbs, "run", "run one algorithm on a task, beside the exact answer", example)
    _add_run_options(verb)
    verb.add_argument("--seeds", type=count, default=1, help="number of sample paths (default: %(default)s)")
    verb.add_argument(
        "--tail-average", type=float, help="average the weights after this fraction of the steps"
    )
    _add_device(verb)


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


def _add_run_options(verb: Words) -> None:
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


def _add_task_options(verb: Words) -> None:
    verb.add_argument("--seed", type=int, default=0, help="seed of the task (default: %(default)s)")
    verb.add_argument(
        "--protocol",
        default="literal",
        help="whose features a task of the paper has: literal, inferred or fair (default: %(default)s)",
    )
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the task")


def _add_evaluate(verbs: Any) -> None:
    short = "mean of numbers, or gain of a policy, with error bars"
    about = (
        "Mean and quantiles of a column of numbers, or what a policy earns per step in the long run, from a "
        "log or in a simulator, with error bars."
    )
    verb = _verb(verbs, "evaluate", short, EVALUATE_EXAMPLE, about)
    verb.first, verb.first_examples = EVALUATE_FIRST, EVALUATE_EXAMPLES
    verb.add_argument(
        "source",
        metavar="FILE|ENV",
        help="numbers or a log: a file (.csv, .txt, .parquet, .jsonl, .json of a load generator), a folder "
        "of Parquet files, or - for standard input; or an environment: its id, or MODULE:NAME",
    )
    _add_confidence(verb)
    _add_series_options(verb)
    _add_log_options(verb, discounted=True)
    run = _add_environment_options(verb)
    run.add_argument(
        "--policy",
        action=OnePolicy,
        help="random, FILE.npy or MODULE:NAME",
    )
    run.add_argument(
        "--steps",
        type=count,
        metavar="N",
        help="transitions in all (default: 100000)",
    )
    run.add_argument("--max-steps", dest="steps", type=count, help=argparse.SUPPRESS)  # as it was called
    run.add_argument(
        "--target-half-width",
        type=float,
        metavar="WIDTH",
        help="run until the gain's interval reaches no further to either side, for at most --steps (default: "
        "10000000); for a column: say how long it must be",
    )
    run.add_argument("--anytime", action="store_true", help="make the interval hold however often you look")
    _add_learning_options(verb)
    files = verb.add_argument_group("files to write")
    files.add_argument("--page", metavar="FILE.html", help="also write an interactive page, to open and send")
    files.add_argument("--plot", metavar="FILE.png", help="also draw the estimate")
    files.add_argument(
        "--save", metavar="FILE.npz", help="also keep the estimate, for load_estimate or load_series"
    )
    files.add_argument("--overwrite", action="store_true", help="replace files that exist already")


def _add_log_options(verb: Words, discounted: bool = False) -> None:
    log = verb.add_argument_group("a log, by its columns")
    for role, about in LOG_COLUMNS.items():
        log.add_argument(f"--{role}", action="append", metavar="COLUMN", help=about)
    log.add_argument(
        "--gaps",
        default="error",
        choices=(known := ["error", "break"]),
        metavar="|".join(known),
        help="if rows are missing: stop with an error, or continue as after a break (default: %(default)s)",
    )
    _add_time_options(verb)
    other = verb.add_argument_group("another policy than that of the log")
    other.add_argument("--action", metavar="COLUMN", help="what was done; --policy is then the other policy")
    other.add_argument(
        "--behaviour",
        metavar="POLICY",
        help="the policy that made the log, as --policy; or a column of probabilities",
    )
    other.add_argument("--ratio-features", metavar="FEATURES", help="features of the ratio, as --features")
    if discounted:
        other.add_argument("--discount", type=float, help="learn discounted values, with this discount")


def _add_time_options(verb: Words) -> None:
    group = verb.add_argument_group("times of a log or a column")
    log = verb.add_argument_group("more about times, of a log alone")
    group.add_argument(
        "--time",
        metavar="COLUMN",
        help="when rows begin: a number counts for as long as it holds, and a gain is per unit of time",
    )
    group.add_argument(
        "--duration",
        metavar="COLUMN",
        help="how long rows last; for an environment: a key of info",
    )
    log.add_argument(
        "--reward-rate", metavar="COLUMN", help="what is earned per unit of time, while a row lasts"
    )
    log.add_argument("--end", metavar="TIME", help="when the last row ended")
    log.add_argument(
        "--per",
        metavar="UNIT",
        help="unit of the answer: for dates, second, minute, hour (default), day or week; for plain "
        "numbers, how many of them make a unit",
    )


def _add_series_options(verb: Words) -> None:
    group = verb.add_argument_group("a column of numbers")
    group.add_argument("--column", help="the one with the numbers, if there are several")
    group.add_argument(
        "--quantile",
        action="append",
        type=float,
        metavar="LEVEL",
        help="such as 0.9, once or more (default: 0.5 0.95 0.99)",
    )
    group.add_argument(
        "--ratio-to", metavar="COLUMN", help="divide the sum of the column by the sum of this one"
    )
    group.add_argument("--group", metavar="COLUMN", help="evaluate the rows of each group separately")
    group.add_argument(
        "--skip", type=count, metavar="N", help="leave out this many first rows, a known warm-up"
    )


def _add_compare(verbs: Any) -> None:
    short = "which of two policies earns more, and by how much"
    about = (
        "How much more one policy earns per step than another, with an error bar: in a simulator, with "
        "common random numbers, or from the log of a third policy."
    )
    verb = _verb(verbs, "compare", short, COMPARE_EXAMPLE, about)
    verb.first, verb.first_examples = COMPARE_FIRST, COMPARE_EXAMPLE
    verb.add_argument(
        "source", metavar="LOG|ENV", help="a log, as for evaluate; or an environment: its id, or MODULE:NAME"
    )
    verb.add_argument(
        "--policy",
        action="append",
        required=True,
        help="give it twice, the first and the second: random, FILE.npy or MODULE:NAME",
    )
    for name in ("--column", "--quantile", "--ratio-to", "--group", "--skip"):
        verb.add_argument(name, action=OfColumns, help=argparse.SUPPRESS)
    _add_confidence(verb)
    _add_log_options(verb)
    run = _add_environment_options(verb)
    run.add_argument(
        "--steps",
        type=count,
        metavar="N",
        default=100_000,
        help="transitions in all, of each policy (default: %(default)s)",
    )
    _add_learning_options(verb)


def _add_confidence(verb: Words) -> None:
    verb.add_argument(
        "--confidence",
        type=float,
        metavar="LEVEL",
        default=0.95,
        help="confidence of intervals (default: %(default)s)",
    )
    verb.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for a log or an environment: answer after this many seconds at the latest",
    )


def _add_environment_options(verb: Words) -> argparse._ArgumentGroup:
    run = verb.add_argument_group("an environment")
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the environment"
    )
    run.add_argument("--chains", type=int, metavar="N", help="copies that run side by side (default: 4)")
    run.add_argument(
        "--seed", type=int, default=0, help="seed of environment and actions (default: %(default)s)"
    )
    return run


def _add_learning_options(verb: Words) -> None:
    learning = verb.add_argument_group("how values are learned")
    learning.add_argument(
        "--features",
        default="auto",
        help="auto; tiles[,TILES[,TILINGS]], fourier[,ORDER], radial[,CENTRES[,WIDTH]] or "
        "polynomial[,DEGREE]; FILE.npy with a row for each discrete observation; or MODULE:NAME",
    )
    learning.add_argument(
        "--algorithm", default="auto", help="id of an algorithm, or auto (default: %(default)s)"
    )
    learning.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="parameter of the algorithm"
    )
    learning.add_argument(
        "--step-size",
        default="auto",
        metavar="A[,C0[,XI]]",
        help="for an algorithm that learns step by step: auto, or constant a, a/(t+c0), a/(t+c0)^xi",
    )
    learning.add_argument(
        "--on-termination",
        default="zero",
        metavar="zero|reward",
        help="how the end of an episode leads back to the start: zero, by an extra step with reward 0; or "
        "reward, by its last step (default: %(default)s)",
    )


def _add_where(verb: Words) -> None:
    verb.add_argument("--engine", default="local", help="local or dask (default: %(default)s)")
    verb.add_argument("--workers", type=int, help="number of processes (default: one for each core)")
    verb.add_argument("--address", help="address of the scheduler of a Dask cluster")
    verb.add_argument(
        "--wait", metavar="TIME", help="how long to wait for workers of a cluster, as in 2h (default: 30s)"
    )


def _add_device(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--device", default="cpu", help="cpu or gpu (default: %(default)s)")


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
    verb.add_argument("--overwrite", action="store_true", help="replace the claims in the folder")
    _add_recompute(verb)


def _add_recompute(verb: Words) -> None:
    verb.add_argument(
        "--recompute", action="store_true", help="compute finished units again if their code has changed"
    )


def _add_reproduce(verbs: Any) -> None:
    example = (
        "examples:\n  gainbias reproduce --output results/reproduction --instances 100\n"
        "  gainbias reproduce --output results/many --instances 1000 --protocol fair --device gpu"
    )
    verb = _verb(verbs, "reproduce", "rebuild the study of the paper: tables, figures, verdicts", example)
    verb.add_argument(
        "--output", default="results/reproduction", help="results folder (default: %(default)s)"
    )
    verb.add_argument("--instances", type=int, default=30, help="in the fair protocol (default: %(default)s)")
    verb.add_argument("--protocol", action="append", help="literal, inferred or fair (default: all three)")
    verb.add_argument("--task", action="append", help="id of a task (default: the paper's fifteen)")
    verb.add_argument("--shorten", type=int, default=1, help="divide the steps by this, for a quick look")
    _add_where(verb)
    _add_device(verb)
    verb.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="setting of the tasks that have it"
    )
    verb.add_argument(
        "--overwrite", action="store_true", help="replace the study in this folder and start afresh"
    )
    verb.add_argument("--resume", action="store_true", help="continue the study in this folder")
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
        "--dry-run", action="store_true", help="only say how many runs there are, and how long they will take"
    )
    verb.add_argument("--output", metavar="FOLDER", help="results folder (default: results/ and the name)")
    verb.add_argument("--resume", action="store_true", help="continue the study in this folder")
    verb.add_argument(
        "--overwrite", action="store_true", help="replace the study in this folder and start afresh"
    )
    _add_recompute(verb)
    _add_where(verb)
    _add_device(verb)
    verb.add_argument(
        "--max-units",
        type=int,
        default=100_000,
        help="refuse a study with more units, each one algorithm on one sample path (default: %(default)s)",
    )
    verb.add_argument(
        "--unit-seconds", type=float, help="stop a unit that takes longer, and count it as failed"
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
    example = "examples:\n  gainbias help solve\n  gainbias help evaluate --all"
    verb = _verb(verbs, "help", "show what a verb does, and its options", example)
    verb.add_argument("topic", nargs="?", metavar="VERB", help="a verb (default: the list of verbs)")
    verb.add_argument("--all", action="store_true", help="show all options, not only those that matter most")
