"""Verdicts on the paper's claims, and printed numbers that no stored choice comes near.

`verdict_table` says how often each claim held, by how much, and, if it failed, what would change
that; `unexplained` lists the numbers of the paper that remain unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame

from gainbias.experiments.reproduce import CONDITIONS
from gainbias.experiments.statistics import (
    Interval,
    bootstrap_interval,
    interquartile_mean,
    proportion_interval,
)
from gainbias.report.data.results import FAIR_SCORES, PAPER_SCORES, Archive, MissingDataError, Paper, Score
from gainbias.report.data.study_claims import MeasureSource, StudyClaim
from gainbias.tasks.registry import task_title

SCORES = PAPER_SCORES | FAIR_SCORES
"""Every claim is judged under each of these scores under which it makes sense."""

COUNTS_CONSTANT = "counts a constant that the baselines do not try to learn"
OUR_CONSTANTS = "variance-reduced TD runs with constants of our own"
"""Caveats without which a verdict must not be quoted."""

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "if all are scored by the full error": {"kind": "full"},
    "if all are scored by the centred error": {"kind": "centred"},
    "if all are scored modulo constants": {"kind": "quotient"},
    "with the paper's mixed metric": {"kind": "paper"},
    "against the bias": {"target": "bias"},
    "against the paper's fixed point": {"target": "paper"},
    "at equal numbers of steps": {"budget": "steps"},
    "at equal numbers of transitions": {"budget": "transitions"},
}
"""Single choices that may turn a verdict."""

NO_INTERVAL = Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class ClaimVerdict:
    """How often a claim held under a score.

    Attributes
    ----------
    held, of : int
        In how many runs it held, of how many.
    runs : Interval
        That share, with a Clopper-Pearson interval.
    pairs : Interval
        Share of pairs of run and task in which it held, with a bootstrap interval stratified by task.
    typical : Interval
        Interquartile mean (of the logarithm) of the claim's ratio, with the same kind of interval; NaN if it
        has none.
    failing : tuple of str
        Tasks in which it failed in more than half of the runs.
    num_tasks : int
    """

    held: int
    of: int
    runs: Interval
    pairs: Interval
    typical: Interval
    failing: tuple[str, ...]
    num_tasks: int

    @property
    def holds(self) -> bool:
        """Whether it held in more than half of the runs."""
        return 2 * self.held > self.of

    @property
    def word(self) -> str:
        """The verdict in a word; "seems" if there are too few runs to tell their share from one half."""
        if 2 * self.held == self.of:
            return "undecided"
        sure = self.runs.low > 0.5 or self.runs.high < 0.5
        word = "hold" if self.holds else "fail"
        return f"{word}s" if sure else f"seems to {word}"


def verdict_table(claims: Iterable[StudyClaim], source: MeasureSource) -> DataFrame:
    """Return the verdicts on claims, under all scores that make sense for each.

    Returns
    -------
    DataFrame
        A row for each claim and score that the source can judge: the word, in how many runs it held, shares
        of runs and of pairs of run and task and the typical ratio, with 95% intervals, the reason where it
        does not hold, and the caveat without which it must not be quoted.
    """
    rows = []
    for claim in claims:
        for name, score in scores_for(claim).items():
            try:
                verdict = judge(claim, source, score)
            except MissingDataError:
                continue
            row: dict[str, Any] = {"claim": claim.name, "score": name, "word": verdict.word}
            row |= {"held": verdict.held, "of": verdict.of}
            for key, interval in (
                ("runs", verdict.runs),
                ("pairs", verdict.pairs),
                ("typical", verdict.typical),
            ):
                row |= {key: interval.estimate, f"{key}_low": interval.low, f"{key}_high": interval.high}
            why = reason(claim, verdict, source, score)
            rows.append(row | {"reason": why, "caveat": caveat(claim, score)})
    return DataFrame(rows)


def scores_for(claim: StudyClaim) -> dict[str, Score]:
    """Return the scores under which a claim is judged, by name."""
    if claim.metric == "paper":
        return dict(PAPER_SCORES)
    if claim.metric == "none":
        return PAPER_SCORES | {"fair": FAIR_SCORES["fair, full"]}
    return dict(SCORES)


def judge(claim: StudyClaim, source: MeasureSource, score: Score) -> ClaimVerdict:
    """Return the verdict on a claim under a score.

    Raises
    ------
    MissingDataError
        If the source lacks data that the claim needs.
    """
    table = claim.held(source, score)
    held = table.to_numpy(dtype=float)
    met, often = runs_met(claim, table), held.mean(axis=0)
    return ClaimVerdict(
        held=met,
        of=len(held),
        runs=proportion_interval(met, len(held)),
        pairs=bootstrap_interval(lambda drawn: drawn.mean(axis=(-2, -1)), held, rng=0, resamples=1000),
        typical=_typical(claim, source, score),
        failing=tuple(str(task) for task, share in zip(table.columns, often, strict=True) if share < 0.5),
        num_tasks=held.shape[1],
    )


def runs_met(claim: StudyClaim, held: DataFrame) -> int:
    """Return the number of runs in which a claim held in as many tasks as it claims."""
    shares = held.to_numpy(dtype=float).mean(axis=1)
    return int((shares > 0.5).sum() if claim.scope == "most" else (shares == 1.0).sum())


def _typical(claim: StudyClaim, source: MeasureSource, score: Score) -> Interval:
    if claim.ratio is None:
        return NO_INTERVAL
    ratios = claim.ratio(source, score).to_numpy(dtype=float)
    ratios = np.where(np.isnan(ratios), 1.0, ratios)  # 0 / 0, or both diverged
    with np.errstate(divide="ignore"):
        logs = np.clip(np.log(ratios), -700.0, 700.0)
    interval = bootstrap_interval(interquartile_mean, logs, rng=0, resamples=1000)
    return Interval(*(float(np.exp(end)) for end in interval))


def reason(claim: StudyClaim, verdict: ClaimVerdict, source: MeasureSource, score: Score) -> str:
    """Return why a claim does not hold under a score, by the data; empty if it holds."""
    if verdict.holds:
        return ""
    parts = [claim.because] if claim.because else []
    if claim.about == "errors":
        turning = turning_choices(claim, source, score)
        if turning:
            parts.append(f"it would hold {' or '.join(turning)}")
        elif not claim.because:
            metric = "metric, " if claim.metric == "any" else ""
            parts.append(f"no other {metric}target or budget alone changes it")
    return "; ".join([*parts, _where_it_fails(verdict)])


def turning_choices(claim: StudyClaim, source: MeasureSource, score: Score) -> list[str]:
    """Return the choices of metric, target and budget with each of which alone a claim would hold."""
    turning = []
    for words, change in CHANGES.items():
        other = score.but(**change)
        if other == score or (claim.metric == "paper" and other.kind != "paper"):
            continue
        try:
            table = claim.held(source, other)
        except MissingDataError:
            continue
        if 2 * runs_met(claim, table) > len(table):
            turning.append(words)
    return turning


def _where_it_fails(verdict: ClaimVerdict) -> str:
    count = len(verdict.failing)
    if count == verdict.num_tasks:
        return "it fails in every task"
    if count == 0:
        return "it fails occasionally, but in no task in most runs"
    return f"it fails in {count} of {verdict.num_tasks} tasks: {', '.join(map(task_title, verdict.failing))}"


def caveat(claim: StudyClaim, score: Score) -> str:
    """Return the caveat without which a verdict must not be quoted; mostly empty.

    Examples
    --------
    >>> from gainbias.report.data.study_claims import STUDY_CLAIMS
    >>> first = STUDY_CLAIMS[0]
    >>> caveat(first, FAIR_SCORES["fair, full"]), caveat(first, FAIR_SCORES["fair, centred"])
    ('counts a constant that the baselines do not try to learn', '')
    """
    parts = []
    if claim.counts_constant in ("always", score.kind):
        parts.append(COUNTS_CONSTANT)
    if claim.our_constants:
        parts.append(OUR_CONSTANTS)
    return "; ".join(parts)


def with_caveat(text: str, words: str) -> str:
    """Return a verdict, with its caveat in brackets if there is one.

    Examples
    --------
    >>> with_caveat("holds, 30 of 30", "with few runs"), with_caveat("fails", "")
    ('holds, 30 of 30 (with few runs)', 'fails')
    """
    return f"{text} ({words})" if words else text


NEAR = 2.0
"""A number is explained if ours, under some choice, is within this factor of it."""

PRINTED_ZERO = 0.005
"""The paper rounds distances to two decimals: 0.00 means less than this."""


def unexplained(results: Archive, paper: Paper) -> DataFrame:
    """Return the printed numbers that no choice explains.

    Every stored combination of protocol, kind of error and target is tried for each distance, in the
    Euclidean norm, which the paper names, and every protocol and reading for each condition number. With that
    many choices some come near by chance, so the remaining numbers are hard to explain. A shortened study
    says nothing about distances, because they depend on the number of steps.

    Returns
    -------
    DataFrame
        Columns task, quantity (an algorithm or a condition number), paper, nearest (our mean that is nearest
        in ratio), factor (by which it is off) and choice (under which).
    """
    rows = _distances(results, paper) if results.manifest["shorten"] == 1 else []
    rows += _conditions(results, paper)
    columns = ["task", "quantity", "paper", "nearest", "factor", "choice"]
    found = DataFrame(rows, columns=columns)
    order = {task: place for place, task in enumerate(paper.tasks)}
    found = found[found["factor"] > NEAR]
    return found.sort_values("task", key=lambda tasks: tasks.map(order), kind="stable").reset_index(drop=True)


def _distances(results: Archive, paper: Paper) -> list[dict[str, Any]]:
    runs = results.runs[results.runs["norm"] == "euclidean"]
    keys = ["task", "algorithm", "protocol", "kind", "target"]
    last = runs[
        runs["step"]
        == runs.groupby(["protocol", "task", "algorithm"], observed=True)["step"].transform("max")
    ]
    means = last.groupby(keys, observed=True)["error"].mean().dropna()
    rows = []
    for printed in paper.final_errors().itertuples():
        if (printed.task, printed.algorithm) in means.index.droplevel(keys[2:]):
            ours = means[printed.task, printed.algorithm]
            choices = [", ".join(choice) for choice in ours.index]
            rows.append(_nearest(printed.task, printed.algorithm, printed.mean, choices, ours.to_numpy()))
    return rows


def _conditions(results: Archive, paper: Paper) -> list[dict[str, Any]]:
    means = results.conditions.groupby(["task", "protocol"], observed=True)[list(CONDITIONS)].mean()
    rows = []
    for printed in paper.condition_numbers.to_dict("records"):
        if printed["task"] not in means.index:
            continue
        ours = means.loc[printed["task"]]
        for name in ("eta1", "eta2", "eta3"):
            readings = ["eta2", "eta2_literal"] if name == "eta2" else [name]
            choices = [f"{protocol}, {reading}" for reading in readings for protocol in ours.index]
            numbers = np.concatenate([ours[reading].to_numpy() for reading in readings])
            rows.append(_nearest(printed["task"], name, printed[name], choices, numbers))
    return rows


def _nearest(task: str, quantity: str, printed: float, choices: list[str], ours: Any) -> dict[str, Any]:
    """Return our number that is nearest to a printed one, and by which factor it is off."""
    with np.errstate(divide="ignore"):
        if printed > 0:
            factors = np.maximum(ours / printed, printed / ours)
        else:
            factors = np.maximum(ours / PRINTED_ZERO, 1.0)
    best = int(np.argmin(factors))
    return {
        "task": task,
        "quantity": quantity,
        "paper": printed,
        "nearest": float(ours[best]),
        "factor": float(factors[best]),
        "choice": choices[best],
    }
