"""Large chains that elimination fills in, with a known law and a bias that is chosen beforehand.

Walks and fields in three dimensions, networks of queues, graphs with hubs, bands, and quick chains with long
transient tails. Their laws are products or uniform; the reward is ``g + W - P W`` for a chosen W.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from .record import ExactChain, Wide, finished, from_entries, wide


def built_nearly_from_bias(
    transitions: csr_array, stationary: Wide, bias: ArrayLike, gain: float = 0.25
) -> ExactChain:
    """The chain whose reward is ``g + W - P W``, rounded once; the bias is W up to its mean and rounding."""
    exact = wide(bias)
    rewards = gain + exact - transitions.astype(np.longdouble) @ exact
    return finished(transitions, rewards, stationary / stationary.sum(), exact, gain)


def _neighbours(shape: tuple[int, ...]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For each direction the places that have a neighbour further along, and that neighbour."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    last = [np.take(places, range(size - 1), axis).ravel() for axis, size in enumerate(shape)]
    return [
        (first, np.take(places, range(1, size), axis).ravel())
        for (axis, size), first in zip(enumerate(shape), last, strict=True)
    ]


def drift_cube(side: int, up: float = 6 / 64, down: float = 12 / 64) -> ExactChain:
    """A walk on a cube with walls that drifts towards a corner."""
    shape = (side, side, side)
    ways = _neighbours(shape)
    transitions = from_entries(
        [source for first, second in ways for source in (first, second)],
        [target for first, second in ways for target in (second, first)],
        [up, down] * 3,
        side**3,
    )
    x, y, z = np.unravel_index(np.arange(side**3), shape)
    return built_nearly_from_bias(transitions, (wide(up) / wide(down)) ** (x + y + z), x + y * z / side)


def rough_field(side: int, rng: np.random.Generator) -> ExactChain:
    """A walk on a cube whose rates are spread over two decades, balanced by weights over one decade."""
    shape, weights = (side, side, side), 10.0 ** rng.uniform(-0.5, 0.5, side**3)
    rows, columns, values = [], [], []
    for first, second in _neighbours(shape):
        flow = 10.0 ** rng.uniform(-1.0, 0.0, len(first)) * np.sqrt(weights[first] * weights[second])
        rows += [first, second]
        columns += [second, first]
        values += [flow / weights[first], flow / weights[second]]
    leaving = sum(np.bincount(r, v, side**3) for r, v in zip(rows, values, strict=True))
    scale = 1.01 * leaving.max()
    transitions = from_entries(rows, columns, [v / scale for v in values], side**3)
    return built_nearly_from_bias(transitions, wide(weights), rng.integers(0, 1000, side**3))


def tailed_expander(num_states: int, rng: np.random.Generator) -> ExactChain:
    """Half of the states form a quick chain; the others are a long path that leads there and is never met."""
    core = num_states // 2
    inside, tail = np.arange(core), np.arange(core, num_states)
    transitions = from_entries(
        [*[inside] * 4, tail, tail[:-1]],
        [*(rng.permutation(core) for _ in range(4)), tail - 1, tail[:-1] + 1],
        [*[1 / 4] * 4, 5 / 8, 2 / 8],
        num_states,
    )
    law = np.where(np.arange(num_states) < core, wide(1), wide(0))
    return built_nearly_from_bias(transitions, law, rng.integers(0, 1000, num_states))


def graph_with_hubs(num_states: int, rng: np.random.Generator) -> ExactChain:
    """The walk on a random graph whose degrees have a heavy tail; it stays with probability 1/4."""
    weights = (1.0 + np.arange(num_states)) ** -0.6
    chosen = rng.choice(num_states, 2 * num_states, p=weights / weights.sum())
    first = np.concatenate([np.arange(num_states), np.arange(num_states), chosen[:num_states]])
    second = np.concatenate(
        [(np.arange(num_states) + 1) % num_states, chosen[num_states:], chosen[:num_states][::-1]]
    )
    apart = first != second
    first, second = first[apart], second[apart]
    degree = np.bincount(np.concatenate([first, second]), minlength=num_states).astype(np.float64)
    transitions = from_entries(
        [first, second], [second, first], [0.75 / degree[first], 0.75 / degree[second]], num_states
    )
    return built_nearly_from_bias(transitions, wide(degree), rng.integers(0, 1000, num_states))


def wide_band(num_states: int, half: int = 50) -> ExactChain:
    """A walk that jumps by at most `half` states to either side, each jump as likely."""
    states = np.arange(num_states)
    jumps = range(1, half + 1)
    transitions = from_entries(
        [*(states[:-jump] for jump in jumps), *(states[jump:] for jump in jumps)],
        [*(states[jump:] for jump in jumps), *(states[:-jump] for jump in jumps)],
        [1 / (2.5 * half)] * (2 * half),
        num_states,
    )
    return built_nearly_from_bias(transitions, np.ones(num_states, np.longdouble), states**2 / num_states)


def closed_network(customers: int, routing: ArrayLike, service: ArrayLike) -> ExactChain:
    """Customers who go round between queues with one server each; the law is a product (Gordon, Newell).

    ``routing[i, j]`` is the probability of going from queue i to queue j, ``service[i]`` that of a step of
    queue i; their sum is at most one.
    """
    routes, speeds = np.asarray(routing, dtype=np.float64), np.asarray(service, dtype=np.float64)
    queues = len(speeds)
    grid = np.indices((customers + 1,) * (queues - 1)).reshape(queues - 1, -1)
    free = grid[:, grid.sum(axis=0) <= customers]
    counts = np.vstack([free, customers - free.sum(axis=0)])
    number = np.full((customers + 1,) * (queues - 1), -1)
    number[tuple(free)] = np.arange(free.shape[1])
    rows, columns, values = [], [], []
    for i, j in zip(*np.nonzero(routes), strict=True):
        source = np.flatnonzero(counts[i] > 0)
        target = counts[:, source].copy()
        target[i] -= 1
        target[j] += 1
        rows.append(source)
        columns.append(number[tuple(target[:-1])])
        values.append(speeds[i] * routes[i, j])
    transitions = from_entries(rows, columns, values, free.shape[1])
    visits = np.ones(queues)
    for _ in range(10_000):
        visits = 0.5 * (visits + visits @ routes)
    logs = (counts * np.log(wide(visits) / wide(speeds))[:, np.newaxis]).sum(axis=0)
    return built_nearly_from_bias(transitions, np.exp(logs - logs.max()), counts[0] * counts[-1] + counts[1])


def three_queues(capacity: int) -> ExactChain:
    """Three queues in a row that hold `capacity` customers together; the fourth queue is the outside."""
    ring = np.roll(np.eye(4), 1, axis=1)
    return closed_network(capacity, ring, np.array([20, 18, 19, 5]) / 64)
