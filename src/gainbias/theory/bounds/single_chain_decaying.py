"""The theorem about single-chain TD with decaying step sizes."""

from __future__ import annotations

import math

from gainbias.theory.bounds.arithmetic import close, exponential, power, ratio, rounded_down, rounded_up
from gainbias.theory.bounds.double_chain import paper_mixing
from gainbias.theory.bounds.projected import Projected
from gainbias.theory.bounds.record import Bound, Condition, at_least, at_most, conclude
from gainbias.theory.bounds.steps import OFFSET, Decay, offset_for_ratio, slow_decay


def markov_decaying(run: Projected, decay: Decay, steps: int, as_printed: bool = False) -> Bound:
    """Bound for one chain with steps alpha_t = a / (t + c0)^xi and beta_t = rho_0 alpha_t.

    With tau = tau_mix(rho_0 alpha_T) and the constants of the paper's appendix it is

        xi = 1:  4 R^2 ((tau + c0) / (T + c0))^(a c_1) + (Gamma_1 + Gamma_0 G_1(T)) / (T + c0)^(a c_1)
        xi < 1:  4 R^2 exp(-a c_1 Delta_T / (1 - xi)) + a (G_1(T) + rho_0 c_2 G_2(T)) / (c_1 (T + c0)^xi)
                 + 4 a c_2 exp(a c_1 / c0^xi) Delta'_T exp(-a min(c_1, 2 rho_0) Delta_T / (1 - xi)) / (1 - xi)

    For xi = 1 the theorem needs a eta < 1, so that its exponent a c_1 is below 1: it never promises 1/T
    (finding 11). What differs from the paper unless `as_printed`: rho_1 is 36 + 8 rho_0, not 28 + 8 rho_0
    (finding 6); tau is that of rho_0 alpha_T, not of alpha_T (finding 7); tau itself stands where the paper
    has L_1 times a logarithm (finding 8); lambda^2 may not be at an end of its interval (finding 14); the
    proof's products need 2 c_1 alpha_0 <= 1 (finding 15) and 2 rho_0 alpha_0 <= 1, its sums c0 >= 1 and
    c0 >= c_0_1 (finding 35); and for xi < 1 a sum of decreasing steps is bounded by the integral from tau - 1
    to T - 1 (Delta'_T), as the printed one from tau to T (Delta_T) is smaller than the sum (finding 34).
    """
    c0, xi = decay.c0, decay.xi
    level = decay.at(steps) if as_printed else run.mean_ratio * decay.at(steps)
    tau = run.facts.mixing_time(level)
    constants = _constants(run, decay, steps, tau, as_printed)
    conditions = [
        *run.conditions,
        run.facts.enough_steps(steps, tau),
        *([] if as_printed else _product_conditions(run, decay, steps, tau)),
    ]
    name = f"Single-chain, Markov sampling, decaying step size, {'as printed' if as_printed else 'corrected'}"
    first, c_1 = 4.0 * run.weights_radius**2, run.curvature
    if xi == 1.0:
        constants |= _harmonic_constants(run, decay, steps, tau, constants["G_2(T)"])
        noise = constants["Gamma_1"] + constants["Gamma_0"] * constants["G_1(T)"]
        return conclude(
            f"{name}, xi = 1",
            "(4 R_theta^2 (tau_mix + c0)^(a c_1) + Gamma_1 + Gamma_0 G_1(T)) / (T + c0)^(a c_1)",
            lambda: (
                first * ((tau + c0) / (steps + c0)) ** (decay.a * c_1)
                + noise / (steps + c0) ** (decay.a * c_1)
            ),
            constants,
            [*conditions, *_harmonic_conditions(run, decay)],
            run.trivial,
        )
    constants |= {
        "Delta_T": decay.between(tau, steps),
        "Delta'_T": decay.between(tau, steps) if as_printed else decay.between(tau - 1, steps - 1),
        "rho_min": min(c_1, 2.0 * run.mean_ratio),
    }
    return conclude(
        f"{name}, xi < 1",
        "4 R_theta^2 exp(-a c_1 Delta_T / (1 - xi)) + a (G_1(T) + rho_0 c_2 G_2(T)) / (c_1 (T + c0)^xi) "
        "+ 4 a c_2 / (1 - xi) exp(a c_1 / c0^xi) Delta'_T exp(-a rho_min Delta_T / (1 - xi))",
        lambda: _polynomial_value(run, decay, steps, constants),
        constants,
        [*conditions, *_polynomial_conditions(run, decay)],
        run.trivial,
    )


def _constants(run: Projected, decay: Decay, steps: int, tau: int, as_printed: bool) -> dict[str, float]:
    """Return c_1, c_2, rho_1, G_1(T) and G_2(T), and c_0_1, or C, beta and L_1 in the printed form."""
    rho_0 = run.mean_ratio
    rho_1 = (28.0 if as_printed else 36.0) + 8.0 * rho_0
    mixing: dict[str, float] = {run.facts.tau_name: tau, "c_0_1": offset_for_ratio(tau, decay.xi)}
    for_weights = for_mean = float(tau)
    if as_printed:
        mixing |= paper_mixing(run.facts)
        late = math.log(steps + decay.c0) + 1.0
        for_weights = mixing["L_1"] * (late - math.log(decay.a))
        for_mean = mixing["L_1"] * (late - math.log(rho_0 * decay.a))
    return {
        **run.constants,
        **mixing,
        "c_1_lambda": run.curvature,
        "c_2_lambda": run.price,
        "rho_1": rho_1,
        "G_1(T)": (4.0 * rho_1 * for_weights + 4.0) * run.size,
        "G_2(T)": 64.0 * for_mean + 12.0,
    }


def _harmonic_constants(run: Projected, decay: Decay, steps: int, tau: int, G_2: float) -> dict[str, float]:
    """Return Gamma_0 and Gamma_1 in the three cases of rho_0 a."""
    a, c_1, c_2 = decay.a, run.curvature, run.price
    b = run.mean_ratio * a
    early = 4.0 * power(tau + decay.c0, 2.0 * b)
    rest = ratio(4.0 * a * c_2, 1.0 - a * c_1)
    if close(b, 0.5):
        Gamma_1 = rest * (early + 4.0 * power(b, 2.0) * math.log(steps + decay.c0) * G_2)
    elif b < 0.5:
        slow = ratio(power(2.0, a * c_1) * a * c_2, 2.0 * b - a * c_1)
        Gamma_1 = slow * (early + 4.0 * power(b, 2.0) / (1.0 - 2.0 * b) * G_2)
    else:
        Gamma_1 = rest * (early + 4.0 * math.e * power(b, 2.0) / (2.0 * b - 1.0) * G_2)
    return {"Gamma_0": ratio(4.0 * power(a, 2.0), 1.0 - a * c_1), "Gamma_1": Gamma_1}


def _polynomial_value(run: Projected, decay: Decay, steps: int, constants: dict[str, float]) -> float:
    a, xi, c_1, c_2 = decay.a, decay.xi, run.curvature, run.price
    scale = a / (1.0 - xi)
    noise = constants["G_1(T)"] + run.mean_ratio * c_2 * constants["G_2(T)"]
    overlap = (
        exponential(a * c_1 / decay.c0**xi)
        * constants["Delta'_T"]
        * math.exp(-scale * constants["rho_min"] * constants["Delta_T"])
    )
    return (
        4.0 * run.weights_radius**2 * math.exp(-scale * c_1 * constants["Delta_T"])
        + a * noise / (c_1 * power(steps + decay.c0, xi))
        + 4.0 * scale * c_2 * overlap
    )


def _product_conditions(run: Projected, decay: Decay, steps: int, tau: int) -> list[Condition]:
    """What the proof uses and the theorem does not say."""
    first, xi = decay.at(0), decay.xi
    slowest = 2.0 * max(run.curvature, run.mean_ratio)
    return [
        decay.large_offset("c0 >= 1", 1.0),
        slow_decay(decay, tau, lambda now: run.facts.mixing_time(run.mean_ratio * now.at(steps))),
        at_most(
            OFFSET,
            "2 max(c_1, rho_0) alpha_0 <= 1",
            slowest * first,
            1.0,
            f"c0 at least {rounded_up(power(slowest * decay.a, 1.0 / xi))}",
        ),
    ]


def _harmonic_conditions(run: Projected, decay: Decay) -> list[Condition]:
    eta, rho_0 = run.facts.eta, run.mean_ratio
    least = ratio(2.0 * eta - 4.0 * rho_0, run.reach)
    return [
        at_most(
            "a",
            "a < 1 / eta",
            decay.a,
            ratio(1.0, eta),
            f"a below {rounded_down(ratio(1.0, eta))}",
            strict=True,
        ),
        at_least(
            "lambda^2",
            "lambda^2 > (2 eta - 4 rho_0) / (r_max + 2 R_theta)",
            run.lambda_squared,
            least,
            f"lambda_squared above {rounded_up(least)}",
            strict=True,
        ),
    ]


def _polynomial_conditions(run: Projected, decay: Decay) -> list[Condition]:
    a, xi = decay.a, decay.xi
    return [
        decay.large_offset(formula, power(ratio(xi, a * max(rate, 0.0)), 1.0 / (1.0 - xi)))
        for formula, rate in (
            ("c0 >= (xi / (a c_1))^(1/(1-xi))", run.curvature),
            ("c0 >= (xi / (rho_0 a))^(1/(1-xi))", run.mean_ratio),
        )
    ]
