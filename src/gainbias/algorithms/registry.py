"""All algorithms by their ids, the bibliography behind them, and both as plain facts for tables and pages."""

from __future__ import annotations

import math
from typing import Any

from gainbias.algorithms import (
    adaptive_td,
    almost_sure_td,
    centred_td,
    differential_td,
    discounted_td,
    double_chain,
    double_chain_centred,
    double_chain_symmetric,
    implicit_td,
    lspe,
    lstd,
    projected_td,
    relative_td,
    single_chain,
    td_lambda,
    vrtd,
)
from gainbias.algorithms.algorithm import Algorithm
from gainbias.suggest import did_you_mean

REFERENCES: dict[str, str] = {
    "bhandari2018finite": "Bhandari, Russo, Singal: A Finite Time Analysis of Temporal Difference Learning "
    "with Linear Function Approximation. COLT 2018",
    "blaser2024almost": "Blaser, Zhang: Almost Sure Convergence of Average Reward Temporal Difference "
    "Learning. arXiv 2409.19546, 2024",
    "chen2025adaptive": "Chen: Non-Asymptotic Guarantees for Average-Reward Q-Learning with Adaptive "
    "Stepsizes. arXiv 2504.18743, 2025",
    "chen2025seminorm": "Chen, Zhang, Zhang, Haque, Maguluri: A Non-Asymptotic Theory of Seminorm Lyapunov "
    "Stability. arXiv 2502.14208, 2025",
    "devraj2022relative": "Devraj, Meyn: Q-Learning with Uniformly Bounded Variance. IEEE Transactions on "
    "Automatic Control 67, 2022",
    "gainbias": "This package",
    "haque2024stochastic": "Haque, Maguluri: Stochastic Approximation with Unbounded Markovian Noise: A "
    "General-Purpose Theorem. arXiv 2410.21704, AISTATS 2025",
    "kim2025implicit": "Kim, Cho, Laber: Implicit Updates for Average-Reward Temporal Difference Learning. "
    "arXiv 2510.06149, 2025",
    "li2024stochastic": "Li, Wu, Lan: Stochastic First-Order Methods for Average-Reward Markov Decision "
    "Processes. arXiv 2205.05800, Mathematics of Operations Research 2024",
    "sakha2026relative": "Sakha, Kamalapurkar, Meyn: arXiv 2603.27874, 2026",
    "tian2026bridging": "Tian, Chen, Paschalidis, Olshevsky: Bridging the Gap Between Average and Discounted "
    "TD Learning",
    "tsitsiklis1999average": "Tsitsiklis, Van Roy: Average Cost Temporal-Difference Learning. Automatica 35, "
    "1999",
    "wan2021learning": "Wan, Naik, Sutton: Learning and Planning in Average-Reward Markov Decision "
    "Processes. ICML 2021",
    "yu2009convergence": "Yu, Bertsekas: Convergence Results for Some Temporal Difference Methods Based on "
    "Least Squares. IEEE Transactions on Automatic Control 54, 2009",
    "zhang2021finite": "Zhang, Zhang, Maguluri: Finite Sample Analysis of Average-Reward TD Learning and "
    "Q-Learning. NeurIPS 2021",
}
"""Citations by the keys in `About.reference`."""


_FILES = (
    double_chain,
    single_chain,
    double_chain_symmetric,
    double_chain_centred,
    td_lambda,
    projected_td,
    implicit_td,
    differential_td,
    relative_td,
    centred_td,
    discounted_td,
    lstd,
    lspe,
    vrtd,
    almost_sure_td,
    adaptive_td,
)

ALGORITHMS: dict[str, Algorithm] = {file.ALGORITHM.name: file.ALGORITHM for file in _FILES}
"""The algorithms of this package, by id."""

ALGORITHM_HOMES: dict[str, str] = {file.ALGORITHM.name: file.__name__ for file in _FILES}
"""The module of each algorithm."""


def short_title(name: str) -> str:
    """Return the title of an algorithm in tables and figures; its name if it is not registered.

    Examples
    --------
    >>> short_title("td-lambda"), short_title("my-own")
    ('Coupled SA', 'my-own')
    """
    return ALGORITHMS[name].about.short_title if name in ALGORITHMS else name


def long_title(name: str) -> str:
    """Return the short title of an algorithm, with its id if the paper calls it something else.

    Examples
    --------
    >>> long_title("td-lambda"), long_title("double-chain")
    ('Coupled SA (td-lambda)', 'Double chain')
    """
    return short_title(name) + (f" ({name})" if name == "td-lambda" else "")


def as_algorithm(algorithm: Algorithm | str) -> Algorithm:
    """Return an algorithm, looked up if its id was given.

    Examples
    --------
    >>> as_algorithm("double-chain")
    Algorithm('double-chain')
    >>> as_algorithm("duble-chain")
    Traceback (most recent call last):
    ValueError: unknown algorithm 'duble-chain': did you mean 'double-chain'? ...
    """
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise ValueError(f"algorithm must be an id or a gb.Algorithm, found {type(algorithm).__name__}")
    if algorithm not in ALGORITHMS:
        hint = did_you_mean(algorithm, ALGORITHMS)
        known = ", ".join(ALGORITHMS)
        raise ValueError(
            f"unknown algorithm {algorithm!r}: {hint + ' The' if hint else 'the'} ids are {known}"
        )
    return ALGORITHMS[algorithm]


def describe_algorithms() -> list[dict[str, Any]]:
    """Return the facts of all registered algorithms.

    Examples
    --------
    >>> entry = describe_algorithms()[0]
    >>> entry["id"], entry["transitions_per_step"]
    ('double-chain', 2)
    """
    return [
        {
            "id": algorithm.name,
            "title": algorithm.about.title,
            "converges_to": algorithm.about.converges_to,
            "not_guaranteed": algorithm.about.not_guaranteed,
            "transitions_per_step": algorithm.chains,
            "parameters": {name: _plain(value) for name, value in algorithm.params._field_defaults.items()},
            "table_row": algorithm.about.table_row,
            "ours": algorithm.about.ours,
            "reconstructed": algorithm.about.reconstructed,
            "tabular_only": algorithm.declared.tabular_only,
            "references": [REFERENCES[key] for key in algorithm.about.reference.split("; ")],
        }
        for algorithm in ALGORITHMS.values()
    ]


def _plain(number: float) -> float | str:
    """Return a number as JSON can represent it: in words if it is not finite."""
    return number if math.isfinite(number) else str(number)
