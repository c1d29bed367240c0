"""Relative values by any algorithm of the package, or of the user, from batches of transitions as they come.

Each chain of data is followed by the compiled steps of the engine (each pair of chains by an algorithm that
samples two). The answer is the mean of the weights over the last half of the steps, at any time, over all
chains. Its error comes from copies of the algorithm, each of which leaves out a part
of the transitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Setting
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import StepSize, make_lanes
from gainbias.engine.schedules import as_schedule
from gainbias.evaluation.observations import ObservationMap
from gainbias.evaluation.stream.stream import Transitions
from gainbias.evaluation.values.learners_chain import Diverged, Follower
from gainbias.evaluation.values.learners_pilot import (
    LEVEL,
    PILOT,
    Pilot,
    StepSizes,
    automatic_steps,
    first_of_each,
)
from gainbias.evaluation.values.learners_rows import Reader
from gainbias.evaluation.values.learners_values import LearnedValues, learned_values

SMALLEST_LEVEL = 2.0**-20
"""First steps that have been halved down to this, and still diverge, are given up."""

BEYOND = 10.0
"""Values of more than so many times the range of the rewards for each step made have diverged."""


class Learner:
    """An algorithm that learns from batches of transitions.

    Parameters
    ----------
    algorithm : str or Algorithm
        An id of `ALGORITHMS`, or an algorithm of your own.
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
    >>> from gainbias.evaluation.stream.stream import Transitions
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
            Initial steps of each chain to leave out; the first half of the steps is in any case.
        confidence : float
            Nominal coverage of the intervals.

        Raises
        ------
        ValueError
            If there are too few steps, or if weights diverged with step sizes that the user gave, or with all
            others.
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
        """The method in words."""
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
        bound = BEYOND * pilot.reward_range if pilot.reward_range > 0.0 else np.inf
        form = self.algorithm.form_for(self.kind)
        d = self.observed.num_features
        setting = Setting(
            weights=np.zeros((d, 1) if form.laned else d),
            ones_weights=np.ones(d) if self.observed.is_tabular else None,
            max_abs_reward=pilot.max_abs_reward,
        )
        self._followers = [
            Follower(self.algorithm, self.kind, setting, self._params, self._steps, bound)
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
        """Let a team learn from the transitions that all its chains have."""
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
        """Begin anew from the first transitions with half the step sizes."""
        steps = max(follower.steps for follower in self._followers)
        name, chosen = self.algorithm.name, self._steps.description
        if len(self._steps.schedules) == 1 or self._level <= SMALLEST_LEVEL:
            self._failed = (
                f"{name} diverged within {steps} steps (step size: {chosen}): take smaller ones, or another "
                "algorithm"
            )
            return
        self._level /= 2.0
        self.notes.append(f"weights diverged within {steps} steps: begun anew with half the step sizes")
        for queue in self._waiting:
            queue.clear()
        self._begin()


def _check(algorithm: Algorithm, observed: ObservationMap, num_chains: int) -> None:
    if algorithm.tabular_only and not observed.is_tabular:
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
        raise ValueError(f"there may be one value of each parameter, found {dict(params)}")
    return dict(lanes[0].params)
