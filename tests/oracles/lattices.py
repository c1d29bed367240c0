"""Products of chains, two-dimensional walks, queues in tandem, and chains built backwards from their bias."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, kron

from .birth_death import birth_death
from .record import ExactChain, Matrix, Wide, finished, from_entries, wide


def built_from_bias(transitions: Matrix, stationary: Wide, bias: ArrayLike, gain: float) -> ExactChain:
    """The chain whose reward is ``g + W - P W``, so that the bias is W up to its mean.

    Meant for dyadic probabilities and integer W: then the reward has no rounding error, which is checked.
    """
    bias = np.asarray(bias, dtype=np.float64)
    rewards = gain + bias - transitions @ bias
    assert np.array_equal(wide(rewards), gain + wide(bias) - transitions.astype(np.longdouble) @ wide(bias))
    return finished(transitions, rewards, stationary, wide(bias), gain)


def product_chain(first: ExactChain, second: ExactChain) -> ExactChain:
    """Two independent chains side by side, the rewards added: gains and biases add, laws multiply."""
    transitions = csr_array(kron(csr_array(first.transitions), csr_array(second.transitions)))
    return finished(
        transitions,
        np.add.outer(first.rewards, second.rewards).ravel(),
        np.outer(wide(first.stationary), wide(second.stationary)).ravel(),
        np.add.outer(wide(first.bias), wide(second.bias)).ravel(),
    )


def drift_grid(
    width: int,
    height: int,
    right: float = 15 / 64,
    left: float = 16 / 64,
    up: float = 16 / 64,
    down: float = 14 / 64,
) -> ExactChain:
    """A walk on a grid with walls (a blocked step is not taken); the reward is a sum over the coordinates.

    One coordinate moves at a time: I - P is a sum over two birth-death chains, laws multiply and biases add.
    """
    across = birth_death(
        np.full(width - 1, right), np.full(width - 1, left), np.cos(np.arange(width) / width)
    )
    along = birth_death(np.full(height - 1, up), np.full(height - 1, down), np.arange(height) % 7 / 7)
    return finished(
        grid_transitions(width, height, right, left, up, down),
        np.add.outer(wide(across.rewards), wide(along.rewards)).ravel(),
        np.outer(wide(across.stationary), wide(along.stationary)).ravel(),
        np.add.outer(wide(across.bias), wide(along.bias)).ravel(),
        wide(across.gain) + wide(along.gain),
    )


def coupled_grid(width: int, height: int) -> ExactChain:
    """The same walk with a bias in which the coordinates interact: W = x y."""
    probabilities = (15 / 64, 16 / 64, 16 / 64, 14 / 64)
    separate = drift_grid(width, height, *probabilities)
    x, y = np.divmod(np.arange(width * height), height)
    return built_from_bias(separate.transitions, wide(separate.stationary), x * y, 0.25)


def grid_transitions(width: int, height: int, right: float, left: float, up: float, down: float) -> csr_array:
    """Transitions on ``width`` times ``height`` places, state ``x * height + y``."""
    places = np.arange(width * height).reshape(width, height)
    moves = [
        (places[:-1], places[1:], right),
        (places[1:], places[:-1], left),
        (places[:, :-1], places[:, 1:], up),
        (places[:, 1:], places[:, :-1], down),
    ]
    return from_entries(
        [source.ravel() for source, _, _ in moves],
        [target.ravel() for _, target, _ in moves],
        [probability for _, _, probability in moves],
        width * height,
    )


def tandem_queue(
    capacity: int,
    arrival: float = 16 / 64,
    first: float = 20 / 64,
    second: float = 18 / 64,
    backlog: bool = False,
) -> ExactChain:
    """Two queues in a row that hold ``capacity`` customers together, in discrete time.

    An arrival that finds the system full is lost. With the outside as a third queue this is a closed ring
    of queues, and its law is a product. The bias is W = a**2 + 2 a b + 3 b for a and b customers in the
    queues; with ``backlog`` the reward is a + b and only law and gain are known, so that ``bias`` is filled
    with NaN.
    """
    waiting = [(a, total - a) for total in range(capacity + 1) for a in range(total + 1)]
    a, b = np.array(waiting).T
    n = len(a)

    def number(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a + b) * (a + b + 1) // 2 + a

    states = np.arange(n)
    free, busy_first, busy_second = a + b < capacity, a > 0, b > 0
    transitions = from_entries(
        [states[free], states[busy_first], states[busy_second]],
        [
            number(a + 1, b)[free],
            number(a - 1, b + 1)[busy_first],
            number(a, b - 1)[busy_second],
        ],
        [arrival, first, second],
        n,
    )
    weights = (wide(arrival) / wide(first)) ** a * (wide(arrival) / wide(second)) ** b
    law = weights / weights.sum()
    if backlog:
        return finished(transitions, a + b, law, np.full(n, np.nan, dtype=np.longdouble))
    return built_from_bias(transitions, law, a**2 + 2 * a * b + 3 * b, 0.5)
