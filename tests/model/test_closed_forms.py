"""Gain, bias, stationary law and asymptotic variance against answers found by hand."""

import warnings

import numpy as np
import pytest

import gainbias as gb
from gainbias.model.solve.choice import METHODS
from tests.oracles import birth_death as bd
from tests.oracles.catalogue import LARGER_CHAINS, SMALL_CHAINS
from tests.oracles.compare import bias_error, entrywise_error, gain_error, process, true_error
from tests.oracles.record import ExactChain
from tests.oracles.small import counted_ring

CHAINS = SMALL_CHAINS | LARGER_CHAINS
DIRECT = ["auto", "dense-gth", "sparse-gth"]

# Methods that do not work for every chain, with chains they are made for.
SPECIAL = {
    "power": [
        "two states",
        "iid rows",
        "ring",
        "hypercube of 2048",
        "random sparse of 1000",
        "layered cycle",
    ],
    "krylov": [
        "ring",
        "large torus",
        "hypercube of 2048",
        "random sparse of 1000",
        "tandem queue",
        "drift grid",
    ],
    "incomplete-gth": [
        "ring",
        "large torus",
        "hypercube of 2048",
        "random sparse of 1000",
        "tandem queue",
        "drift grid",
    ],
    "aggregation": ["lumpable blocks of 50", "twisted blocks of 50"],
}

# The bias hangs on the last digits of the probabilities: these chains have a test of their own below.
ILL_CONDITIONED = ["twisted blocks, equal"]


def well_conditioned() -> list[str]:
    return [name for name in CHAINS if name not in ILL_CONDITIONED]


def assert_right(solution: gb.Solution, chain: ExactChain) -> None:
    assert solution.gain == pytest.approx(chain.gain, rel=1e-10, abs=1e-14 * solution.mrp.max_abs_reward)
    assert bias_error(solution, chain) < 1e-10
    assert abs(solution.stationary @ solution.bias) <= 1e-14 * max(np.ptp(solution.bias), 1e-300)
    assert solution.stationary.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("name", well_conditioned())
def test_closed_form(name: str, method: str) -> None:
    chain = CHAINS[name]()
    solution = gb.solve(process(chain), method=method)
    assert_right(solution, chain)
    assert method in ("auto", solution.method)
    if method != "auto":
        assert entrywise_error(solution.stationary, chain.stationary) < 1e-10


@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method in SPECIAL for name in SPECIAL[method]]
)
def test_closed_form_by_an_iterative_method(method: str, name: str) -> None:
    chain = CHAINS[name]()
    solution = gb.solve(process(chain), method=method)
    assert_right(solution, chain)
    assert solution.method == method
    np.testing.assert_allclose(solution.stationary, chain.stationary, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", well_conditioned())
def test_asymptotic_variance(name: str) -> None:
    chain = CHAINS[name]()
    solution = gb.solve(process(chain))
    scale = solution.mrp.max_abs_reward**2
    assert solution.asymptotic_variance == pytest.approx(
        chain.asymptotic_variance, rel=1e-10, abs=1e-14 * scale
    )


def test_asymptotic_variance_of_rewards_on_transitions() -> None:
    chain = counted_ring(50, 0.5, 0.125)
    solution = gb.solve(gb.MarkovRewardProcess(chain.transitions, chain.rewards))
    assert solution.asymptotic_variance == pytest.approx(0.625 - 0.375**2, rel=1e-12)
    of_expected_rewards = gb.solve(gb.MarkovRewardProcess(chain.transitions, solution.mrp.rewards))
    assert of_expected_rewards.asymptotic_variance == pytest.approx(0, abs=1e-15)


RATES = {
    "one server": lambda: bd.queue_rates(0.75, 1.0, 1, 200),
    "three servers": lambda: bd.queue_rates(20.0, 8.0, 3, 100),
    "machine repair": lambda: bd.machine_repair_rates(60, 0.1, 1.0, 4),
    "very slow": lambda: bd.queue_rates(1e-9, 3e-9, 2, 50),
}


@pytest.mark.parametrize("name", RATES)
def test_continuous_time_gives_the_gain_per_unit_of_time(name: str) -> None:
    chain = RATES[name]()
    solution = gb.solve(gb.MarkovRewardProcess.from_rates(chain.transitions, chain.rewards))
    assert solution.gain == pytest.approx(chain.gain, rel=1e-10)
    assert bias_error(solution, chain) < 1e-10
    assert entrywise_error(solution.stationary, chain.stationary) < 1e-10
    assert solution.asymptotic_variance == pytest.approx(chain.asymptotic_variance, rel=1e-10)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("name", CHAINS)
def test_error_bound_is_honest_or_the_call_refuses(name: str, method: str) -> None:
    """Any method on any chain: an answer within its own bound, or an error, but never a wrong number."""
    chain = CHAINS[name]()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", gb.AccuracyWarning)
            solution = gb.solve(process(chain), method=method, time_limit=0.7)
    except gb.ConvergenceError:
        return
    assert (solution.error_bound <= 1e-10) == (not told)
    assert true_error(solution, chain) <= max(solution.error_bound, 5e-15)


@pytest.mark.parametrize("name", well_conditioned())
def test_error_bound_is_not_absurd(name: str) -> None:
    chain = CHAINS[name]()
    solution = gb.solve(process(chain))
    # Beyond the digits of a residual, the bound is what any elimination of this size may round.
    floor = 1e-15 if np.ptp(solution.bias) < 1e15 else 1e-16 * solution.mrp.num_states**3
    assert solution.error_bound <= 10 * max(true_error(solution, chain), floor)


@pytest.mark.parametrize("name", ILL_CONDITIONED)
def test_ill_conditioned_gain_is_right_if_the_tolerance_is_loose(name: str) -> None:
    """A relative change of 1e-16 in one probability moves this bias by 1e-4 of its span."""
    chain = CHAINS[name]()
    solution = gb.solve(process(chain), tol=0.1)
    assert gain_error(solution, chain) < 1e-10
    assert bias_error(solution, chain) <= solution.error_bound


def test_law_below_the_smallest_number() -> None:
    """Most of these probabilities underflow; the answer is right or refused."""
    chain = bd.birth_death(np.full(1999, 0.25), np.full(1999, 0.5), np.arange(2000) % 3)
    try:
        solution = gb.solve(process(chain))
    except gb.ConvergenceError:
        return
    assert_right(solution, chain)
