"""`compare`: the difference of two gains, paired by common random numbers.

Both policies are followed with the same random numbers, and `_Pairing` subtracts their rewards step by step.
The interval is that of the mean of these differences; if steps have durations, that of the difference of both
ratios (`RatioDifference`). `Comparison` is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.evaluation.another.answer import check_question, evaluate_targets, reading_of
from gainbias.evaluation.another.chances import ActionFeatures
from gainbias.evaluation.another.passes import Asked
from gainbias.evaluation.diagnostics import shift_by_cuts
from gainbias.evaluation.estimate import Estimate, as_precise, in_percent
from gainbias.evaluation.gain.batches import BatchMeans, RatioDifference, RatioMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.observations import Choice
from gainbias.evaluation.reading import FollowingPlan, check_confidence, check_time_limit, estimate_of, follow
from gainbias.evaluation.sources.environments import Environment, may_look
from gainbias.evaluation.sources.policies import Policy, has_choice
from gainbias.evaluation.stream import ENDS_ARE_STEPS, OnTermination
from gainbias.evaluation.values.methods import Learning, as_learning
from gainbias.notebook import Card, InNotebooks, card_of
from gainbias.progress import Interruptions, Watch
from gainbias.store import plain
from gainbias.types import Floats

if TYPE_CHECKING:
    import pandas

OPEN = "not clear which is better"
"""The verdict if the interval contains 0."""

HARDLY_ANY = 1.05
"""A saving up to this factor is called none."""


def compare(
    env: Environment,
    policy_a: Policy,
    policy_b: Policy,
    *,
    features: Choice = "auto",
    algorithm: Learning | Algorithm | str = "auto",
    num_steps: int = 100_000,
    chains: int | None = None,
    seed: int = 0,
    on_termination: OnTermination = "zero",
    duration: str | None = None,
    confidence: float = 0.95,
    time_limit: float | None = None,
    deterministic: bool | None = None,
) -> Comparison:
    """Estimate by how much the gains of two policies differ.

    Both are followed one after the other, with the same seeds of environments and actions, so that chance
    favours neither. Rewards are then subtracted step by step. The luck that both policies share cancels
    out, and the interval accounts for the rest.

    Parameters
    ----------
    env, features, algorithm, chains, seed, on_termination, duration, confidence
        As for `evaluate`.
    policy_a, policy_b : callable, object with a method predict, array_like or "random"
        The policies.
    num_steps : int
        Transitions of all chains together, for each policy.
    time_limit : float, optional
        Seconds for both together, half for each.
    deterministic : bool, optional
        As for `evaluate`; applies to policies that are agents or modules.

    Returns
    -------
    Comparison
        If the run of the first policy is cut short, that of the second has the same length; if that of the
        second is cut short, only the steps that both took are compared.

    Examples
    --------
    >>> import gainbias as gb
    >>> comparison = gb.compare("FrozenLake-v1", "random", [0] * 16, num_steps=20_000)
    >>> comparison.first.gain > comparison.second.gain
    True
    """
    looks = may_look(env, policy_a) or may_look(env, policy_b)
    plan = FollowingPlan(
        features=features,
        learning=as_learning(algorithm),
        num_steps=num_steps,
        target_half_width=None,
        chains=1 if chains is None and looks else chains,
        seed=seed,
        on_termination=on_termination,
        confidence=confidence,
        deterministic=deterministic,
        duration=duration,
    )
    check_time_limit(time_limit)
    half = None if time_limit is None else time_limit / 2
    with Interruptions() as interruptions, _Pairing() as pairing:
        with Watch(half) as watch:
            own = _as_asked(plan, policy_a, policy_b)
            first, first_cut = follow(env, policy_a, own, watch, interruptions, pairing.keep)
        made = first.rewards.num_chains * first.rewards.steps
        plan = replace(plan, chains=first.rewards.num_chains, num_steps=made)
        pairing.turn(first.rewards.num_chains)
        with Watch(half) as watch:
            own = _as_asked(plan, policy_b, policy_a)
            second, second_cut = follow(env, policy_b, own, watch, interruptions, pairing.subtract)
        estimates = [
            estimate_of(collection, confidence, cut)
            for collection, cut in ((first, first_cut), (second, second_cut))
        ]
    paired = estimate_gain(pairing.differences, confidence)
    shifts = [
        shift_by_cuts(list(collection.stretch), estimate.learned.weights)
        for collection, estimate in zip((first, second), estimates, strict=True)
    ]
    return _comparison(paired, shifts, *estimates)


def compare_policies_on_log(
    log: Any,
    policy_a: Policy,
    policy_b: Policy,
    *,
    action: str | None = None,
    behaviour: Policy | str | None = None,
    ratio_features: Choice | ActionFeatures | None = None,
    features: Choice | ActionFeatures = "auto",
    confidence: float = 0.95,
    time_limit: float | None = None,
    **columns: Any,
) -> Comparison:
    """Estimate by how much the gains of two policies differ, from the log of a third one.

    Both answers are found from the same rows, and share much of their noise. So the interval is that of the
    difference of their errors at each step, and often far narrower than two separate answers would suggest.

    Parameters
    ----------
    log, action, behaviour, ratio_features, features, confidence, time_limit
        As for `evaluate_log`.
    policy_a, policy_b : callable, object with a method predict, array_like or "random"
        The policies.
    **columns
        Further arguments of `evaluate_log` about the log: `state`, `reward`, `reward_rate`, `time`,
        `duration`, `end`, `per`, `columns`, `num_states`, `gaps` and `on_termination`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import gainbias as gb
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.integers(0, 5, 20_000), rng.integers(0, 2, 20_000)
    >>> log = {"state": states, "a": actions, "reward": states + 0.1 * actions}
    >>> comparison = gb.compare_policies_on_log(log, [1] * 5, [0] * 5, action="a")
    >>> comparison.verdict, round(comparison.difference, 1)
    ('the first is better', 0.1)
    """
    check_confidence(confidence)
    check_time_limit(time_limit)
    check_question(log, action, Learning(), None, None)
    reading, made_by = reading_of(log, action=action, behaviour=behaviour, features=features, **columns)
    asked = Asked([policy_a, policy_b], made_by, ratio_features, confidence=confidence, time_limit=time_limit)
    (first, second), apart = evaluate_targets(reading, asked)
    assert apart is not None
    return _comparison(apart, [0.0, 0.0], first, second)


def _as_asked(plan: FollowingPlan, policy: Policy, other: Policy) -> FollowingPlan:
    """Return the plan for one of two policies: `deterministic` applies only to an agent or a module."""
    only_other = not has_choice(policy) and has_choice(other)
    return replace(plan, deterministic=None) if only_other else plan


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(InNotebooks):
    """How much more one policy earns than another; made by `compare` and `compare_policies_on_log`.

    Attributes
    ----------
    difference : float
        Gain of the first policy, less that of the second; `per` says what it is per.
    interval : (float, float)
        Confidence interval of the difference. Both ends are nan if the difference was the same in every step:
        then there is none.
    confidence : float
        Nominal coverage.
    standard_error : float
        Of the difference.
    saving : float
        How many times as long independent runs would have to be for the same standard error; below 1 if
        pairing did harm.
    first, second : Estimate
        Of each policy by itself.
    warnings : tuple of str
        Why the answer may be wrong: all warnings of both estimates, with the policy they are about, and those
        of the difference.
    doubts : tuple of str
        Those of the warnings that put the difference in doubt; the others are about values of states.
    notes : tuple of str
        How the data were read, for both policies, and how the difference was computed, if that matters.

    Examples
    --------
    >>> import gainbias as gb
    >>> comparison = gb.compare("FrozenLake-v1", "random", [0] * 16, num_steps=20_000)
    >>> comparison.difference == comparison.first.gain - comparison.second.gain
    True
    """

    difference: float
    interval: tuple[float, float]
    confidence: float
    standard_error: float
    saving: float
    first: Estimate
    second: Estimate
    warnings: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def per(self) -> str:
        """The unit of time of the gains, or "step" for gains per step."""
        return self.first.per

    @property
    def is_clear(self) -> bool:
        """Whether the interval says which policy is better, and there are no doubts."""
        return self.verdict != OPEN and not self.doubts

    @property
    def verdict(self) -> str:
        """Which policy is better by the interval, in words."""
        low, high = self.interval
        return "the first is better" if low > 0.0 else "the second is better" if high < 0.0 else OPEN

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON; ``None`` for infinite numbers and nan."""
        answer = {
            "difference": self.difference,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "per": self.per,
            "verdict": self.verdict,
            "is_clear": self.is_clear,
            "standard_error": self.standard_error,
            "saving": self.saving,
            "warnings": list(self.warnings),
            "doubts": list(self.doubts),
            "notes": list(self.notes),
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
        }
        return dict(plain(answer))

    def __repr__(self) -> str:
        low, high = self.interval
        gains = as_precise((self.first.gain, self.second.gain), high - low)
        apart, first, last = as_precise((self.difference, low, high), high - low, sign="+")
        ends = "no interval" if np.isnan(low) else f"{in_percent(self.confidence)} interval {first} to {last}"
        how = "by common random numbers" if self.first.target is None else "on the same rows"
        verdict = self.verdict + doubt_in_words(self.verdict, self.doubts)
        lines = [
            f"difference  {apart} per {self.per}, {ends}: {verdict}",
            "gains       {} and {}".format(*gains),
            f"pairing     {how}: {saving_in_words(self.saving, self.difference)}",
            *(f"warning     {warning}" for warning in self.warnings),
            *(f"note        {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _card(self) -> Card:
        return card_of(self)._replace(is_good=not self.doubts)

    def to_frame(self) -> pandas.DataFrame:
        """Return a table of the difference and of both gains, with value, low and high. Needs pandas.

        Examples
        --------
        >>> import gainbias as gb
        >>> gb.compare("FrozenLake-v1", "random", [0] * 16, num_steps=5_000).to_frame().index.tolist()
        ['difference', 'first', 'second']
        """
        import pandas

        rows = [(self.difference, *self.interval)]
        rows += [(one.gain, *one.gain_interval) for one in (self.first, self.second)]
        names = ["difference", "first", "second"]
        return pandas.DataFrame(rows, index=names, columns=["value", "low", "high"])


def doubt_in_words(verdict: str, doubts: Sequence[str]) -> str:
    """Return what to add to a verdict if there are doubts.

    Examples
    --------
    >>> doubt_in_words("the first is better", ["first policy: too short"])
    ', but mind the warnings'
    """
    return ", but mind the warnings" if doubts and verdict != OPEN else ""


def saving_in_words(saving: float | None, difference: float) -> str:
    """Return how much pairing saved, in words; None stands for a saving that is infinite.

    Examples
    --------
    >>> saving_in_words(3.14159, 0.2)
    'as accurate as independent runs of 3.14 times the length'
    >>> saving_in_words(0.98, 0.2)
    'pairing saves nothing here: independent runs of 0.98 times the length are as accurate'
    """
    if saving is None or saving == float("inf"):
        return "both earned the same in every step" if difference == 0.0 else "the difference never changed"
    if saving <= HARDLY_ANY:
        return (
            f"pairing saves nothing here: independent runs of {saving:.3g} times the length are as accurate"
        )
    return f"as accurate as independent runs of {saving:.3g} times the length"


class _Pairing:
    """The paired rewards of two policies, step by step; those of the first are kept in a temporary file."""

    _plain: BatchMeans | None = None
    _timed: tuple[RatioMeans, RatioMeans] | None = None

    def __enter__(self) -> Self:
        self._file = TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keep(self, rewards: Floats, durations: Floats | None = None) -> None:
        """Take the next rewards of the first policy, (chains, count), and durations if there are any."""
        both = rewards if durations is None else np.concatenate([rewards, durations])
        self._file.write(both.T.tobytes())

    def turn(self, num_chains: int) -> None:
        """Rewind to the first rewards, before the second policy is followed."""
        self._file.seek(0)
        self._num_chains = num_chains

    def subtract(self, rewards: Floats, durations: Floats | None = None) -> None:
        """Take the next rewards of the second policy, (chains, count)."""
        chains, count = rewards.shape
        width = self._num_chains * (1 if durations is None else 2)
        kept = np.frombuffer(self._file.read(count * width * rewards.itemsize)).reshape(count, width).T
        first = kept[:chains]
        if durations is not None:
            if self._timed is None:
                self._timed = RatioMeans(chains), RatioMeans(chains)
            self._timed[0].add(first, kept[self._num_chains :][:chains])
            self._timed[1].add(rewards, durations)
            return
        if self._plain is None:
            self._plain = BatchMeans(chains)
        self._plain.add(first - rewards)
        # Rounding is relative to what was subtracted.
        self._plain.largest = max(self._plain.largest, np.abs(first).max(), np.abs(rewards).max())

    @property
    def differences(self) -> BatchMeans | RatioDifference:
        """The differences, once the second policy has taken some steps."""
        if self._timed is not None:
            return RatioDifference(*self._timed)
        assert self._plain is not None
        return self._plain


def _comparison(paired: GainEstimate, shifts: list[float], first: Estimate, second: Estimate) -> Comparison:
    apart = float(np.nansum([estimate.diagnostics.standard_error**2 for estimate in (first, second)]))
    together = paired.standard_error**2 if paired.has_interval else 0.0
    of_both = [*paired.warnings, *_cuts_in_words(paired, *shifts)] if paired.has_interval else [_same(paired)]
    parts = [("first", first.diagnostics), ("second", second.diagnostics)]
    doubts = [f"{name} policy: {warning}" for name, facts in parts for warning in facts.gain_warnings]
    warnings = [f"{name} policy: {warning}" for name, facts in parts for warning in facts.warnings]
    return Comparison(
        difference=paired.gain,
        interval=paired.interval,
        confidence=paired.confidence,
        standard_error=paired.standard_error,
        saving=apart / together if together > 0.0 else float("inf"),
        first=first,
        second=second,
        warnings=(*warnings, *of_both),
        doubts=(*doubts, *of_both),
        notes=(*_shared_notes(first, second), *paired.notes),
    )


def _shared_notes(first: Estimate, second: Estimate) -> list[str]:
    """Return the notes that both estimates have, and that ends count as steps if they do for either."""
    one, other = first.diagnostics.notes, second.diagnostics.notes
    both = dict.fromkeys((*one, *other))
    return [note for note in both if (note in one and note in other) or note == ENDS_ARE_STEPS]


def _same(paired: GainEstimate) -> str:
    return (
        "both policies earned the same in every step"
        if paired.gain == 0.0
        else "the difference was the same in every step"
    ) + ", so there is no interval: the run does not show how they compare in states that it did not reach"


def _cuts_in_words(paired: GainEstimate, first: float, second: float) -> list[str]:
    """Return a warning if cuts, which shift the gains by `first` and `second`, also shift the difference."""
    if first == second or abs(first - second) <= paired.standard_error:
        return []
    return [
        "after each cut (truncated) the chain starts again, which moves the difference by about "
        f"{first - second:+.2g}, and the interval does not include that: take off the time limit, or use "
        "longer episodes"
    ]
