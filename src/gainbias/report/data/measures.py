"""What claims compare: for each run and task a ratio that is below 1 where a claim holds, or a yes or no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from pandas import DataFrame

from gainbias.report.data.scores import BASELINES, PAPER_METHODS, Score


class Source(Protocol):
    """Stored results, or the paper's tables: frames with a row for each run and a column for each task."""

    def errors(self, algorithm: str, score: Score, share: float = 1.0) -> DataFrame:
        """Return the last errors within a share of the budget."""

    def condition(self, name: str, score: Score) -> DataFrame:
        """Return a condition number."""


Measure = Callable[[Source, Score], DataFrame]


def _smaller(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.where(one <= other, other)


def _larger(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.where(one >= other, other)


def _best(source: Source, names: tuple[str, str], score: Score) -> DataFrame:
    """Return the smaller error of two algorithms."""
    return _smaller(source.errors(names[0], score), source.errors(names[1], score))


def paper_to_baselines(source: Source, score: Score) -> DataFrame:
    """Compare the better new algorithm with the better baseline."""
    return _best(source, PAPER_METHODS, score) / _best(source, BASELINES, score)


def single_to_baselines(source: Source, score: Score) -> DataFrame:
    """Compare single chain with the better baseline."""
    return source.errors("single-chain", score) / _best(source, BASELINES, score)


def double_to_baselines(source: Source, score: Score) -> DataFrame:
    """Compare double chain with the better baseline."""
    return source.errors("double-chain", score) / _best(source, BASELINES, score)


def double_keeps_up(source: Source, score: Score) -> DataFrame:
    """Compare as the paper prints: errors that agree to two decimals are equal."""
    ours, theirs = source.errors("double-chain", score), _best(source, BASELINES, score)
    return ours.round(2) <= theirs.round(2)


def double_to_single(source: Source, score: Score) -> DataFrame:
    """Compare double chain with single chain."""
    return source.errors("double-chain", score) / source.errors("single-chain", score)


def metric_decides_nothing(source: Source, score: Score) -> DataFrame:
    """Ask whether the winner stays the same when all algorithms are scored alike."""
    mixed = paper_to_baselines(source, score) < 1
    return mixed == (paper_to_baselines(source, score.but(kind="quotient")) < 1)


def _constant(source: Source, algorithm: str, score: Score) -> DataFrame:
    """Return the length of the constant in an error: what the quotient leaves out."""
    full = source.errors(algorithm, score.but(kind="full"))
    quotient = source.errors(algorithm, score.but(kind="quotient"))
    with np.errstate(invalid="ignore"):  # runs that diverged have no constant
        return np.sqrt((full**2 - quotient**2).clip(lower=0.0))


def constant_to_baselines(source: Source, score: Score) -> DataFrame:
    """Compare the larger constant of the new algorithms with the smaller one of the baselines."""
    ours, theirs = (
        [_constant(source, name, score) for name in names] for names in (PAPER_METHODS, BASELINES)
    )
    return _larger(*ours) / _smaller(*theirs)


def end_to_tenth(source: Source, score: Score) -> DataFrame:
    """Compare the error at the end with that after a tenth, for the worse of the new algorithms."""
    ratios = [source.errors(name, score) / source.errors(name, score, share=0.1) for name in PAPER_METHODS]
    return _larger(*ratios)


def bias_to_fixed_point(source: Source, score: Score) -> DataFrame:
    """Compare the error to the bias with twice that to the fixed point, for the worse new algorithm.

    Where the ratio is above 1, bias and fixed point are apart.
    """
    full = score.but(kind="full")
    ratios = [
        source.errors(name, full.but(target="bias")) / (2 * source.errors(name, full.but(target="paper")))
        for name in PAPER_METHODS
    ]
    return _larger(*ratios)


def twice_baselines_to(algorithm: str) -> Measure:
    """Compare twice the better baseline with an algorithm."""

    def ratio(source: Source, score: Score) -> DataFrame:
        return 2 * _best(source, BASELINES, score) / source.errors(algorithm, score)

    return ratio


def others_to_eta1(*names: str, factor: float = 1.0) -> Measure:
    """Compare the largest of some condition numbers with eta1."""

    def ratio(source: Source, score: Score) -> DataFrame:
        first, *rest = (source.condition(name, score) for name in names)
        for other in rest:
            first = _larger(first, other)
        return factor * first / source.condition("eta1", score)

    return ratio
