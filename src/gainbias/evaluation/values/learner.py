"""`Learner`: relative values by any algorithm of the package, or of the user, from transitions as they come.

The compiled steps of the engine run over each chain of data (over each pair, if the algorithm samples two
chains); that is in the module `learning`. The answer, `LearnedValues`, is at any time the mean of the
weights over the last half of the steps, over all chains. Its error comes from copies of the algorithm, each
of which leaves out a part of the transitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from gainbias.algorithms.algorithm import Algorithm, Setting
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import StepSize, make_lanes
from gainbias.engine.schedules import as_schedule
from gainbias.evaluation.gain.spectrum import autocorrelation_time
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream import Transitions
from gainbias.evaluation.values.learning import (
    LEVEL,
    MOST_COPIED,
    PILOT,
    AveragedWeights,
    Diverged,
    Follower,
    MovePiece,
    Pilot,
    Reader,
    StepSizes,
    automatic_steps,
    first_of_each,
)
from gainbias.evaluation.values.least_squares import skewed_interval, too_short
from gainbias.types import Floats

ENOUGH_VISITS = 20
"""If its features were visited less often than this, a value has no interval."""

LARGEST_STEP_EFFECT = 2.0
"""Standard errors by which values may change with smaller steps without a warning."""

DISAGREEMENT = 0.999
"""Chains disagree if they differ by more than chance allows with this probability."""

SMALLEST_LEVEL = 2.0**-20
"""Smallest first step size that is tried when weights diverge."""

DIVERGED_BEYOND = 10.0
"""Values above this multiple of the range of the rewards, times the number of steps, have diverged."""


class Learner:
    """An algorithm that learns from batches of transitions.

    Parameters
    ----------
    algorithm : str or Algorithm
        An id of `ALGORITHMS`, or your own algorithm.
    observed : ObservationMap
        How observations became features.
    num_chains : int
        Independent chains of data; algorithms that sample two chains take them in pairs.
    step_size : "auto", schedule, float or array
        ``"auto"`` finds step sizes from the first transitions, and halves them if weights diverge. Step sizes
        are for features divided by the length of the longest row of the first transitions; those given by
        the user, only if that is above 1.
    params : mapping, optional
        Parameters of the algorithm by name.

    Attributes
    ----------
    notes : list of str
        What a user should know, in words.

    Examples
    --------
    >>> from gainbias.evaluation.stream import Transitions
    >>> states = np.random.default_rng(0).integers(0, 2, 50_001)
    >>> learner = Learner("single-chain", ObservationMap("two states", 2))
    >>> segments = np.zeros(50_000, dtype=np.int64)
    >>> learner.add(Transitions(1.0 * states[:-1], states[:-1], states[1:], None, segments))
    >>> learner.values().values(np.eye(2)).round(1)
    array([-0.5,  0.5])
    """

    def __init__(
        self,
        algorithm: Algorithm | str,
        observed: ObservationMap,
        *,
        num_chains: int = 1,
        step_size: StepSize | Literal["auto"] = "auto",
        params: Mapping[str, float] | None = None,
    ) -> None:
        self.algorithm, self.observed = as_algorithm(algorithm), observed
        _check(self.algorithm, observed, num_chains)
        self._params = _one_lane(self.algorithm, params or {})
        self._given = None if isinstance(step_size, str) and step_size == "auto" else as_schedule(step_size)
        together = self.algorithm.chains
        self._teams = [range(i, i + together) for i in range(0, num_chains - together + 1, together)]
        self._team_of = {chain: team for team, chains in enumerate(self._teams) for chain in chains}
        self._waiting: list[deque[Transitions]] = [deque() for _ in range(num_chains)]
        self._pilot: list[Transitions] = []
        self._level = LEVEL
        self._followers: list[Follower] = []
        self._failed = ""
        self.notes: list[str] = []
        if left := num_chains % together:
            self.notes.append(
                f"{self.algorithm.name} takes chains in pairs: {left} of {num_chains} was not used"
            )

    def add(self, batch: Transitions) -> None:
        """Learn from the next transitions of a chain; batches of several chains take turns."""
        if self._failed:
            return
        if self._followers:
            self._learn([batch])
            return
        self._pilot.append(batch)
        counts = np.zeros(len(self._waiting))
        for seen in self._pilot:
            counts[seen.chain] += len(seen)
        if counts.min() >= PILOT:
            self._begin()

    def values(self, transient: int = 0, confidence: float = 0.95) -> LearnedValues:
        """Return what has been learned so far; more transitions may follow.

        Parameters
        ----------
        transient : int
            Initial steps of each chain to leave out; the first half of the steps is always left out.
        confidence : float
            Nominal coverage of the intervals.

        Raises
        ------
        ValueError
            If there are too few steps, or if weights diverged with the user's step sizes, or with all step
            sizes tried.
        """
        if not self._followers:
            if not self._pilot:
                raise ValueError("there is no transition to learn from")
            self._begin()
        if self._failed:
            raise ValueError(self._failed)
        probes = [self._reader.piece(batch, batch) for batch in first_of_each(self._pilot)]
        return learned_values(
            self._followers,
            self._reader.scale,
            probes,
            transient=transient,
            confidence=confidence,
            notes=self.notes,
        )

    @property
    def description(self) -> str:
        """Algorithm and step sizes, in words."""
        return self.algorithm.name + (f", step size {self._steps.description}" if self._followers else "")

    @property
    def kind(self) -> str:
        """Kind of the features: "dense", "sparse" or "tabular"."""
        rows = self._pilot[0].rows
        return "tabular" if rows is None else "dense" if isinstance(rows, np.ndarray) else "sparse"

    def _begin(self) -> None:
        """Choose step sizes, and learn from the transitions that were kept for that."""
        pilot = Pilot.of(first_of_each(self._pilot), self.observed.num_features)
        automatic = self._given is None
        scale = pilot.longest if automatic else max(1.0, pilot.longest)
        self._reader = Reader(self.observed.num_features, scale)
        if self._given is None:
            self._steps = automatic_steps(self.algorithm, pilot, self._level)
        else:
            self._steps = StepSizes([self._given], [1.0], [], str(self._given))
        bound, longest = (
            None if spread is None else DIVERGED_BEYOND * spread if spread > 0.0 else np.inf
            for spread in (pilot.reward_range, pilot.duration_range)
        )
        assert bound is not None
        form = self.algorithm.form_for(self.kind)
        d = self.observed.num_features
        setting = Setting(
            weights=np.zeros((d, 1) if form.laned else d),
            ones_weights=np.ones(d) if self.observed.is_tabular else None,
            max_abs_reward=pilot.max_abs_reward,
        )
        self._followers = [
            Follower(self.algorithm, self.kind, setting, self._params, self._steps, bound, longest)
            for _ in self._teams
        ]
        self._learn(self._pilot)

    def _learn(self, batches: list[Transitions]) -> None:
        try:
            for batch in batches:
                if batch.chain in self._team_of:
                    self._waiting[batch.chain].append(batch)
                    self._advance(self._team_of[batch.chain])
        except Diverged:
            self._begin_smaller()

    def _advance(self, team: int) -> None:
        """Learn from the transitions that all chains of a team have."""
        first, second = self._waiting[self._teams[team][0]], self._waiting[self._teams[team][-1]]
        while first and second:
            count = min(len(first[0]), len(second[0]))
            piece = self._reader.piece(first[0].part(slice(count)), second[0].part(slice(count)))
            for queue in [first] if first is second else [first, second]:
                batch = queue.popleft()
                if len(batch) > count:
                    queue.appendleft(batch.part(slice(count, None)))
            self._followers[team].advance(piece)

    def _begin_smaller(self) -> None:
        """Start again from the first transitions, with half the step sizes."""
        steps = max(follower.steps for follower in self._followers)
        name, chosen = self.algorithm.name, self._steps.description
        if len(self._steps.schedules) == 1 or self._level <= SMALLEST_LEVEL:
            self._failed = (
                f"{name} diverged within {steps} steps (step size: {chosen}): take smaller ones, or another "
                "algorithm"
            )
            return
        self._level /= 2.0
        self.notes.append(f"weights diverged within {steps} steps: started again with half the step sizes")
        for queue in self._waiting:
            queue.clear()
        self._begin()


def _check(algorithm: Algorithm, observed: ObservationMap, num_chains: int) -> None:
    if algorithm.declared.tabular_only and not observed.is_tabular:
        raise ValueError(
            f"{algorithm.name} exists for tabular features only, found other ones ({observed.description}): "
            "use another algorithm"
        )
    if num_chains < algorithm.chains:
        raise ValueError(
            f"{algorithm.name} needs {algorithm.chains} independent chains of data, found {num_chains}: "
            "sample more copies of the environment (chains=2), or use single-chain"
        )


def _one_lane(algorithm: Algorithm, params: Mapping[str, Any]) -> dict[str, float]:
    """Return the parameters of the algorithm, all of them and checked."""
    lanes = make_lanes(algorithm, 0, 1.0, params)
    if len(lanes) > 1:
        raise ValueError(f"each parameter must have a single value, found {dict(params)}")
    return dict(lanes[0].params)


@dataclass(frozen=True, eq=False)
class LearnedValues:
    """Relative values, linear in features, that an algorithm has learned.

    Attributes
    ----------
    weights : (d,) array
        Mean of the weights over the last half of the steps.
    offset : float
        What is added to phi^T theta so that values have mean 0 in the long run.
    gain : float
        The algorithm's own estimate, or the mean of the rewards if it has none, or if steps have durations.
    step_size : str
        Step sizes in words.
    confidence : float
        Nominal coverage of the intervals.
    effective_sample_size : float
        Steps of all chains, in autocorrelation times of the values along the first transitions.
    weight_deviations, offset_deviations : (k, d) and (k,) arrays
        Weights and offset from each of k groups of transitions, less the estimate.
    weight_change, offset_change : (d,) array and float
        The change that smaller steps would bring, as far as it can be seen.
    squares : (d,) array
        Sum of the square of each feature over all steps.
    notes : tuple of str
        What a user should know, in words.
    warnings : tuple of str
        Why intervals may be wrong; empty if no reason was found.
    """

    weights: Floats
    offset: float
    gain: float
    step_size: str
    confidence: float
    effective_sample_size: float
    weight_deviations: Floats
    offset_deviations: Floats
    weight_change: Floats
    offset_change: float
    squares: Floats
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def num_batches(self) -> int:
        """Groups of transitions behind the intervals."""
        return len(self.offset_deviations)

    def values(self, features: Any) -> Floats:
        """Values of states with these features: (n,) for (n, d), dense or sparse."""
        return np.asarray(features @ self.weights + self.offset)

    def intervals(self, features: Any) -> Floats:
        """Confidence intervals of the values, (n, 2) for (n, d); infinite where too little was observed.

        The change that smaller steps would bring is included as one more error of that size.
        """
        values, k = self.values(features), self.num_batches
        if k < 2:
            return np.tile([-np.inf, np.inf], (len(values), 1))
        deviations = np.asarray(features @ self.weight_deviations.T).T + self.offset_deviations[:, None]
        change = np.asarray(features @ self.weight_change) + self.offset_change
        variances = np.maximum((deviations**2).sum(axis=0) / (k * (k - 1)), 1e-300)
        deviations *= np.sqrt(1.0 + change**2 / variances)
        ends = np.stack(skewed_interval(values, deviations, self.confidence), axis=1)
        ends[self.observations(features) < ENOUGH_VISITS] = -np.inf, np.inf
        return ends

    def observations(self, features: Any) -> Floats:
        """Number of visits that the data are worth at rows of features, as if these were orthogonal, (n,)."""
        shares = (features * features) @ (1.0 / np.maximum(self.squares, 1e-300))
        return np.asarray(1.0 / np.maximum(shares, 1e-300))


def learned_values(
    followers: Sequence[Follower],
    scale: float,
    probes: Sequence[MovePiece],
    *,
    transient: int,
    confidence: float,
    notes: Sequence[str],
) -> LearnedValues:
    """Return the values that the followers of all chains have learned, with features divided by `scale`.

    Standard errors and other differences are compared at some transitions, the `probes`.
    """
    main, copies = zip(*(follower.answers(transient) for follower in followers), strict=True)
    answers = [answer for answer, *_ in main]
    weights = np.mean([answer.weights for answer in answers], axis=0)
    found = [_pseudo_values(answer, left) for answer, left in zip(answers, copies, strict=True)]
    all_weights, all_offsets = (np.concatenate(part) for part in zip(*found, strict=True))
    offset = _mean_offset(answers)
    deviations = all_weights - weights
    spread = _Spread(probes, deviations)
    steps = sum(follower.steps for follower in followers)
    effective = steps / spread.autocorrelation_time(weights)
    checked = [answers[-1] for answers in main]
    change = np.mean([answer.weights for answer in checked], axis=0) - weights
    warnings = [
        *too_short(effective, steps, "values"),
        *spread.step_effect(change),
        *spread.disagreement([answer.weights for answer in answers]),
        *([] if len(deviations) else [f"no intervals of values for more than {MOST_COPIED} features"]),
    ]
    return LearnedValues(
        weights=weights / scale,
        offset=offset,
        gain=float(np.mean([follower.gain for follower in followers])),
        step_size=followers[0].step_sizes.description,
        confidence=confidence,
        effective_sample_size=effective,
        weight_deviations=deviations / scale,
        offset_deviations=all_offsets - offset,
        weight_change=change / scale,
        offset_change=_mean_offset(checked) - offset,
        squares=np.sum([follower.squares for follower in followers], axis=0) * scale**2,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _mean_offset(answers: Sequence[AveragedWeights]) -> float:
    return -float(np.mean([answer.features @ answer.weights for answer in answers]))


def _pseudo_values(answer: AveragedWeights, copies: Sequence[AveragedWeights]) -> tuple[Floats, Floats]:
    """Return the jackknife's pseudo-values of the weights, (k, d), and of the offset, (k,)."""
    if not copies:
        return np.empty((0, len(answer.weights))), np.empty(0)
    weights = np.array([copy.weights for copy in copies])
    offsets = np.array([-copy.features @ copy.weights for copy in copies])
    offset = -answer.features @ answer.weights
    others = len(copies) - 1
    return (
        answer.weights - others * (weights - weights.mean(axis=0)),
        offset - others * (offsets - offsets.mean()),
    )


class _Spread:
    """Measures differences of weights by the root mean square of values along some transitions."""

    def __init__(self, probes: Sequence[MovePiece], deviations: Floats) -> None:
        self._probes = probes
        self._squares = np.array([self._size(own) ** 2 for own in deviations])

    @property
    def standard_error(self) -> float:
        """Standard error of the estimate, from the deviations of all groups."""
        k = len(self._squares)
        return float(np.sqrt(self._squares.sum() / (k * (k - 1)))) if k > 1 else np.inf

    def autocorrelation_time(self, weights: Floats) -> float:
        """Return the autocorrelation time of the values, in steps, at least 1."""
        values = np.concatenate([probe.values(weights) for probe in self._probes])
        return max(1.0, autocorrelation_time(values[None]))

    def step_effect(self, change: Floats) -> list[str]:
        """Return a warning if values change with smaller steps."""
        size = self._size(change)
        if size <= LARGEST_STEP_EFFECT * self.standard_error:
            return []
        return [
            f"not converged: with half the step sizes values would differ by {size:.3g} (root mean square), "
            f"and their standard error is {self.standard_error:.3g}: run longer"
        ]

    def disagreement(self, by_chain: Sequence[Floats]) -> list[str]:
        """Return a warning if chains differ by more than the groups within each explain."""
        chains = len(by_chain)
        if chains < 2 or len(self._squares) < 2:
            return []
        mean = np.mean(by_chain, axis=0)
        between = sum(self._size(own - mean) ** 2 for own in by_chain) / (chains - 1)
        inside = len(self._squares) - chains
        within = (self._squares.sum() - len(self._squares) * between * (chains - 1) / chains) / inside
        ratio = between * len(self._squares) / chains / max(within, 1e-300)
        if ratio <= stats.f.ppf(DISAGREEMENT, chains - 1, inside):
            return []
        return [f"chains disagree: their values vary {np.sqrt(ratio):.1f} times as much as inside each chain"]

    def _size(self, weights: Floats) -> float:
        values = np.concatenate([probe.values(weights) for probe in self._probes])
        return float(values.std())
