"""What another policy would have earned, for states and actions that are few enough to count.

The log is read twice. `PairSums` counts in the first pass where each state-action led, and what it paid. With
these counts as its kernel the target is a chain like any other, which is solved exactly: `TableModel` has its
gain g, its values W and Q, and the ratio w(s, a) of the shares of state-actions among the steps of the target
and among those of the log.

To first order, the error of that gain is the mean, along the path of the log, of

    w(s, a) (r - g t + W(s') - Q(s, a)) / (mean of w t)

with t = 1 if steps have no durations (the efficient influence function; Kallus and Uehara 2020, Liao, Klasnja
and Murphy 2019). The second pass, `TableInfluence`, evaluates it at each step. In the same way each batch of
the log gives the change of every W and Q: the noise of state-actions, propagated by the Poisson equation.

Residuals of a state-action that was seen N times are too small by the factor sqrt(1 - 1 / N), because its own
mean was subtracted, and are corrected for that. If a state-action was seen only once, nothing is known
about its noise, which is assumed to be like that of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.evaluation.another.record import NoAnswer, some_of
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import check_ratio
from gainbias.evaluation.stream import UNKNOWN_PLACE
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.solve import Poisson, poisson_solver, solve
from gainbias.types import Bools, Floats, Ints

BUFFERED = 2**18
"""Transitions that are kept until they are counted."""

INFLUENCE_BATCHES = 32
"""Batches of the log that say how far values may be off."""

MOST_DEVIATIONS = 2**23
"""Numbers that are stored for the intervals of values: 64 MB."""

FULL = 1e-12
"""A state lacks nothing if the target's probabilities without data are below this."""


@dataclass(frozen=True, eq=False)
class NumberedSteps:
    """Steps between numbered states, with actions: arrays (m,)."""

    here: Ints
    actions: Ints
    after: Ints
    rewards: Floats
    durations: Floats

    def __len__(self) -> int:
        return len(self.here)


class PairSums:
    """How often each state-action led where, and its total reward.

    Parameters
    ----------
    num_states : int
        With the state that stands for ends.
    num_actions : int

    Examples
    --------
    >>> sums = PairSums(2, 2)
    >>> ones = np.ones(3)
    >>> sums.add(NumberedSteps(np.array([0, 1, 0]), np.array([1, 0, 1]), np.array([1, 0, 1]), ones, ones))
    >>> sums.counted()[0].tolist()  # (0, 1) to 1, twice, and (1, 0) to 0
    [3, 4]
    """

    def __init__(self, num_states: int, num_actions: int) -> None:
        self.num_states, self.num_actions = num_states, num_actions
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._sums: Floats = np.empty((3, 0))
        self._waiting: list[tuple[Ints, Floats]] = []

    def add(self, steps: NumberedSteps) -> None:
        """Count the next steps."""
        keys = (steps.here * self.num_actions + steps.actions) * self.num_states + steps.after
        self._waiting.append((keys, np.stack([np.ones(len(steps)), steps.rewards, steps.durations])))
        if sum(len(keys) for keys, _ in self._waiting) >= BUFFERED:
            self._count()

    def counted(self) -> tuple[Ints, Floats]:
        """Return the moves that were seen, (k,), as numbers, and count, rewards and durations, (3, k)."""
        self._count()
        return self._keys, self._sums

    def _count(self) -> None:
        if not self._waiting:
            return
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._waiting)])
        sums = np.concatenate([self._sums, *(sums for _, sums in self._waiting)], axis=1)
        self._waiting = []
        self._keys, place = np.unique(keys, return_inverse=True)
        self._sums = np.stack([np.bincount(place, part, minlength=len(self._keys)) for part in sums])


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of a log, in which only seen states and state-actions have numbers.

    Attributes
    ----------
    states : (n,) array
        The states that were seen, in the numbers of the log.
    of_pair, actions : (k,) arrays
        The position in `states`, and the action, of each state-action from which a step was seen.
    visits, rewards, durations : (k,) arrays
        Number of steps from each, and their mean reward and duration.
    kernel : (k, n) csr_array
        Where each led.
    end : int
        The number of the state that stands for ends.
    """

    states: Ints
    of_pair: Ints
    actions: Ints
    visits: Floats
    rewards: Floats
    durations: Floats
    kernel: Any
    num_actions: int
    end: int

    @classmethod
    def of(cls, sums: PairSums, end: int) -> Counts:
        """Return the counts of all steps so far."""
        keys, (count, paid, lasted) = sums.counted()
        moves, after = np.divmod(keys, sums.num_states)
        pairs, of_move = np.unique(moves, return_inverse=True)
        here, actions = np.divmod(pairs, sums.num_actions)
        states = np.union1d(here, after)
        visits, rewards, durations = (
            np.bincount(of_move, part).astype(np.float64) for part in (count, paid, lasted)
        )
        entries = count / visits[of_move]
        kernel = sparse.csr_array(
            (entries, (of_move, np.searchsorted(states, after))), (len(pairs), len(states))
        )
        return cls(
            states,
            np.searchsorted(states, here),
            actions,
            visits,
            rewards / visits,
            durations / visits,
            kernel,
            sums.num_actions,
            end,
        )

    @property
    def steps(self) -> float:
        """Number of steps."""
        return float(self.visits.sum())

    @cached_property
    def seen(self) -> Floats:
        """Number of steps from each state, (n,)."""
        return np.bincount(self.of_pair, self.visits, minlength=len(self.states)).astype(np.float64)

    def spread(self, pairs: Floats) -> Floats:
        """Return a number for each state-action as a table, (n, A); 0 where nothing was seen."""
        table = np.zeros((len(self.states), self.num_actions))
        table[self.of_pair, self.actions] = pairs
        return table

    def frequencies(self) -> Floats:
        """Return how often each action was taken in each state, (n, A)."""
        return self.spread(self.visits / np.maximum(self.seen, 1.0)[self.of_pair])

    def probabilities(self, chances: Callable[[Ints], Floats]) -> Floats:
        """Return the probabilities of a policy's actions at the states that were seen, (n, A).

        Ends are left by the first action, whatever the policy.
        """
        is_end = self.states == self.end
        known = chances(self.states[~is_end])
        table = np.zeros((len(self.states), known.shape[1]))
        table[~is_end] = known
        table[is_end, 0] = 1.0
        return table


@dataclass(frozen=True, eq=False)
class Support:
    """The part of a target that the log covers.

    Attributes
    ----------
    chances : (k,) array
        Probability of each seen state-action, with the unseen ones left out.
    kept : (n,) array of bool
        States from which a step was seen.
    missing : (n, A) array
        Probabilities of actions that were left out.
    """

    chances: Floats
    kept: Bools
    missing: Floats

    @classmethod
    def of(cls, counts: Counts, target: Floats, fewest: float) -> Support:
        """Return the part of the target's probabilities (n, A) that was seen at least `fewest` times."""
        width = counts.num_actions
        there = target[:, :width] * (counts.spread(counts.visits) >= fewest)
        missing = target.copy()
        missing[:, :width] -= there
        total = there.sum(axis=1)
        there[total < FULL] = counts.frequencies()[total < FULL]  # like the log, where nothing is left
        there /= np.maximum(there.sum(axis=1), FULL)[:, None]
        return cls(there[counts.of_pair, counts.actions], counts.seen > 0.0, missing)


class TableModel:
    """The target's chain by the counts of a log, and its solution.

    Parameters
    ----------
    counts : Counts
    target : (n, A) array
        Probabilities of the target's actions at the states that were seen.
    fewest : float
        State-actions that were seen less often are left out.
    names : function
        From positions in `Counts.states` to the names of these states for users.

    Attributes
    ----------
    per_known : (k,) array
        Steps for each step to a state that was kept.
    average : (kept, k) array
        Averages state-actions over the policy's actions.
    gain : float
    values : (n,) array
        Relative values of the states that were seen; nan where no step was seen.
    action_values, ratio : (k,) arrays
        Of the state-actions that were seen.
    left_out : (n, A) array
        Share of the target's steps at each state-action that was left out. For a state from which no step
        was seen these are the steps that led there.

    Raises
    ------
    NoAnswer
        If the chain has several recurrent classes, or too much is missing.
    """

    def __init__(
        self,
        counts: Counts,
        target: Floats,
        names: Callable[[Ints], list[Any]],
        fewest: float = 1.0,
        discount: float | None = None,
    ) -> None:
        self.counts, self.discount, self.names = counts, discount, names
        self.support = Support.of(counts, target, fewest)
        self.kept = np.flatnonzero(self.support.kept)
        self.average = self._averages()
        process = MarkovRewardProcess(*self._followed())
        if len(process.structure.recurrent) > 1:
            raise NoAnswer(_falls_apart(self, process, target))
        self.poisson: Poisson = poisson_solver(process)
        self._solve()

    def _averages(self) -> Any:
        """Return the matrix that averages state-actions over the policy's actions, (kept, k)."""
        of_state = np.full(len(self.counts.states), -1)
        of_state[self.kept] = np.arange(len(self.kept))
        chances = self.support.chances
        rows = of_state[self.counts.of_pair]
        return sparse.csr_array((chances, (rows, np.arange(len(chances)))), (len(self.kept), len(chances)))

    def _followed(self) -> tuple[Any, Floats]:
        """Return transitions between the kept states, and mean rewards.

        Steps to a state from which no step was seen lead to the others in proportion; how many of the
        policy's there are is in `left_out`.
        """
        kernel = self.counts.kernel[:, self.kept]
        stays = np.asarray(kernel.sum(axis=1)).ravel()
        lost = np.flatnonzero(stays <= 0.0)  # where all of them led there, any state will do
        if len(lost):
            ones, first = np.ones(len(lost)), np.zeros(len(lost), dtype=np.int64)
            kernel = kernel + sparse.csr_array((ones, (lost, first)), kernel.shape)
            stays[lost] = 1.0
        self.per_known = 1.0 / stays
        self.kernel = sparse.csr_array(sparse.diags_array(self.per_known) @ kernel)
        moves = sparse.csr_array(self.average @ self.kernel)
        moves.eliminate_zeros()
        moves = sparse.csr_array(sparse.diags_array(1.0 / np.asarray(moves.sum(axis=1)).ravel()) @ moves)
        return moves, np.asarray(self.average @ self.counts.rewards)

    def _solve(self) -> None:
        counts, law = self.counts, self.poisson.stationary
        paid, lasted = self.average @ counts.rewards, self.average @ counts.durations
        self.law = law
        self.mean_duration = float(law @ lasted)
        if not self.mean_duration > 0.0:
            raise NoAnswer("the target's steps take no time at all, so there is no gain per unit of time")
        self.gain = float(law @ paid) / self.mean_duration
        check_ratio(self.gain)
        self.shares = np.asarray(law @ self.average)
        self.ratio = self.shares / (counts.visits / counts.steps)
        in_time = law * lasted / self.mean_duration
        relative = self.poisson.solve(paid - self.gain * lasted)
        relative -= in_time @ relative
        self.relative = relative
        self.residual_values = self._action_values(relative)
        # How the centre of the values depends on the kernel and on durations.
        self._centre = self.poisson.solve(lasted * relative / self.mean_duration)
        self._in_time = in_time
        if self.discount is None:
            self.state_values, self.pair_values = relative, self.residual_values
        else:
            self._discount_values(paid)
        reached = np.asarray(self.shares @ counts.kernel)
        reached[self.kept] = law
        self.left_out = reached[:, None] * self.support.missing

    def _action_values(self, values: Floats) -> Floats:
        return np.asarray(self.counts.rewards - self.gain * self.counts.durations + self.kernel @ values)

    def _discount_values(self, paid: Floats) -> None:
        """Solve for discounted values; an end of an episode is worth nothing."""
        goes_on = (self.counts.states[self.kept] != self.counts.end).astype(np.float64)
        kernel = sparse.csr_array(self.kernel @ sparse.diags_array(goes_on))
        moves = sparse.csc_array(sparse.eye_array(len(self.kept)) - self.discount * (self.average @ kernel))
        self._solver = sparse.linalg.splu(moves)
        self.state_values = self._solver.solve(paid) * goes_on
        self._discounted_kernel = kernel
        self.pair_values = np.asarray(self.counts.rewards + self.discount * (kernel @ self.state_values))

    def apart(self) -> float:
        """Return how far apart the values of two actions of a state are, as a root mean square over states.

        If no state has two actions, the same for any two state-actions.
        """
        values, of_pair = self.residual_values, self.counts.of_pair
        several = np.bincount(of_pair) > 1
        if not several[of_pair].any():
            of_pair, several = np.zeros_like(of_pair), np.array([len(of_pair) > 1])
        known = np.maximum(np.bincount(of_pair), 1)
        squares = np.bincount(of_pair, (values - (np.bincount(of_pair, values) / known)[of_pair]) ** 2)
        return float(np.sqrt(2.0 * squares.sum() / max((known - 1)[several].sum(), 1)))

    def left_out_error(self) -> float:
        """Return how much the actions that were left out may move the gain, as a root mean square.

        All missing actions of a state may be better or worse than the others together, or an action may be
        so in all states where it is missing: the larger of the two counts. All states from which no step
        was seen may be better or worse than others together.
        """
        actions = self.left_out[self.support.kept]
        shares = max(np.linalg.norm(actions.sum(axis=axis)) for axis in (0, 1))
        states = self.left_out[~self.support.kept].sum() * np.sqrt(2.0) * self.relative.std()
        return float(np.hypot(shares * self.apart(), states)) / self.mean_duration

    def memory(self) -> float:
        """Return the autocorrelation time of the values along the policy's path, in steps; at least 1."""
        again = self.poisson.solve(self.relative)  # the values' own Poisson equation
        centred = self.relative - float(self.law @ self.relative)
        variance = float(self.law @ centred**2)
        return max(1.0, 2.0 * float((self.law * centred) @ again) / variance - 1.0) if variance else 1.0

    def influence(self, steps: int) -> TableInfluence:
        """Return what evaluates the error at each step of the log, given their number."""
        return TableInfluence(self, steps)

    def moved(self, noise: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """Return how noise of state-actions, (K, k), moves the values of states and of state-actions.

        `centre` (K,) is how much it moves the mean of the values in other, known ways.
        """
        at_states = noise @ self.average.T
        if self.discount is None:
            gains = at_states @ self.law / self.mean_duration
            lasted = self.average @ self.counts.durations
            right = at_states - gains[:, None] * lasted
            states = np.asarray(self.poisson.solve(right.T)).T
            states = states - (states @ self._in_time + centre)[:, None]
            pairs = noise - gains[:, None] * self.counts.durations + (self.kernel @ states.T).T
            return states, pairs
        states = self._solver.solve(at_states.T).T
        return states, noise + self.discount * (self._discounted_kernel @ states.T).T


class TableInfluence:
    """The error of a gain at each step of the log, and the values by each batch.

    Parameters
    ----------
    model : TableModel
    steps : int
        Steps of the log in all.

    Attributes
    ----------
    noise : (K, k) array
        Sums of residuals of values over batches, for each state-action.
    squares : (k,) array
        Sums of squares of the residuals of the gain.
    residuals : BatchMeans
        Those of the gain at each step, before they are multiplied by the ratio.
    """

    def __init__(self, model: TableModel, steps: int) -> None:
        counts = model.counts
        most = MOST_DEVIATIONS // max(len(counts.visits), counts.end)
        self.num_batches = int(np.clip(min(INFLUENCE_BATCHES, most), 2, max(2, steps)))
        self.model, self._steps, self._made = model, steps, 0
        pairs = len(counts.visits)
        self.noise, self.squares = np.zeros((self.num_batches, pairs)), np.zeros(pairs)
        self.centre, self.residuals = np.zeros(self.num_batches), BatchMeans()
        self._larger = np.sqrt(counts.visits / np.maximum(counts.visits - 1.0, 1.0))
        self._place = np.full(int(counts.states[-1]) + 1, -1, dtype=np.int64)
        self._place[counts.states[model.kept]] = np.arange(len(model.kept))
        self._pair_keys = counts.states[counts.of_pair] * counts.num_actions + counts.actions
        self._per_time = self._of_pairs(model.relative) / model.mean_duration
        kernel = model.kernel if model.discount is None else model._discounted_kernel
        self._factor = 1.0 if model.discount is None else model.discount
        self._next_values = kernel @ model.state_values
        self._next_relative, self._next_centre = model.kernel @ model.relative, model.kernel @ model._centre

    def _of_pairs(self, values: Floats) -> Floats:
        of_state = np.zeros(len(self.model.counts.states))
        of_state[self.model.kept] = values
        return np.asarray(of_state[self.model.counts.of_pair])

    def pairs_of(self, steps: NumberedSteps) -> Ints:
        """Return the positions of state-actions, (m,)."""
        keys = steps.here * self.model.counts.num_actions + steps.actions
        return np.searchsorted(self._pair_keys, keys)

    def independent_error(self) -> float:
        """Return the standard error as if the steps from each state-action were independent draws."""
        model = self.model
        variance = float((model.shares**2 * self.squares / model.counts.visits**2).sum())
        return self.widening() * float(np.sqrt(variance)) / model.mean_duration

    def add(self, steps: NumberedSteps) -> Floats:
        """Return the terms of the next steps, (m,), whose mean over all is the gain."""
        model, counts = self.model, self.model.counts
        pair, after = self.pairs_of(steps), self._place[steps.after]
        lasted = steps.durations - counts.durations[pair]
        paid = steps.rewards - counts.rewards[pair]
        residual = paid - model.gain * lasted + self._led(model.relative, self._next_relative, pair, after)
        residual *= self._larger[pair]
        self.residuals.add(residual)
        terms = model.ratio[pair] * residual / model.mean_duration
        self.squares += np.bincount(pair, residual**2, minlength=len(self.squares))
        if model.discount is not None:
            residual = paid + self._factor * self._led(model.state_values, self._next_values, pair, after)
            residual *= self._larger[pair]
        moved = self._led(model._centre, self._next_centre, pair, after) + lasted * self._per_time[pair]
        self._add_noise(pair, residual, moved * model.ratio[pair] / counts.steps)
        return np.asarray(model.gain + terms)

    def _led(self, values: Floats, expected: Floats, pair: Ints, after: Ints) -> Floats:
        """Return how much better each step led than steps from its state-action are expected to.

        Expected is what those that led to a known state did, so these count for the others as well.
        """
        apart = np.where(after != UNKNOWN_PLACE, values[after] - expected[pair], 0.0)
        return np.asarray(apart * self.model.per_known[pair])

    def _add_noise(self, pair: Ints, residual: Floats, moved: Floats) -> None:
        """Add up residuals of values by batches and state-actions, and what moves their mean."""
        batch = (self._made + np.arange(len(pair))) * self.num_batches // self._steps
        self._made += len(pair)
        batch = np.minimum(batch, self.num_batches - 1)
        for number in np.unique(batch):
            own = batch == number
            self.noise[number] += np.bincount(pair[own], residual[own], minlength=self.noise.shape[1])
            self.centre[number] += moved[own].sum()

    def deviations(self) -> tuple[Floats, Floats]:
        """Return the values of states and of state-actions by each batch, less the estimates."""
        noise = self.noise / self.model.counts.visits * self.num_batches
        return self.model.moved(noise, self.centre * self.num_batches)

    def widening(self) -> float:
        """Return the factor by which state-actions that were seen once enlarge the standard error."""
        visits, shares = self.model.counts.visits, self.model.shares
        often = visits >= 2.0
        if not often.any() or not self.squares[often].any():
            return 1.0
        usual = float(self.squares[often].sum() / visits[often].sum())
        known = float((shares[often] ** 2 * self.squares[often] / visits[often] ** 2).sum())
        once = float((shares[~often] ** 2).sum()) * usual
        return float(np.sqrt(1.0 + once / known)) if known > 0.0 else 1.0


def _falls_apart(model: TableModel, process: MarkovRewardProcess, target: Floats) -> str:
    """Return in words which recurrent classes there are, what each earns, and what is missing."""
    counts, lasted = model.counts, model.average @ model.counts.durations
    solution = solve(process, multichain=True, extra_rewards={"time": lasted})
    classes = [model.kept[states] for states in solution.classes]
    taken = [np.isin(counts.of_pair, states) & (model.support.chances > 0.0) for states in classes]
    steps = np.array([counts.visits[pairs].sum() for pairs in taken])
    names = [_class_in_words(model, states) for states in classes]
    gains = solution.class_gains / np.maximum(solution.extra["time"].class_gains, 1e-300)
    facts = [
        f"{gain:.3g} in {name} ({count:,.0f} step{'s' if count != 1 else ''} of the log)"
        for gain, name, count in zip(gains, names, steps, strict=True)
    ]
    main = int(np.argmax(steps))
    stays = np.flatnonzero(np.any([pairs for number, pairs in enumerate(taken) if number != main], axis=0))
    return (
        f"by this log the target's chain falls apart into {len(classes)} recurrent classes: "
        f"{some_of(names)}. No transition of the log under the target's actions leads from one to another, "
        f"so there is no single answer: the gain is {some_of(facts)}. Missing are steps out of the smaller "
        f"classes by {_actions_in_words(model, counts.of_pair[stays], counts.actions[stays])}."
        f"{_lacking_in_words(model, np.concatenate(classes), target)} Use a longer log, or one of another "
        f"policy. For the answer in {names[main]} alone, leave out the rows in the other classes, and begin "
        "a new episode after each gap: columns={'episode': ...}"
    )


def _class_in_words(model: TableModel, states: Ints) -> str:
    listed = ", ".join(map(str, model.names(states[:4])))
    return f"{{{listed}{', ...' if len(states) > 4 else ''}}}"


def _actions_in_words(model: TableModel, states: Ints, actions: Ints) -> str:
    return some_of(
        [
            f"action {action} in state {name}"
            for name, action in zip(model.names(states), actions, strict=True)
        ]
    )


def _lacking_in_words(model: TableModel, inside: Ints, target: Floats) -> str:
    """Return the actions of the policy that the log lacks in some states."""
    lacking = target[inside]
    lacking[:, : model.counts.num_actions] *= model.counts.spread(model.counts.visits)[inside] == 0.0
    places, actions = np.nonzero(lacking)
    if not len(places):
        return ""
    return (
        " The log lacks some of its actions there, which may lead out: "
        f"{_actions_in_words(model, inside[places], actions)}."
    )
