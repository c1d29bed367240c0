"""What the paper claims from its experiments: each claim is a record with a test over stored results.

A test says for each run and task whether the claim held there. A claim about *most* tasks holds in a run if
it holds in more than half of them; one about *all* tasks, if it holds in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pandas import DataFrame

from gainbias.report.data import measures as measured
from gainbias.report.data.measures import Measure, Source
from gainbias.report.data.scores import Score


@dataclass(frozen=True)
class Claim:
    """One empirical claim.

    Attributes
    ----------
    name : str
        Kebab-case id.
    text : str
        What is claimed, in our words.
    where : str
        Where the paper says it.
    scope : {"most", "all"}
        Of how many tasks it is claimed.
    ratio : callable or None
        ``ratio(source, score)`` is below 1 where the claim holds, a row for each run, a column for each task.
    measures : str
        What the ratio is of.
    test : callable or None
        Booleans of the same shape, where "the ratio is below 1" does not say it.
    metric : {"any", "paper", "none"}
        Under which metrics it makes sense: any; the paper's mixed one; or it does not depend on one.
    about : {"errors", "conditions"}
        Condition numbers do not depend on target and budget either.
    because : str
        A known reason, said where it fails.
    findings : tuple of str
        Anchors on the page of findings about the paper that bear on it.
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
    because: str = ""
    findings: tuple[str, ...] = ()

    def held(self, source: Source, score: Score) -> DataFrame:
        """Say for each run and task whether the claim held."""
        if self.test is not None:
            return self.test(source, score)
        if self.ratio is None:
            raise ValueError(f"claim {self.name} must have a test or a ratio")
        return self.ratio(source, score) < 1


SLOWLY = (
    'Numerical Results, appendix: "converges much more slowly", without data or parameters; ours stand at '
    "the top of this page, are the same for all tasks and not tuned"
)

CLAIMS = (
    Claim(
        "most-settings",
        "The better of the two new algorithms has a smaller error than the better baseline in most tasks.",
        'Numerical Results, main text: "our methods outperform the prior literature in most settings"',
        "most",
        measured.paper_to_baselines,
        "better new algorithm / better baseline",
        findings=("finding-23", "finding-26"),
    ),
    Claim(
        "single-chain-first",
        "Single chain has a smaller error than both baselines in most tasks.",
        "Table of distances, bold entries",
        "most",
        measured.single_to_baselines,
        "single chain / better baseline",
        findings=("finding-26",),
    ),
    Claim(
        "double-chain-keeps-up",
        "Double chain is no worse than the better baseline, to two decimals, in most tasks.",
        'Numerical Results, main text ("our methods"), and table of distances',
        "most",
        measured.double_to_baselines,
        "double chain / better baseline; equal to two decimals holds, too",
        test=measured.double_keeps_up,
        findings=("finding-26",),
    ),
    Claim(
        "one-chain-costs-time",
        "Using one chain instead of two costs time: single chain ends with the larger error in most tasks.",
        'Single-Chain Algorithm: "at the cost of an increased convergence time"; sample complexities',
        "most",
        measured.double_to_single,
        "double chain / single chain",
        findings=("finding-11", "finding-26"),
    ),
    Claim(
        "fair-comparison",
        "The comparison is fair: who wins does not change when all algorithms are scored modulo constants.",
        'Numerical Results, main text: "a fair comparison"',
        "all",
        test=measured.metric_decides_nothing,
        metric="paper",
        findings=("finding-26",),
    ),
    Claim(
        "one-point",
        "The new algorithms find the constant: this part of their errors is smaller than in the baselines.",
        'Comparison table: "converges to a sample independent point"',
        "most",
        measured.constant_to_baselines,
        "larger constant of the new algorithms / smaller one of the baselines",
        metric="none",
        findings=("finding-10", "finding-26"),
    ),
    Claim(
        "error-falls",
        "Both new algorithms converge: in most tasks they end with smaller errors than after a tenth of the "
        "budget.",
        "Figure of learning curves; convergence theorems",
        "most",
        measured.end_to_tenth,
        "error at the end / after a tenth",
        findings=("finding-17",),
    ),
    Claim(
        "reaches-the-bias",
        "The new algorithms approach the bias itself, not a projected fixed point away from it.",
        "Numerical Results: errors against W*, which is one of the features",
        "all",
        measured.bias_to_fixed_point,
        "error to the bias / twice that to the fixed point, worse new algorithm",
        metric="none",
        because="the fixed point is away from the bias, as it is when rows of features are scaled one by one",
        findings=("finding-24",),
    ),
    Claim(
        "variance-reduction-slow",
        "Variance-reduced TD, with the chain thinned, is much slower: its error is over twice that of the "
        "better baseline.",
        SLOWLY,
        "most",
        measured.twice_baselines_to("vrtd"),
        "twice the better baseline / variance-reduced TD",
        findings=("finding-26",),
    ),
    Claim(
        "variance-reduction-slow-all-data",
        "Variance-reduced TD is much slower even if it uses every transition.",
        SLOWLY,
        "most",
        measured.twice_baselines_to("vrtd-all-data"),
        "twice the better baseline / variance-reduced TD, all data",
        findings=("finding-26",),
    ),
    Claim(
        "eta1-largest-printed",
        "eta1 is the largest of the three condition numbers in most tasks, eta2 as printed.",
        "Table of condition numbers, bold entries",
        "most",
        measured.others_to_eta1("eta2_literal", "eta3"),
        "larger of the others / eta1",
        metric="none",
        about="conditions",
        findings=("finding-2",),
    ),
    Claim(
        "eta1-largest-subspace",
        "eta1 is the largest of the three in most tasks, eta2 on the subspace of the work it is taken from.",
        "Table of condition numbers, bold entries",
        "most",
        measured.others_to_eta1("eta2", "eta3"),
        "larger of the others / eta1",
        metric="none",
        about="conditions",
        because="with constants in the span of the features eta1 can never exceed this eta2",
        findings=("finding-2", "finding-3"),
    ),
    Claim(
        "eta1-above-eta3",
        "eta1 is larger than eta3 in every task.",
        "Table of condition numbers, all fifteen rows",
        "all",
        measured.others_to_eta1("eta3"),
        "eta3 / eta1",
        metric="none",
        about="conditions",
        findings=("finding-3",),
    ),
    Claim(
        "eta1-above-half-eta3",
        "eta1 is larger than half of eta3 in every task.",
        "Comparison table, note 2, and the lemma behind it",
        "all",
        measured.others_to_eta1("eta3", factor=0.5),
        "half of eta3 / eta1",
        metric="none",
        about="conditions",
        findings=("finding-3",),
    ),
)
"""All empirical claims, in the order of the page."""
