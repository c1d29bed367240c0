"""A column of numbers, such as latencies or waiting times: mean, quantiles or a ratio, each with an interval.

Start with `evaluate_series`; its answer is in `series_estimate`. Numbers are read once (`_Gathered`): batch
sums are kept for all of them, and the numbers themselves as long as there are few, or if they are in memory
anyway. If they are too many, a random sample is kept, and quantiles take a second reading (`gain.quantiles`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.gain.batches import SMALLEST_NUMBER, BatchMeans, RatioMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.gain.quantiles import (
    SAMPLE,
    BinnedNumbers,
    CountedNumbers,
    OrderedNumbers,
    QuantileEstimate,
    RandomSample,
    WeightedNumbers,
    estimate_quantile,
)
from gainbias.evaluation.gain.verdict import CutShort, Verdict
from gainbias.evaluation.reading import check_confidence
from gainbias.evaluation.series_estimate import (
    GroupedSeries,
    SeriesDiagnostics,
    SeriesEstimate,
    level_in_words,
)
from gainbias.evaluation.sources.columns import Chunk
from gainbias.evaluation.sources.numbers import NumberSource, numbers_of
from gainbias.evaluation.sources.times import RowClock
from gainbias.evaluation.stream import BrokenStream
from gainbias.types import Floats

OVER_TIME = "mean and quantiles are over time: each number is weighted by how long it holds"

FEWEST_NUMBERS = 4
"""Numbers of each chain that an interval needs."""

HELD = 2**22
"""How many numbers of a file are held in memory at most, 32 MB: up to here quantiles are exact."""

SAMPLES_OF_GROUPS = 2**18
"""Most numbers in the random samples of all groups together; each has at least `FEWEST_OF_A_SAMPLE`."""

FEWEST_OF_A_SAMPLE = 2**11

FAR_FROM_ZERO = 5.0
"""The mean of the divisor must be at least this many standard errors away from zero."""

MOST_GROUPS = 1_000
"""How many groups a file may have: each has its own batches and first numbers, 192 kB."""


@overload
def evaluate_series(
    x: Any,
    quantiles: float | Sequence[float] = ...,
    *,
    ratio_to: Any = ...,
    time: Any = ...,
    duration: Any = ...,
    group: None = ...,
    skip: int | None = ...,
    confidence: float = ...,
    column: str | None = ...,
) -> SeriesEstimate: ...


@overload
def evaluate_series(
    x: Any,
    quantiles: float | Sequence[float] = ...,
    *,
    ratio_to: Any = ...,
    time: Any = ...,
    duration: Any = ...,
    group: Any,
    skip: int | None = ...,
    confidence: float = ...,
    column: str | None = ...,
) -> GroupedSeries: ...


def evaluate_series(
    x: Any,
    quantiles: float | Sequence[float] = (0.5, 0.95, 0.99),
    *,
    ratio_to: Any = None,
    time: Any = None,
    duration: Any = None,
    group: Any = None,
    skip: int | None = None,
    confidence: float = 0.95,
    column: str | None = None,
) -> SeriesEstimate | GroupedSeries:
    """Estimate mean and quantiles of a column of numbers, with intervals that allow for dependence.

    Parameters
    ----------
    x : array_like, list of records, table, mapping or path
        Numbers in order of time, (n,); or independent chains of equal length, (chains, n). Or a pandas,
        polars or PyArrow table, a mapping of columns, or a list of named tuples, data classes, dictionaries
        or (time, value) pairs; or the path of a CSV file, of JSON lines (.jsonl, .ndjson), of a Parquet file
        or of a folder of them, which may be larger than memory, or of a file that `read_requests` reads.
    quantiles : float or sequence of float
        Levels between 0 and 1; ``()`` for none.
    ratio_to : str or array_like, optional
        A second column: `mean` and `interval` are then those of the sum of the first divided by the sum of
        the second. Quantiles are still those of the first.
    time, duration : str or array_like, optional
        The time from which each number holds, until the next one of the same group; or how long it holds.
        Mean and quantiles are then over time: a number is weighted by how long it holds. With `time`
        the last number is not counted, because nothing says how long it holds. Numbers or dates.
    group : str or array_like, optional
        Names of series that share the column: each gets its own answer.
    skip : int, optional
        Leave out the first numbers, of each chain or group: a known warm-up. Then none is searched for.
    confidence : float
        Nominal coverage of the intervals.
    column : str, optional
        Which column of a table or file has the numbers; not needed if there is only one.

    Returns
    -------
    SeriesEstimate, or GroupedSeries with `group`
        If a row is wrong, the estimate is made from the rows before it, and `diagnostics.warnings` begins
        with the reason.

    Raises
    ------
    ValueError
        If an argument is wrong, or if there are fewer than 4 numbers before anything goes wrong.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> latencies = np.random.default_rng(0).lognormal(size=50_000)
    >>> estimate = gb.evaluate_series(latencies)
    >>> low, high = estimate.interval
    >>> low < 1.6487 < high
    True
    >>> low, high = estimate.quantiles[0.99].interval
    >>> low < 10.24 < high
    True

    Several series, by a column of groups:

    >>> servers = np.tile(["a", "b"], 25_000)
    >>> by_server = gb.evaluate_series({"ms": latencies, "server": servers}, column="ms", group="server")
    >>> list(by_server), by_server["a"].diagnostics.num_numbers
    (['a', 'b'], 25000)
    """
    clock = _clock(ratio_to, time, duration)
    plan = _Plan(_checked_levels(quantiles), _checked_skip(skip), confidence, clock)
    check_confidence(confidence)
    second = ratio_to if not clock else time if clock == "time" else duration
    numbers = numbers_of(x, column, second, group, clock)
    notes = [*numbers.notes, *([OVER_TIME] if clock else [])]
    ended: dict[Any, str] = {}
    gathered, broken = _gather(numbers, plan, notes, ended)
    made = sum(one.numbers.steps for one in gathered.values())
    enough = max((one.numbers.steps for one in gathered.values()), default=0)
    if enough < FEWEST_NUMBERS and (broken is not None or ended):
        raise BrokenStream(f"{broken or next(iter(ended.values()))}{numbers.counting}") from broken
    if group is None and enough < FEWEST_NUMBERS:
        left = f" after the first {skip:,}" if skip else ""
        chains = (
            f" of each chain: these are {numbers.num_chains:,} chains, and a chain is a row"
            if numbers.num_chains > 1
            else ""
        )
        raise ValueError(f"a series needs at least {FEWEST_NUMBERS} numbers{left}, found {enough}{chains}")
    if not gathered:
        raise ValueError("there is no number in the data")
    cut = None
    if broken is not None:
        cut = CutShort(f"cut short after {made * numbers.num_chains:,} numbers: {broken}{numbers.counting}")
    of_groups = {
        name: CutShort(
            f"cut short after {gathered[name].numbers.steps:,} numbers: {reason}{numbers.counting}"
        )
        for name, reason in ended.items()
    }
    gains = {name: _gain(one, plan) for name, one in gathered.items()}
    counted = _counted(numbers, gathered, gains, plan)
    estimates = {
        name: _estimate(one, gains[name], counted.get(name), plan, of_groups.get(name, cut), notes)
        for name, one in gathered.items()
    }
    return estimates[None] if group is None else GroupedSeries(estimates)


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    levels: tuple[float, ...]
    skip: int | None
    confidence: float
    clock: str = ""


def _clock(ratio_to: Any, time: Any, duration: Any) -> str:
    """Return whether "time" or "duration" says how long numbers hold; nothing if neither was given."""
    if time is None and duration is None:
        return ""
    if time is not None and duration is not None:
        raise ValueError("time and duration both say how long a number holds: leave out one of them")
    if ratio_to is not None:
        raise ValueError("a ratio is not over time: leave out ratio_to, or time and duration")
    return "time" if duration is None else "duration"


def _checked_levels(quantiles: Any) -> tuple[float, ...]:
    given = (
        list(quantiles) if isinstance(quantiles, Iterable) and not isinstance(quantiles, str) else [quantiles]
    )
    levels = []
    for level in given:
        number = float(level) if isinstance(level, Real) else math.nan
        if not 0.0 < number < 1.0:
            hint = f": say {number / 100:g} for {number:g}%" if 1.0 < number < 100.0 else ""
            raise ValueError(f"quantiles must be between 0 and 1, found {level!r}{hint}")
        levels.append(number)
    return tuple(dict.fromkeys(levels))


def _checked_skip(skip: Any) -> int | None:
    if skip is not None and (isinstance(skip, bool) or not isinstance(skip, Integral) or skip < 0):
        raise ValueError(f"skip must be a number of first numbers to leave out, found {skip!r}")
    return None if skip is None else int(skip)


class _Gathered:
    """What was read of one series.

    Attributes
    ----------
    pair : RatioMeans or None
        Of the column and of a second one, for a ratio.
    numbers, beside : BatchMeans
        Of the column and, for a ratio, of the second one.
    held : list of (chains, count) arrays, or None if they were too many
    sample : RandomSample or None
        In place of the numbers.
    crossing : int or None
        The first row in which the second column has another sign than before.
    """

    def __init__(self, num_chains: int, has_ratio: bool, skip: int, clock: RowClock | None = None) -> None:
        self.pair = RatioMeans(num_chains) if has_ratio else None
        self.clock, self.lasted = clock, list[Floats]()
        self._last: tuple[Floats, Floats] | None = None
        self.numbers = BatchMeans(num_chains) if self.pair is None else self.pair.tops
        self.beside = None if self.pair is None else self.pair.bottoms
        self.held: list[Floats] | None = []
        self.sample: RandomSample | None = None
        self.crossing: int | None = None
        self._sign, self._skip = 0.0, skip

    def add(self, numbers: Floats, beside: Floats | None, rows: NDArray[np.int64], capacity: int) -> None:
        """Add numbers, (chains, count), of some rows; a sample keeps at most `capacity`."""
        left, self._skip = self._skip, max(0, self._skip - numbers.shape[1])
        numbers, broken = numbers[:, left:], None
        if self.pair is None or beside is None:
            self.numbers.add(numbers)
        elif self.clock:
            numbers, durations, broken = self._lasting(numbers, beside[:, left:], rows[left:])
            self.pair.add(numbers * durations, durations)
            if self.held is not None:
                self.lasted.append(durations)
        else:
            self.pair.add(numbers, beside[:, left:])
            self._watch_sign(beside[:, left:], rows[left:])
        if self.held is not None:
            self.held.append(numbers)
        elif self.sample is not None:
            self.sample.add(numbers[0], capacity)
        if broken is not None:
            raise broken

    def _lasting(
        self, numbers: Floats, beside: Floats, rows: NDArray[np.int64]
    ) -> tuple[Floats, Floats, BrokenStream | None]:
        """Return numbers whose end is known, how long they hold, and what is wrong after them.

        With times, the last number waits for the next one.
        """
        durations = beside
        assert self.clock is not None
        if self.clock.role == "time" and numbers.shape[1]:
            if self._last is not None:
                numbers = np.concatenate([self._last[0], numbers], axis=1)
                beside = np.concatenate([self._last[1], beside], axis=1)
                rows = np.append(rows[0], rows)
            self._last = numbers[:, -1:], beside[:, -1:]
            numbers, durations, rows = numbers[:, :-1], np.diff(beside, axis=1), rows[1:]
        wrong = (durations < 0.0).any(axis=0)
        if not wrong.any():
            return numbers, durations, None
        first = int(np.argmax(wrong))
        if self.clock.role == "time":
            back = self.clock.in_words(-float(durations[:, first].min()))
            what = (
                f"the time is earlier than the one before, by {back}: sort the rows by {self.clock.name!r}; "
                "if these are several series, tell them apart, group=..."
            )
        else:
            what = "the duration is negative"
        broken = BrokenStream(f"row {rows[first]}: {what}")
        return numbers[:, :first], durations[:, :first], broken

    def _watch_sign(self, beside: Floats, rows: NDArray[np.int64]) -> None:
        if self.crossing is not None:
            return
        signs = np.sign(beside)
        if self._sign == 0.0 and signs.any():
            self._sign = float(signs.T[signs.T != 0.0][0])
        [against] = np.nonzero((signs == -self._sign).any(axis=0) & (self._sign != 0.0))
        if len(against):
            self.crossing = int(rows[against[0]])

    def let_go(self, capacity: int) -> None:
        """Keep a random sample in place of all numbers."""
        self.sample = RandomSample()
        for numbers in self.held or ():
            self.sample.add(numbers[0], capacity)
        self.held, self.lasted = None, []


def _gather(
    numbers: NumberSource, plan: _Plan, notes: list[str], ended: dict[Any, str]
) -> tuple[dict[Any, _Gathered], BrokenStream | None]:
    """Read all numbers; return the data of each group, and why reading stopped before the end.

    Reasons why single groups ended early are added to `ended`.
    """
    found: dict[Any, _Gathered] = {}
    held, is_held = 0, True
    try:
        for portion in numbers.portions(notes, ended):
            count = portion["number"].shape[-1]
            if numbers.num_chains * (held + count) > HELD and not numbers.is_held and is_held:
                is_held = False
                for one in found.values():
                    one.let_go(_capacity(len(found)))
            held += count
            for name, chosen in _by_group(portion):
                if name not in found:
                    if len(found) == MOST_GROUPS:
                        raise ValueError(
                            f"there are more than {MOST_GROUPS:,} groups: is {numbers.names['group']} the "
                            "right column?"
                        )
                    found[name] = _Gathered(
                        numbers.num_chains, "ratio" in portion, plan.skip or 0, numbers.clock
                    )
                    if not is_held:
                        found[name].let_go(SAMPLE)
                columns = {role: _rows(portion[role], chosen) for role in portion if role != "group"}
                try:
                    capacity = _capacity(len(found))
                    found[name].add(columns["number"], columns.get("ratio"), columns["row"][0], capacity)
                except BrokenStream as error:
                    if "group" not in portion:
                        raise
                    ended[name] = str(error)
    except BrokenStream as error:
        return found, error
    for name in ended:  # also if it ended before its first number
        found.setdefault(name, _Gathered(numbers.num_chains, False, 0))
    return found, None


def _capacity(groups: int) -> int:
    return max(FEWEST_OF_A_SAMPLE, min(SAMPLE, SAMPLES_OF_GROUPS // max(groups, 1)))


def _rows(column: NDArray[Any], chosen: NDArray[np.int64] | None) -> Floats:
    return np.atleast_2d(column) if chosen is None else column[None, chosen]


def _by_group(portion: Chunk) -> Iterator[tuple[Any, NDArray[np.int64] | None]]:
    """Yield each group of a portion with its rows, or with None for all rows if there are no groups."""
    if "group" not in portion:
        yield None, None
        return
    codes: dict[Any, int] = {}
    places = np.array([codes.setdefault(name, len(codes)) for name in portion["group"].tolist()])
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=len(codes)))
    yield from zip(codes, np.split(order, ends[:-1]), strict=True)


def _gain(one: _Gathered, plan: _Plan) -> GainEstimate | None:
    """Return the estimate of the mean or of the ratio; None if there are too few numbers for one."""
    if one.numbers.steps < FEWEST_NUMBERS:
        return None
    finds, skipped = plan.skip is None, plan.skip or 0
    if one.pair is None or one.beside is None:
        return estimate_gain(one.numbers, plan.confidence, finds, skipped)
    below = estimate_gain(one.beside, plan.confidence, finds)
    divisor, answer = ("durations", "mean over time") if plan.clock else ("numbers to divide by", "ratio")
    least = min(abs(below.gain), abs(one.beside.mean))
    if least < SMALLEST_NUMBER:
        top = estimate_gain(one.numbers, plan.confidence, finds)
        why = "sum to zero" if least == 0.0 else f"are {least:.3g} on average, too near zero"
        return _without_interval(replace(top, gain=math.nan), f"the {divisor} {why}: there is no {answer}")
    found = estimate_gain(one.pair, plan.confidence, finds, skipped, over_time=bool(plan.clock))
    errors = abs(below.gain) / below.standard_error if below.standard_error > 0.0 else math.inf
    if errors < FAR_FROM_ZERO:
        return _without_interval(
            found,
            f"the mean of the {divisor}, {below.gain:.3g}, is only {errors:.1f} standard errors "
            f"away from zero, so the {answer} could be anything: there is no interval",
        )
    return found


def _without_interval(found: GainEstimate, words: str) -> GainEstimate:
    verdict = Verdict("too short", False, words)
    nothing = (math.nan, math.nan)
    return replace(found, interval=nothing, verdict=verdict, warnings=(words, *found.warnings))


def _counted(
    numbers: NumberSource,
    gathered: Mapping[Any, _Gathered],
    gains: Mapping[Any, GainEstimate | None],
    plan: _Plan,
) -> dict[Any, CountedNumbers]:
    """Return the counts of numbers of each group after its warm-up; for a large file, by a second reading."""
    counted: dict[Any, CountedNumbers] = {}
    binned: dict[Any, BinnedNumbers] = {}
    if not plan.levels:
        return counted
    warm_up = {name: 0 if gain is None else gain.transient for name, gain in gains.items()}
    for name, one in gathered.items():
        if one.clock and one.numbers.steps:
            if one.held is None:
                raise ValueError(
                    f"quantiles over time are for at most {HELD:,} numbers of a file: pass quantiles=(), or "
                    "read the file into memory"
                )
            held, lasted = (
                np.concatenate(part, axis=1)[:, warm_up[name] :] for part in (one.held, one.lasted)
            )
            if lasted.any():
                counted[name] = WeightedNumbers(held, lasted)
        elif one.held is not None and one.numbers.steps:
            counted[name] = OrderedNumbers(np.concatenate(one.held, axis=1)[:, warm_up[name] :])
        elif one.sample is not None and one.numbers.steps:
            counted[name] = binned[name] = BinnedNumbers(one.sample.after(warm_up[name]), plan.levels)
    if binned:
        _count_again(numbers, binned, warm_up, plan)
    for name, bins in binned.items():
        if bins.count != gathered[name].numbers.steps - warm_up[name]:
            raise ValueError("the file changed while it was read: its numbers are different now")
    return counted


def _count_again(
    numbers: NumberSource, binned: Mapping[Any, BinnedNumbers], warm_up: Mapping[Any, int], plan: _Plan
) -> None:
    left = {name: (plan.skip or 0) + warm_up[name] for name in binned}
    try:
        for portion in numbers.portions([]):
            for name, chosen in _by_group(portion):
                if name in binned:
                    column = _rows(portion["number"], chosen)[0]
                    binned[name].add(column[left[name] :])
                    left[name] = max(0, left[name] - len(column))
    except BrokenStream:
        return  # at the same row as before


def _estimate(
    one: _Gathered,
    gain: GainEstimate | None,
    counted: CountedNumbers | None,
    plan: _Plan,
    cut: CutShort | None,
    notes: list[str],
) -> SeriesEstimate:
    """Return the answer for one series."""
    left_out = (plan.skip or 0) + (0 if gain is None else gain.transient)
    levels = tuple(
        QuantileEstimate(level, math.nan, None, "there are no numbers", 0.0)
        if counted is None
        else estimate_quantile(counted, level, plan.confidence, left_out)
        for level in plan.levels
    )
    warnings = [f"{level_in_words(found.level)}: {found.words}" for found in levels if found.words]
    told = list(notes)
    if isinstance(counted, BinnedNumbers):
        told.append(
            "there are too many numbers to keep in memory: quantiles are known up to at most "
            f"{counted.largest_bin:.2g} of the numbers, and their intervals are wider by the same amount"
        )
    if one.crossing is not None:
        warnings.insert(
            0,
            f"the numbers to divide by change their sign, first in row {one.crossing}: they add up to less "
            "than their sizes do, and the ratio of sums may mean little",
        )
    if gain is None:
        gain = _of_hardly_any(one, plan.confidence)
    gain = gain.after(cut)
    batch_means, durations = _batches(one, gain)
    return SeriesEstimate(
        mean=gain.gain,
        interval=gain.interval if gain.has_interval else None,
        confidence=plan.confidence,
        verdict=gain.verdict,
        warm_up=left_out,
        levels=levels,
        diagnostics=SeriesDiagnostics(
            is_complete=cut is None,
            num_chains=one.numbers.num_chains,
            num_numbers=gain.num_steps,
            effective_sample_size=gain.effective_sample_size,
            autocorrelation_time=gain.autocorrelation_time,
            standard_error=gain.standard_error,
            typical_half_width=gain.typical_half_width,
            notes=(*told, *gain.notes),
            warnings=(*gain.warnings, *warnings),
        ),
        batch_means=batch_means,
        batch_size=one.numbers.sums.size,
        is_ratio=one.beside is not None and not one.clock,
        durations=durations,
    )


def _batches(one: _Gathered, gain: GainEstimate) -> tuple[Floats, Floats | None]:
    """Return the batch means behind the verdict, with the warm-up, (chains, batches), and how long they last.

    Durations are only known for a mean over time.
    """
    centre, size = gain.gain, one.numbers.sums.size
    if one.beside is None:
        whole, rest = one.numbers.about(0.0)[0], one.numbers.with_rest(centre)
        return np.concatenate([whole, rest[:, whole.shape[1] :] + centre], axis=1), None
    below = one.beside.mean_after(gain.transient // size) if one.numbers.steps else 0.0
    if not below or math.isnan(centre):
        nothing = np.full((one.numbers.num_chains, 0), math.nan)
        return nothing, nothing if one.clock else None
    if one.clock:
        sums, durations = size * one.numbers.with_rest(0.0), size * one.beside.with_rest(0.0)
        durations = np.where(durations > size * one.beside.rounding, durations, 0.0)
        means = np.full(sums.shape, centre)
        return np.divide(sums, durations, out=means, where=durations > 0.0), durations
    apart = one.numbers.with_rest(centre * below) - centre * one.beside.with_rest(below)
    return np.asarray(centre + apart / below), None


def _of_hardly_any(one: _Gathered, confidence: float) -> GainEstimate:
    """Return the mean of numbers that are too few to say anything about its error."""
    steps, chains = one.numbers.steps, one.numbers.num_chains
    mean = one.numbers.mean if steps else math.nan
    if one.beside is not None and steps:
        mean = mean / one.beside.mean if one.beside.mean else math.nan
    found = "1 number" if steps * chains == 1 else f"{steps * chains} numbers"
    words = f"too short: {found}, and an interval needs at least {FEWEST_NUMBERS}"
    return GainEstimate(
        gain=mean,
        interval=(math.nan, math.nan),
        confidence=confidence,
        standard_error=math.nan,
        autocorrelation_time=1.0,
        effective_sample_size=float(steps * chains),
        variance=math.nan,
        r_hat=math.nan,
        transient=0,
        num_steps=steps * chains,
        degrees=0,
        verdict=Verdict("too short", False, words),
        warnings=(words,),
    )
