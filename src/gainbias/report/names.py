"""Plain words for the ids of tasks and algorithms."""

from __future__ import annotations

TASKS = {
    "random-walk-50": "Random walk, 50 states",
    "random-walk-100": "Random walk, 100 states",
    "random-walk-1000": "Random walk, 1000 states",
    "frozen-lake": "Frozen lake",
    "cliff-walking": "Cliff walking",
    "taxi": "Taxi",
    "grid-world-5x5": "Grid world, 5 by 5",
    "grid-world-10x10": "Grid world, 10 by 10",
    "grid-world-2x11": "Grid world, 2 by 11",
    "deep-sea": "Deep sea",
    "deep-sea-concave": "Deep sea, concave",
    "resource-gathering": "Resource gathering",
    "fruit-tree-5": "Fruit tree, depth 5",
    "fruit-tree-6": "Fruit tree, depth 6",
    "fruit-tree-7": "Fruit tree, depth 7",
    "mm1k-admission": "Queue with admission",
}

ALGORITHMS = {
    "double-chain": "Double chain",
    "single-chain": "Single chain",
    "td-lambda": "Coupled SA",
    "implicit-td": "Implicit TD",
    "relative-td": "Relative TD",
    "vrtd": "Variance-reduced TD",
    "vrtd-all-data": "Variance-reduced TD, all data",
    "lstd": "Least squares",
}
"""In the order in which they are listed and drawn."""


def task_title(task: str) -> str:
    """Return a task's name in plain words.

    Examples
    --------
    >>> task_title("fruit-tree-5"), task_title("river-swim")
    ('Fruit tree, depth 5', 'River swim')
    """
    return TASKS.get(task, task.replace("-", " ").capitalize())


def algorithm_title(algorithm: str) -> str:
    """Return an algorithm's name in plain words.

    Examples
    --------
    >>> algorithm_title("td-lambda"), algorithm_title("my-own")
    ('Coupled SA', 'My own')
    """
    return ALGORITHMS.get(algorithm, algorithm.replace("-", " ").capitalize())


def long_title(algorithm: str) -> str:
    """Return an algorithm's name in plain words, with its id if the paper calls it something else.

    Examples
    --------
    >>> long_title("td-lambda"), long_title("double-chain")
    ('Coupled SA (td-lambda)', 'Double chain')
    """
    return algorithm_title(algorithm) + (f" ({algorithm})" if algorithm == "td-lambda" else "")
