"""Diagnostics: how good an estimate is, in numbers and in words.

Start with `Diagnostics` and `diagnose`. Two of the diagnostics need an explanation.

**Cuts.** After each cut the chain starts again, perhaps where more is earned than usual; `shift_by_cuts`
estimates by how much that moves the gain. Along a segment from s to s', rewards add up to the gain times its
length, plus V(s) - V(s') and noise. So a path of length T that was cut several times earns per step, or per
unit of time,

    g + (sum over its segments of V(s) - V(s')) / T

The sum is near 0 if each segment begins where the last one stopped. Otherwise it grows with the path, and the
shift stays however long the path is.

**What the features cannot express.** With the exact bias, the TD errors r - g + V(s') - V(s) cannot be
predicted from anything that came before. Values from features that miss something leave errors that can be.
How much of their variance is predictable is the square of the Bellman residual, relative to the whole.
`predictable_share` finds it by regression on the errors before and on the current value, so the result is a
lower bound. The regression is judged on data that it was not fitted to: where few rare rewards make
up most of the variance, any fit looks good on its own data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import linalg

from gainbias.evaluation.collection import Collection
from gainbias.evaluation.gain.batches import RatioMeans, unit_of
from gainbias.evaluation.gain.interval import GainEstimate, worth_in_words
from gainbias.evaluation.gain.verdict import Verdict
from gainbias.evaluation.stream import Transitions
from gainbias.evaluation.values.least_squares import UNSEEN_DIRECTION, ValueEstimate
from gainbias.evaluation.values.methods import LearnedRecord, LeastSquares, NoLearning, most_for_least_squares
from gainbias.evaluation.values.sums import dense
from gainbias.notebook import InNotebooks
from gainbias.store import plain
from gainbias.types import Floats

FEWEST_CUTS = 4
"""Fewest cuts that allow a conclusion."""

SURE_OF_CUTS = 4.0
"""A shift of at most this many standard errors is attributed to chance."""

LAGS = 4
"""Number of earlier errors in the regression."""

LEVELS = 16
"""Number of levels, of equal weight, into which the current value is divided."""

FEWEST_RESIDUALS = 2_000
"""Fewest steps that allow a conclusion."""

FOLDS = 4
"""Parts into which the stretch is cut; each is predicted from the others."""

NEGLIGIBLE_RESIDUAL = 1e-9
"""Errors up to this, relative to rewards and values, are rounding."""

SURE_OF_RESIDUALS = 5.0
"""A predictable share of at most this many standard errors is attributed to chance."""

MOST_FOR_ETA = 1_000
"""Most features for which eta is computed."""

NEARLY_CONSTANT = 1e-4
"""Least squares cannot tell a feature from a constant if it changes by less than this share of its size."""

SPANNED = 1e-6
"""Constants are in the span of the features if they leave less than this share of 1."""

PREDICTABLE_SHARE = 0.02
"""A predictable share of the TD errors above this is worth a note."""


@dataclass(frozen=True)
class Diagnostics(InNotebooks):
    """The quality of an estimate: data, accuracy and method in numbers, notes and warnings in words.

    Attributes
    ----------
    algorithm : str
        How the values were learned.
    is_complete : bool
        Whether the run reached its goal. Otherwise the first of the warnings says why not.
    num_chains, num_transitions : int
        Independent chains, and transitions of all of them that were used.
    transient : int
        First steps of each chain that were left out, because rewards were different then.
    effective_sample_size : float
        Number of independent rewards that would give the same accuracy of the gain.
    autocorrelation_time : float
        Of the rewards, in steps; if steps have durations, of the excess of each reward over the gain in the
        same time.
    standard_error : float
        Of the gain; nan if the rewards never change.
    r_hat : float
        Split R-hat over chains: 1 if all halves of all chains agree.
    degrees : int
        Degrees of freedom of the standard error.
    value_batches : int
        Batches behind the intervals of values.
    verdict : Verdict
        How the rewards behave: steady, or the reason why the gain cannot be trusted.
    value_effective_sample_size : float
        Steps, in autocorrelation times of the values.
    mixing_time : float
        Autocorrelation time of the values in steps: about how long the chain remembers.
    eta : float or None
        Estimate of the smallest curvature in the weights, `ConditionNumbers.eta1` of the (scaled) features,
        among weights that the data tell apart. Methods other than least squares estimate it, as the next
        one, from the last transitions. ``None`` for more than 1,000 features, or 500 that are dense.
    constant_in_span : bool or None
        Whether features can express the constant 1; ``None`` for more features than least squares takes.
    predictable_share : float
        Share of the variance of TD errors that could be predicted, at least: 0 if the features express the
        bias. It is the squared Bellman residual of the values, relative to the noise. It is not included
        in the intervals, which are for the projected fixed point.
    source_seconds, library_seconds : float
        Time spent on environment and policy, or on reading, and in this library.
    notes : tuple of str
        What was done and chosen, in words.
    warnings : tuple of str
        Why the answer may be wrong, in words; empty if no reason was found.
    gain_warnings : tuple of str
        Those of the warnings that put the gain in doubt; the others are about values alone.
    duration : float or None
        How long the transitions took together, in the unit of the gain, with the first steps that were left
        out; None if every step counts as one.

    Examples
    --------
    >>> import gainbias as gb
    >>> import numpy as np
    >>> states = np.random.default_rng(0).integers(0, 2, 10_000)
    >>> facts = gb.evaluate_log((states, 1.0 * states)).diagnostics
    >>> facts.num_transitions, facts.constant_in_span, facts.warnings
    (9999, True, ())
    """

    algorithm: str
    is_complete: bool
    num_chains: int
    num_transitions: int
    transient: int
    effective_sample_size: float
    autocorrelation_time: float
    standard_error: float
    r_hat: float
    degrees: int
    value_batches: int
    verdict: Verdict
    value_effective_sample_size: float
    mixing_time: float
    eta: float | None
    constant_in_span: bool | None
    predictable_share: float
    source_seconds: float
    library_seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    gain_warnings: tuple[str, ...] = ()
    duration: float | None = None

    def data_in_words(self) -> str:
        """Return in words how much data was used, and how many independent rewards it is worth."""
        chains = "one chain" if self.num_chains == 1 else f"{self.num_chains} chains"
        worth = worth_in_words(self.effective_sample_size, self.num_transitions)
        return (
            f"{self.num_transitions:,} transitions of {chains}"
            + ("" if np.isnan(self.standard_error) else f", worth {worth} independent rewards for the gain")
            + (f"; first steps left out: {self.transient:,}" if self.transient else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists; ``None`` for infinite numbers and nan."""
        return dict(plain(asdict(self)))


def diagnose(
    collection: Collection, gain: GainEstimate, learned: LearnedRecord, is_complete: bool
) -> Diagnostics:
    """Return the diagnostics of the data that were read."""
    eta, in_span, blind = _curvature(collection, learned)
    rewards, variance, duration = collection.rewards, gain.variance, None
    if isinstance(rewards, RatioMeans):
        variance *= rewards.below() ** 2  # which the gain has in units of time
        duration = rewards.below() * rewards.steps * rewards.num_chains
    share = predictable_share(list(collection.stretch), learned.weights, gain.gain, variance)
    of_gain = [*gain.warnings, *collection.stream.warnings]
    of_gain += _cuts_in_words(collection, gain, learned)
    if collection.visits is not None:
        of_gain += collection.visits.warnings()
    first = len(gain.warnings)
    warnings = [*of_gain[:first], *learned.warnings, *of_gain[first:], *blind]
    notes = [*collection.stream.notes, *gain.notes, *getattr(learned, "notes", ())]
    if share > PREDICTABLE_SHARE and not blind:
        notes.append(_predictable_in_words(share, isinstance(collection.method, LeastSquares)))
    times = learned.effective_sample_size
    source, library = collection.seconds
    return Diagnostics(
        algorithm=collection.method.description,
        is_complete=is_complete,
        num_chains=collection.rewards.num_chains,
        num_transitions=gain.num_steps,
        transient=gain.transient,
        effective_sample_size=gain.effective_sample_size,
        autocorrelation_time=gain.autocorrelation_time,
        standard_error=gain.standard_error,
        r_hat=gain.r_hat,
        degrees=gain.degrees,
        value_batches=learned.num_batches,
        verdict=gain.verdict,
        value_effective_sample_size=times,
        mixing_time=max(1.0, gain.num_steps / times) if times > 0.0 else float("inf"),
        eta=eta,
        constant_in_span=in_span,
        predictable_share=share,
        source_seconds=source,
        library_seconds=library,
        notes=tuple(notes),
        warnings=tuple(warnings),
        gain_warnings=tuple(of_gain),
        duration=duration,
    )


def _cuts_in_words(collection: Collection, gain: GainEstimate, learned: LearnedRecord) -> list[str]:
    shift = shift_by_cuts(list(collection.stretch), learned.weights)
    if shift == 0.0 or abs(shift) <= gain.standard_error:
        return []
    return [
        "after each cut (truncated, or a gap) the chain starts again, which moves the gain by about "
        f"{shift:+.2g}, and the interval does not include that: take off the time limit, or use longer "
        "episodes"
    ]


def _predictable_in_words(share: float, is_exact: bool) -> str:
    return (
        f"{share:.0%} or more of the variance of TD errors can be predicted: "
        + ("" if is_exact else "the values have not converged, or ")
        + "the features, or the observations, do not contain everything that matters. Values and their "
        "intervals are for the best that these features can express (the projected fixed point), "
        "not for the bias itself"
    )


def _curvature(collection: Collection, learned: LearnedRecord) -> tuple[float | None, bool | None, list[str]]:
    """Return eta, whether constants are in the span of the features, and what the features cannot see."""
    if isinstance(collection.method, NoLearning):
        return None, None, []
    method, estimate = _least_squares(collection, learned)
    if method is None or not isinstance(estimate, ValueEstimate):
        return None, None, []
    total, gram = method.sums.totals(0)
    means = total.means
    squares = gram if gram.ndim == 1 else np.diag(gram)
    seen = squares > 0.0
    blind = _blind(collection.stretch, means.features, squares / total.steps)
    in_span = estimate.share_of_constant(total.features, total.steps) > 1.0 - SPANNED
    if np.count_nonzero(seen) > MOST_FOR_ETA:
        return None, in_span, blind
    matrix = dense(means.matrix)[np.ix_(seen, seen)] + np.outer(means.features[seen], means.features[seen])
    return _smallest(matrix), in_span, blind


def _blind(stretch: Iterable[Transitions], means: Floats, squares: Floats) -> list[str]:
    """Return a warning if features hardly change, given transitions, the mean of each and of its square."""
    seen = squares > 0.0
    if (squares - means**2 <= UNSEEN_DIRECTION * squares)[seen].all():
        return ["the features are the same in all states that were seen: they cannot express values"]
    parts = (batch.rows[np.unique(batch.here)] for batch in stretch if isinstance(batch.rows, np.ndarray))
    ends = [(rows.min(axis=0), rows.max(axis=0)) for rows in parts]
    if not ends:
        return []
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    [hardly] = np.nonzero((low < high) & (high - low < NEARLY_CONSTANT * np.maximum(high, -low)))
    return [
        f"feature {column} changes by less than {NEARLY_CONSTANT:g} of its size, and values may miss that: "
        "subtract its mean"
        for column in hardly[:1]
    ]


def _least_squares(
    collection: Collection, learned: LearnedRecord
) -> tuple[LeastSquares | None, LearnedRecord | None]:
    """Return the least squares of the whole run, or of its last transitions if values came otherwise."""
    if isinstance(collection.method, LeastSquares):
        return collection.method, learned
    observed = collection.stream.observed
    if observed.num_features > most_for_least_squares(observed):
        return None, None
    method = LeastSquares(observed, num_chains=1)
    for batch in collection.stretch:
        method.add(batch)
    try:
        return method, method.values()
    except ValueError:  # there are too few
        return None, None


def _smallest(matrix: Floats) -> float:
    sizes = linalg.eigvalsh((matrix + matrix.T) / 2.0)
    kept = sizes[sizes > UNSEEN_DIRECTION * sizes[-1]]
    return float(kept[0]) if len(kept) else 0.0


def shift_by_cuts(stretch: list[Transitions], weights: Floats) -> float:
    """Return by how much cuts of a path raise the mean of its rewards; 0 if that may be due to chance.

    Parameters
    ----------
    stretch : list of Transitions
        Steps that follow each other within a batch, apart from cuts.
    weights : (d,) array

    Examples
    --------
    >>> steps = np.arange(6)
    >>> cut = Transitions(np.zeros(6), steps % 3, steps % 3 + 1, None, steps // 3)
    >>> shift_by_cuts([cut] * 5, np.array([9.0, 5.0, 2.0, 0.0]))
    1.5
    """
    jumps = np.concatenate([_jumps(batch, weights) for batch in stretch])
    if len(jumps) < FEWEST_CUTS or not abs(jumps.mean()) > SURE_OF_CUTS * jumps.std() / np.sqrt(len(jumps)):
        return 0.0
    return float(jumps.sum() / sum(batch.length for batch in stretch))


def _jumps(batch: Transitions, weights: Floats) -> Floats:
    """Return by how much the value rises at each cut."""
    values = weights if batch.rows is None else batch.rows @ weights
    begins = np.flatnonzero(np.diff(batch.segments)) + 1
    return np.asarray(values[batch.here[begins]] - values[batch.after[begins - 1]])


def predictable_share(
    stretch: list[Transitions], weights: Floats, gain: float, reward_variance: float
) -> float:
    """Return the share of the variance of TD errors that was predictable; nan if that cannot be said.

    Parameters
    ----------
    stretch : list of Transitions
        Steps that follow each other within a batch.
    weights : (d,) array
    gain : float
    reward_variance : float
        Of the whole run; with durations, of rewards less the gain times these. If the stretch has a smaller
        variance, because events are rare, the difference counts as unpredictable: as long as no such event
        occurs, values that allow for it are a little off, always in the same direction.

    Returns
    -------
    float
        Between 0 and 1; 0 if nothing was found, or nothing that could not be chance; nan for too few steps,
        or weights that are not numbers.
    """
    if not np.isfinite(weights).all():  # without values there may be fewer weights than states
        return float("nan")
    parts = [part for batch in stretch for part in _regression(batch, weights, gain)]
    if sum(len(errors) for errors, _, _ in parts) < FEWEST_RESIDUALS:
        return float("nan")
    errors, before, value = (np.concatenate([part[k] for part in parts]) for k in range(3))
    saved, whole = saved_by_predicting(errors, np.column_stack([before, _levels(value)]))
    rewards = np.concatenate(
        [batch.rewards if batch.durations is None else batch.surplus(gain) for batch in stretch]
    )
    rounding = NEGLIGIBLE_RESIDUAL * max(np.abs(rewards).max(), np.abs(value).max())
    unit = unit_of(saved)
    spread = float((saved / unit).std()) * unit
    if not (saved.sum() > SURE_OF_RESIDUALS * spread * np.sqrt(len(saved)) and whole.mean() > rounding**2):
        return 0.0
    unseen = max(0.0, reward_variance - float(rewards.var()))
    return float(saved.mean() / (whole.mean() + unseen))


def saved_by_predicting(errors: Floats, regressors: Floats) -> tuple[Floats, Floats]:
    """Return by how much prediction makes the square of each error smaller, and that square; both (m,).

    Errors are predicted from the other folds, and measured from the mean there.
    """
    ends = [-(-k * len(errors) // FOLDS) for k in range(FOLDS + 1)]
    folds = [slice(begin, end) for begin, end in itertools.pairwise(ends)]
    # The least squares of several folds are those of their triangular factors, which are far shorter.
    factors = [np.linalg.qr(np.column_stack([regressors[own], errors[own]]), mode="r") for own in folds]
    saved, whole = np.empty_like(errors), np.empty_like(errors)
    for number, own in enumerate(folds):
        others = np.concatenate(factors[:number] + factors[number + 1 :])
        fitted = np.linalg.lstsq(others[:, :-1], others[:, -1], rcond=None)[0]
        whole[own] = (errors[own] - np.delete(errors, own).mean()) ** 2
        saved[own] = whole[own] - (errors[own] - regressors[own] @ fitted) ** 2
    return saved, whole


def _levels(value: Floats) -> Floats:
    """Return indicators of the level of each value, (m, levels)."""
    edges = np.unique(np.quantile(value, np.linspace(0.0, 1.0, LEVELS + 1)[1:-1]))
    return np.eye(len(edges) + 1)[np.searchsorted(edges, value)]


def _regression(batch: Transitions, weights: Floats, gain: float) -> list[tuple[Floats, Floats, Floats]]:
    """Return for each segment the errors, the `LAGS` errors before each, and the current value."""
    values = weights if batch.rows is None else batch.rows @ weights
    errors = batch.surplus(gain) + values[batch.after] - values[batch.here]
    at_hand = values[batch.here]
    ends = np.flatnonzero(np.diff(batch.segments)) + 1
    parts = []
    for own, value in zip(np.split(errors, ends), np.split(at_hand, ends), strict=True):
        if len(own) > LAGS:
            before = np.lib.stride_tricks.sliding_window_view(own, LAGS)[:-1]
            parts.append((own[LAGS:], before, value[LAGS:]))
    return parts
