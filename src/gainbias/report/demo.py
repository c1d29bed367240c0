"""The demonstration: one small queue, evaluated in every possible way, with the exact answer beside each.

Customers come to one server, at `ARRIVALS` and `SERVICES` per hour. `demonstrate` simulates them, writes the
kinds of data that a user would have (a column of numbers, an event log, a model, the log of a policy) into
a folder, computes an answer from each, and writes a page. Each answer comes with the command that computes
it again from these files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gainbias.evaluation.estimate import Estimate, as_precise, with_interval
from gainbias.evaluation.evaluate import evaluate, evaluate_log
from gainbias.evaluation.series import evaluate_series
from gainbias.evaluation.series_estimate import SeriesEstimate, number_in_words
from gainbias.extras import optional
from gainbias.model.solve.solve import solve
from gainbias.progress import Watch
from gainbias.report.pages.frame import PAGE, assembled, script_data
from gainbias.report.write import write_page_of
from gainbias.tasks.chains.operations import admission_process
from gainbias.types import Floats, Ints

ARRIVALS, SERVICES = 0.8, 1.0
"""Arrivals per hour, and services per hour while there are customers."""

FEE, WAITING_COST = 4.0, 1.0
"""What a customer pays when let in, and what each costs per hour until they leave."""

PLACES, LET_IN = 8, 3
"""Places in the queue; the policy lets a customer in while fewer than this many are there."""

SUBJECTS = {
    "simulator": "The policy that admits below three, simulated",
    "another": "The policy that admits below three, from the log of another",
}
"""What the pages of estimates are about, by their names."""

CUSTOMERS, STEPS = 50_000, 60_000
"""How long everything is simulated: customers of the queue, and steps of the log of a policy."""


@dataclass(frozen=True)
class DemoAnswer:
    """One answer of the demonstration.

    Attributes
    ----------
    have : str
        What one has.
    question : str
    answer : str
        With its interval.
    exact : float
        The true value.
    shown_exact : str
        The same with the digits of the answer.
    command : str
        The command that gives the answer again.
    page : str or None
        Name of its page in the folder.
    verdict : str
        Whether the answer can be trusted, in a word or two; empty if there is no answer.
    is_trusted : bool
    value : float
        The answer as a number; nan if there is none.
    interval : (float, float)
        Its ends; both are the answer if that is exact.
    """

    have: str
    question: str
    answer: str
    exact: float
    shown_exact: str
    command: str
    page: str | None
    verdict: str = ""
    is_trusted: bool = True
    value: float = float("nan")
    interval: tuple[float, float] = (float("nan"), float("nan"))


class AdmissionQueue:
    """The queue as a simulator: an action decides whether a customer who comes would be let in.

    Its methods are those of an environment of Gymnasium; `admission_environment` makes one of it.

    Examples
    --------
    >>> queue = AdmissionQueue()
    >>> queue.reset(seed=0)
    (0, {})
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng()
        self._customers = 0

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Start with an empty queue."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._customers = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Wait until a customer comes, who is let in by action 1, or could leave."""
        rate = ARRIVALS + SERVICES
        reward = 0.0 - WAITING_COST * self._customers / rate
        if self._random.random() < ARRIVALS / rate:
            if action and self._customers < PLACES:
                self._customers += 1
                reward += FEE
        else:
            self._customers = max(0, self._customers - 1)
        return self._customers, reward, False, False, {}


def admission_environment() -> Any:
    """Return the queue as an environment of Gymnasium, if that is installed.

    Examples
    --------
    >>> admission_environment().observation_space.n
    np.int64(9)
    """
    gymnasium = optional("gymnasium")

    class AdmissionEnvironment(AdmissionQueue, gymnasium.Env):  # type: ignore[misc, name-defined]
        observation_space = gymnasium.spaces.Discrete(PLACES + 1)
        action_space = gymnasium.spaces.Discrete(2)

    return AdmissionEnvironment()


def admit_few(customers: int) -> int:
    """Let a customer in while fewer than `LET_IN` are there.

    Examples
    --------
    >>> admit_few(2), admit_few(3)
    (1, 0)
    """
    return int(customers < LET_IN)


def demonstrate(folder: Path) -> list[DemoAnswer]:
    """Write the data and the pages of the demonstration into a new folder, and return its answers.

    Parameters
    ----------
    folder : path
        Must not exist.

    Raises
    ------
    ValueError
        If there is something already.
    """
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder} exists already: remove it, or name another folder")
    folder.mkdir(parents=True)
    answers = []
    with Watch() as watch:
        for number, ask in enumerate(QUESTIONS):
            watch.show("asking (kernels are compiled on first use)", number, len(QUESTIONS))
            answers.append(ask(folder))
    (folder / PAGE).write_text(_page(answers), encoding="utf-8")
    return answers


def simulated_queue() -> tuple[Floats, Floats, Ints]:
    """Simulate customers: how long each waited, and how many were there from which time on.

    Examples
    --------
    >>> waits, times, customers = simulated_queue()
    >>> len(waits), len(times), customers[:3].tolist()
    (50000, 100000, [1, 0, 1])
    """
    rng = np.random.default_rng(0)
    between = rng.exponential(1.0 / ARRIVALS, CUSTOMERS)
    served = rng.exponential(1.0 / SERVICES, CUSTOMERS)
    walk = np.concatenate([[0.0], np.cumsum(served[:-1] - between[1:])])
    waits = walk - np.minimum.accumulate(walk)
    comes = np.cumsum(between)
    times = np.concatenate([comes, comes + waits + served])
    order = np.argsort(times, kind="stable")
    change = np.repeat([1, -1], CUSTOMERS)[order]
    return waits.round(6), times[order].round(6), np.cumsum(change)


def _write_columns(path: Path, columns: Mapping[str, Floats | Ints]) -> None:
    """Write columns as text with all digits, so that the file and the numbers give the same answer."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(map(repr, row)) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n", encoding="utf-8")


def _from_numbers(folder: Path) -> DemoAnswer:
    file, waits = folder / "waits.csv", simulated_queue()[0]
    _write_columns(file, {"wait": waits})
    found = evaluate_series(waits)
    assert isinstance(found, SeriesEstimate)  # there are no groups
    command = f"gainbias evaluate {file} --column wait"
    write_page_of(found, folder / "waits.html", {"Command": command})
    return DemoAnswer(
        have=f"a column of numbers: how long each of {CUSTOMERS:,} customers waited",
        question="How long does a customer wait on average, in hours?",
        answer=number_in_words(found.mean, found.interval, found.confidence),
        command=command,
        page="waits.html",
        verdict=found.verdict.kind,
        is_trusted=found.verdict.is_trusted,
        **_numbers(found.mean, found.interval, ARRIVALS / SERVICES / (SERVICES - ARRIVALS)),
    )


def _from_events(folder: Path) -> DemoAnswer:
    file, (_, times, customers) = folder / "queue.csv", simulated_queue()
    log = {"at": times, "customers": customers}
    _write_columns(file, log)
    found = evaluate_log(log, time="at", reward_rate="customers", per=1.0)
    command = f"gainbias evaluate {file} --time at --reward-rate customers --per 1"
    write_page_of(found, folder / "queue.html", {"Command": command}, "An event log of the queue")
    return DemoAnswer(
        have="an event log: how many customers were there, and since when",
        question="How many customers are there on average over time?",
        answer=number_in_words(found.gain, found.gain_interval, found.confidence),
        command=command,
        page="queue.html",
        verdict=found.diagnostics.verdict.kind,
        is_trusted=found.diagnostics.verdict.is_trusted,
        **_numbers(found.gain, found.gain_interval, ARRIVALS / (SERVICES - ARRIVALS)),
    )


def _from_simulator(folder: Path) -> DemoAnswer:
    page = folder / "simulator.html"
    about: dict[str, Any] = {
        "have": "a simulator, and the policy that admits below three",
        "question": "How many dollars does the policy earn per step?",
        "command": f"gainbias evaluate {__name__}:admission_environment --policy {__name__}:admit_few",
    }
    try:
        return _estimated(evaluate(admission_environment, admit_few), page, **about)
    except ImportError as error:
        exact = _exact_gain()
        return DemoAnswer(
            answer=f"left out: {error}", page=None, exact=exact, shown_exact=f"{exact:.3g}", **about
        )


def _from_model(folder: Path) -> DemoAnswer:
    file, process = folder / "model.npz", admission_process(ARRIVALS, SERVICES, LET_IN, FEE, WAITING_COST)
    np.savez(file, transitions=np.asarray(process.transitions), rewards=process.rewards)
    found = solve(process)
    return DemoAnswer(
        have="a model of the same queue and policy: probabilities and rewards",
        question="How many dollars does the policy earn per step, exactly?",
        answer=f"{found.gain:.6g} per step, rounding error below {_power_above(found.gain_error)}",
        command=f"gainbias solve {file}",
        page=None,
        verdict="exact",
        **_numbers(found.gain, (found.gain, found.gain), _exact_gain()),
    )


def _from_other_policy(folder: Path) -> DemoAnswer:
    """Evaluate the policy from the log of another one, which tosses a coin."""
    coins = np.random.default_rng(1).integers(0, 2, STEPS)
    queue = AdmissionQueue()
    here, _ = queue.reset(seed=0)
    rows = []
    for admit in coins.tolist():
        after, reward, *_ = queue.step(admit)
        rows.append((here, admit, reward))
        here = after
    file, policy = folder / "log.csv", np.array([admit_few(customers) for customers in range(PLACES + 1)])
    columns = map(np.array, zip(*rows, strict=True))
    log = dict(zip(("customers", "admit", "earned"), columns, strict=True))
    _write_columns(file, log)
    np.save(folder / "few.npy", policy)
    found = evaluate_log(log, state="customers", action="admit", reward="earned", policy=policy)
    return _estimated(
        found,
        folder / "another.html",
        have=f"the log of another policy, which tossed a coin {STEPS:,} times",
        question="How many dollars would the policy that admits below three earn?",
        command=f"gainbias evaluate {file} --state customers --action admit --reward earned "
        f"--policy {folder / 'few.npy'}",
    )


QUESTIONS = (_from_numbers, _from_events, _from_simulator, _from_model, _from_other_policy)
"""The questions, in this order: each writes its data and its page into a folder, and returns its answer."""


def _exact_gain() -> float:
    """Return the gain of the policy from the law of a queue with few places, which is geometric."""
    law = (ARRIVALS / SERVICES) ** np.arange(LET_IN + 1)
    law /= law.sum()
    earned = FEE * ARRIVALS * (1.0 - law[-1]) - WAITING_COST * (law @ np.arange(LET_IN + 1))
    return float(earned / (ARRIVALS + SERVICES))


def _estimated(found: Estimate, page: Path, command: str, **about: Any) -> DemoAnswer:
    write_page_of(found, page, {"Command": command}, SUBJECTS[page.stem])
    words = with_interval(found.gain, found.gain_interval, found.confidence, found.per)
    verdict = found.diagnostics.verdict
    return DemoAnswer(
        answer=words,
        page=page.name,
        command=command,
        verdict=verdict.kind,
        is_trusted=verdict.is_trusted,
        **about,
        **_numbers(found.gain, found.gain_interval, _exact_gain()),
    )


def _numbers(value: float, interval: tuple[float, float] | None, exact: float) -> dict[str, Any]:
    """Return what an answer has of numbers: the exact one is shown with the digits of the answer."""
    low, high = interval or (np.nan, np.nan)
    [shown] = as_precise((exact,), high - low) if high > low else [f"{exact:.6g}"]
    return {"value": value, "interval": (low, high), "exact": exact, "shown_exact": shown}


def _power_above(number: float) -> str:
    return f"1e{math.floor(math.log10(number)) + 1}" if number > 0.0 else "1e-300"


def _page(answers: list[DemoAnswer]) -> str:
    """Return the page with all questions and answers, links to their own pages, and how to get each again."""
    return assembled(
        "demo.html",
        [],
        title="One queue, five kinds of answer",
        fee=f"{FEE:g}",
        cost=f"{WAITING_COST:g}",
        answers="\n".join(_section(one, _range(one, answers)) for one in answers),
        data=script_data({}),
    )


def _section(one: DemoAnswer, ends: tuple[float, float]) -> str:
    have, answer = escape(f"{one.have[:1].upper()}{one.have[1:]}."), f"<strong>{escape(one.answer)}</strong>"
    exact = "" if one.verdict == "exact" else f" exact: {escape(one.shown_exact)}"
    if one.page is not None:
        answer = f'<a href="{escape(one.page)}">{answer}</a>'
    picture = _picture(one, ends) if np.isfinite(one.value) else ""
    colour = "held" if one.is_trusted else "failed"
    mark = f' <span class="verdict {colour}">{escape(one.verdict)}</span>' if one.verdict else ""
    return (
        f'<section class="question"><div><h2>{escape(one.question)}</h2>'
        f"<p>{answer}{mark}{exact}</p>"
        f'<p class="have">{have} Run this to get the same answer:</p>'
        f'<pre class="command">{_whole_words(one.command)}</pre></div>{picture}</section>'
    )


def _whole_words(command: str) -> str:
    """Return a command whose lines are broken between words, where there is room for a word."""
    return " ".join(f"<span>{escape(word)}</span>" for word in command.split(" "))


WIDTH, EDGE = 400.0, 60.0
"""Of the picture of an answer, and what is left free on either side for numbers."""


def _range(one: DemoAnswer, answers: list[DemoAnswer]) -> tuple[float, float]:
    """Return the ends of the scale of an answer, which answers with the same exact value share."""
    alike = [other for other in answers if math.isclose(other.exact, one.exact)]
    numbers = [number for other in alike for number in (*other.interval, other.exact)]
    return float(np.nanmin(numbers)), float(np.nanmax(numbers))


def _picture(one: DemoAnswer, ends: tuple[float, float]) -> str:
    """Return a picture of an answer: a dot, the line of its interval, and a tick at the exact answer."""

    def place(number: float) -> str:
        return f"{EDGE + (WIDTH - 2.0 * EDGE) * (number - ends[0]) / (ends[1] - ends[0]):.1f}"

    low, high = one.interval
    shown = as_precise((low, high), high - low) if high > low else []
    numbers = "".join(
        f'<text x="{place(end)}" y="52" text-anchor="middle">{words}</text>'
        for end, words in zip((low, high), shown, strict=False)
    )
    spoken = f"{one.answer}; exact: {one.shown_exact}"
    return (
        f'<svg viewBox="0 0 {WIDTH:g} 58" role="img" aria-label="{escape(spoken)}">'
        f'<path class="exact" d="M{place(one.exact)} 16V44"/>'
        f'<text class="exact" x="{place(one.exact)}" y="12" text-anchor="middle">{one.shown_exact}</text>'
        f'<path class="interval" d="M{place(low)} 30H{place(high)}"/>'
        f'<circle cx="{place(one.value)}" cy="30" r="5"/>{numbers}</svg>'
    )
