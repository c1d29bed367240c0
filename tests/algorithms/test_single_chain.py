"""Single-chain TD: both forms against the rule as it is written, and against each other on long paths."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import gainbias as gb
from gainbias.algorithms.algorithm import Move, Setting
from gainbias.algorithms.single_chain import dense, epochs, lazy
from gainbias.algorithms.single_chain.dense import Params
from gainbias.engine.loop import NO_NOTES, Average, averaging_loop_of, loop_of
from gainbias.features import as_features
from gainbias.features.rows import rows_of

from ..engine import problems

SCHEDULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "harmonic": lambda t: 2.0 / (t + 10.0),
    "harmonic from 1": lambda t: 1.0 / (t + 1.0),
    "constant": lambda t: np.full(t.shape, 0.1),
    "large": lambda t: np.full(t.shape, 0.8),
    "small": lambda t: np.full(t.shape, 1e-3),
    "one": np.ones_like,
    "polynomial": lambda t: 0.5 / (t + 1.0) ** 0.6,
    "zeros between": lambda t: np.where(t % 3 == 0, 0.0, 0.2),
}


@dataclass(frozen=True)
class Case:
    """A path and all that is done on it. Weights are averaged over the steps from number `begin` on."""

    kind: str
    matrix: np.ndarray
    moves: Move
    sizes: np.ndarray
    params: Params
    first: np.ndarray
    begin: int


@dataclass(frozen=True)
class Found:
    """What there is in the end."""

    weights: np.ndarray
    mean: np.ndarray
    average: np.ndarray


def make_case(
    kind: str, n: int, schedule: str, params: Params, num_steps: int, seed: int, first: float = 0.0
) -> Case:
    """Tabular, or sparse with a row of zeros; some states are visited far more often than others."""
    rng = np.random.default_rng(seed)
    matrix = np.eye(n)
    if kind == "sparse":
        d = max(1, n // 2)
        drawn = np.where(rng.random((n, d)) < 0.4, rng.standard_normal((n, d)), 0.0)
        matrix = np.vstack(
            [drawn / max(1.0, np.linalg.norm(drawn, axis=1).max()), np.eye(d), np.zeros((1, d))]
        )
    path = (len(matrix) * rng.random(num_steps + 1) ** rng.choice([1, 4])).astype(np.int32)
    rewards = 1.0 + rng.standard_normal(num_steps)
    moves = Move(path[:-1], path[1:], rewards, path[:-1], path[1:], rewards)
    sizes = SCHEDULES[schedule](np.arange(float(num_steps)))
    weights = first * np.cos(np.arange(1.0, matrix.shape[1] + 1.0))
    return Case(kind, matrix, moves, sizes, params, weights, num_steps // 3)


def twin(case: Case, mean_first: bool = False) -> Found:
    """The rule as it is written; optionally with the mistake of moving w before it is used."""
    theta, w, total = case.first.copy(), np.zeros_like(case.first), np.zeros_like(case.first)
    ratio, radius, mean_radius = case.params
    for t, alpha in enumerate(case.sizes):
        phi, after, reward = (
            case.matrix[case.moves.here[t]],
            case.matrix[case.moves.after[t]],
            case.moves.reward[t],
        )
        new_w = shorten(w + min(1.0, ratio * alpha) * (phi - w), mean_radius)
        used = new_w if mean_first else w
        change = (reward + after @ theta - phi @ theta) * phi - (reward + phi @ theta) * used
        theta, w = shorten(theta + alpha * change, radius), new_w
        total += theta * (t >= case.begin)
    return Found(theta, w, total / (len(case.sizes) - case.begin))


def shorten(vector: np.ndarray, radius: float) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector * (radius / length) if length > radius else vector


def parts(case: Case) -> list[tuple[Move, np.ndarray]]:
    """Moves and step sizes before and after the average begins."""
    cuts = slice(0, case.begin), slice(case.begin, None)
    return [(Move(*(array[cut] for array in case.moves)), case.sizes[cut]) for cut in cuts]


def plain(case: Case) -> Found:
    """What the form for dense features finds."""
    params = Params(*(np.array([float(value)]) for value in case.params))
    state = dense.init(Setting(case.first[:, None], None, 1.0), params)
    rows = rows_of(as_features(case.matrix))
    before, after = parts(case)
    loop_of(dense.step)(state, params, rows, before[0], before[1][:, None], NO_NOTES)
    average = Average(np.zeros_like(state.weights), np.zeros(0, np.int64), np.zeros(1, np.int64))
    advance = averaging_loop_of(dense.step)
    advance(state, average, state.weights, params, rows, after[0], after[1][:, None], NO_NOTES)
    return Found(state.weights[:, 0], state.average_features[:, 0], average.total[:, 0] / len(after[1]))


def found_lazily(case: Case, compiled: bool = True) -> Found:
    """What the form for sparse and tabular features finds."""
    setting = Setting(case.first, None, 1.0)
    state = lazy.init(setting, case.params)
    given = gb.Tabular() if case.kind == "tabular" else sparse.csr_array(case.matrix)
    rows = rows_of(as_features(given, num_states=len(case.matrix)))
    loop: Any = loop_of(lazy.step)
    advance = loop if compiled else getattr(loop, "py_func", loop)
    before, after = parts(case)
    advance(state, case.params, rows, *before, NO_NOTES)
    lazy.begin_average(state)
    advance(state, case.params, rows, *after, NO_NOTES)
    settled = lazy.settled(state)
    return Found(
        lazy.output(state, case.params, setting).weights,
        settled.epochs[0, lazy.C] * settled.features[:, lazy.U],
        lazy.averaged(state, case.params, setting, len(after[1])).weights,
    )


def assert_same(found: Found, expected: Found) -> None:
    """To 12 digits of the largest number around; rewards are about 1."""
    size = max(1.0, np.abs(expected.weights).max(), np.abs(expected.average).max())
    for name in ("weights", "mean", "average"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=0, atol=1e-12 * size, err_msg=name
        )


KINDS = st.sampled_from(["tabular", "sparse"])
RADII = st.sampled_from([np.inf, np.inf, 2.0, 0.3, 0.01])
PARAMS = st.builds(Params, st.sampled_from([1.0, 0.5, 0.1, 1e-3]), RADII, RADII)


@pytest.mark.kernels
@settings(max_examples=60)
@given(
    kind=KINDS,
    n=st.integers(1, 50),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    params=PARAMS,
    seed=st.integers(0, 1000),
    first=st.sampled_from([0.0, 3.0]),
)
def test_both_forms_are_the_rule_as_written(kind, n, schedule, params, seed, first) -> None:
    case = make_case(kind, n, schedule, params, 100, seed, first)
    expected = twin(case)
    assert_same(plain(case), expected)
    assert_same(found_lazily(case), expected)


@pytest.mark.parametrize("kind", ["tabular", "sparse"])
@pytest.mark.parametrize("n", [1, 4, 50])
@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
@pytest.mark.parametrize(
    "params",
    [Params(), Params(0.03), Params(1.0, 0.5, 0.1), Params(0.01, 0.01), Params(0.5, np.inf, 0.05)],
    ids=str,
)
def test_both_forms_agree_on_long_paths(kind, n, schedule, params) -> None:
    case = make_case(kind, n, schedule, params, 20_000, seed=n, first=1.0)
    assert_same(found_lazily(case), plain(case))


@pytest.mark.parametrize("params", [Params(), Params(1.0, 3.0), Params(0.1, 0.4, 0.2)], ids=str)
@pytest.mark.parametrize("schedule", ["constant", "harmonic", "large"])
def test_features_come_back_after_any_time(schedule, params) -> None:
    """All states once, then two of them for long, then all again: thousands of epochs are caught up on."""
    case = make_case("tabular", 40, schedule, params, 30_000, seed=0, first=1.0)
    path = np.random.default_rng(1).integers(0, 2, 30_001).astype(np.int32)
    path[:40] = path[-40:] = np.arange(40)
    moves = Move(path[:-1], path[1:], case.moves.reward, path[:-1], path[1:], case.moves.reward)
    changed = Case("tabular", case.matrix, moves, case.sizes, params, case.first, begin=20)
    assert_same(found_lazily(changed), plain(changed))


@pytest.mark.parametrize("n", [6, 40])
def test_norms_do_not_drift(n) -> None:
    """Without computing them anew from time to time they would be off by 2e-10 after so many steps."""
    radius = 0.01
    case = make_case("tabular", n, "harmonic", Params(0.5, radius), 1_000_000, seed=3)
    setting = Setting(case.first, None, 1.0)
    state = lazy.init(setting, case.params)
    rows = rows_of(as_features(gb.Tabular(), num_states=n))
    loop_of(lazy.step)(state, case.params, rows, case.moves, case.sizes, NO_NOTES)
    settled = lazy.settled(state)
    weights = lazy.output(state, case.params, setting).weights
    mean = settled.epochs[0, lazy.C] * settled.features[:, lazy.U]
    kept = state.norms[[epochs.THETA2, epochs.W2]]
    np.testing.assert_allclose(kept, [weights @ weights, mean @ mean], rtol=1e-13)
    assert weights @ weights <= radius**2 * (1.0 + 1e-13)


@pytest.mark.kernels
@pytest.mark.parametrize("params", [Params(), Params(0.5, 0.4, 0.2)], ids=str)
def test_a_step_changes_nothing_but_what_it_touches(params) -> None:
    case = make_case("sparse", 40, "constant", params, 200, seed=0)
    state = lazy.init(Setting(case.first, None, 1.0), params)
    rows = rows_of(as_features(sparse.csr_array(case.matrix)))
    for t in range(200):
        before = state.features.copy()
        move = Move(*(array[t : t + 1] for array in case.moves))
        loop_of(lazy.step)(state, params, rows, move, case.sizes[t : t + 1], NO_NOTES)
        touched = case.matrix[[case.moves.here[t], case.moves.after[t]]].any(axis=0)
        assert not (before != state.features).any(axis=1)[~touched].any()


@pytest.mark.kernels
def test_a_step_size_of_one_makes_the_last_row_the_mean() -> None:
    case = make_case("tabular", 5, "one", Params(), 50, seed=0)
    for found in (plain(case), found_lazily(case)):
        np.testing.assert_array_equal(found.mean, np.eye(5)[case.moves.here[-1]])


@pytest.mark.kernels
@pytest.mark.parametrize(
    "params", [{}, {"weights_radius": 0.5, "features_radius": 0.3}], ids=["free", "balls"]
)
@pytest.mark.parametrize("tail_average", [None, 0.25])
def test_runs_agree_and_checkpoints_change_no_bit(tail_average, params) -> None:
    tabular, dense = problems.tabular(), gb.Problem(problems.process(), np.eye(8))
    options: dict[str, Any] = {"params": params, "tail_average": tail_average, "seeds": [4, 7]}
    often = gb.run("single-chain", tabular, 300, [0.1, gb.Harmonic(3, 10)], checkpoints=range(301), **options)
    seldom = gb.run("single-chain", tabular, 300, [0.1, gb.Harmonic(3, 10)], checkpoints=[300], **options)
    np.testing.assert_array_equal(often.weights[:, -1], seldom.weights[:, -1])
    same = gb.run("single-chain", dense, 300, [0.1, gb.Harmonic(3, 10)], checkpoints=range(301), **options)
    np.testing.assert_allclose(often.weights, same.weights, rtol=0, atol=1e-12)


def test_it_learns_the_fixed_point_of_sparse_features() -> None:
    problem = problems.sparse_features()
    trace = gb.run("single-chain", problem, 100_000, gb.Harmonic(30, 100), seeds=range(8), checkpoints=[0])
    missed = np.linalg.norm(trace.weights - problem.fixed_point, axis=2)
    assert np.sqrt((missed[:, -1] ** 2).mean()) < 0.05 * missed[0, 0]


def test_a_ratio_that_makes_no_mean_is_refused() -> None:
    for ratio in (0.0, 1.5):
        with pytest.raises(
            ValueError, match="'mean_ratio' of single-chain must be a number above 0 and at most 1"
        ):
            gb.run("single-chain", problems.tabular(), 10, 0.1, params={"mean_ratio": ratio})


# What the comparisons above would find. The parts of the lazy form are replaced, so it runs as Python.


def forget_epochs(state: Any, j: int) -> None:
    """A feature stays as it was."""


def forget_maps(end: Any, other: Any) -> None:
    """Links lead further, but maps do not."""
    end[epochs.LINK] = other[epochs.LINK]


def forget_norms(now: Any, *_: Any) -> None:
    """Norms stay as they were."""


def forget_the_past(state: Any, original: Callable[[Any], None] = lazy.end_epoch) -> None:
    """Time before this epoch does not count."""
    original(state)
    state.epochs[state.clock[lazy.PRESENT], epochs.BEFORE] = 0.0


def forget_projections(state: Any, params: Any, original: Callable[[Any, Any], None] = lazy.project) -> None:
    """Features that were away do not shrink."""
    original(state, params)
    state.clock[epochs.FREE] = 0


def settle_without_catching_up(state: Any, original: Callable[[Any], None] = lazy.settle) -> None:
    """A full table is emptied, and all features count as up to date."""
    if state.clock[lazy.PRESENT] + 1 == len(state.epochs):
        state.features[:, epochs.EPOCH] = 0.0
        state.epochs[0] = state.epochs[-1]
        state.clock[lazy.PRESENT] = 0
    else:
        original(state)


MUTANTS = {
    "catch_up": (forget_epochs, Params()),
    "lead_further": (forget_maps, Params()),
    "move_norms": (forget_norms, Params(1.0, 0.3)),
    "end_epoch": (forget_the_past, Params()),
    "project": (forget_projections, Params(1.0, 0.3)),
    "settle": (settle_without_catching_up, Params()),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_part_of_the_lazy_form_is_needed(name, monkeypatch) -> None:
    mutant, params = MUTANTS[name]
    case = make_case("tabular", 50, "large", params, 400, seed=2, first=1.0)
    expected = plain(case)

    def replace(part: str, other: Any) -> None:
        for module in (lazy, epochs):
            monkeypatch.setattr(module, part, other, raising=False)

    for kernel in ("catch_up", "settle"):
        compiled: Any = getattr(epochs, kernel)
        replace(kernel, getattr(compiled, "py_func", compiled))
    assert_same(found_lazily(case, compiled=False), expected)
    replace(name, mutant)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        assert_same(found_lazily(case, compiled=False), expected)


def test_a_mean_that_moves_too_early_is_found() -> None:
    case = make_case("sparse", 10, "constant", Params(), 100, seed=0)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        assert_same(plain(case), twin(case, mean_first=True))
