"""The number that a theorem gives on a problem."""

from __future__ import annotations

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.lanes import StepSize
from gainbias.engine.paths import Sampling
from gainbias.engine.run import is_count
from gainbias.engine.schedules import as_schedule
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.bounds.record import Bound
from gainbias.theory.bounds.theorems import find_theorems


def bound(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    *,
    num_steps: int,
    step_size: StepSize | None = None,
    sampling: Sampling = "markov",
    as_printed: bool = False,
    initial_weights: Floats | None = None,
    **params: float,
) -> Bound:
    """Return what a theorem guarantees after some steps, with every constant and condition.

    The theorem follows from the algorithm, the sampling and the kind of step sizes. Statements of the paper
    that do not hold as printed are used in their corrected form.

    Parameters
    ----------
    algorithm : str or Algorithm
        ``"double-chain"``, ``"single-chain"``, ``"discounted-td"`` (the bound of Bhandari, Russo and Singal,
        for comparison), or ``"reward-estimate"``, the plain average of the rewards.
    problem : Problem or Task
        Process and features.
    num_steps : int
        The number of steps T.
    step_size : schedule or float
        `Constant` (or a number), `Harmonic` or `Polynomial`; none for ``"reward-estimate"``.
    sampling : {"markov", "iid"}
        Follow the chain, or draw the state of each transition afresh from the stationary law.
    as_printed : bool
        Use the paper's own statement, conditions included, even where it is wrong.
    initial_weights : (d,) array, optional
        First weights, otherwise zeros.
    **params
        For single-chain ``mean_ratio`` (rho_0, otherwise 1), ``weights_radius`` (R_theta, otherwise that of
        `projection_radii`), ``features_radius`` (R_w, otherwise infinite) and ``lambda_squared`` (the square
        of the proof's parameter, otherwise the middle of its interval); for discounted-td ``discount``
        (otherwise 0.99) and ``radius`` (otherwise that of its authors, with Markov sampling).

    Returns
    -------
    Bound
        Its value is not a number, and ``certified`` is false, if a condition does not hold. With `as_printed`
        ``certified`` means that the printed conditions hold, which may not be enough. A certified bound is
        finite, and never above what a projection gives anyway; ``theorem_value`` is what the formula gives.
        Bounds can still be so large that they say nothing: ``informative`` tells, ``note`` why.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> result = gb.bound("double-chain", problem, step_size=0.001, num_steps=5_000, sampling="iid")
    >>> result
    Bound(E|theta_T - theta*|^2 <= 0.0512132)
    >>> result.formula
    'exp(-alpha eta T) |theta_0 - theta*|^2 + 18 alpha (r_max + |theta*|)^2 / eta'
    >>> round(result.constants["eta"], 6)
    0.7
    """
    if not is_count(num_steps):
        raise ValueError(f"num_steps must be a positive integer, found {num_steps!r}")
    theorems = find_theorems(algorithm, problem, sampling, initial_weights, as_printed, params)
    if theorems.without_steps:
        if step_size is not None:
            raise ValueError(f"the average of rewards has no step size, found {step_size!r}")
        return theorems.without_steps(int(num_steps))
    return theorems.about(as_schedule(step_size), int(num_steps))  # type: ignore[arg-type]
