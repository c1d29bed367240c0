"""`Estimate`: what a policy is worth, and how sure that is.

`History`, at the end, has the estimates of the gain earlier in the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.another.record import Target
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.gain.anytime import ConfidenceSequence
from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans
from gainbias.evaluation.gain.interval import RunLength, estimate_gain, length_for
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.sources.spaces import plain_observation
from gainbias.evaluation.stream import STEP
from gainbias.evaluation.values.methods import LearnedRecord, NoLearning, NoValues
from gainbias.notebook import Card, InNotebooks, card_of
from gainbias.store import check_free, plain
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas

POINTS = 40
"""Points of a history, at geometric times."""

FEWEST_HISTORY_BATCHES = 8
"""Batches before the first point of a history."""

MOST_LETTERS = 60
"""Letters of an observation that are shown at most."""

MOST_DIGITS = 12
"""Digits after the point that are shown of small numbers; if more are needed, a power of ten is."""

LARGEST_SMALL, LEAST_LONG = 1e-3, 1e15
"""Numbers below the first are small; from the second on they are too long without a power of ten."""

DIGITS_OF_A_NUMBER = 16
"""Digits that a number has after its first one."""

SOME_OBSERVATION = 1e-3
"""Where the data have less weight than this, there is no value."""


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(InNotebooks):
    """The gain and the relative values of a policy, with intervals; made by `evaluate` and `evaluate_log`.

    Attributes
    ----------
    gain : float
        Average reward in the long run, per step or per unit of time: `per` says which.
    gain_interval : (float, float)
        Confidence interval of the gain. Both ends are nan if there is none: if the rewards never change, or
        before the first look of a run that may be looked at more than once.
    confidence : float
        Nominal coverage of all intervals.
    diagnostics : Diagnostics
        How the estimate was made, with `warnings` and `notes` in words.
    history : History
        How the gain settled down.
    observed : ObservationMap
        How observations become features.
    learned : ValueEstimate, LearnedValues or NoValues
        The values as functions of features; if none could be learned, the reason is among the warnings.
    per : str
        The unit that the gain is per: "step", or a unit of time such as "hour".
    target : Target or None
        If the answer is for another policy than the one that made the log: its action values, and how much of
        the log is informative about it.

    Examples
    --------
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=40_000)
    >>> low, high = estimate.gain_interval
    >>> low < 0.0017 < high
    True
    >>> estimate.value(14) > estimate.value(0)
    True
    >>> estimate.value([0, 14]).shape, estimate.value_interval([0, 14]).shape
    ((2,), (2, 2))
    """

    gain: float
    gain_interval: tuple[float, float]
    confidence: float
    diagnostics: Diagnostics
    history: History
    observed: ObservationMap
    learned: LearnedRecord
    per: str = STEP
    target: Target | None = None

    @property
    def weights(self) -> Floats:
        """Coefficients of the features, (d,), in the scale in which they were given."""
        return self.learned.weights / self.observed.scale

    @property
    def features(self) -> str:
        """Description of the features, in words."""
        return self.observed.description

    def value(self, observations: Any) -> Any:
        """Relative value of an observation: how much more is earned in total than the gain alone gives.

        Values are centred: their mean in the long run is 0, over steps or over time as `per` says.

        Parameters
        ----------
        observations : int, array, list, dict or tuple
            One observation, or an array (m, ...) of many. Observations of several parts are given in the form
            of their space, many of them as a list, or with an array (m, ...) for each part.

        Returns
        -------
        float, or (m,) array
            nan where nothing similar was observed.
        """
        many, single = self.observed.checked(observations)
        rows = self.observed.rows_at(many)
        seen = self.learned.observations(rows) >= SOME_OBSERVATION
        values = np.where(seen, self.learned.values(rows), np.nan)
        return float(values[0]) if single else values

    def value_interval(self, observations: Any) -> Any:
        """Confidence interval of the relative value of an observation.

        Parameters
        ----------
        observations : int, array, list, dict or tuple
            One observation, or many, as for `value`.

        Returns
        -------
        (float, float), or (m, 2) array
            Infinite where too little was observed, and if the rewards never change. Each contains its own
            value with probability `confidence`; that does not hold for all of them together.
        """
        many, single = self.observed.checked(observations)
        ends = self.learned.intervals(self.observed.rows_at(many))
        if np.isnan(
            self.diagnostics.standard_error
        ):  # batches without noise would make intervals without width
            ends = np.tile([-np.inf, np.inf], (len(ends), 1))
        return (float(ends[0, 0]), float(ends[0, 1])) if single else ends

    def action_value(self, observations: Any, actions: Any) -> Any:
        """Relative value of an action: of taking it once, and following the policy from then on.

        Only in the answer for another policy than the one that made a log, ``evaluate_log(..., policy=...)``.

        Parameters
        ----------
        observations : int, array, list, dict or tuple
            One observation, or many, as for `value`.
        actions : int or (m,) array
            The action at each.

        Returns
        -------
        float, or (m,) array
            nan where the log has nothing similar.
        """
        rows, single = self._action_rows(observations, actions)
        learned = self._target.action_values
        seen = learned.observations(rows) >= SOME_OBSERVATION
        values = np.where(seen, learned.values(rows), np.nan)
        return float(values[0]) if single else values

    def action_value_interval(self, observations: Any, actions: Any) -> Any:
        """Confidence interval of the relative value of an action.

        Parameters
        ----------
        observations : int, array, list, dict or tuple
            One observation, or many, as for `value`.
        actions : int or (m,) array
            The action at each.

        Returns
        -------
        (float, float), or (m, 2) array
            Infinite where too little was observed.
        """
        rows, single = self._action_rows(observations, actions)
        ends = self._target.action_values.intervals(rows)
        return (float(ends[0, 0]), float(ends[0, 1])) if single else ends

    @property
    def _target(self) -> Target:
        if self.target is None:
            raise ValueError(
                "there are values of actions only in the answer for another policy than the one that made a "
                "log: evaluate_log(log, action=..., policy=...)"
            )
        return self.target

    def _action_rows(self, observations: Any, actions: Any) -> tuple[Any, bool]:
        target = self._target
        many, single = self.observed.checked(observations)
        if target.pairs is None and target.pair_rows is None:
            raise ValueError(
                "the features of state-actions are a function, which the file of an estimate does not "
                "contain: use the original estimate"
            )
        if target.num_actions == 0 and target.pair_rows is not None:  # continuous actions
            return target.pair_rows(many, np.broadcast_to(np.asarray(actions), (len(many),))), single
        given = np.broadcast_to(np.asarray(actions), (len(many),))
        if given.dtype.kind not in "iu" or (given < 0).any() or (given >= target.num_actions).any():
            raise ValueError(
                f"actions must be integers from 0 to {target.num_actions - 1}, found {actions!r}"
            )
        if target.pair_rows is not None:
            return target.pair_rows(many, given), single
        states = self.observed.states_at(many)
        return target.rows_of(states, given.astype(np.int64)), single

    def steps_for(self, half_width: float) -> RunLength:
        """Return how many transitions of all chains give the gain an interval of this half width.

        `steps` is None if no length would help.
        """
        facts = self.diagnostics
        left_out = facts.transient * facts.num_chains
        return length_for(half_width, self.gain_interval, facts.verdict, facts.num_transitions, left_out)

    def extremes(self, count: int = 1) -> tuple[list[Any], list[Any]]:
        """Return the worst and the best discrete observations, as pairs of observation and value.

        Only those that were observed often enough for an interval. Empty for boxes, and for more than 10,000
        observations; if the observations that turned up are the states, only these are considered.
        """
        worst, best = (
            [(plain_observation(row, self.observed.limits), value) for row, value in rows]
            for rows in self.extreme_rows(count)
        )
        return worst, best

    def extreme_rows(self, count: int = 1) -> tuple[list[Any], list[Any]]:
        """Return the same as `extremes`, with observations as arrays of numbers."""
        every = self.observed.every()
        if every is None or not len(every):
            return [], []
        values, known = self.value(every), np.isfinite(self.value_interval(every)).all(axis=1)
        order = [int(k) for k in np.argsort(values, kind="stable") if known[k]]
        pairs = [(every[k], float(values[k])) for k in order]
        return pairs[:count], pairs[::-1][:count]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON; ``None`` for infinite numbers and nan."""
        worst, best = self.extreme_rows(3)
        answer = {
            "gain": self.gain,
            "gain_interval": list(self.gain_interval),
            "confidence": self.confidence,
            "per": self.per,
            "features": self.features,
            "weights": self.weights.tolist(),
            "best": self._with_intervals(best),
            "worst": self._with_intervals(worst),
            "diagnostics": self.diagnostics.to_dict(),
            "history": self.history.to_dict(),
        }
        if self.target is not None:
            answer["target"] = self.target.to_dict()
        return dict(plain(answer))

    def _with_intervals(self, pairs: list[Any]) -> list[dict[str, Any]]:
        return [
            {
                "observation": plain_observation(seen, self.observed.limits),
                "value": value,
                "interval": list(self.value_interval(seen)),
            }
            for seen, value in pairs
        ]

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the estimate to a file, which `load_estimate` reads; a function of yours is not stored.

        An existing file is refused unless it may be replaced; missing folders are made.
        """
        from gainbias.evaluation.storage import save_estimate

        check_free(Path(path), overwrite)
        save_estimate(self, Path(path))

    def __repr__(self) -> str:
        facts = self.diagnostics
        values = f"values    {self._values_in_words()}"
        features, method = f"features  {self.features}", f"method    {facts.algorithm}"
        learns = facts.algorithm != NoLearning.description
        lines = [
            f"gain      {with_interval(self.gain, self.gain_interval, self.confidence, self.per)}",
            f"verdict   {facts.verdict.kind}",
            *([values, features] if learns else []),
            f"data      {facts.data_in_words()}",
            *([method] if learns else []),
            *([] if self.target is None else [f"overlap   {self.target.in_words()}"]),
            *(f"warning   {warning}" for warning in facts.warnings),
            *(f"note      {note}" for note in facts.notes),
        ]
        return "\n".join(lines)

    def _values_in_words(self) -> str:
        if isinstance(self.learned, NoValues):
            return "none"
        worst, best = self.extremes()
        if not best:
            return "get them by value(obs), value_interval(obs); nan where nothing like obs was seen"
        (high_at, high), (low_at, low) = best[0], worst[0]
        return (
            f"best {high:+.3g} at {shortened(high_at)}, worst {low:+.3g} at {shortened(low_at)}; relative, "
            "with mean 0"
        )

    def _card(self) -> Card:
        facts = self.diagnostics
        return card_of(self)._replace(is_good=facts.verdict.is_trusted and not facts.gain_warnings)

    def to_frame(self) -> pandas.DataFrame:
        """Return a table of values: a row for each discrete observation, with value, low and high.

        An unknown interval is infinite, and the value of an observation that was never seen is nan. Needs
        pandas.

        Examples
        --------
        >>> import gainbias as gb
        >>> log = {"state": [0, 1] * 500, "reward": [1.0, 3.0] * 500}
        >>> gb.evaluate_log(log).to_frame()["value"].round(2).tolist()
        [-0.5, 0.5]
        """
        import pandas

        every = self.observed.every()
        if every is None or isinstance(self.learned, NoValues):
            raise ValueError(
                "there is no table of values: observations are not discrete, are too many, or have no "
                "values. Ask for some with value(observations) and value_interval(observations)"
            )
        names = [plain_observation(row, self.observed.limits) for row in every]
        low, high = self.value_interval(every).T
        index = pandas.Index([name if np.isscalar(name) else str(name) for name in names], name="observation")
        return pandas.DataFrame({"value": self.value(every), "low": low, "high": high}, index=index)


def shortened(observation: Any) -> str:
    """Return an observation in words, shortened if it is too long to read.

    Examples
    --------
    >>> shortened({"age": 3}), len(shortened(list(range(1000))))
    ("{'age': 3}", 60)
    """
    words = str(observation)
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 3]}..."


def with_interval(middle: float, interval: Sequence[float | None], confidence: float, per: str = STEP) -> str:
    """Return a gain in words, with as many digits as its interval justifies; nan or None means no interval.

    Examples
    --------
    >>> with_interval(4.65812, (4.61, 4.7), 0.95)
    '4.658 per step, 95% interval 4.610 to 4.700'
    >>> with_interval(4.65812, (float("nan"), float("nan")), 0.95)
    '4.65812 per step, no interval'
    """
    low, high = (np.nan if end is None else end for end in interval)
    if np.isnan(low) or np.isnan(high):
        return f"{middle:.6g} per {per}, no interval"
    shown, first, last = as_precise((middle, low, high), high - low)
    return f"{shown} per {per}, {in_percent(confidence)} interval {first} to {last}"


def in_percent(confidence: float) -> str:
    """Return a confidence in per cent.

    Examples
    --------
    >>> in_percent(0.95), in_percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100.0 * confidence:.10g}%"


def as_precise(numbers: Sequence[float], width: float, sign: Literal["", "+"] = "") -> list[str]:
    """Return numbers with as many digits as show two digits of the width of an interval.

    Examples
    --------
    >>> as_precise((12.3456, 12.1), 0.5), as_precise((2.34e-20, 2.3e-20), 3e-21, sign="+")
    (['12.35', '12.10'], ['+2.34e-20', '+2.30e-20'])
    """
    largest = float(np.abs(numbers).max())
    if not (np.isfinite(width) and width > 0.0 and np.isfinite(largest)):
        return [f"{number:{sign}.6f}" for number in numbers]
    digits = 2 - math.ceil(math.log10(width))
    place = math.floor(math.log10(largest)) if largest > 0.0 else 0
    if largest >= LEAST_LONG or (largest < LARGEST_SMALL and digits > MOST_DIGITS):
        after = min(max(place + digits, 0), DIGITS_OF_A_NUMBER)
        return [f"{number:{sign}.{after}e}" for number in numbers]
    after = max(min(digits, DIGITS_OF_A_NUMBER - place), 0)
    return [f"{number:{sign}z.{after}f}" for number in numbers]  # z: there is no -0.00


@dataclass(frozen=True, eq=False)
class History:
    """How the estimate of the gain settled down: its value at earlier times.

    Attributes
    ----------
    transitions : (k,) int array
        Transitions of all chains at each time.
    gain, low, high : (k,) arrays
        Estimate and interval.
    """

    transitions: NDArray[np.int64]
    gain: Floats
    low: Floats
    high: Floats

    @classmethod
    def made_later(cls, make: Callable[[], History]) -> History:
        """Return a history that is made when somebody first looks at it: few do, and it takes time.

        Examples
        --------
        >>> some = np.ones(1)
        >>> history = History.made_later(lambda: print("now") or History(some, 2.0 * some, some, some))
        >>> float(history.gain[0])
        now
        2.0
        """
        history = cls.__new__(cls)
        vars(history)["_make"] = make
        return history

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make what was to be made later; Python asks here only for what is still missing."""
            make = vars(self).get("_make")
            if make is None or name not in {field.name for field in fields(self)}:
                return object.__getattribute__(self, name)  # another thread may have made it meanwhile
            vars(self).update(vars(make()))
            vars(self).pop("_make", None)
            return vars(self)[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists; ``None`` for infinite numbers and nan."""
        return {name: plain(getattr(self, name).tolist()) for name in ("transitions", "gain", "low", "high")}


def gain_history(
    rewards: BatchMeans | RatioMeans, confidence: float, sequence: ConfidenceSequence | None = None
) -> History:
    """Return the history of a gain from batches of rewards; the last point is the estimate itself.

    Intervals are those of the `sequence`, if there is one, and hold together; otherwise each holds by itself.

    Examples
    --------
    >>> history = gain_history(BatchMeans.of(np.random.default_rng(0).normal(size=20_000)), 0.95)
    >>> len(history.gain), int(history.transitions[-1]), bool(abs(history.gain[-1]) < 0.05)
    (40, 20000, True)
    """
    batches = rewards.sums.complete.shape[-1]
    first = min(FEWEST_HISTORY_BATCHES, batches)
    counts = np.unique(np.geomspace(first, batches, POINTS).astype(int))[:-1]
    points = [rewards.first(int(count)) for count in counts if count * rewards.sums.size >= 2]
    if isinstance(rewards, RatioMeans):  # before any time has passed there is no gain
        points = [point for point in points if isinstance(point, RatioMeans) and point.bottoms.mean > 0.0]
    estimate = partial(estimate_gain, confidence=confidence) if sequence is None else sequence.estimate
    estimates = [estimate(point) for point in (*points, rewards)]
    steps = [point.steps for point in (*points, rewards)]
    low, high = np.array([estimate.interval for estimate in estimates]).T
    gains = np.array([estimate.gain for estimate in estimates])
    return History(rewards.num_chains * np.array(steps, dtype=np.int64), gains, low, high)
