"""What is known about the quality of an estimate, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import linalg

from gainbias.evaluation.collection import Collection
from gainbias.evaluation.cuts import shift_by_cuts
from gainbias.evaluation.intervals import GainEstimate
from gainbias.evaluation.methods import LearnedRecord, LeastSquares
from gainbias.evaluation.residuals import predictable_share
from gainbias.evaluation.values import SINGULAR, ValueEstimate, dense
from gainbias.features.matrix import FloatArray

MOST_FOR_ETA = 1_000
"""For more features eta is not computed."""

SPANNED = 1e-6
"""Constants are in the span of the features if they leave less than this share of 1."""

WORTH_SAYING = 0.02
"""A predictable share of the TD errors above this is spoken of."""


@dataclass(frozen=True)
class Diagnostics:
    """How an estimate came about, and what speaks for and against it.

    Attributes
    ----------
    algorithm : str
        How the values were learned.
    is_complete : bool
        Whether the run went on to its goal. Otherwise the first of the warnings says why not.
    num_chains, num_transitions : int
        Independent chains, and transitions of all of them that were used.
    transient : int
        First steps of each chain that were left out, because rewards were different then.
    effective_sample_size : float
        So many independent rewards would give the same accuracy of the gain.
    autocorrelation_time : float
        Of the rewards, in steps.
    standard_error : float
        Of the gain.
    r_hat : float
        Split R-hat over chains: 1 if all halves of all chains agree.
    num_batches, value_batches : int
        Batches behind the interval of the gain and behind those of values.
    value_effective_sample_size : float
        Steps, in autocorrelation times of the values.
    mixing_time : float
        Autocorrelation time of the values in steps: about how long the chain remembers.
    eta : float or None
        Estimate of the smallest curvature in the weights, `ConditionNumbers.eta1` of the (scaled) features,
        among weights that the data tell apart; ``None`` if it was not computed.
    constant_in_span : bool or None
        Whether features can express the constant 1; ``None`` if it was not looked at.
    predictable_share : float
        Share of the variance of TD errors that could be predicted, at least: 0 if the features express the
        bias. It is the squared Bellman residual of the values, relative to the noise, and no part of the
        intervals, which are for the projected fixed point.
    source_seconds, library_seconds : float
        Time spent on environment and policy, or on reading, and in this library.
    notes : tuple of str
        What was done and chosen, in words.
    warnings : tuple of str
        Why the answer may be wrong, in words; empty if nothing speaks against it.

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
    num_batches: int
    value_batches: int
    value_effective_sample_size: float
    mixing_time: float
    eta: float | None
    constant_in_span: bool | None
    predictable_share: float
    source_seconds: float
    library_seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def data_in_words(self) -> str:
        """Say how much was used, and what it is worth."""
        chains = "one chain" if self.num_chains == 1 else f"{self.num_chains} chains"
        worth = self.effective_sample_size
        return (
            f"{self.num_transitions:,} transitions of {chains}, worth "
            f"{f'{worth:,.0f}' if np.isfinite(worth) else 'any number of'} independent rewards for the gain"
            + (f"; the first {self.transient:,} steps left out" if self.transient else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return asdict(self) | {"notes": list(self.notes), "warnings": list(self.warnings)}


def diagnose(
    collection: Collection, gain: GainEstimate, learned: LearnedRecord, cut_short: list[str]
) -> Diagnostics:
    """Gather all diagnostics of what was read."""
    eta, in_span, flat = None, None, False
    if isinstance(collection.method, LeastSquares) and isinstance(learned, ValueEstimate):
        eta, in_span, flat = _curvature(collection.method, learned)
    reward_variance = gain.standard_error**2 * gain.effective_sample_size
    share = predictable_share(list(collection.stretch), learned.weights, gain.gain, reward_variance)
    warnings = [*cut_short, *gain.warnings, *learned.warnings, *_cuts_in_words(collection, gain, learned)]
    if collection.visits is not None:
        warnings += collection.visits.warnings()
    if flat:
        warnings.append("the features are the same in all states that were seen: they cannot tell values")
    notes = [*collection.stream.notes, *getattr(learned, "notes", ())]
    if share > WORTH_SAYING and not flat:
        notes.append(_predictable_in_words(share, isinstance(collection.method, LeastSquares)))
    times = learned.effective_sample_size
    source, library = collection.seconds
    return Diagnostics(
        algorithm=collection.method.description,
        is_complete=not cut_short,
        num_chains=collection.rewards.num_chains,
        num_transitions=gain.num_steps,
        transient=gain.transient,
        effective_sample_size=gain.effective_sample_size,
        autocorrelation_time=gain.autocorrelation_time,
        standard_error=gain.standard_error,
        r_hat=gain.r_hat,
        num_batches=gain.num_batches,
        value_batches=learned.num_batches,
        value_effective_sample_size=times,
        mixing_time=max(1.0, gain.num_steps / times) if times > 0.0 else float("inf"),
        eta=eta,
        constant_in_span=in_span,
        predictable_share=share,
        source_seconds=source,
        library_seconds=library,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _cuts_in_words(collection: Collection, gain: GainEstimate, learned: LearnedRecord) -> list[str]:
    shift = shift_by_cuts(list(collection.stretch), learned.weights)
    if not abs(shift) > gain.standard_error:
        return []
    return [
        "after each cut (truncated, or a gap) the chain starts again, which moves the gain by about "
        f"{shift:+.2g}, and the interval does not know of that: take off the time limit, or use longer "
        "episodes"
    ]


def _predictable_in_words(share: float, is_exact: bool) -> str:
    return (
        f"{share:.0%} or more of the variance of TD errors can be predicted: "
        + ("" if is_exact else "the values have not converged, or ")
        + "the features, or the observations, do not tell all that matters. Values and their intervals are "
        "for the best that these features can express (the projected fixed point), not for the bias itself"
    )


def _curvature(method: LeastSquares, learned: ValueEstimate) -> tuple[float | None, bool, bool]:
    """Return eta, whether constants are in the span of the features, and whether features never change."""
    total, gram = method.sums.totals(0)
    means = total.means
    squares = gram if gram.ndim == 1 else np.diag(gram)
    seen = squares > 0.0
    spread = float(squares.sum() / total.steps)
    flat = spread - float(means.features @ means.features) <= SINGULAR * spread
    in_span = learned.share_of_constant(total.features, total.steps) > 1.0 - SPANNED
    if np.count_nonzero(seen) > MOST_FOR_ETA:
        return None, in_span, flat
    matrix = dense(means.matrix)[np.ix_(seen, seen)] + np.outer(means.features[seen], means.features[seen])
    return _smallest(matrix), in_span, flat


def _smallest(matrix: FloatArray) -> float:
    sizes = linalg.eigvalsh((matrix + matrix.T) / 2.0)
    kept = sizes[sizes > SINGULAR * sizes[-1]]
    return float(kept[0]) if len(kept) else 0.0
