"""Plain words for the ids of tasks and algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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


def distinct_texts(values: Iterable[float]) -> dict[float, str]:
    """Return a text for each number: six digits, or all of them where six would not tell it from others.

    Numbers that six digits would make look rounder than they are have all their digits, too. What is not a
    number is left out.

    Examples
    --------
    >>> distinct_texts([0.1, 0.00316227766]), distinct_texts([0.9999999, 0.99999999])
    ({0.00316227766: '0.00316228', 0.1: '0.1'}, {0.9999999: '0.9999999', 0.99999999: '0.99999999'})
    """
    known = sorted({float(value) for value in values if value == value})
    texts = {value: f"{value:g}" for value in known}
    counts = Counter(texts.values())
    return {
        value: exact_text(value) if counts[text] > 1 or f"{value:#g}".rstrip(".") != text else text
        for value, text in texts.items()
    }  # where zeros at the end were cut off, the number may look rounder than it is


def exact_text(value: float) -> str:
    """Return a number in the fewest digits that mean this number and no other.

    Examples
    --------
    >>> exact_text(0.1), exact_text(2.0), exact_text(0.99999999)
    ('0.1', '2', '0.99999999')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))
