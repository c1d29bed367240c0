"""What the paper claims from its experiments: each claim is a record with a test over stored results.

A test says for each run and task whether the claim held there. Most tests compare errors: they return a ratio
that is below 1 where the claim holds. A claim about *most* tasks holds in a run if it holds in more than half
of them; one about *all* tasks holds if it holds in each. `verdicts` counts how often that was so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from pandas import DataFrame

from gainbias.report.data.results import BASELINES, PAPER_ALGORITHMS, Score


@dataclass(frozen=True)
class StudyClaim:
    """An empirical claim of the paper, and how it is tested on stored results.

    Attributes
    ----------
    name : str
        Kebab-case id.
    text : str
        What is claimed, in our words.
    where : str
        Where the paper says it.
    scope : {"most", "all"}
        For how many tasks it is claimed.
    ratio : callable or None
        ``ratio(source, score)`` is below 1 where the claim holds, a row for each run, a column for each task.
    measures : str
        What the ratio is of.
    test : callable or None
        Booleans of the same shape, if "the ratio is below 1" does not express the claim.
    metric : {"any", "paper", "none"}
        Under which metrics it makes sense: any; the paper's mixed one; or it does not depend on one.
    about : {"errors", "conditions"}
        Condition numbers do not depend on target and budget either.
    counts_constant : {"never", "full", "always"}
        Under which kind of error a verdict counts a constant that the baselines do not try to learn.
    our_constants : bool
        Whether the method in question runs with constants of our own.
    because : str
        A known reason, stated if it fails.
    findings : tuple of str
        Anchors of relevant findings, on the page of findings about the paper.
    """

    name: str
    text: str
    where: str
    scope: Literal["most", "all"]
    ratio: Measure | None = None
    measures: str = ""
    test: Measure | None = None
    metric: Literal["any", "paper", "none"] = "any"
    about: Literal["errors", "conditions"] = "errors"
    counts_constant: Literal["never", "full", "always"] = "never"
    our_constants: bool = False
    because: str = ""
    findings: tuple[str, ...] = ()

    def held(self, source: MeasureSource, score: Score) -> DataFrame:
        """Return for each run and task whether the claim held."""
        if self.test is not None:
            return self.test(source, score)
        if self.ratio is None:
            raise ValueError(f"claim {self.name} must have a test or a ratio")
        return self.ratio(source, score) < 1


class MeasureSource(Protocol):
    """Stored results, or the paper's tables: frames with a row for each run and a column for each task."""

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the last errors within a share of the budget."""

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a condition number."""


Measure = Callable[[MeasureSource, Score], DataFrame]


def _smaller(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.where(one <= other, other)


def _larger(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.where(one >= other, other)


def _best(source: MeasureSource, names: tuple[str, str], score: Score) -> DataFrame:
    """Return the smaller error of two algorithms."""
    return _smaller(source.errors(names[0], score), source.errors(names[1], score))


def paper_to_baselines(source: MeasureSource, score: Score) -> DataFrame:
    """Compare the better new algorithm with the better baseline."""
    return _best(source, PAPER_ALGORITHMS, score) / _best(source, BASELINES, score)


def single_to_baselines(source: MeasureSource, score: Score) -> DataFrame:
    """Compare single chain with the better baseline."""
    return source.errors("single-chain", score) / _best(source, BASELINES, score)


def double_to_baselines(source: MeasureSource, score: Score) -> DataFrame:
    """Compare double chain with the better baseline."""
    return source.errors("double-chain", score) / _best(source, BASELINES, score)


def double_keeps_up(source: MeasureSource, score: Score) -> DataFrame:
    """Test whether double chain is no worse than the better baseline, to the two decimals of the paper."""
    ours, theirs = source.errors("double-chain", score), _best(source, BASELINES, score)
    return ours.round(2) <= theirs.round(2)


def double_to_single(source: MeasureSource, score: Score) -> DataFrame:
    """Compare double chain with single chain."""
    return source.errors("double-chain", score) / source.errors("single-chain", score)


def metric_decides_nothing(source: MeasureSource, score: Score) -> DataFrame:
    """Test whether the winner stays the same when all algorithms are scored alike."""
    mixed = paper_to_baselines(source, score) < 1
    return mixed == (paper_to_baselines(source, score.but(kind="quotient")) < 1)


def _constant(source: MeasureSource, algorithm: str, score: Score) -> DataFrame:
    """Return the length of the constant part of an error, which the quotient leaves out."""
    full = source.errors(algorithm, score.but(kind="full"))
    quotient = source.errors(algorithm, score.but(kind="quotient"))
    with np.errstate(invalid="ignore"):  # runs that diverged have no constant
        return np.sqrt((full**2 - quotient**2).clip(lower=0.0))


def constant_to_baselines(source: MeasureSource, score: Score) -> DataFrame:
    """Compare the larger constant of the new algorithms with the smaller one of the baselines."""
    ours, theirs = (
        [_constant(source, name, score) for name in names] for names in (PAPER_ALGORITHMS, BASELINES)
    )
    return _larger(*ours) / _smaller(*theirs)


def end_to_tenth(source: MeasureSource, score: Score) -> DataFrame:
    """Compare the error at the end with that after a tenth, for the worse of the new algorithms."""
    ratios = [source.errors(name, score) / source.errors(name, score, share=0.1) for name in PAPER_ALGORITHMS]
    return _larger(*ratios)


def bias_to_fixed_point(source: MeasureSource, score: Score) -> DataFrame:
    """Compare the error to the bias with twice that to the fixed point, for the worse new algorithm.

    A ratio above 1 means that bias and fixed point are apart.
    """
    full = score.but(kind="full")
    ratios = [
        source.errors(name, full.but(target="bias")) / (2 * source.errors(name, full.but(target="paper")))
        for name in PAPER_ALGORITHMS
    ]
    return _larger(*ratios)


def twice_baselines_to(algorithm: str) -> Measure:
    """Compare twice the better baseline with an algorithm."""

    def ratio(source: MeasureSource, score: Score) -> DataFrame:
        return 2 * _best(source, BASELINES, score) / source.errors(algorithm, score)

    return ratio


def others_to_eta1(*names: str, factor: float = 1.0) -> Measure:
    """Compare the largest of some condition numbers with eta1."""

    def ratio(source: MeasureSource, score: Score) -> DataFrame:
        first, *rest = (source.condition(name, score) for name in names)
        for other in rest:
            first = _larger(first, other)
        return factor * first / source.condition("eta1", score)

    return ratio


SLOWLY = (
    'Numerical Results, appendix: "converges much more slowly", without data or parameters; ours stand at '
    "the top of this page, are the same for all tasks and not tuned"
)

STUDY_CLAIMS = (
    StudyClaim(
        "most-settings",
        "The better of the two new algorithms has a smaller error than the better baseline in most tasks.",
        'Numerical Results, main text: "our methods outperform the prior literature in most settings"',
        "most",
        paper_to_baselines,
        "better new algorithm / better baseline",
        counts_constant="full",
        findings=("finding-23", "finding-26"),
    ),
    StudyClaim(
        "single-chain-first",
        "Single chain has a smaller error than both baselines in most tasks.",
        "Table of distances, bold entries",
        "most",
        single_to_baselines,
        "single chain / better baseline",
        counts_constant="full",
        findings=("finding-26",),
    ),
    StudyClaim(
        "double-chain-keeps-up",
        "Double chain is no worse than the better baseline, to two decimals, in most tasks.",
        'Numerical Results, main text ("our methods"), and table of distances',
        "most",
        double_to_baselines,
        "double chain / better baseline; equal to two decimals holds, too",
        test=double_keeps_up,
        counts_constant="full",
        findings=("finding-26",),
    ),
    StudyClaim(
        "one-chain-costs-time",
        "Using one chain instead of two costs time: single chain ends with the larger error in most tasks.",
        'Single-Chain Algorithm: "at the cost of an increased convergence time"; sample complexities',
        "most",
        double_to_single,
        "double chain / single chain",
        findings=("finding-11", "finding-26"),
    ),
    StudyClaim(
        "fair-comparison",
        "The comparison is fair: who wins does not change when all algorithms are scored modulo constants.",
        'Numerical Results, main text: "a fair comparison"',
        "all",
        test=metric_decides_nothing,
        metric="paper",
        findings=("finding-26",),
    ),
    StudyClaim(
        "one-point",
        "The new algorithms find the constant: this part of their errors is smaller than in the baselines.",
        'Comparison table: "converges to a sample independent point"',
        "most",
        constant_to_baselines,
        "larger constant of the new algorithms / smaller one of the baselines",
        metric="none",
        counts_constant="always",
        findings=("finding-10", "finding-26"),
    ),
    StudyClaim(
        "error-falls",
        "Both new algorithms converge: in most tasks they end with smaller errors than after a tenth of the "
        "budget.",
        "Figure of learning curves; convergence theorems",
        "most",
        end_to_tenth,
        "error at the end / after a tenth",
        findings=("finding-17",),
    ),
    StudyClaim(
        "reaches-the-bias",
        "The new algorithms approach the bias itself, not a projected fixed point away from it.",
        "Numerical Results: errors against W*, which is one of the features",
        "all",
        bias_to_fixed_point,
        "error to the bias / twice that to the fixed point, worse new algorithm",
        metric="none",
        because="the fixed point is away from the bias, as it is when rows of features are scaled one by one",
        findings=("finding-24",),
    ),
    StudyClaim(
        "variance-reduction-slow",
        "Variance-reduced TD, with the chain thinned, is much slower: its error is over twice that of the "
        "better baseline.",
        SLOWLY,
        "most",
        twice_baselines_to("vrtd"),
        "twice the better baseline / variance-reduced TD",
        counts_constant="full",
        our_constants=True,
        findings=("finding-26",),
    ),
    StudyClaim(
        "variance-reduction-slow-all-data",
        "Variance-reduced TD is much slower even if it uses every transition.",
        SLOWLY,
        "most",
        twice_baselines_to("vrtd-all-data"),
        "twice the better baseline / variance-reduced TD, all data",
        counts_constant="full",
        our_constants=True,
        findings=("finding-26",),
    ),
    StudyClaim(
        "eta1-largest-printed",
        "eta1 is the largest of the three condition numbers in most tasks, eta2 as printed.",
        "Table of condition numbers, bold entries",
        "most",
        others_to_eta1("eta2_literal", "eta3"),
        "larger of the others / eta1",
        metric="none",
        about="conditions",
        findings=("finding-2",),
    ),
    StudyClaim(
        "eta1-largest-subspace",
        "eta1 is the largest of the three in most tasks, eta2 on the subspace of the work it is taken from.",
        "Table of condition numbers, bold entries",
        "most",
        others_to_eta1("eta2", "eta3"),
        "larger of the others / eta1",
        metric="none",
        about="conditions",
        because="with constants in the span of the features eta1 can never exceed this eta2",
        findings=("finding-2", "finding-3"),
    ),
    StudyClaim(
        "eta1-above-eta3",
        "eta1 is larger than eta3 in every task.",
        "Table of condition numbers, all fifteen rows",
        "all",
        others_to_eta1("eta3"),
        "eta3 / eta1",
        metric="none",
        about="conditions",
        findings=("finding-3",),
    ),
    StudyClaim(
        "eta1-above-half-eta3",
        "eta1 is larger than half of eta3 in every task.",
        "Comparison table, note 2, and the lemma behind it",
        "all",
        others_to_eta1("eta3", factor=0.5),
        "half of eta3 / eta1",
        metric="none",
        about="conditions",
        findings=("finding-3",),
    ),
)
"""All empirical claims, in the order of the page."""
