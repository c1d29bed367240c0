"""Do the error bars cover the truth? Coverage of nominal 95% intervals on chains with known answers.

Runs are measured in autocorrelation times (of the slowest of rewards, values and features, and at least one
step), known exactly; those of 500 times and more have at least 2,000 steps. Values of states that had too few
visits for an interval are counted apart.

    python -m benchmarks.error_bars                                # 1,000 replications, about half an hour
    python -m benchmarks.error_bars --fresh --first-seed 1000000   # chains not used for any choice
    python -m benchmarks.error_bars --replications 200 --chains river-swim two-blocks
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

import gainbias as gb
from benchmarks.error_bars_fresh import FRESH
from gainbias.engine.paths import SampledSteps, Sampler
from gainbias.evaluation.gain.anytime import looks_until
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import GainEstimate, estimate_gain
from gainbias.evaluation.values.least_squares import ENOUGH_STEPS, ENOUGH_TIMES, estimate_values
from gainbias.evaluation.values.sums import ValueSums

Floats = NDArray[np.float64]

TOGETHER = 25
"""So many paths are drawn at once."""


def birth_death(num_states: int = 20, up: float = 0.3, down: float = 0.32) -> gb.MarkovRewardProcess:
    """A queue in heavy traffic, slow to mix; the reward is its length."""
    steps = np.diag(np.full(num_states - 1, up), 1) + np.diag(np.full(num_states - 1, down), -1)
    return gb.MarkovRewardProcess(steps + np.diag(1.0 - steps.sum(axis=1)), np.arange(num_states))


def two_blocks(coupling: float = 0.005, size: int = 4) -> gb.MarkovRewardProcess:
    """Two blocks that the chain seldom leaves and that pay differently."""
    rng = np.random.default_rng(0)
    leave = np.repeat([coupling, coupling / 2], size)[:, None]
    inside = np.kron(np.eye(2), np.ones((size, size))).astype(bool)
    weights = rng.gamma(1.0, size=(2 * size, 2 * size)) * inside
    stay = weights / weights.sum(axis=1, keepdims=True)
    return gb.MarkovRewardProcess(
        (1 - leave) * stay + leave * ~inside / size, rng.random(2 * size) + np.repeat([0.0, 1.0], size)
    )


def rare_reward() -> gb.MarkovRewardProcess:
    """A reward that comes seldom, and then several times."""
    return gb.MarkovRewardProcess([[0.99, 0.01], [0.5, 0.5]], [0.0, 1.0])


MADE: dict[str, Callable[[], gb.MarkovRewardProcess]] = {
    "birth-death": birth_death,
    "two-blocks": two_blocks,
    "rare-reward": rare_reward,
    **FRESH,
}
CHAINS = (
    "mm1k-admission",
    "river-swim",
    "random-walk-50",
    "two-loop",
    "machine-replacement",
    "access-control",
    "birth-death",
    "two-blocks",
    "rare-reward",
)


@dataclass(frozen=True, eq=False)
class Chain:
    """A problem and its known answers."""

    name: str
    problem: gb.Problem

    @classmethod
    def named(cls, name: str) -> Chain:
        return cls(name, gb.Problem(MADE[name](), gb.Tabular()) if name in MADE else gb.task(name).problem)

    @cached_property
    def rows(self) -> Floats:
        matrix = self.problem.features.matrix
        return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()

    @cached_property
    def values(self) -> Floats:
        """The centred values of the projected fixed point."""
        return self.problem.values - self.problem.solution.stationary @ self.problem.values

    @cached_property
    def reward_time(self) -> float:
        """Integrated autocorrelation time of the rewards."""
        mrp, solution = self.problem.mrp, self.problem.solution
        if mrp.reward_entries is None:
            return solution.asymptotic_variance / float(
                solution.stationary @ (mrp.rewards - solution.gain) ** 2
            )
        flows = np.repeat(solution.stationary, np.diff(mrp.csr.indptr)) * mrp.csr.data
        return solution.asymptotic_variance / float(flows @ (mrp.reward_entries - solution.gain) ** 2)

    @cached_property
    def slowest_time(self) -> float:
        """Largest autocorrelation time of rewards, values and features, at least 1."""
        series = [self.problem.values, *self.rows.T]
        times = [_time(self.problem.mrp, row) for row in series if np.ptp(row) > 1e-12]
        return max(1.0, self.reward_time, *times)

    def runs(self, count: int, steps: int, first_seed: int) -> Iterator[SampledSteps]:
        """Paths of one run after another, from the uniform law: (1, steps) arrays."""
        sampler = Sampler(self.problem.mrp)
        for begin in range(first_seed, first_seed + count, TOGETHER):
            drawn = sampler.paths(range(begin, min(begin + TOGETHER, first_seed + count))).take(steps)
            for k in range(len(drawn.here)):
                yield SampledSteps(*(array[k : k + 1] for array in drawn))


def _time(mrp: gb.MarkovRewardProcess, series: Floats) -> float:
    solution = gb.solve(gb.MarkovRewardProcess(mrp.transitions, series))
    return solution.asymptotic_variance / float(solution.stationary @ (series - solution.gain) ** 2)


@dataclass(frozen=True, eq=False)
class Coverage:
    """What many runs of one length showed.

    Attributes
    ----------
    gain : (runs,) bool array
        Whether the gain was in its interval.
    flagged : (runs,) bool array
        Whether the gain's estimate had a warning.
    values : (runs, n) array
        1 or 0 where the value was in its interval or not, nan where there was no interval.
    values_flagged : (runs,) bool array
    width : float
        Mean half width of the gain's interval, relative to that of a known asymptotic variance.
    """

    gain: NDArray[np.bool_]
    flagged: NDArray[np.bool_]
    values: Floats
    values_flagged: NDArray[np.bool_]
    width: float


def covers(estimate: GainEstimate, gain: float) -> bool:
    return estimate.interval[0] <= gain <= estimate.interval[1]


def study(chain: Chain, steps: int, replications: int, first_seed: int = 0) -> Coverage:
    """Estimate gain and values from many independent runs."""
    solution, rows = chain.problem.solution, chain.rows
    gains, values, values_flagged = [], np.full((replications, len(rows)), np.nan), []
    for k, run in enumerate(chain.runs(replications, steps, first_seed)):
        estimate = estimate_gain(BatchMeans.of(run.reward))
        gains.append(estimate)
        sums = ValueSums(rows.shape[1])
        sums.add(rows[run.here[0]], run.reward[0], rows[run.next[0]])
        found = estimate_values(sums, estimate.transient)
        low, high = found.intervals(rows).T
        bounded = np.isfinite(high)
        values[k, bounded] = ((low <= chain.values) & (chain.values <= high))[bounded]
        values_flagged.append(bool(found.warnings))
    known = 1.96 * np.sqrt(solution.asymptotic_variance / steps)
    return Coverage(
        np.array([covers(estimate, solution.gain) for estimate in gains]),
        np.array([estimate.is_flagged for estimate in gains]),
        values,
        np.array(values_flagged),
        float(np.mean([estimate.half_width for estimate in gains]) / known),
    )


def stopped(chain: Chain, times: float, replications: int, first_seed: int = 0) -> tuple[float, float, float]:
    """Coverage of stopped intervals, how many stopped, and their mean length in autocorrelation times.

    The target is what a run of this many autocorrelation times would give if the variance were known.
    """
    solution = chain.problem.solution
    target = 1.96 * np.sqrt(solution.asymptotic_variance / (times * chain.slowest_time))
    sampler, covered, lengths = Sampler(chain.problem.mrp), [], []
    for seed in range(first_seed, first_seed + replications):
        paths = sampler.paths([seed])
        *_, last = looks_until(
            reaching(lambda count, paths=paths: paths.take(count).reward),
            target,
            max_steps=int(50 * times * chain.slowest_time),
        )
        if last.steps_left == 0:
            covered.append(covers(last.estimate, solution.gain))
            lengths.append(last.estimate.num_steps / chain.slowest_time)
    return float(np.mean(covered)), len(covered) / replications, float(np.mean(lengths))


def reaching(more: Callable[[int], ArrayLike], num_chains: int = 1) -> Callable[[int], BatchMeans]:
    """From a function that draws more rewards, make one that continues to a number of steps."""
    rewards = BatchMeans(num_chains)

    def reach(steps: int) -> BatchMeans:
        if steps > rewards.steps:
            rewards.add(more(steps - rewards.steps))
        return rewards

    return reach


def _share(hits: Floats | NDArray[np.bool_]) -> str:
    return f"{np.nanmean(hits):.3f}" if np.isfinite(hits).any() else "    -"


HEADER = (
    "chain                  times    steps   gain  unflagged  flagged  width  values  unflagged  flagged  "
    "lowest  no interval"
)


def line(chain: Chain, times: float, replications: int, first_seed: int) -> str:
    steps = max(int(np.ceil(times * chain.slowest_time)), ENOUGH_STEPS if times >= ENOUGH_TIMES else 1)
    found = study(chain, steps, replications, first_seed)
    usual = np.isfinite(found.values).mean(axis=0) > 0.5
    by_state = np.nanmean(found.values[:, usual], axis=0) if usual.any() else np.array([np.nan])
    return (
        f"{chain.name:20s} {times:7.0f} {steps:8d}  {_share(found.gain)}      "
        f"{_share(found.gain[~found.flagged])}"
        f"    {found.flagged.mean():5.2f}  {found.width:5.2f}   {_share(found.values)}      "
        f"{_share(found.values[~found.values_flagged])}    {found.values_flagged.mean():5.2f}"
        f"   {by_state.min():.3f}        {np.isnan(found.values).mean():5.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--chains", nargs="+", choices=[*CHAINS, *FRESH], default=list(CHAINS))
    parser.add_argument("--fresh", action="store_true", help="chains on which nothing was chosen")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--times", nargs="+", type=float, default=[50, 500, 1000])
    parser.add_argument("--stopped", type=float, default=1000, help="length that the target stands for")
    options = parser.parse_args()
    chains = [Chain.named(name) for name in (FRESH if options.fresh else options.chains)]
    print(HEADER)
    for times in options.times:
        for chain in chains:
            print(line(chain, times, options.replications, options.first_seed), flush=True)
    print("\nstopped at a half width    coverage  stopped  mean length in times")
    for chain in chains:
        coverage, share, length = stopped(chain, options.stopped, options.replications, options.first_seed)
        print(f"{chain.name:27s} {coverage:.3f}     {share:.2f}     {length:.0f}", flush=True)


if __name__ == "__main__":
    main()
