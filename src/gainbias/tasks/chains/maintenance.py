"""Machine replacement: replace a machine when it fails, which is dear, or at a planned age.

A machine that is a periods old fails in the next one with probability f(a), where

    P(it lives longer than a) = S(a) = survival^(a^wear),    f(a) = 1 - S(a + 1) / S(a),

a discrete Weibull law: with `wear` above 1 old machines fail more often. A period pays `income`. After a
failure a new machine costs `failure_cost`; one that reaches the age `replace_at` is replaced for
`planned_cost`. The default age is the best one. The state is the age, and by the renewal theorem, with
A = replace_at,

    gain = income - [failure_cost (1 - S(A)) + planned_cost S(A)] / [S(0) + ... + S(A - 1)].
"""

from __future__ import annotations

import numpy as np

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_integer, as_number
from gainbias.tasks.task import Recipe, Settings, Source, tabular


def replacement_process(
    replace_at: int, survival: float, wear: float, income: float, failure_cost: float, planned_cost: float
) -> MarkovRewardProcess:
    """Return the chain of ages of machines that are replaced at `replace_at`.

    Examples
    --------
    >>> process = replacement_process(2, 0.5, 2.0, income=1.0, failure_cost=8.0, planned_cost=1.0)
    >>> process.transitions, process.rewards
    (array([[0.5, 0.5],
           [1. , 0. ]]), array([-3.   , -6.125]))
    """
    age = np.arange(replace_at)
    lasts = survival ** ((age + 1.0) ** wear - age**wear)
    chain = np.zeros((replace_at, replace_at))
    chain[:, 0] = 1.0 - lasts
    chain[age[:-1], age[1:]] = lasts[:-1]
    chain[-1, 0] = 1.0
    rewards = np.full((replace_at, replace_at), income, dtype=np.float64)
    rewards[:-1, 0] -= failure_cost
    rewards[-1, 0] -= (1.0 - lasts[-1]) * failure_cost + lasts[-1] * planned_cost
    return MarkovRewardProcess(chain, rewards)


def _process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    process = replacement_process(
        as_integer(settings["replace_at"], "replace_at", least=1),
        as_number(settings["survival"], "survival", above=0.0, below=1.0),
        as_number(settings["wear"], "wear", above=0.0),
        as_number(settings["income"], "income"),
        as_number(settings["failure_cost"], "failure_cost", at_least=0.0),
        as_number(settings["planned_cost"], "planned_cost", at_least=0.0),
    )
    return process, {}


RECIPES = (
    Recipe(
        name="machine-replacement",
        summary="Replace a machine when it fails, or before, at a planned age.",
        citation=(
            "Barlow, Proschan: Mathematical Theory of Reliability, Wiley 1965 (replacement by age); "
            "Nakagawa, Osaki: The Discrete Weibull Distribution, IEEE Transactions on Reliability 24(5), 1975"
        ),
        num_states=12,
        settings={
            "num_features": None,
            "replace_at": 12,
            "survival": 0.998,
            "wear": 2.0,
            "income": 1.0,
            "failure_cost": 10.0,
            "planned_cost": 2.0,
        },
        process=_process,
        features=tabular,
    ),
)
