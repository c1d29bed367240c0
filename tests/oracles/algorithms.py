"""Naive twins of all algorithms: plain NumPy on vectors, one line for each line of mathematics.

Each takes an `Episode` and parameters by name, and returns the weights, (T + 1, d), and the estimates of the
gain, (T + 1,), before the first step and after each step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

Learned = tuple[np.ndarray, np.ndarray]


class Episode(NamedTuple):
    """What an algorithm is given: features (n, d), moves, step sizes (T,), and the first weights (d,)."""

    features: np.ndarray
    moves: list[tuple]
    step_sizes: np.ndarray
    first: np.ndarray
    ones: np.ndarray | None

    def steps(self) -> Iterator[tuple]:
        """Step size, features before and after, reward, and the same of the second chain."""
        phi = self.features
        for alpha, (s, s_next, r, o, o_next, r_other) in zip(self.step_sizes, self.moves, strict=True):
            yield alpha, phi[s], phi[s_next], r, phi[o], phi[o_next], r_other

    @property
    def rewards(self) -> np.ndarray:
        return np.array([move[2] for move in self.moves])


def running_mean(rewards) -> np.ndarray:
    return np.array([0.0, *(np.mean(rewards[: t + 1]) for t in range(len(rewards)))])


def ball(vector, radius):
    length = np.linalg.norm(vector)
    return vector if length <= radius else vector * (radius / length)


def without(direction, vector):
    if direction is None:
        return vector
    return vector - direction * (direction @ vector) / (direction @ direction)


def double_chain(episode) -> Learned:
    theta, path = episode.first, [episode.first]
    for alpha, phi, phi_next, r, phi_hat, *_ in episode.steps():
        td = r + phi_next @ theta - phi @ theta
        theta = theta + alpha * (td * phi - (r + phi @ theta) * phi_hat)
        path.append(theta)
    return np.array(path), running_mean(episode.rewards)


def double_chain_symmetric(episode) -> Learned:
    theta, path = episode.first, [episode.first]
    for alpha, phi, phi_next, r, phi_hat, phi_hat_next, r_hat in episode.steps():
        one = (r + (phi_next - phi) @ theta) * phi - (r + phi @ theta) * phi_hat
        two = (r_hat + (phi_hat_next - phi_hat) @ theta) * phi_hat - (r_hat + phi_hat @ theta) * phi
        theta = theta + alpha * (one + two) / 2.0
        path.append(theta)
    return np.array(path), running_mean(episode.rewards)


def double_chain_centred(episode, gain_ratio) -> Learned:
    theta, rbar = episode.first, 0.0
    path, gains = [theta], [rbar]
    for alpha, phi, phi_next, r, phi_hat, *_ in episode.steps():
        td = r - rbar + phi_next @ theta - phi @ theta
        theta = theta + alpha * (td * phi - (r - rbar + phi @ theta) * phi_hat)
        rbar = rbar + gain_ratio * alpha * (r - rbar)
        path.append(theta)
        gains.append(rbar)
    return np.array(path), np.array(gains)


def single_chain(episode, mean_ratio, weights_radius, features_radius) -> Learned:
    theta, w = episode.first, np.zeros_like(episode.first)
    path = [theta]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        beta = min(1.0, mean_ratio * alpha)
        new_theta = theta + alpha * ((r + (phi_next - phi) @ theta) * phi - (r + phi @ theta) * w)
        new_w = w + beta * (phi - w)
        theta, w = ball(new_theta, weights_radius), ball(new_w, features_radius)
        path.append(theta)
    return np.array(path), running_mean(episode.rewards)


def td_lambda(episode, gain_ratio, trace_decay) -> Learned:
    theta, rbar, z = episode.first, 0.0, np.zeros_like(episode.first)
    path, gains = [theta], [rbar]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        delta = r - rbar + (phi_next - phi) @ theta
        z = trace_decay * z + phi
        rbar = rbar + gain_ratio * alpha * (r - rbar)
        theta = theta + alpha * delta * z
        path.append(theta)
        gains.append(rbar)
    return np.array(path), np.array(gains)


def projected_td(episode, gain_ratio, trace_decay) -> Learned:
    """As in the paper: the trace is projected in every step."""
    theta, rbar, z = without(episode.ones, episode.first), 0.0, np.zeros_like(episode.first)
    path, gains = [theta], [rbar]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        delta = r - rbar + (phi_next - phi) @ theta
        z = trace_decay * z + phi
        rbar = rbar + gain_ratio * alpha * (r - rbar)
        theta = theta + alpha * delta * without(episode.ones, z)
        path.append(theta)
        gains.append(rbar)
    return np.array(path), np.array(gains)


def implicit_td(episode, gain_ratio, trace_decay, radius, gain_bound) -> Learned:
    theta, rbar, z = episode.first, 0.0, np.zeros_like(episode.first)
    path, gains = [theta], [rbar]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        delta = r - rbar + (phi_next - phi) @ theta
        z = trace_decay * z + phi
        rbar = rbar + gain_ratio * alpha * (r - rbar) / (1.0 + gain_ratio * alpha)
        theta = theta + alpha * delta * z / (1.0 + alpha * z @ z)
        theta, rbar = ball(theta, radius), np.clip(rbar, -gain_bound, gain_bound)
        path.append(theta)
        gains.append(rbar)
    return np.array(path), np.array(gains)


def differential_td(episode, gain_ratio) -> Learned:
    theta, rbar = episode.first, 0.0
    path, gains = [theta], [rbar]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        delta = r - rbar + (phi_next - phi) @ theta
        theta = theta + alpha * delta * phi
        rbar = rbar + gain_ratio * alpha * delta
        path.append(theta)
        gains.append(rbar)
    return np.array(path), np.array(gains)


def relative_td(episode, mean_weight) -> Learned:
    theta, path, seen = episode.first, [episode.first], []
    gains = running_mean(episode.rewards)
    for t, (alpha, phi, phi_next, r, *_) in enumerate(episode.steps()):
        w = np.mean(seen, axis=0) if seen else np.zeros_like(theta)
        delta = r - gains[t] + (phi_next - phi - mean_weight * w) @ theta
        theta = theta + alpha * delta * phi
        seen.append(phi)
        path.append(theta)
    return np.array(path), gains


def centred_td(episode) -> Learned:
    """The means w and rbar include the step itself."""
    theta, path, seen = episode.first, [episode.first], []
    gains = running_mean(episode.rewards)
    for t, (alpha, phi, phi_next, r, *_) in enumerate(episode.steps()):
        seen.append(phi)
        w, rbar = np.mean(seen, axis=0), gains[t + 1]
        delta = r - rbar + phi_next @ theta - phi @ theta
        theta = theta + alpha * (delta * (phi - w) - (phi @ theta) * w)
        path.append(theta)
    return np.array(path), gains


def discounted_td(episode, discount, radius) -> Learned:
    theta, path = episode.first, [episode.first]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        delta = r + discount * phi_next @ theta - phi @ theta
        theta = ball(theta + alpha * delta * phi, radius)
        path.append(theta)
    return np.array(path), running_mean(episode.rewards)


def lstd(episode, trace_decay, mean_weight) -> Learned:
    first, z, rows = episode.first, np.zeros_like(episode.first), []
    path = [first]
    for _, phi, phi_next, r, *_ in episode.steps():
        z = trace_decay * z + phi
        rows.append((z, phi, phi_next, r))
        traces, phis, nexts, rewards = (np.array(column) for column in zip(*rows, strict=True))
        count, w = len(rows), phis.mean(axis=0)
        matrix = traces.T @ (phis - nexts) / count + mean_weight * np.outer(w, w)
        vector = traces.T @ (rewards - rewards.mean()) / count
        path.append(first + np.linalg.pinv(matrix, rcond=1e-10) @ (vector - matrix @ first))
    return np.array(path), running_mean(episode.rewards)


def lspe(episode, trace_decay, relaxation, ridge) -> Learned:
    theta, z, rows = episode.first, np.zeros_like(episode.first), []
    path = [without(episode.ones, theta)]
    for _, phi, phi_next, r, *_ in episode.steps():
        z = trace_decay * z + phi
        rows.append((z, phi, phi_next, r))
        traces, phis, nexts, rewards = (np.array(column) for column in zip(*rows, strict=True))
        force = traces.T @ ((nexts - phis) @ theta + rewards - rewards.mean())
        theta = theta + relaxation * np.linalg.solve(phis.T @ phis + ridge * np.eye(len(theta)), force)
        path.append(without(episode.ones, theta))
    return np.array(path), running_mean(episode.rewards)


def vrtd(episode, inner_steps, first_batch, batch_growth, skip) -> Learned:
    answer, batch, iterates, size = episode.first, [], [], first_batch
    path = [without(episode.ones, answer)]

    def slope(theta, gain, phi, phi_next, r):
        return ((phi - phi_next) @ theta - r + gain) * phi

    for t, (alpha, *sample) in enumerate(episode.steps()):
        phi, phi_next, r = sample[:3]
        if (t + 1) % skip == 0:
            if len(batch) < size:
                batch.append((phi, phi_next, r))
            else:
                rho = np.mean([reward for *_, reward in batch])
                mean = np.mean([slope(answer, rho, *each) for each in batch], axis=0)
                theta = iterates[-1] if iterates else answer
                new, old = (slope(at, rho, phi, phi_next, r) for at in (theta, answer))
                iterates.append(theta - alpha * (new - old + mean))
            if len(iterates) == inner_steps:
                answer, batch, iterates = np.mean(iterates, axis=0), [], []
                size = size * batch_growth
        path.append(without(episode.ones, answer))
    return np.array(path), running_mean(episode.rewards)


def almost_sure_td(episode) -> Learned:
    """Features are the identity, so phi is the indicator of a state."""
    values, gains = episode.first, running_mean(episode.rewards)
    path = [values]
    for t, (alpha, phi, phi_next, r, *_) in enumerate(episode.steps()):
        values = values + alpha * (r - gains[t] + phi_next @ values - phi @ values) * phi
        path.append(values)
    return np.array(path), gains


def adaptive_td(episode, offset) -> Learned:
    values, visits = episode.first, np.zeros_like(episode.first)
    path = [values]
    for alpha, phi, phi_next, r, *_ in episode.steps():
        visits = visits + phi
        values = values + alpha / (phi @ visits + offset) * (r + phi_next @ values - phi @ values) * phi
        path.append(values)
    centred = [values - (values.max() + values.min()) / 2.0 for values in path]
    return np.array(centred), running_mean(episode.rewards)


TWINS: dict[str, Callable[..., Learned]] = {
    twin.__name__.replace("_", "-"): twin
    for twin in (
        double_chain,
        double_chain_symmetric,
        double_chain_centred,
        single_chain,
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
}
