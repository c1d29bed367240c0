"""The bound on the average of rewards as an estimate of the gain."""

from __future__ import annotations

from gainbias.theory.bounds.arithmetic import power
from gainbias.theory.bounds.facts import Facts
from gainbias.theory.bounds.mixing import mixing_constants
from gainbias.theory.bounds.record import Bound, Trivial, at_least, conclude

QUANTITY = "E(r_T - g)^2"
"""r_T is the plain average of the first T rewards."""

THEOREM = "Average reward"


def _trivial(facts: Facts) -> Trivial:
    """Return what is known anyway: no average of rewards is further from the gain than r_max + |g|."""
    most = facts.r_max + abs(facts.problem.solution.gain_per_step)
    return Trivial(
        anyway=power(most, 2.0), anyway_because="what rewards of at most r_max give anyway, (r_max + |g|)^2"
    )


def iid(facts: Facts, steps: int) -> Bound:
    """Bound r_max^2 / T for independent samples: the variance of one reward, divided by T."""
    return conclude(
        f"{THEOREM}, i.i.d. sampling",
        "r_max^2 / T",
        lambda: facts.r_max**2 / steps,
        {"r_max": facts.r_max},
        [],
        _trivial(facts),
        QUANTITY,
    )


def markov(facts: Facts, steps: int) -> Bound:
    """Bound 4 r_max^2 (1 + C / (1 - beta)) / T for a chain, from any first state.

    The paper shows O(1/T) only. Here rewards k > 0 steps apart have |E (r_i - g)(r_j - g)| <= 2 r_max^2 C
    beta^(k - 1), because the law of the state after i + 1 has been forgotten to that degree; summing over all
    pairs gives the constant. It needs neither a stationary start nor signs of covariances (finding 12).
    """
    C, beta = mixing_constants(facts.problem)
    return conclude(
        f"{THEOREM}, Markov sampling, corrected",
        "4 r_max^2 (1 + C / (1 - beta)) / T",
        lambda: 4.0 * facts.r_max**2 * (1.0 + C / (1.0 - beta)) / steps,
        {"r_max": facts.r_max, "C": C, "beta": beta},
        [],
        _trivial(facts),
        QUANTITY,
    )


def markov_as_printed(facts: Facts, steps: int) -> Bound:
    """Bound 2 gamma^2 / T + 2 b^2, with b T = r_max (2 tau + C beta^tau / (1 - beta)), as the proof gives it.

    gamma^2 is the sum of all stationary covariances, which bounds the variance only if none is negative, and
    if the chain starts in its stationary law (finding 12). The paper does not say at which level tau_mix is
    meant; here it is 1/T.
    """
    C, beta = mixing_constants(facts.problem)
    tau = facts.mixing_time(1.0 / steps)
    variance = facts.problem.solution.variance_per_step
    drift = facts.r_max * (2.0 * tau + C * beta**tau / (1.0 - beta)) / steps
    return conclude(
        f"{THEOREM}, Markov sampling, as printed",
        "2 gamma^2 / T + 2 (r_max (2 tau_mix + C beta^tau_mix / (1 - beta)) / T)^2",
        lambda: 2.0 * variance / steps + 2.0 * drift**2,
        {"r_max": facts.r_max, "C": C, "beta": beta, facts.tau_name: tau, "gamma^2": variance},
        [at_least("number of steps", "T >= tau_mix", steps, tau, f"at least {tau} steps")],
        _trivial(facts),
        QUANTITY,
    )
