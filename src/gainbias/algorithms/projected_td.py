"""TD(lambda) with a projected trace, of Haque and Maguluri (2025). Reconstructed.

The update is that of `td-lambda`, with the trace projected onto the weights orthogonal to theta_e, those of
the constant value 1 (if features do not span the constants, nothing is projected):

    theta <- theta + alpha delta (I - theta_e theta_e^T / |theta_e|^2) z

The part of theta along theta_e never enters delta, because the rows of all states have the same product with
theta_e. So the path is, up to rounding, the projection of the path of `td-lambda`, and that is how it is
computed here: the plain update, projected whenever it is read. The first weights are also projected.
Rebuilt from the paper's text: whether the trace or the weights are projected there is immaterial for the
output.

Converges to the one point orthogonal to theta_e on the line of solutions of the TD(lambda) equation, the same
for all runs. Its values do not have mean 0 in general: compare differences of values, or use the
algorithm's own limit. Not guaranteed: constants of the bounds grow with the number of features.
"""

from __future__ import annotations

from gainbias.algorithms.algorithm import (
    FRACTION,
    POSITIVE,
    About,
    Algorithm,
    Declared,
    Form,
    Output,
    Setting,
)
from gainbias.algorithms.fields import project_off, td_solution
from gainbias.algorithms.td_lambda import (
    Params,
    State,
    TracedState,
    frozen,
    init,
    mean_field,
    sample_field,
    step,
    without_trace,
)
from gainbias.model.problem import Problem
from gainbias.types import Floats


def output(state: State | TracedState, params: Params, setting: Setting) -> Output:
    """Return the weights without their part along the weights of the constant 1."""
    return Output(project_off(setting.ones_weights, state.weights), state.gain)


def limit(problem: Problem, params: Params, first: Floats) -> Floats:
    """Return the TD(lambda) solution that is orthogonal to the weights of the constant 1."""
    return project_off(problem.ones_weights, td_solution(problem, params.trace_decay))


ALGORITHM = Algorithm(
    name="projected-td",
    form=Form(init, step, output, laned=True, touches_rows=without_trace),
    params=Params,
    bounds={"gain_ratio": POSITIVE, "trace_decay": FRACTION},
    declared=Declared(
        limit=limit,
        rate=1.0,
        mean_field=mean_field,
        frozen=frozen,
        affine=("weights", "gain"),
        sample_field=sample_field,
    ),
    about=About(
        title="TD(lambda) with a projected trace",
        short_title="Projected TD",
        reference="haque2024stochastic",
        converges_to="the TD(lambda) fixed point that is orthogonal to the weights of the constant 1",
        not_guaranteed="values of mean 0",
        table_row="Haque & Maguluri",
        reconstructed=True,
    ),
)
