"""All tasks in a few numbers: typical error, chance to be better, and profiles, with intervals.

What claims compare: for each run and task a ratio that is below 1 where a claim holds, or a yes or no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas
from pandas import DataFrame

from gainbias.algorithms.registry import short_title
from gainbias.experiments.reproduce.instance import method_title
from gainbias.experiments.statistics import (
    Interval,
    Rng,
    bootstrap_interval,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    scores_by_algorithm,
)
from gainbias.report.data.results import (
    BASELINES,
    FLOOR_ALGORITHM,
    PAPER_ALGORITHMS,
    Archive,
    MissingDataError,
    Score,
)
from gainbias.report.figures.style import SIZES, drawing, look_of, new_figure
from gainbias.report.numbers import range_text
from gainbias.report.tables.layout import Sheet, TableCell
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """Compare as the paper prints: errors that agree to two decimals are equal."""
    ours, theirs = source.errors("double-chain", score), _best(source, BASELINES, score)
    return ours.round(2) <= theirs.round(2)


def double_to_single(source: MeasureSource, score: Score) -> DataFrame:
    """Compare double chain with single chain."""
    return source.errors("double-chain", score) / source.errors("single-chain", score)


def metric_decides_nothing(source: MeasureSource, score: Score) -> DataFrame:
    """Ask whether the winner stays the same when all algorithms are scored alike."""
    mixed = paper_to_baselines(source, score) < 1
    return mixed == (paper_to_baselines(source, score.but(kind="quotient")) < 1)


def _constant(source: MeasureSource, algorithm: str, score: Score) -> DataFrame:
    """Return the length of the constant in an error: what the quotient leaves out."""
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

    Where the ratio is above 1, bias and fixed point are apart.
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


REFERENCE = "td-lambda"
"""The chance to be better is against this one."""

LOG_THRESHOLDS = np.linspace(0.0, 2.0, 81)
"""Profiles reach from the floor to a hundred times it."""


def score_arrays(results: Archive, score: Score) -> dict[str, Floats]:
    """Return the last errors under a score: a (runs, tasks) array for each algorithm, as for rliable."""
    tables = []
    for algorithm in results.algorithms(score.protocol):
        rows = results.last(algorithm, score)
        tables.append(rows.astype({"task": object, "algorithm": object}))
    if not tables:
        raise MissingDataError(f"the results hold no runs under protocol {score.protocol}")
    return scores_by_algorithm(pandas.concat(tables))


def log_floor_ratios(arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return log10 of each error over that of least squares on the same data; 0 where both diverged."""
    if FLOOR_ALGORITHM not in arrays:
        raise MissingDataError(f"the results hold no runs of {FLOOR_ALGORITHM}")
    logs = {name: np.log10(np.maximum(errors, np.finfo(float).tiny)) for name, errors in arrays.items()}
    with np.errstate(invalid="ignore"):
        ratios = {name: log - logs[FLOOR_ALGORITHM] for name, log in logs.items() if name != FLOOR_ALGORITHM}
    return {name: np.where(np.isnan(ratio), 0.0, ratio) for name, ratio in ratios.items()}


def summary_table(results: Archive, scores: Mapping[str, Score], rng: Rng = 0) -> DataFrame:
    """Summarise each algorithm over all runs and tasks.

    Returns
    -------
    DataFrame
        A row for each score and algorithm: "typical", the error in multiples of that of least squares on the
        same data (interquartile mean of the logarithm), and "better", the probability that a run is better
        than one of `REFERENCE`; both with the ends of a 95 % bootstrap interval stratified by task.
    """
    rng, rows = np.random.default_rng(rng), []
    for name, score in scores.items():
        arrays = score_arrays(results, score)
        for algorithm, ratios in log_floor_ratios(arrays).items():
            typical = bootstrap_interval(interquartile_mean, ratios, rng=rng)
            better = Interval(np.nan, np.nan, np.nan)
            if algorithm != REFERENCE and REFERENCE in arrays:
                samples = arrays[algorithm], arrays[REFERENCE]
                better = bootstrap_interval(probability_of_improvement, *samples, rng=rng)
            row = {"score": name, "algorithm": algorithm, "runs": ratios.shape[0], "tasks": ratios.shape[1]}
            row |= dict(zip(("typical", "typical_low", "typical_high"), 10 ** np.array(typical), strict=True))
            rows.append(row | dict(zip(("better", "better_low", "better_high"), better, strict=True)))
    return DataFrame(rows)


def summary_sheet(table: DataFrame) -> Sheet:
    """Lay out `summary_table`; the smallest typical error of each score is bold."""
    groups = []
    for score, part in table.groupby("score", sort=False):
        least = part["typical"].min()
        groups.append(
            [
                [
                    TableCell(str(score) if place == 0 else ""),
                    TableCell(method_title(row.algorithm)),
                    TableCell(
                        range_text(row.typical, row.typical_low, row.typical_high), row.typical == least
                    ),
                    TableCell(
                        "-"
                        if np.isnan(row.better)
                        else range_text(row.better, row.better_low, row.better_high)
                    ),
                ]
                for place, row in enumerate(part.itertuples())
            ]
        )
    header = [
        "Score",
        "Algorithm",
        "Times the least-squares error",
        f"Better than {short_title(REFERENCE)}",
    ]
    notes = [
        "Errors against the bias after equal numbers of transitions, over all runs of all tasks. Times the "
        "least-squares error: interquartile mean of the logarithm, on the same data. Better: probability "
        "that a run is better than a run of the other, on a task drawn at random. In brackets: 95 % "
        "bootstrap intervals, stratified by task."
    ]
    return Sheet("summary", "All tasks together, protocol fair.", header, groups, notes, text_columns=2)


def draw_profiles(
    results: Archive, scores: Mapping[str, Score], size: str = "two-column", rng: Rng = 0
) -> Figure:
    """Draw the share of runs whose error is at most so many times that of least squares on the same data."""
    rng, shape = np.random.default_rng(rng), SIZES[size]
    with drawing(shape):
        figure = new_figure(shape.width, shape.panel_height + 0.83)
        panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
        for panel, (name, score) in zip(panels, scores.items(), strict=True):
            for algorithm, ratios in log_floor_ratios(score_arrays(results, score)).items():
                look = look_of(algorithm)
                band = bootstrap_interval(
                    lambda drawn: performance_profile(drawn, LOG_THRESHOLDS), ratios, rng=rng, resamples=500
                )
                x = 10**LOG_THRESHOLDS
                panel.plot(x, band.estimate, color=look.colour, linestyle=look.dashes, linewidth=look.width)
                panel.fill_between(x, band.low, band.high, color=look.colour, alpha=0.15, linewidth=0)
            panel.set_title(name.capitalize())
            panel.set(xscale="log", xlim=(1, 100), ylim=(0, 1.02), xticks=[1, 10, 100], yticks=[0, 0.5, 1])
            panel.minorticks_off()
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        figure.supxlabel("Error, in multiples of the least-squares error", fontsize=shape.letters)
        figure.supylabel("Share of runs", fontsize=shape.letters)
        _legend(
            figure,
            [name for name in results.algorithms("fair") if name != FLOOR_ALGORITHM],
            shape.legend_columns,
        )
    return figure


def _legend(figure: Figure, algorithms: list[str], columns: int) -> None:
    from matplotlib.lines import Line2D

    looks = [look_of(name) for name in algorithms]
    handles = [Line2D([], [], color=k.colour, linestyle=k.dashes, linewidth=k.width) for k in looks]
    titles = [method_title(name) for name in algorithms]
    figure.legend(handles, titles, loc="outside upper center", ncols=columns)
