"""`SeriesEstimate`: mean and quantiles of a column of numbers, with intervals; `GroupedSeries`: several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gainbias.evaluation.estimate import as_precise, in_percent
from gainbias.evaluation.gain.interval import RunLength, length_for, worth_in_words
from gainbias.evaluation.gain.quantiles import QuantileEstimate
from gainbias.evaluation.gain.verdict import Verdict
from gainbias.notebook import Card, InNotebooks, card_of
from gainbias.store import check_free, plain
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas

MOST_WARNINGS = 12
"""How many warnings of several groups are printed together; each group has all of its own."""


@dataclass(frozen=True)
class SeriesDiagnostics:
    """How an estimate of a series came about, in numbers and in words.

    Attributes
    ----------
    is_complete : bool
        Whether all rows were read. Otherwise the first of the warnings says which row was wrong, and the
        answer is for what came before it.
    num_chains, num_numbers : int
        Independent chains, and numbers of all of them that were used.
    effective_sample_size : float
        Number of independent numbers that would give the mean with the same accuracy.
    autocorrelation_time : float
        About how many neighbouring numbers are worth one that is independent.
    standard_error : float
        Of the mean; nan if there is no interval.
    typical_half_width : float
        Typical half width of intervals of the mean of such series; nan if there is none.
    notes : tuple of str
        What was done, in words.
    warnings : tuple of str
        Why the answer may be wrong, in words; empty if no reason was found.
    """

    is_complete: bool
    num_chains: int
    num_numbers: int
    effective_sample_size: float
    autocorrelation_time: float
    standard_error: float
    typical_half_width: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists; ``None`` for infinite numbers and nan."""
        return dict(plain(asdict(self)))


@dataclass(frozen=True, eq=False, repr=False)
class SeriesEstimate(InNotebooks):
    """The mean, or the ratio, and the quantiles of a series, with intervals; made by `evaluate_series`.

    Attributes
    ----------
    mean : float
        Mean of the numbers after the warm-up; with `ratio_to`, the ratio of both sums.
    interval : (float, float) or None
        Confidence interval of the mean; None if there is none, and the warnings say why.
    confidence : float
        Nominal coverage of all intervals.
    verdict : Verdict
        What the series looks like, and whether its intervals can be trusted.
    warm_up : int
        First numbers of each chain that were left out: those of `skip`, or else those that were found to be
        different from the rest.
    levels : tuple of QuantileEstimate
        The quantiles in the order in which they were asked for.
    diagnostics : SeriesDiagnostics
        How it came about, with `warnings` and `notes` in words.
    batch_means : (chains, batches) array
        Means over the batches behind the verdict, including a warm-up that was found, for pictures. The
        last batch may lack numbers, which count as `mean`. For a mean over time they are means over the time
        of each batch; a batch that lasts no time has `mean`. For a ratio they are `mean` plus the shift by
        each batch; there are none if there is no ratio.
    batch_size : int
        Numbers in a batch.
    is_ratio : bool
        Whether `mean` is a ratio.
    durations : (chains, batches) array or None
        How long each batch lasts, if `mean` is over time.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> waits = np.random.default_rng(0).exponential(3.0, 20_000)
    >>> estimate = gb.evaluate_series(waits, quantiles=(0.5, 0.99))
    >>> estimate.verdict.kind, estimate.interval[0] < 3.0 < estimate.interval[1]
    ('steady', True)
    >>> low, high = estimate.quantiles[0.99].interval
    >>> low < 13.8 < high
    True
    """

    mean: float
    interval: tuple[float, float] | None
    confidence: float
    verdict: Verdict
    warm_up: int
    levels: tuple[QuantileEstimate, ...]
    diagnostics: SeriesDiagnostics
    batch_means: Floats
    batch_size: int
    is_ratio: bool = False
    durations: Floats | None = None

    @property
    def name(self) -> str:
        """Either "mean" or "ratio", which says what `mean` is."""
        return "ratio" if self.is_ratio else "mean"

    @property
    def is_over_time(self) -> bool:
        """Whether `mean` is over time, and not over the numbers."""
        return self.durations is not None

    @property
    def found_warm_up(self) -> int:
        """First numbers of each chain that were left out because they differ; 0 with `skip`.

        They are in `batch_means`; numbers that `skip` leaves out are not.
        """
        chains, batches = self.batch_means.shape
        in_batches = (batches - 1) * self.batch_size * chains
        return self.warm_up if self.diagnostics.num_numbers <= in_batches else 0

    @property
    def quantiles(self) -> dict[float, QuantileEstimate]:
        """The quantiles by level."""
        return {one.level: one for one in self.levels}

    def steps_for(self, half_width: float, level: float | None = None) -> RunLength:
        """Return how long a series must be for an interval of this half width.

        Errors fall like one over the square root of the length; those of quantiles fall in jumps if numbers
        repeat.

        Parameters
        ----------
        half_width : float
            Half of the wanted width of the interval, positive.
        level : float, optional
            Of one of the `quantiles`; default: the mean, or the ratio.

        Returns
        -------
        RunLength
            With `steps`, of all chains together, and `words`. Its `steps` are None if no length would
            help, and at least as many as the verdict asks for if the series cannot be trusted yet.

        Examples
        --------
        >>> import gainbias as gb
        >>> import numpy as np
        >>> estimate = gb.evaluate_series(np.random.default_rng(0).exponential(size=10_000))
        >>> 90_000 < estimate.steps_for(0.005).steps < 300_000
        True
        >>> print(estimate.steps_for(0.1, level=0.5))
        the 10,000 steps are enough: the half width is ..., and 0.1 is asked for
        """
        facts = self.diagnostics
        interval, verdict = self.interval, self.verdict
        typical: float | None = facts.typical_half_width
        if level is not None:
            if level not in self.quantiles:
                known = ", ".join(f"{one:g}" for one in self.quantiles) or "none"
                raise ValueError(f"level must be one of those that were estimated, {known}, found {level!r}")
            one = self.quantiles[level]
            interval, verdict, typical = one.interval, one.verdict_in(verdict), one.typical_half_width
        left_out = self.warm_up * facts.num_chains
        return length_for(half_width, interval, verdict, facts.num_numbers, left_out, typical)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON; ``None`` for infinite numbers and nan."""
        answer = {
            "mean": self.mean,
            "is_ratio": self.is_ratio,
            "interval": self.interval,
            "confidence": self.confidence,
            "verdict": asdict(self.verdict),
            "warm_up": self.warm_up,
            "quantiles": [asdict(one) for one in self.levels],
            "diagnostics": self.diagnostics.to_dict(),
        }
        return dict(plain(answer))

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the estimate to a file, which `load_series` reads.

        An existing file is refused unless it may be replaced; missing folders are made.
        """
        from gainbias.evaluation.storage import save_series

        check_free(Path(path), overwrite)
        save_series(self, Path(path))

    def __repr__(self) -> str:
        facts = self.diagnostics
        lines = [(self.name, number_in_words(self.mean, self.interval, self.confidence))]
        lines += [
            (
                level_in_words(one.level),
                quantile_in_words(one.value, one.interval, one.exceedances, self.confidence)
                + (f": {one.words}" if one.words else ""),
            )
            for one in self.levels
        ]
        lines += [("verdict", self.verdict.words), ("data", self.data_in_words())]
        told = {f"{level_in_words(one.level)}: {one.words}" for one in self.levels}  # in their rows
        lines += [("warning", words) for words in facts.warnings if words not in told]
        lines += [("note", words) for words in facts.notes]
        return "\n".join(f"{name:8s}  {words}" for name, words in lines)

    def data_in_words(self) -> str:
        """Return in words how many numbers were used, and how many independent ones they are worth.

        Numbers without an interval are worth nobody knows how many.
        """
        facts = self.diagnostics
        chains = "" if facts.num_chains == 1 else f" of {facts.num_chains} chains"
        worth = worth_in_words(facts.effective_sample_size, facts.num_numbers)
        return (
            f"{facts.num_numbers:,} number{'s' * (facts.num_numbers != 1)}{chains}"
            + ("" if math.isnan(facts.standard_error) else f", worth {worth} independent ones for the mean")
            + (f"; first numbers left out: {self.warm_up:,}" if self.warm_up else "")
        )

    def _card(self) -> Card:
        return card_of(self)._replace(is_good=self.verdict.is_trusted)

    def to_frame(self) -> pandas.DataFrame:
        """Return a table of the mean and the quantiles, with value, low and high. Needs pandas.

        Ends are nan where there is no interval.

        Examples
        --------
        >>> import gainbias as gb
        >>> import numpy as np
        >>> gb.evaluate_series(np.random.default_rng(0).normal(size=5_000), (0.5,)).to_frame().round(2)
              value   low  high
        mean  -0.00 -0.04  0.03
        p50   -0.03 -0.08  0.01
        """
        import pandas

        found = {self.name: (self.mean, self.interval)}
        found |= {level_in_words(one.level): (one.value, one.interval) for one in self.levels}
        rows = [(value, *(ends or (math.nan, math.nan))) for value, ends in found.values()]
        return pandas.DataFrame(rows, index=list(found), columns=["value", "low", "high"])


class GroupedSeries(Mapping[Any, SeriesEstimate], InNotebooks):
    """Estimates of several series by the name of their group; made by `evaluate_series` with `group`.

    Groups come in the order in which they first appear.

    Parameters
    ----------
    estimates : mapping
        From names of groups to estimates.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> table = {"ms": np.random.default_rng(0).exponential(3.0, 4_000), "server": ["a", "b"] * 2_000}
    >>> found = gb.evaluate_series(table, (0.5,), column="ms", group="server")
    >>> found["a"].verdict.kind
    'steady'
    >>> print(found)  # doctest: +ELLIPSIS
    group  numbers  mean                 p50                  verdict
    a      2,000    3.10 (...
    b      2,000    3.02 (...
    """

    def __init__(self, estimates: Mapping[Any, SeriesEstimate]) -> None:
        self._estimates: dict[Any, SeriesEstimate] = dict(estimates)

    def __getitem__(self, group: Any) -> SeriesEstimate:
        return self._estimates[group]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._estimates)

    def __len__(self) -> int:
        return len(self._estimates)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists for each group, ready for JSON."""
        return {str(group): one.to_dict() for group, one in self.items()}

    def rows(self) -> list[dict[str, str]]:
        """Return a row of words for each group: its name, numbers, mean or ratio, quantiles and verdict."""
        return [
            {"group": str(group), "numbers": f"{one.diagnostics.num_numbers:,}"}
            | {one.name: number_in_words(one.mean, one.interval)}
            | {
                level_in_words(q.level): quantile_in_words(q.value, q.interval, q.exceedances)
                for q in one.levels
            }
            | {"verdict": one.verdict.kind}
            for group, one in self.items()
        ]

    def __repr__(self) -> str:
        rows = self.rows()
        names = list(rows[0]) if rows else []
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
        lines = [{name: name for name in names}, *rows]
        shown = ["  ".join(f"{line[name]:{widths[name]}s}" for name in names).rstrip() for line in lines]
        return "\n".join([*shown, *self._warnings()])

    def _warnings(self) -> list[str]:
        """Return lines with the warnings of all groups; one that all groups share is shown once."""
        groups: dict[str, list[str]] = {}
        for name, one in self.items():
            for words in dict.fromkeys(one.diagnostics.warnings):
                groups.setdefault(words, []).append(str(name))
        told = [
            f"warning   {words}" if len(names) == len(self) > 1 else f"warning   {name}: {words}"
            for words, names in groups.items()
            for name in (names[:1] if len(names) == len(self) else names)
        ]
        left = len(told) - MOST_WARNINGS
        more = [f"warning   and {left:,} more: see diagnostics.warnings of each group"] if left > 0 else []
        return told[:MOST_WARNINGS] + more

    def _card(self) -> Card:
        trusted = all(one.verdict.is_trusted for one in self.values())
        return Card(f"{len(self)} series", {}, self.rows(), trusted)

    def to_frame(self) -> pandas.DataFrame:
        """Return the tables of all groups as one, with a column for the verdict. Needs pandas."""
        import pandas

        tables = {group: one.to_frame().assign(verdict=one.verdict.kind) for group, one in self.items()}
        return pandas.concat(tables, names=["group", "number"])


def level_in_words(level: float) -> str:
    """Return the usual name of a level.

    Examples
    --------
    >>> level_in_words(0.99), level_in_words(0.999)
    ('p99', 'p99.9')
    """
    return f"p{100.0 * level:.10g}"


def quantile_in_words(
    value: float | None, interval: Sequence[float] | None, exceedances: float, confidence: float | None = None
) -> str:
    """Return a quantile with its interval, or with three digits if too few numbers are beyond it for one.

    Quantiles of counts are counts.

    Examples
    --------
    >>> quantile_in_words(1.0, (1.0, 2.0), 80.0, 0.95)
    '1, 95% interval 1 to 2'
    >>> quantile_in_words(58.9834, None, 8.0, 0.95), quantile_in_words(17.253, None, 0.0, 0.95)
    ('59, no interval', '17.253, no interval')
    """
    if value is not None and interval is None and exceedances > 0.0:
        value = float(f"{value:.3g}")
    is_count = value is not None and all(float(number).is_integer() for number in (value, *(interval or ())))
    return number_in_words(value, interval, confidence, is_count)


def number_in_words(
    value: float | None,
    interval: Sequence[float] | None,
    confidence: float | None = None,
    is_count: bool = False,
) -> str:
    """Return a number with its interval, with as many digits as the interval justifies.

    Counts have no digits after the point.

    Examples
    --------
    >>> number_in_words(12.3456, (12.1, 12.6), 0.95), number_in_words(12.3456, (12.1, 12.6))
    ('12.35, 95% interval 12.10 to 12.60', '12.35 (12.10 to 12.60)')
    >>> number_in_words(12.3456, None, 0.95), number_in_words(1234567.25, (1234567.25, 1234567.25))
    ('12.3456, no interval', '1234567.25 (1234567.25 to 1234567.25)')
    """
    if value is None or math.isnan(value):
        return "none"
    if interval is None:
        shown = _in_full(value) if float(value).is_integer() else f"{value:.6g}"
        return shown + (", no interval" if confidence is not None else " (none)")
    low, high = interval
    shown, first, last = as_precise((value, low, high), max(high - low, 100.0 if is_count else 0.0))
    if high == low:  # known exactly
        shown, first, last = (_in_full(number) for number in (value, low, high))
    ends = f"{first} to {last}"
    return f"{shown} ({ends})" if confidence is None else f"{shown}, {in_percent(confidence)} interval {ends}"


def _in_full(number: float) -> str:
    """Return a number with all the digits that decimal numbers keep in a float."""
    return f"{number:.15g}"
