"""Three algorithms as a user would write them, outside the package: for one lane, with all facts declared."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import gainbias as gb
from gainbias import axpy, dot
from gainbias.algorithms.algorithm import POSITIVE, RADIUS
from gainbias.algorithms.fields import average_features, paper_field, solve_field, td_field


def declaring(algorithm, **facts):
    """Return an algorithm that declares other facts."""
    return replace(algorithm, declared=replace(algorithm.declared, **facts))


class Weights(NamedTuple):
    weights: np.ndarray


def begin(setting, params):
    return Weights(setting.weights.copy())


def double_step(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), state.weights)
    axpy(rows, move.other, -step_size * (move.reward + here), state.weights)


def double_field(sample, params, step_size):
    matrix = np.outer(sample.here, sample.here - sample.after) + np.outer(sample.other, sample.here)
    return matrix, sample.reward * (sample.here - sample.other)


DOUBLE = gb.Algorithm(
    name="my-double-chain",
    form=gb.Form(begin, double_step, touches_rows=lambda params: True),
    chains=2,
    declared=gb.Declared(
        limit=lambda problem, params, first: problem.fixed_point,
        rate=1.0,
        mean_field=lambda problem, params: paper_field(problem),
        affine=("weights",),
        sample_field=double_field,
    ),
)


class TdParams(NamedTuple):
    gain_ratio: float = 1.0


class TdState(NamedTuple):
    weights: np.ndarray
    gain: np.ndarray


def td_begin(setting, params):
    return TdState(setting.weights.copy(), setting.zeros())


def td_step(state, params, rows, move, step_size):
    here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    excess = move.reward - state.gain[0]
    axpy(rows, move.here, step_size * (excess + after - here), state.weights)
    state.gain[0] += params.gain_ratio * step_size * excess


def td_sample(sample, params, step_size):
    d = len(sample.here)
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d] = np.outer(sample.here, np.append(sample.here - sample.after, 1.0))
    matrix[d, d] = params.gain_ratio
    return matrix, sample.reward * np.append(sample.here, params.gain_ratio)


TD = gb.Algorithm(
    name="my-td",
    form=gb.Form(td_begin, td_step, touches_rows=lambda params: True),
    params=TdParams,
    bounds={"gain_ratio": POSITIVE},
    declared=gb.Declared(
        limit=lambda problem, params, first: solve_field(problem, td_field(problem)),
        limit_is_line=True,
        rate=1.0,
        mean_field=lambda problem, params: td_field(problem),
        frozen=lambda problem, params, here, weights: {"gain": problem.solution.gain},
        affine=("weights", "gain"),
        sample_field=td_sample,
    ),
)


class SingleParams(NamedTuple):
    radius: float = np.inf


class SingleState(NamedTuple):
    weights: np.ndarray
    mean: np.ndarray


def single_begin(setting, params):
    return SingleState(setting.weights.copy(), np.zeros_like(setting.weights))


def single_step(state, params, rows, move, step_size):
    weights, mean = state
    here, after = dot(rows, move.here, weights), dot(rows, move.after, weights)
    axpy(rows, move.here, step_size * (move.reward + after - here), weights)
    for j in range(len(weights)):
        weights[j] -= step_size * (move.reward + here) * mean[j]
    for j in range(len(mean)):
        mean[j] -= step_size * mean[j]
    axpy(rows, move.here, step_size, mean)
    length = 0.0
    for j in range(len(weights)):
        length += weights[j] * weights[j]
    if length > params.radius * params.radius:
        for j in range(len(weights)):
            weights[j] *= params.radius / np.sqrt(length)


SINGLE = gb.Algorithm(
    name="my-single-chain",
    form=gb.Form(single_begin, single_step),
    params=SingleParams,
    bounds={"radius": RADIUS},
    declared=gb.Declared(
        limit=lambda problem, params, first: problem.fixed_point,
        rate=1.0,
        mean_field=lambda problem, params: paper_field(problem),
        frozen=lambda problem, params, here, weights: {"mean": average_features(problem)},
    ),
)
