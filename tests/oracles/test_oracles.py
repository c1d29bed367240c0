"""The oracles against each other and against exact rational arithmetic; nothing of the package is used."""

import numpy as np
import pytest
from flint import arb, ctx

from tests.oracles import birth_death as bd
from tests.oracles.blocks import random_nearly_decomposable
from tests.oracles.catalogue import SMALL_CHAINS, rng
from tests.oracles.exact import rational_answer
from tests.oracles.expanders import random_sparse, series_answer
from tests.oracles.lattices import tandem_queue
from tests.oracles.naive import naive_bias, naive_stationary
from tests.oracles.record import ExactChain


@pytest.mark.parametrize("name", SMALL_CHAINS)
def test_closed_form_is_the_rational_answer(name: str) -> None:
    chain = SMALL_CHAINS[name]()
    exact = rational_answer(chain.transitions, chain.rewards)
    np.testing.assert_allclose(chain.stationary, exact.stationary, rtol=2e-15, atol=0)
    assert chain.gain == pytest.approx(exact.gain, rel=1e-15, abs=1e-15 * np.abs(chain.rewards).max())
    np.testing.assert_allclose(chain.bias, exact.bias, rtol=0, atol=2e-15 * np.ptp(exact.bias))
    scale = np.abs(chain.rewards).max() ** 2
    assert chain.asymptotic_variance == pytest.approx(exact.asymptotic_variance, rel=1e-13, abs=1e-16 * scale)


def test_the_law_of_the_tandem_queue_does_not_depend_on_the_reward() -> None:
    chain = tandem_queue(10, backlog=True)
    exact = rational_answer(chain.transitions, chain.rewards)
    np.testing.assert_allclose(chain.stationary, exact.stationary, rtol=1e-15)
    assert chain.gain == pytest.approx(exact.gain, rel=1e-15)


def test_variance_of_an_unlimited_queue() -> None:
    """Of M/M/1 with load rho it is ``2 rho (1 + rho) / (1 - rho)**4``; 400 places are as good as no limit."""
    assert bd.queue_rates(0.5, 1.0, 1, 400).asymptotic_variance == pytest.approx(24, rel=1e-12)


def test_naive_twins_agree_with_the_rational_answer() -> None:
    for transitions in (rng().dirichlet(np.ones(30), 30), random_nearly_decomposable(4, 6, 1e-12, rng())):
        rewards = rng().uniform(size=len(transitions))
        exact = rational_answer(transitions, rewards)
        law = naive_stationary(transitions)
        np.testing.assert_allclose(law, exact.stationary, rtol=1e-14)
    bias = naive_bias(
        bd.slow_birth_death(30).transitions.toarray(), np.arange(30.0), bd.slow_birth_death(30).stationary
    )
    exact = rational_answer(bd.slow_birth_death(30).transitions, np.arange(30.0))
    np.testing.assert_allclose(bias, exact.bias, atol=1e-11 * np.ptp(exact.bias))


def test_series_agrees_with_the_rational_answer() -> None:
    chain = random_sparse(80, rng())
    law, gain, bias = series_answer(chain.transitions, chain.rewards)
    exact = rational_answer(chain.transitions, chain.rewards)
    np.testing.assert_allclose(law.astype(float), exact.stationary, rtol=1e-15)
    np.testing.assert_allclose(bias.astype(float), exact.bias, atol=1e-15 * np.ptp(exact.bias))
    assert float(gain) == pytest.approx(exact.gain, rel=1e-15)


def test_birth_death_sums_at_scale_against_interval_arithmetic() -> None:
    chain = bd.slow_birth_death(100_000)
    law_midpoint, bias_midpoint, radius = interval_birth_death(chain)
    assert radius < 1e-20
    np.testing.assert_allclose(chain.stationary, law_midpoint, rtol=1e-15)
    np.testing.assert_allclose(chain.bias, bias_midpoint, rtol=0, atol=1e-15 * np.ptp(bias_midpoint))


def interval_birth_death(chain: ExactChain) -> tuple[np.ndarray, np.ndarray, float]:
    """Law and bias with every rounding error enclosed, and the largest radius relative to law or span."""
    ctx.prec = 200
    up, down, rewards = chain.transitions.diagonal(1), chain.transitions.diagonal(-1), chain.rewards
    weights = [arb(1)]
    for u, d in zip(up, down, strict=True):
        weights.append(weights[-1] * arb(u) / arb(d))
    total, earned = (
        sum(weights, arb(0)),
        sum((w * arb(r) for w, r in zip(weights, rewards, strict=True)), arb(0)),
    )
    gain = earned / total
    bias, left = [arb(0)], arb(0)
    for w, u, r in zip(weights, up, rewards, strict=False):
        left += w * (gain - arb(r))
        bias.append(bias[-1] + left / (w * arb(u)))
    mean = sum((w * b for w, b in zip(weights, bias, strict=True)), arb(0)) / total
    law = [w / total for w in weights]
    centred = [b - mean for b in bias]
    span = np.ptp(chain.bias)
    radius = max(max(float(p.rad() / p.mid()) for p in law), max(float(b.rad()) / span for b in centred))
    return np.array([float(p) for p in law]), np.array([float(b) for b in centred]), radius
