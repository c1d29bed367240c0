"""Theorems about double-chain TD.

Everywhere delta_t = theta_t - theta*, c = r_max + |theta*|, and tau_mix(level) is the first tau >= 1 at which
every start is within `level` of the stationary law. The bounds hold for any first states.
"""

from __future__ import annotations

import math

from gainbias.theory.bounds.facts import Facts, mixing_constants
from gainbias.theory.bounds.record import (
    OFFSET,
    Bound,
    Condition,
    Decay,
    at_most,
    close,
    conclude,
    offset_for_ratio,
    offset_for_sum,
    power,
    ratio,
    rounded_down,
    slow_decay,
)

NAME = "Double-chain"


def iid_constant(facts: Facts, alpha: float, steps: int) -> Bound:
    """Bound for independent samples and a constant step alpha <= eta / 18.

    The theorem hides its constant in O(.); its proof gives 18 (finding 18). It does not use that the chain is
    aperiodic.
    """
    eta, noise = facts.eta, 18.0 * (facts.r_max + facts.length) ** 2
    limit = largest_iid_step(facts)
    return conclude(
        f"{NAME}, i.i.d. sampling, constant step size",
        "exp(-alpha eta T) |theta_0 - theta*|^2 + 18 alpha (r_max + |theta*|)^2 / eta",
        lambda: math.exp(-alpha * eta * steps) * facts.first_error**2 + alpha * noise / eta,
        {**facts.constants, "|theta_0 - theta*|": facts.first_error, "constant of O(.)": 18.0},
        [
            *facts.conditions,
            at_most(
                "step size",
                "alpha <= eta / 18",
                alpha,
                limit,
                f"a step size of at most {rounded_down(limit)}",
            ),
        ],
        facts.trivial,
    )


def largest_iid_step(facts: Facts) -> float:
    """Return the largest step for independent samples, eta / 18."""
    return facts.eta / 18.0


def markov_constant(facts: Facts, alpha: float, steps: int) -> Bound:
    """Bound for two chains and a constant step alpha <= eta B^2 / ((3 tau + 1) G), with tau = tau_mix(alpha).

    B = 0 means that nothing ever moves (no rewards, and theta_0 = theta* = 0): then the bound is 0 for every
    step size, where the printed condition reads 0 / 0 (finding 18).
    """
    eta, tau = facts.eta, facts.mixing_time(alpha)
    B, G = _drift_constants(facts)
    limit = _markov_limit(facts, tau)
    largest = largest_markov_step(facts)
    return conclude(
        f"{NAME}, Markov sampling, constant step size",
        "exp(-2 alpha eta (T - tau_mix)) B^2 + alpha G (3 tau_mix + 1) / (2 eta)",
        lambda: math.exp(-2 * alpha * eta * (steps - tau)) * B**2 + alpha * G * (3 * tau + 1) / (2 * eta),
        {**facts.constants, "|theta_0 - theta*|": facts.first_error, facts.tau_name: tau, "B": B, "G": G},
        [
            *facts.conditions,
            facts.enough_steps(steps, tau),
            at_most(
                "step size",
                "alpha <= eta B^2 / ((3 tau_mix + 1) G)",
                alpha,
                limit,
                f"a step size of at most {rounded_down(largest)}",
            ),
        ],
        facts.trivial,
    )


def largest_markov_step(facts: Facts) -> float:
    """Return the largest step that is within its limit for two chains.

    The limit depends on the step: tau_mix grows as the step falls, and the limit falls.
    """
    alpha, tau = math.inf, 0
    while (now := facts.mixing_time(alpha)) != tau:
        tau = now
        alpha = _markov_limit(facts, tau)
    return alpha


def _drift_constants(facts: Facts) -> tuple[float, float]:
    c = facts.r_max + facts.length
    B = 2.0 * facts.first_error + c
    return B, 42.0 * B**2 + 30.0 * c**2


def _markov_limit(facts: Facts, tau: int) -> float:
    B, G = _drift_constants(facts)
    return facts.eta * B**2 / ((3 * tau + 1) * G) if B else math.inf


def markov_decaying(facts: Facts, decay: Decay, steps: int, as_printed: bool = False) -> Bound:
    """Bound for two chains and steps a / (t + c0)^xi, with tau = tau_mix(alpha_T).

    With beta_1 a bound on E|delta_tau|^2, it is

        xi = 1:  beta_1 ((tau + c0) / (T + c0))^(eta a) + Gamma(T) / (T + c0)^q,     q = min(1, eta a)
        xi < 1:  beta_1 exp(-eta a / (1 - xi) Delta_T) + beta(T) / (eta (T + c0)^xi)

    The paper bounds tau by L_1 (log(T + c0) - log a + 1), which need not hold (finding 8); tau itself is used
    in its place unless `as_printed`. "c0 sufficiently large" becomes two conditions (finding 17).
    """
    a, c0, xi, eta = decay.a, decay.c0, decay.xi, facts.eta
    tau = facts.mixing_time(decay.at(steps))
    constants = _decaying_constants(facts, decay, steps, tau, as_printed)
    beta_1 = constants["beta_1"]
    conditions = [
        *facts.conditions,
        facts.enough_steps(steps, tau),
        *_offset_conditions(facts, decay, steps, tau, constants, as_printed),
    ]
    name = f"{NAME}, Markov sampling, decaying step size, {'as printed' if as_printed else 'corrected'}"
    if xi == 1.0:
        constants |= _harmonic_constants(eta, decay, steps, constants["tilde_beta(T)"])
        return conclude(
            f"{name}, xi = 1",
            "beta_1 ((tau_mix + c0) / (T + c0))^(eta a) + Gamma(T) / (T + c0)^q",
            lambda: (
                beta_1 * ((tau + c0) / (steps + c0)) ** (eta * a)
                + constants["Gamma(T)"] / power(steps + c0, constants["q"])
            ),
            constants,
            conditions,
            facts.trivial,
        )
    constants["beta(T)"] = 2.0 * a * constants["tilde_beta(T)"]
    constants["Delta_T"] = decay.between(tau, steps)
    return conclude(
        f"{name}, xi < 1",
        "beta_1 exp(-eta a Delta_T / (1 - xi)) + beta(T) / (eta (T + c0)^xi)",
        lambda: (
            beta_1 * math.exp(-eta * a / (1.0 - xi) * constants["Delta_T"])
            + constants["beta(T)"] / (eta * (steps + c0) ** xi)
        ),
        constants,
        conditions,
        facts.trivial,
    )


def _decaying_constants(
    facts: Facts, decay: Decay, steps: int, tau: int, as_printed: bool
) -> dict[str, float]:
    r_max, length = facts.r_max, facts.length
    beta_2 = 946.0 * (r_max + 3.0 * length) ** 2
    mixing = {facts.tau_name: float(tau)}
    factor = float(tau)
    if as_printed:
        mixing |= paper_mixing(facts)
        factor = mixing["L_1"] * (math.log(steps + decay.c0) - math.log(decay.a) + 1.0)
    return {
        **facts.constants,
        "|theta_0|": facts.first_length,
        "|theta_0 - theta*|": facts.first_error,
        **mixing,
        "beta_1": 2.0 * (facts.first_length + r_max + 2.0 * length) ** 2 + 2.0 * facts.first_error**2,
        "beta_2": beta_2,
        "tilde_beta(T)": 2.0 * beta_2 * factor,
        "c_0_1": offset_for_ratio(tau, decay.xi),
        "c_0_2": offset_for_sum(decay.a, decay.xi, tau, _largest_sum(facts.eta)),
    }


def paper_mixing(facts: Facts) -> dict[str, float]:
    """Return the paper's constants of mixing: C, beta, and L_1 = max(1, (log C + 1) / log(1 / beta))."""
    C, beta = mixing_constants(facts.problem)
    return {"C": C, "beta": beta, "L_1": max(1.0, ratio(math.log(C) + 1.0, -math.log(beta)))}


def _harmonic_constants(eta: float, decay: Decay, steps: int, tilde_beta: float) -> dict[str, float]:
    a, rate = decay.a, eta * decay.a
    if close(rate, 1.0):
        Gamma = 4.0 * power(a, 2.0) * math.log(steps + decay.c0) * tilde_beta
    elif rate < 1.0:
        Gamma = 4.0 * power(a, 2.0) / (1.0 - rate) * tilde_beta
    else:
        Gamma = 4.0 * math.e * power(a, 2.0) / (rate - 1.0) * tilde_beta
    return {"q": min(1.0, rate), "Gamma(T)": Gamma}


def _largest_sum(eta: float) -> float:
    return min(1.0 / 12.0, eta / 2694.0)


def _offset_conditions(
    facts: Facts, decay: Decay, steps: int, tau: int, constants: dict[str, float], as_printed: bool
) -> list[Condition]:
    """Return the conditions behind "c0 sufficiently large": those of the lemma on sums of steps, and more."""
    a, xi, eta = decay.a, decay.xi, facts.eta
    total = decay.sum_of_first(tau)

    def needed(now: Decay) -> float:
        return offset_for_sum(a, xi, facts.mixing_time(now.at(steps)), _largest_sum(eta))

    remedy = decay.advice(needed) if total > _largest_sum(eta) else ""
    conditions = [
        at_most(
            OFFSET,
            "sum of the first tau_mix steps <= min(1/12, eta/2694)",
            total,
            _largest_sum(eta),
            remedy,
        )
    ]
    if as_printed:
        limit = 2.0 * constants["L_1"] * decay.at(tau) * (1.0 - math.log(decay.at(steps)))
        formula = "sum of the first tau_mix steps <= 2 L_1 alpha_tau (log(1/alpha_T) + 1)"
        conditions.append(at_most(OFFSET, formula, total, limit, remedy or "a larger c0"))
    else:
        conditions.append(slow_decay(decay, tau, lambda now: facts.mixing_time(now.at(steps))))
        conditions.append(decay.large_offset("c0 >= 1", 1.0))
    if xi == 1.0:
        conditions.append(decay.large_offset("c0 >= eta a", eta * a))
    else:
        least = power(2.0 * xi / (a * eta), 1.0 / (1.0 - xi))
        conditions.append(decay.large_offset("c0 >= (2 xi / (a eta))^(1/(1-xi))", least))
    return conditions
