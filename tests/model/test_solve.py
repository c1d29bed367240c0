"""The choice of the method, handing over to another, limits, and the messages when none works."""

import importlib.util
import os
import re
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.solve import choice, semi_markov, turns
from gainbias.model.solve.certificate import Certified, solve_and_certify
from gainbias.model.solve.elimination import symbolic
from gainbias.model.solve.solution import Budget, MethodError, available_memory
from gainbias.model.solve.solve import poisson_solver, solve_to_tolerance
from gainbias.progress import OutOfTimeError, Watch
from tests.oracles.expanders import random_sparse


def lattice(side: int) -> gb.MarkovRewardProcess:
    """A lazy walk on a square with walls."""
    step = sparse.diags_array([0.2, 0.2], offsets=[-1, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    moves = (sparse.kron(step, eye) + sparse.kron(eye, step)).tocsr()
    stay = sparse.diags_array(1.0 - moves.sum(axis=1))
    return gb.MarkovRewardProcess(moves + stay, np.arange(side * side) % 5)


def expander(n: int, seed: int = 0) -> gb.MarkovRewardProcess:
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), 4)
    columns = np.concatenate([rng.permutation(n) for _ in range(4)])
    chain = sparse.csr_array((np.full(4 * n, 0.25), (rows, columns.reshape(4, n).T.ravel())), (n, n))
    return gb.MarkovRewardProcess(chain, rng.random(n))


def blocks(n: int, coupling: float) -> gb.MarkovRewardProcess:
    """Blocks of 20 states that hardly talk, each state to a random other one."""
    rng = np.random.default_rng(1)
    inside = sparse.kron(sparse.eye_array(n // 20), np.full((20, 20), (1 - coupling) / 20))
    across = sparse.csr_array((np.full(n, coupling), (np.arange(n), rng.permutation(n))), (n, n))
    return gb.MarkovRewardProcess(inside + across, rng.random(n))


@pytest.mark.parametrize(
    ("mrp", "method"),
    [
        (lattice(10), "dense-gth"),
        (lattice(40), "sparse-gth"),
        (expander(3000), "power"),
        (blocks(2000, 1e-7), "aggregation"),
    ],
)
def test_method_fits_the_chain(mrp: gb.MarkovRewardProcess, method: str) -> None:
    solution = gb.solve(mrp)
    assert solution.method == method
    other = gb.solve(mrp, method="sparse-gth")
    assert solution.gain == pytest.approx(other.gain, rel=1e-13)
    np.testing.assert_allclose(solution.bias, other.bias, atol=1e-12 * np.ptp(other.bias))
    np.testing.assert_allclose(solution.stationary, other.stationary, rtol=1e-11)


@pytest.mark.parametrize("more", [0, 1])
def test_up_to_which_size_a_chain_is_eliminated_at_once(more: int) -> None:
    names = [one.name for one in choice.candidates(expander(choice.DENSE_SOLVE_STATES + more), "auto")]
    assert names == (
        ["power", "krylov", "incomplete-gth", "sparse-gth", "dense-gth"]
        if more
        else ["dense-gth", "sparse-gth"]
    )


def test_elimination_of_thin_chains_is_looked_at_first() -> None:
    """Of many thin ones it costs nothing, whatever a look at a chain is thought to cost."""
    n = choice.DENSE_SOLVE_STATES + 1
    for reach in (1, 3):  # two neighbours, and six
        offsets = [*range(-reach, 0), *range(1, reach + 1)]
        band = sparse.diags_array(np.ones(2 * reach), offsets=offsets, shape=(n, n)).tocsr()
        mrp = gb.MarkovRewardProcess(band, np.zeros(n), renormalise=True)
        first = min(choice.candidates(mrp, "auto"), key=lambda one: one.trial)
        assert first.name == "sparse-gth"


def test_a_method_that_fails_hands_over_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise MethodError("out of luck")

    monkeypatch.setattr(choice, "prepare_power", fails)
    solution = gb.solve(expander(1000))
    assert solution.method != "power"
    assert solution.notes[0] == "power: out of luck"


def test_without_metis_it_works_and_says_what_the_extra_would_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pymetis" else found(name))
    assert "minimum degree" in gb.solve(lattice(40)).notes[-1]
    monkeypatch.setattr(symbolic, "SMALL", 100)
    with pytest.raises(
        gb.ConvergenceError, match=r"METIS is not installed \(pip install 'gainbias\[solvers\]'\)"
    ):
        gb.solve(expander(1000), method="sparse-gth")


def test_nested_dissection_is_used_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    step = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(12, 12))
    eye = sparse.eye_array(12)
    cube = sum(
        sparse.kron(sparse.kron(*pair), last)
        for *pair, last in ([step, eye, eye], [eye, step, eye], [eye, eye, step])
    )
    shuffled = np.random.default_rng(0).permutation(12**3)
    chain = (cube / 12).tocsr()[shuffled][:, shuffled]
    mrp = gb.MarkovRewardProcess(chain + sparse.diags_array(1.0 - chain.sum(axis=1)), np.arange(12**3) % 3)
    assert "minimum degree" in gb.solve(mrp, method="sparse-gth").notes[-1]
    monkeypatch.setattr(symbolic, "FLOPS_PER_STATE_OF_METIS", 0.0)
    assert "nested dissection" in gb.solve(mrp, method="sparse-gth").notes[-1]


def test_an_expensive_elimination_is_planned_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PER_FACTOR", 1.0)
    solution = gb.solve(lattice(30))
    assert solution.method == "incomplete-gth"
    assert any("sparse-gth: not needed: planned only, " in note for note in solution.notes)
    assert re.fullmatch(rf"{solution.method}: done after [\d,]+ products", solution.notes[-1])
    assert solution.iterations > 0


def test_memory_limit_is_obeyed_before_anything_is_allocated() -> None:
    with pytest.raises(gb.ConvergenceError, match=r"the factors of 1,599 states do not fit into 1e-05 GB"):
        gb.solve(lattice(40), method="sparse-gth", max_memory=1e4)
    with pytest.raises(gb.ConvergenceError, match="dense-gth: elimination needs"):
        gb.solve(lattice(30), method="dense-gth", max_memory=1e6)


def test_memory_is_guessed_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise FileNotFoundError

    pages = {"SC_PHYS_PAGES": 3_000_000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("gainbias.model.solve.solution.open", fails, raising=False)
    monkeypatch.setattr(os, "sysconf_names", pages, raising=False)
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    assert available_memory() == 0.5 * 3_000_000 * 4096
    monkeypatch.delattr(os, "sysconf_names")
    assert 1e9 <= available_memory() <= 8e9


@pytest.mark.parametrize("seconds", [5.0, 100.0])
def test_no_order_is_looked_for_when_time_is_short(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stops METIS or SuperLU, so that they are not asked unless they are likely to be in time."""
    asked = []
    find = symbolic.minimum_degree
    monkeypatch.setattr(symbolic, "minimum_degree", lambda graph: asked.append(graph) or find(graph))
    monkeypatch.setattr(symbolic, "PER_ORDERED_STATE", 20.0 / 1600)
    budget = Budget(1e9, Watch(seconds))
    graph = symbolic.symmetric_pattern(lattice(40).csr)
    if seconds < 20.0:
        with pytest.raises(OutOfTimeError, match=r"the time limit of 5 s has passed before an order"):
            symbolic.plan_sparse(graph, budget)
    else:
        symbolic.plan_sparse(graph, budget)
    assert len(asked) == (seconds > 20.0)


def test_many_right_sides_are_worth_an_elimination() -> None:
    """A chain that is quick to iterate on for one right side."""
    chain = random_sparse(2_000, np.random.default_rng(0)).transitions
    mrp = gb.MarkovRewardProcess(chain, np.arange(2_000.0))
    assert gb.solve(mrp).method in ("power", "krylov")
    assert poisson_solver(mrp).solver.method == "sparse-gth"


def test_time_limit_is_obeyed() -> None:
    started = time.monotonic()
    with pytest.raises(gb.ConvergenceError, match=r"the time limit of 0\.3 s has passed"):
        gb.solve(lattice(400), method="sparse-gth", time_limit=0.3)
    assert time.monotonic() - started < 5.0


def test_a_kernel_stops_when_time_is_up_or_the_user_interrupts() -> None:
    progress = np.zeros(2)

    def work() -> None:
        while progress[1] == 0.0:
            time.sleep(0.01)

    with pytest.raises(OutOfTimeError, match=r"the time limit of 0\.2 s"):
        Watch(time_limit=0.2).run(work, progress, total=1.0, label="waiting")
    assert progress[1] == 1.0
    assert threading.active_count() == 1 or all(
        not t.name.startswith("Thread") for t in threading.enumerate()[1:]
    )


def test_a_failure_inside_a_kernel_is_raised() -> None:
    def work() -> None:
        raise ZeroDivisionError("inside")

    with pytest.raises(ZeroDivisionError, match="inside"):
        Watch().run(work, np.zeros(2), total=1.0, label="failing")


def test_extra_rewards_are_answered_with_the_same_factorisation() -> None:
    mrp = lattice(12)
    rewards = np.random.default_rng(0).random(144)
    solution = gb.solve(mrp, extra_rewards={"cost": rewards})
    alone = gb.solve(gb.MarkovRewardProcess(mrp.transitions, rewards))
    assert solution.extra["cost"].gain == alone.gain
    np.testing.assert_array_equal(solution.extra["cost"].bias, alone.bias)
    assert solution.extra["cost"].asymptotic_variance == alone.asymptotic_variance
    with pytest.raises(ValueError, match=r"extra_rewards\['cost'\] must have"):
        gb.solve(mrp, extra_rewards={"cost": [1.0]})
    with pytest.raises(ValueError, match="extra_rewards must be a mapping of names to vectors"):
        gb.solve(mrp, extra_rewards=[rewards])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tol": 0.0}, "tol must be a positive number, got 0.0"),
        ({"tol": float("nan")}, "tol must be a positive number, got nan"),
        ({"method": "magic"}, "unknown method 'magic': use 'auto' or one of 'dense-gth', 'sparse-gth'"),
        ({"time_limit": -1.0}, "time_limit must be a positive number, got -1.0"),
        ({"max_memory": 0}, "max_memory must be a positive number, got 0"),
        ({"tol": None}, "tol must be a positive number, got None"),
        ({"max_memory": "1GB"}, "max_memory must be a positive number, got '1GB'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gb.solve(lattice(3), **arguments)


def test_wrong_process() -> None:
    with pytest.raises(ValueError, match="solve takes a MarkovRewardProcess, not ndarray: make one with"):
        gb.solve(np.eye(2))  # type: ignore[call-overload]


def test_several_classes_are_listed() -> None:
    mrp = gb.MarkovRewardProcess(np.eye(3), [1.0, 2.0, 3.0])
    with pytest.raises(
        ValueError, match=r"3 recurrent classes: \{0\}, \{1\}, \{2\}, so its gain depends on where"
    ):
        gb.solve(mrp)
    assert gb.solve(mrp, multichain=True).class_gains.tolist() == [1.0, 2.0, 3.0]


def test_tolerance_that_cannot_be_met_says_what_was_reached() -> None:
    with pytest.warns(
        gb.AccuracyWarning, match=r"^tol=1\.0e-17 is not met: the gain may be off by"
    ) as caught:
        solution = gb.solve(lattice(3), tol=1e-17)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "dense-gth: reached an error bound of" in solution.notes[0]
    assert "9 of 9 states may be off by more than that part of its span, at worst by" in solution.notes[-1]
    assert "rewards are averaged" not in solution.notes[0]
    assert solution.bias_error.max() < 1e-14


def test_the_gain_is_answered_where_the_bias_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the bias of each state has its own error, and one of them is infinite."""

    def certify(*given: Any) -> Certified:
        answer = solve_and_certify(*given)
        errors = np.where(np.arange(9) == 4, np.inf, answer.bias_error)
        return replace(answer, bias_error=errors, error_bound=np.inf)

    monkeypatch.setattr(semi_markov, "solve_and_certify", certify)
    with pytest.warns(
        gb.AccuracyWarning, match=r"the bias of 1 of 9 states .* at worst by inf in state 4; the"
    ):
        solution = gb.solve(lattice(3))
    assert np.flatnonzero(~np.isfinite(solution.bias_error)).tolist() == [4]
    with pytest.raises(gb.ConvergenceError, match="reached an error bound of inf"):
        poisson_solver(lattice(3))
    with pytest.raises(gb.ConvergenceError, match="reached an error bound of inf"):
        _ = gb.Problem(lattice(3), np.eye(9)).solution


@pytest.mark.parametrize(("error", "is_answered"), [(0.09, True), (0.11, False), (np.nan, False)])
def test_a_gain_without_a_digit_is_refused(
    monkeypatch: pytest.MonkeyPatch, error: float, is_answered: bool
) -> None:
    mrp = lattice(3)
    most = float(np.abs(mrp.rewards).max())

    def certify(*given: Any) -> Certified:
        answer = solve_and_certify(*given)
        return replace(answer, gain_error=np.full(9, error * most), error_bound=np.inf)

    monkeypatch.setattr(semi_markov, "solve_and_certify", certify)
    if is_answered:
        with pytest.warns(gb.AccuracyWarning, match=r"the gain may be off by 9\.0e-02 of the largest reward"):
            assert gb.solve(mrp).gain_error == pytest.approx(error * most)
    else:
        with pytest.raises(gb.ConvergenceError, match=r"What to do: .* merge states that hardly differ\.$"):
            gb.solve(mrp)


def test_the_best_of_the_methods_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"power": 1e-3, "sparse-gth": 1e-5, "krylov": 1e-4}

    def certify(csr: Any, rewards: Any, solver: Any) -> Certified:
        return replace(solve_and_certify(csr, rewards, solver), error_bound=bounds.get(solver.method, np.inf))

    monkeypatch.setattr(semi_markov, "solve_and_certify", certify)
    monkeypatch.setattr(choice, "MOST_DENSE_STATES", 0)
    with pytest.warns(gb.AccuracyWarning, match="is not met"):
        solution = gb.solve(lattice(30))
    assert solution.method == "sparse-gth"
    assert sum("reached an error bound" in note for note in solution.notes) >= 3


def test_advice_fits_what_happened() -> None:
    with pytest.raises(gb.ConvergenceError) as caught:
        gb.solve(lattice(40), method="sparse-gth", max_memory=1e4)
    advice = str(caught.value).rpartition("What to do: ")[2]
    assert advice == "let method='auto' choose, or raise max_memory, or merge states that hardly differ."
    with pytest.raises(gb.ConvergenceError) as caught:
        gb.solve(lattice(30), time_limit=1e-9)
    advice = str(caught.value).rpartition("What to do: ")[2]
    assert advice == "raise time_limit, or merge states that hardly differ."


def test_arrays_are_read_only() -> None:
    solution = gb.solve(lattice(3))
    for array in (solution.stationary, solution.bias):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_numbers_that_are_derived_need_one_recurrent_class() -> None:
    mrp = gb.MarkovRewardProcess(np.eye(3), [1.0, 2.0, 3.0])
    for derive in (solve_to_tolerance, poisson_solver):
        with pytest.raises(ValueError, match="3 recurrent classes"):
            derive(mrp)
        with pytest.raises(ValueError, match="solve takes a MarkovRewardProcess, not ndarray"):
            derive(np.eye(3))  # type: ignore[arg-type]


def test_the_error_of_a_gain_in_time_is_that_per_step_times_the_rate() -> None:
    """A little more for the product: here the gain is next to 0, and its error is that of large rewards."""
    rng = np.random.default_rng(0)
    rates = rng.random((6, 6)) * (1 - np.eye(6))
    rates -= np.diag(rates.sum(axis=1))
    reward_rates = rng.standard_normal(6)
    for _ in range(2):
        reward_rates -= gb.solve(gb.MarkovRewardProcess.from_rates(rates, reward_rates)).gain
    in_time = gb.MarkovRewardProcess.from_rates(rates, reward_rates)
    assert in_time.rate is not None
    for found, per_step in (
        (gb.solve(in_time), gb.solve(gb.MarkovRewardProcess(in_time.csr, in_time.rewards))),
        (
            gb.solve(in_time, multichain=True),
            gb.solve(gb.MarkovRewardProcess(in_time.csr, in_time.rewards), multichain=True),
        ),
    ):
        assert np.max(per_step.gain_error) > 0.0
        assert (np.asarray(found.gain_error) >= in_time.rate * np.asarray(per_step.gain_error)).all()
        assert np.max(found.gain_error) <= 1.001 * in_time.rate * np.max(per_step.gain_error)


@pytest.mark.parametrize(
    ("gain_error", "bias_error", "words"),
    [
        (0.25, 9.0, ["the bias of 2 of 2 states", "the gain, known to 2.5e-01 of the largest reward, meets"]),
        (0.5, 0.0, ["the gain may be off by 5.0e-01 of the largest reward", "the bias meets it"]),
        (0.5, 9.0, ["the gain may be off by 5.0e-01 of the largest reward", "the bias of 2 of 2 states"]),
        (0.25, 0.5, ["the gain, known to 2.5e-01 of the largest reward, meets it"]),
    ],
)
def test_what_meets_a_tolerance_just_so_meets_it(
    gain_error: float, bias_error: float, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest reward is 1 and the span of the bias is 2: the tolerance is 0.25 for both."""
    mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, -1.0])

    def certify(*given: Any) -> Certified:
        answer = solve_and_certify(*given)
        errors = np.full(2, gain_error), np.full(2, bias_error)
        return replace(answer, gain_error=errors[0], bias_error=errors[1], error_bound=0.3)

    monkeypatch.setattr(semi_markov, "solve_and_certify", certify)
    monkeypatch.setattr(choice, "LARGEST_GAIN_ERROR", 1.0)
    with pytest.warns(gb.AccuracyWarning) as caught:
        gb.solve(mrp, tol=0.25)
    parts = str(caught[0].message).partition(" is not met: ")[2].split("; ")
    assert len(parts) == len(words)
    assert all(part.startswith(start) for part, start in zip(parts, words, strict=True))


def test_a_solution_in_words():
    machine = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, -2.0], labels=["works", "broken"])
    gain, bias, *others = str(gb.solve(machine)).splitlines()
    assert re.fullmatch(r"gain +0\.5, off by at most \d\.?\d*e-1\d", gain)
    assert bias == "bias      highest 0.833333 at works, lowest -4.16667 at broken; relative, with mean 0"
    assert others == ["method    dense-gth"]


def test_a_solution_of_several_classes_in_words():
    walk = gb.MarkovRewardProcess(
        [[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]], [0.0, 0.0, 3.0], labels=["ruin", "play", "win"]
    )
    classes, ruin, win, method = str(gb.solve(walk, multichain=True)).splitlines()
    assert classes == "classes   2 recurrent, 1 transient states"
    assert re.fullmatch(r"gain      0, off by at most \S+: class of ruin, states: 1", ruin)
    assert re.fullmatch(r"gain      3, off by at most \S+: class of win, states: 1", win)
    assert method == "method    dense-gth"
