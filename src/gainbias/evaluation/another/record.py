"""What an answer for another policy has besides an `Estimate`: its action values, and what it is based on.

`Target` is part of the estimate. `Overlap` says how much of the log is informative about the target;
`judged` turns that into warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain, worth_in_words
from gainbias.evaluation.values.least_squares import ValueEstimate
from gainbias.store import plain
from gainbias.types import Floats, Ints

THE_END = "the end"
"""The state in which an episode ends, in words; all other states are numbers."""

SHOWN_PLACES = 5
"""Most state-actions that are listed or named."""

MOST_MISSING = 0.05
"""State-actions that the target needs and the log lacks may be left out up to this share of the target's
steps; beyond, there is no answer."""

FEW_VISITS = 20
"""A state-action that was seen less often shows little about its own noise."""

FEWEST_TO_JUDGE = 5
"""The data of a state-action that was seen less often hardly show how much it varies."""

UNKNOWN_SHARE = 0.15
"""Values are in doubt if such state-actions make up more than this of the squared weights."""

MOST_ASSUMED = 1.0 / 3.0
"""Largest share of the variance of the gain that may be assumed, not measured. If assumed errors are
one and a half times as large, a nominal 95% interval still holds in 90%: the variance is then 1 + 1.25 / 3
times as large, and 1.96 of the reported standard errors are 1.65 of the true ones."""

FEWEST_EFFECTIVE = 50.0
"""Overlap is weak if the log is worth fewer steps of the target than this."""


class NoAnswer(ValueError):
    """The log cannot answer the question, or not without further data; the message says what is missing."""


@dataclass(frozen=True)
class Place:
    """A state-action, its weight and its visits.

    Attributes
    ----------
    state : object
        The observation; None for all of them.
    action : int
    weight : float
        Share of the target's steps divided by that of the log's; infinite if the log lacks it.
    visits : float
        Steps of the log from there.
    share : float
        Of the target's steps.
    """

    state: Any
    action: int
    weight: float
    visits: float
    share: float


@dataclass(frozen=True, eq=False)
class Overlap:
    """How much of a log is informative about another policy.

    Attributes
    ----------
    effective_sample_size : float
        Steps of the target that the log is worth: the square of the sum of the weights over the sum of their
        squares (Kish).
    steps : int
        Steps of the log.
    largest : tuple of Place
        State-actions with the largest weights.
    missing : tuple of Place
        State-actions that the target needs most and the log lacks; they were left out.
    missing_share : float
        Share of the target's steps that were left out.
    rare_share : float
        Share of the squared weights at state-actions that were seen fewer than 5 times; 0 with features.
    worth : float
        Independent steps of the target that the log is worth: one over the squared standard error of the mean
        of the weights, which takes the memory of the log into account.
    assumed_share : float
        Share of the variance of the gain that is assumed and not measured: that of state-actions seen only
        once, whose noise is assumed to be like that of others, and of those left out, whose values are
        assumed to differ as those of other actions do.
    """

    effective_sample_size: float
    steps: int
    largest: tuple[Place, ...]
    missing: tuple[Place, ...] = ()
    missing_share: float = 0.0
    rare_share: float = 0.0
    worth: float = float("inf")
    assumed_share: float = 0.0

    @property
    def is_weak(self) -> bool:
        """Whether the log is worth too little, or assumptions decide the answer."""
        return (
            self.assumed_share > MOST_ASSUMED
            or min(self.effective_sample_size, self.worth) < FEWEST_EFFECTIVE
        )


@dataclass(frozen=True)
class Alternative:
    """A gain and its interval, by a method that can be chosen by name.

    Attributes
    ----------
    gain : float
    interval : (float, float)
    words : str
        How it was computed.
    """

    gain: float
    interval: tuple[float, float]
    words: str


@dataclass(frozen=True, eq=False)
class Target:
    """The policy that an estimate is about, if it is not the one that made the log.

    Attributes
    ----------
    num_actions : int
    overlap : Overlap
        How much of the log is informative about it.
    action_values : ValueEstimate
        Values of actions, linear in features of state-actions, or one for each that was seen.
    pairs : (k,) array or None
        For tables: which state-actions were seen, ``state * num_actions + action``.
    truncated : Alternative or None
        If overlap is weak: the answer for a target without rarely seen actions.
    disagreement : float
        With features: standard errors by which richer features would move the gain; 0 for tables.
    discount : float or None
        If values are discounted.
    pair_rows : callable or None
        With features: from observations and actions to rows of features. Not stored in files.
    """

    num_actions: int
    overlap: Overlap
    action_values: ValueEstimate
    pairs: Ints | None
    truncated: Alternative | None = None
    disagreement: float = 0.0
    discount: float | None = None
    pair_rows: Callable[[Any, Any], Floats] | None = None

    def rows_of(self, states: Ints, actions: Ints) -> Any:
        """Return rows of features of state-actions, (m, k); they are zeros where nothing was seen."""
        assert self.pairs is not None
        keys = states * self.num_actions + actions
        place = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        seen = (self.pairs[place] == keys) & (actions < self.num_actions)
        rows = np.arange(len(keys))[seen]
        ones = np.ones(len(rows))
        return sparse.csr_array((ones, (rows, place[seen])), (len(keys), len(self.pairs)))

    def in_words(self) -> str:
        """Return in words what the answer is based on."""
        overlap = self.overlap
        worth = worth_in_words(overlap.effective_sample_size, overlap.steps)
        heavy = f", largest weight {overlap.largest[0].weight:.3g}" if overlap.largest else ""
        return (
            f"{overlap.steps:,} steps of the log are worth {worth} of the policy"
            f"{heavy}{', weak' if overlap.is_weak else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists; ``None`` for infinite numbers and nan."""
        overlap = self.overlap
        answer = {
            "num_actions": self.num_actions,
            "words": self.in_words(),
            "effective_sample_size": overlap.effective_sample_size,
            "largest_weights": [vars(place) for place in overlap.largest],
            "missing": [vars(place) for place in overlap.missing],
            "missing_share": overlap.missing_share,
            "rare_share": overlap.rare_share,
            "worth": overlap.worth,
            "assumed_share": overlap.assumed_share,
            "truncated": None if self.truncated is None else vars(self.truncated),
            "disagreement": self.disagreement,
            "discount": self.discount,
        }
        return dict(plain(answer))


def percent(share: float) -> str:
    """Return a share in per cent, with two digits but no powers of ten.

    Examples
    --------
    >>> percent(0.0123), percent(0.9996)
    ('1.2', '100')
    """
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"


def some_of(words: Sequence[str]) -> str:
    """Return the first few words of a list, in a sentence.

    Examples
    --------
    >>> some_of(["a", "b"]), some_of(list("abcdefg"))
    ('a, b', 'a, b, c, d, e, ...')
    """
    return ", ".join(words[:SHOWN_PLACES]) + (", ..." if len(words) > SHOWN_PLACES else "")


def places_in_words(places: Sequence[Place]) -> str:
    """Return state-actions in words.

    Examples
    --------
    >>> places_in_words([Place(3, 1, 2.5, 40.0, 0.2)])
    'action 1 in state 3 (20% of its steps)'
    """
    return ", ".join(f"{_place_in_words(place)} ({percent(place.share)}% of its steps)" for place in places)


def _place_in_words(place: Place) -> str:
    if place.state == THE_END:
        return "what follows the end of an episode"
    where = "any state" if place.state is None else f"state {place.state}"
    return f"action {place.action} in {where}"


def kish(weights: Floats, counts: Floats) -> float:
    """Return the number of equal weights that are worth as much as these, each taken `counts` times."""
    squares = float((counts * weights**2).sum())
    return float((counts * weights).sum()) ** 2 / squares if squares > 0.0 else 0.0


def widened(gain: GainEstimate, factor: float, added: float = 0.0) -> GainEstimate:
    """Return an estimate with its standard error and interval enlarged by a factor and by a further error.

    An interval may reach further to one side; a further error has no sides.
    """
    error = factor * gain.standard_error
    down, up = (factor * abs(end - gain.gain) for end in gain.interval)
    if added > 0.0 < error:
        further = added * (down + up) / 2.0 / error
        down, up = float(np.hypot(down, further)), float(np.hypot(up, further))
        error = float(np.hypot(error, added))
    return replace(gain, interval=(gain.gain - down, gain.gain + up), standard_error=error)


def assumed_part(measured: GainEstimate, whole: GainEstimate) -> float:
    """Return the share of a variance that was not measured."""
    if not whole.standard_error > 0.0:
        return 0.0
    return 1.0 - (measured.standard_error / whole.standard_error) ** 2


def worth_of(weights: BatchMeans) -> float:
    """Return how many independent steps of the target are worth as much as steps with these weights."""
    error = estimate_gain(weights, find_warm_up=False).standard_error
    return (weights.mean / error) ** 2 if error > 0.0 else float("inf")


def weak_in_words(overlap: Overlap, truncated: Alternative | None) -> list[str]:
    """Return a warning if overlap is weak, with the answer without rarely seen actions."""
    if not overlap.is_weak:
        return []
    reasons, worth = [], min(overlap.effective_sample_size, overlap.worth)
    if worth < FEWEST_EFFECTIVE:
        reasons.append(
            f"the {overlap.steps:,} steps of the log are worth {worth:,.0f} steps of the target: "
            f"{_heaviest(overlap)}"
        )
    if overlap.assumed_share > MOST_ASSUMED:
        reasons.append(
            f"{percent(overlap.assumed_share)}% of the squared error are assumed and not measured, because "
            "what the target does was seen once or never"
        )
    words = f"weak overlap: {'; '.join(reasons)}. Intervals may be too narrow"
    if truncated is not None:
        low, high = truncated.interval
        words += f"; {truncated.words}, it is {truncated.gain:.5g} ({low:.5g} to {high:.5g})"
    return [words]


def _heaviest(overlap: Overlap) -> str:
    return ", ".join(
        f"weight {place.weight:.3g} at action {place.action} in state {place.state}, seen "
        f"{place.visits:,.0f} time{'s' if place.visits != 1 else ''}"
        for place in overlap.largest[:3]
    )


def left_out_in_words(overlap: Overlap, error: float) -> tuple[list[str], list[str]]:
    """Return warnings and notes about state-actions that the target needs and the log lacks.

    Parameters
    ----------
    overlap : Overlap
    error : float
        What it adds to the standard error of the gain.
    """
    if not overlap.missing_share > 0.0:
        return [], []
    words = (
        f"truncated: {percent(overlap.missing_share)}% of the target's steps are at state-actions that the "
        f"log lacks, and were left out: {places_in_words(overlap.missing)}. If these actions differ from the "
        f"others of their states as those in the log do, that moves the gain by about {error:.2g}, which is "
        "part of the interval"
    )
    return ([words], []) if overlap.assumed_share > MOST_ASSUMED else ([], [words])


def rare_in_words(overlap: Overlap) -> list[str]:
    """Return a warning about values if many of them are based on a few steps each."""
    if not overlap.rare_share > UNKNOWN_SHARE:
        return []
    return [
        f"state-actions that were seen fewer than {FEWEST_TO_JUDGE} times make up "
        f"{percent(overlap.rare_share)}% of the squared weights: intervals of values may be too narrow "
        "there"
    ]


def heaviest_first(weights: Floats, most: int = SHOWN_PLACES) -> Ints:
    """Return the positions of the largest weights."""
    return np.argsort(-weights, kind="stable")[:most].astype(np.int64)
