"""Answers by simpler methods, for comparison: the model alone, the ratio alone, and importance sampling.

Each is a series along the log, or has a standard error of its own, and none is the default: in the study of
`benchmarks/another_policy.py` their intervals are wider, or do not hold.

- *Model*: the gain of the target's chain by the counts, with a standard error as if transitions of a
  state-action were independent draws (the delta method).
- *Ratio*: the mean of w (r - g t), with the ratio w of the shares of state-actions as if it were known.
- *Importance sampling*: the reward of each step weighed by the product of pi(a | s) / b(a | s) over the steps
  before it, as many as leave the weights worth at least the share `SHARE_WORTH` of as many equal ones;
  without a behaviour b that was given, the frequencies of the log.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from gainbias.evaluation.another.tables import NumberedSteps, TableInfluence, TableModel
from gainbias.evaluation.gain.batches import RatioMeans
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.types import Floats, Ints

Alone: TypeAlias = Literal["model", "ratio", "importance-sampling"]
"""Methods that can be asked for by name."""

LONGEST_PRODUCT = 64
"""Steps over which ratios of probabilities are multiplied at most."""

SHARE_WORTH = 0.05
"""Products are taken over fewer steps if they are worth a smaller share of the steps than this."""

HORIZONS = (1, 2, 4, 8, 16, 32, LONGEST_PRODUCT)
"""Numbers of steps over which products are tried."""


class Products:
    """The weights of per-step importance sampling, over several numbers of steps at once.

    Attributes
    ----------
    means : list of RatioMeans
        Weighed rewards and durations, for each number of steps.
    sums : list of (2,) arrays
        Sums of weights and of their squares.

    Examples
    --------
    >>> products = Products()
    >>> products.add(np.array([2.0, 1.0, 3.0]), np.zeros(3, dtype=np.int64), np.ones(3), np.ones(3))
    >>> products.sums[1].tolist()  # products of up to two: 2, 2 and 3
    [7.0, 17.0]
    """

    def __init__(self) -> None:
        self.means = [RatioMeans() for _ in HORIZONS]
        self.sums = [np.zeros(2) for _ in HORIZONS]
        self._before: tuple[Floats, Ints] = (np.empty(0), np.empty(0, dtype=np.int64))

    def add(self, ratios: Floats, segments: Ints, rewards: Floats, durations: Floats) -> None:
        """Add the next steps, with the ratio of probabilities of what was done at each."""
        kept = len(self._before[0])
        products = np.concatenate([self._before[0], ratios])
        segments = np.concatenate([self._before[1], segments])
        self._before = products[-LONGEST_PRODUCT:], segments[-LONGEST_PRODUCT:]
        for number, horizon in enumerate(HORIZONS):
            if number:
                products = _doubled(products, segments, horizon // 2)
            own = products[kept:]
            self.means[number].add(own * rewards, own * durations)
            self.sums[number] += own.sum(), float(own @ own)

    def chosen(self) -> int:
        """Return the place of the longest product whose weights are worth enough; of the shortest if none."""
        worth = [total**2 / squares if squares > 0.0 else 0.0 for total, squares in self.sums]
        enough = [place for place, one in enumerate(worth) if one >= SHARE_WORTH * self.means[0].steps]
        return max(enough, default=0)


def _doubled(products: Floats, segments: Ints, lag: int) -> Floats:
    """Return products over twice as many steps, which do not reach back across a cut."""
    longer = products.copy()
    same = segments[lag:] == segments[:-lag]
    longer[lag:][same] *= products[:-lag][same]
    return longer


class AloneAnswer:
    """The answer of one of these methods, as the second reading goes on.

    Parameters
    ----------
    method : {"model", "ratio", "importance-sampling"}
    model : TableModel
    influence : TableInfluence
        It has taken the steps as well.
    behaviour : (n, A) array
        Probabilities of the actions of the log.
    """

    def __init__(self, method: str, model: TableModel, influence: TableInfluence, behaviour: Floats) -> None:
        counts = model.counts
        self._method, self._model, self._influence = method, model, influence
        taken = behaviour[counts.of_pair, counts.actions]
        self._ratios = np.divide(model.support.chances, taken, where=taken > 0.0, out=np.zeros(len(taken)))
        self._weighed, self._products = RatioMeans(), Products()

    def add(self, steps: NumberedSteps, segments: Ints) -> None:
        """Add the next steps."""
        pair = self._influence.pairs_of(steps)
        if self._method == "ratio":
            weights = self._model.ratio[pair]
            self._weighed.add(weights * steps.rewards, weights * steps.durations)
        elif self._method == "importance-sampling":
            self._products.add(self._ratios[pair], segments, steps.rewards, steps.durations)

    def answer(self, confidence: float) -> tuple[float, tuple[float, float], float, str]:
        """Return the gain, its interval, its standard error and the method in words."""
        if self._method == "model":
            error = self._influence.independent_error()
            half = error * float(stats.norm.ppf((1.0 + confidence) / 2.0))
            gain = self._model.gain
            return (
                gain,
                (gain - half, gain + half),
                error,
                "the model alone, as if steps were independent",
            )
        if self._method == "ratio":
            found = estimate_gain(self._weighed, confidence, find_warm_up=False)
            return found.gain, found.interval, found.standard_error, "the ratio alone, as if it were known"
        place = self._products.chosen()
        total, squares = self._products.sums[place]
        if not total > 0.0:
            nan = float("nan")
            return nan, (nan, nan), nan, "importance sampling: all weights are 0"
        found = estimate_gain(self._products.means[place], confidence, find_warm_up=False)
        words = f"per-step importance sampling over {HORIZONS[place]} steps, worth {total**2 / squares:,.0f}"
        return found.gain, found.interval, found.standard_error, words
