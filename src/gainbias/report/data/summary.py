"""All tasks of a study in a few numbers: the typical error, and the chance to be better, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas
from pandas import DataFrame

from gainbias.experiments.statistics import (
    Interval,
    Rng,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    scores_by_algorithm,
)
from gainbias.report.data.results import FLOOR_ALGORITHM, Archive, MissingDataError, Score
from gainbias.types import Floats

REFERENCE = "td-lambda"
"""The chance to be better is against this one."""


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
