"""The theorem about single-chain TD with constant step sizes."""

from __future__ import annotations

import math

from gainbias.theory.bounds.arithmetic import ratio, rounded_down
from gainbias.theory.bounds.projected import Projected
from gainbias.theory.bounds.record import Bound, Condition, at_most, below, conclude


def markov_constant(run: Projected, alpha: float, steps: int, as_printed: bool = False) -> Bound:
    """Bound for one chain with steps alpha and beta = rho_0 alpha, with tau = tau_mix(beta).

    With X = r_max + 2 R_theta and rho = max(kappa, G_1), for T >= tau it is

        4 alpha X (T - tau) rho^(T - tau - 1) / lambda^2
            + 4 R_theta^2 kappa^(T - tau) + alpha G_const / (2 zeta)

    The paper has the exponent T - tau, with which a geometric sum is one power short (finding 5), and its
    G_const lacks the factor rho_0 that the proof has (finding 13): it is larger, and so also valid. Besides,
    the mean w must not overshoot: beta <= 1 (finding 35). The findings are those of docs/paper.md.
    """
    facts, R = run.facts, run.weights_radius
    zeta, rho_0 = run.curvature, run.mean_ratio
    tau = facts.mixing_time(min(alpha, rho_0 * alpha))
    waiting = steps - tau
    kappa, G_1 = 1.0 - 2.0 * alpha * zeta, math.exp(-2.0 * rho_0 * alpha)
    G_const = (1.0 if as_printed else rho_0) * (16 * tau + 6) * run.price + (88 * tau + 4) * run.size
    exponent = "T - tau_mix" if as_printed else "T - tau_mix - 1"

    def value() -> float:
        log_kappa = math.log1p(-2.0 * alpha * zeta)  # kappa itself has lost the digits of small steps
        log_rho = max(log_kappa, -2.0 * rho_0 * alpha)
        overlap = waiting * math.exp(log_rho * (waiting if as_printed else max(waiting - 1, 0)))
        noise = alpha * G_const / (2.0 * zeta)
        return 4.0 * alpha * run.price * overlap + 4.0 * R**2 * math.exp(log_kappa * waiting) + noise

    return conclude(
        f"Single-chain, Markov sampling, constant step size, {'as printed' if as_printed else 'corrected'}",
        f"4 alpha (r_max + 2 R_theta) (T - tau_mix) rho^({exponent}) / lambda^2 "
        "+ 4 R_theta^2 kappa^(T - tau_mix) + alpha G_const / (2 zeta)",
        value,
        {
            **run.constants,
            facts.tau_name: tau,
            "zeta": zeta,
            "kappa": kappa,
            "G_1": G_1,
            "rho": max(kappa, G_1),
            "G_const": G_const,
        },
        [*run.conditions, facts.enough_steps(steps, tau), *_step_conditions(run, alpha, as_printed)],
        run.trivial,
    )


def _step_conditions(run: Projected, alpha: float, as_printed: bool) -> list[Condition]:
    """Return what must hold for the steps of the weights and, unless as printed, of the mean."""
    advice = f"a step size of at most {rounded_down(largest_step(run, as_printed))}"
    stable = ratio(1.0, 2.0 * max(run.curvature, 0.0))
    of_weights = at_most("step size", "alpha < 1 / (2 zeta)", alpha, stable, advice, strict=True)
    of_mean = at_most("step of the mean", "beta <= 1", run.mean_ratio * alpha, 1.0, advice)
    return [of_weights] if as_printed else [of_weights, of_mean]


def largest_step(run: Projected, as_printed: bool = False) -> float:
    """Return the largest step below 1 / (2 zeta) with a step of the mean of at most 1."""
    stable = below(below(ratio(1.0, 2.0 * max(run.curvature, 0.0))))
    return stable if as_printed else min(stable, 1.0 / run.mean_ratio)
