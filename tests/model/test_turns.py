"""Methods that take turns: who is next, what is counted, and that no clock decides unless a limit is set."""

import _thread
import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from math import inf

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.solve import choice
from gainbias.model.solve.choice import Candidate
from gainbias.model.solve.solution import Budget, MethodError, Solver
from gainbias.model.solve.turns import DIGITS_OF_ONE, CancelledError, Meter, Turn, next_turn
from tests.oracles.blocks import lumpable_blocks
from tests.oracles.compare import bias_error, process
from tests.oracles.expanders import random_sparse
from tests.oracles.groups import torus
from tests.oracles.lattices import drift_grid
from tests.oracles.networks import (
    closed_network,
    drift_cube,
    graph_with_hubs,
    rough_field,
    tailed_expander,
    three_queues,
    wide_band,
)
from tests.oracles.record import ExactChain


def cube_torus(side: int) -> ExactChain:
    steps = {tuple(sign * np.eye(3, dtype=int)[axis]): 9 / 64 for axis in range(3) for sign in (1, -1)}
    return torus((side,) * 3, steps, np.random.default_rng(3).integers(0, 64, side**3) / 64)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


ROUTES = [[0, 0.5, 0.25, 0.25], [0.75, 0, 0.25, 0], [0.5, 0, 0, 0.5], [1, 0, 0, 0]]
KINDS: dict[str, Callable[[], ExactChain]] = {
    "torus": lambda: cube_torus(8),
    "drift cube": lambda: drift_cube(9),
    "rough field": lambda: rough_field(9, rng()),
    "tailed expander": lambda: tailed_expander(800, rng()),
    "graph with hubs": lambda: graph_with_hubs(800, rng()),
    "three queues": lambda: three_queues(13),
    "closed network": lambda: closed_network(13, ROUTES, np.array([28, 14, 11, 11]) / 64),
    "wide band": lambda: wide_band(800, 20),
    "blocks": lambda: lumpable_blocks(15, 40, rng(), coupling=2.0**-10),
    "grid": lambda: drift_grid(28, 28),
    "random": lambda: random_sparse(800, rng()),
}


def worker(step: float, digits_per_step: float, steps: float = inf) -> Callable[[Meter], str]:
    """A method that spends `step` at a time and gains digits by it, for this many steps."""

    def work(meter: Meter) -> str:
        for k in itertools.count(1):
            if k > steps:
                return "done"
            meter.spend(step, products=1)
            meter.reach(10.0 ** (-digits_per_step * k))
        raise AssertionError

    return work


def until_done(turns: list[Turn[str]]) -> Turn[str]:
    try:
        for _ in range(1000):
            turn = next_turn(turns)
            turn.advance(turn.slice)
            if turn.is_done:
                return turn
        raise AssertionError("nobody got done")
    finally:
        for turn in turns:
            turn.cancel()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


class TestTurns:
    def test_a_slice_is_not_exceeded_by_more_than_one_step(self) -> None:
        turn = Turn("x", worker(1.0, 0.1, 20), trial=4.0, digits=2.0)
        turn.advance(4.0)
        assert (turn.meter.work, turn.meter.products, turn.is_done) == (4.0, 4, False)
        # The third step was the last one whose gain was noted.
        assert turn.expected == pytest.approx(17 * 4 / 3)
        turn.advance(inf)
        assert turn.is_done
        assert turn.result() == "done"

    def test_the_quicker_one_wins(self) -> None:
        slow, quick = (
            Turn("slow", worker(1.0, 0.01, 1000), 4.0, 10.0),
            Turn("quick", worker(1.0, 0.1, 100), 5.0, 10.0),
        )
        assert until_done([slow, quick]) is quick
        assert slow.meter.work < 20.0

    def test_a_stalled_one_is_left(self) -> None:
        stalled = Turn("stalled", worker(1.0, 0.0), 4.0, 10.0)
        other = Turn("other", worker(1.0, 0.02, 500), 4.0, 10.0)
        assert until_done([stalled, other]) is other
        assert stalled.meter.work < 0.2 * other.meter.work

    def test_one_that_starts_late_gets_its_chance(self) -> None:
        """It gains nothing for 40 steps, and then is done at once; the other one would take 5,000."""
        late = Turn("late", worker(1.0, 0.0, 40), 4.0, 10.0)
        slow = Turn("slow", worker(1.0, 0.002, 5000), 4.0, 10.0)
        assert until_done([slow, late]) is late
        assert slow.meter.work < 200.0

    def test_iterations_have_as_long_as_elimination_takes(self) -> None:
        def eliminate(meter: Meter) -> str:
            meter.plan(operations=0.0, factor_entries=round(100 / 5.5e-8))
            return "eliminated"

        promising = Turn("promising", worker(1.0, 0.05), 4.0, 10.0)
        direct = Turn("direct", eliminate, 4.0, 10.0)
        assert until_done([promising, direct]) is direct
        assert promising.meter.work < 400.0

    @pytest.mark.parametrize(("planned", "is_first"), [(20.0, True), (25.0, True), (40.0, False)])
    def test_a_cheap_elimination_is_done_before_anything_is_tried(
        self, planned: float, is_first: bool
    ) -> None:
        def eliminate(meter: Meter) -> str:
            meter.predict(ordering=planned, operations=0.0, factor_entries=0.0)
            return "eliminated"

        other = Turn("other", worker(1.0, 1.0, 10), 2.0, 10.0)
        direct = Turn("direct", eliminate, 1.0, 10.0, at_once=25.0)
        assert (until_done([other, direct]) is direct) is is_first
        assert other.is_started is not is_first

    @pytest.mark.parametrize(("gain", "is_chosen"), [(0.01, True), (1.0, False)])
    def test_after_a_trial_that_shows_nothing_more_is_cheap(self, gain: float, is_chosen: bool) -> None:
        def eliminate(meter: Meter) -> str:
            meter.predict(ordering=90.0, operations=0.0, factor_entries=0.0)
            return "eliminated"

        first, second = (Turn(name, worker(1.0, gain, 10_000), 4.0, 10.0) for name in ("first", "second"))
        direct = Turn("direct", eliminate, 1.0, 10.0, at_once=25.0)
        first_of_all = until_done([first, second, direct])
        assert (first_of_all is direct and not second.is_started) is is_chosen

    def test_what_a_method_raises_is_raised(self) -> None:
        def fails(meter: Meter) -> str:
            meter.spend(1.0)
            raise MethodError("out of luck")

        turn = Turn("x", fails, 1.0, 10.0)
        turn.advance(1.0)
        turn.advance(1.0)
        assert turn.is_done
        with pytest.raises(MethodError, match="out of luck"):
            turn.result()

    @pytest.mark.parametrize("end", ["fails", "is cancelled"])
    def test_what_a_method_held_is_free_when_it_ended(self, end: str) -> None:
        """Not only when Python looks for what nobody needs: it may be most of the memory of a GPU."""
        held = []

        def method(meter: Meter) -> str:
            vector = np.ones(3)
            held.append(weakref.ref(vector))
            meter.spend(1.0)
            raise MethodError("no")

        turn = Turn("x", method, trial=1.0, digits=2.0)
        gc.disable()
        try:
            turn.advance(inf if end == "fails" else 1.0)
            if end == "fails":
                with contextlib.suppress(MethodError):
                    turn.result()
            else:
                turn.cancel()
            assert held[0]() is None
        finally:
            gc.enable()

    def test_a_cancelled_method_ends(self) -> None:
        ended: list[str] = []

        def work(meter: Meter) -> str:
            try:
                return worker(1.0, 0.0)(meter)
            except CancelledError:
                ended.append("here")
                raise

        turn = Turn("x", work, 1.0, 10.0)
        turn.advance(3.0)
        turn.cancel()
        assert ended == ["here"]


@pytest.mark.parametrize("name", KINDS)
def test_the_answer_is_right_and_no_clock_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = KINDS[name]()
    first = gb.solve(process(chain))
    assert bias_error(first, chain) <= 1e-10
    # A clock on which every look costs an hour, and a machine that is held up at random.
    hours, waits, spend = itertools.count(0.0, 3600.0), np.random.default_rng(), Meter.spend

    def held_up(meter: Meter, work: float, products: int = 0, aside: bool = False) -> None:
        time.sleep(waits.uniform(0.0, 1e-4))
        spend(meter, work, products, aside)

    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    monkeypatch.setattr(Meter, "spend", held_up)
    second = gb.solve(process(chain))
    assert second.notes == first.notes
    assert second.method == first.method
    np.testing.assert_array_equal(second.bias, first.bias)
    np.testing.assert_array_equal(second.stationary, first.stationary)


def replaced(
    monkeypatch: pytest.MonkeyPatch, name: str, prepare: Callable[[Budget], Solver], trial: float
) -> None:
    """Let a method of this name come first."""
    before = choice.candidates
    monkeypatch.setattr(
        choice, "candidates", lambda mrp, method: [Candidate(name, prepare, trial), *before(mrp, method)]
    )


def test_no_method_uses_up_the_time_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def promises(budget: Budget) -> Solver:
        for k in itertools.count(1):
            time.sleep(0.001)
            budget.watch.show("promising")
            budget.meter.spend(1e-12, products=1)
            budget.meter.reach(1 / k)
        raise AssertionError

    replaced(monkeypatch, "promises", promises, 1e-12)
    solution = gb.solve(process(cube_torus(9)), time_limit=1.0)
    assert solution.method != "promises"
    assert solution.notes[0].startswith("promises: left for a quicker one")


def test_one_that_is_done_at_once_gets_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def dawdles(budget: Budget) -> Solver:
        while True:
            time.sleep(0.001)
            budget.watch.show("dawdling")

    replaced(monkeypatch, "dawdles", dawdles, 0.0)
    solution = gb.solve(process(cube_torus(9)), time_limit=1.0)
    assert solution.notes[0] == "dawdles: its share of the time limit of 1 s has passed"


def test_an_interrupt_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupts(budget: Budget) -> Solver:
        raise KeyboardInterrupt

    replaced(monkeypatch, "interrupts", interrupts, 0.0)
    with pytest.raises(KeyboardInterrupt):
        gb.solve(process(cube_torus(9)))


def test_an_interrupt_while_a_method_works_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(budget: Budget) -> Solver:
        _thread.interrupt_main()
        while True:
            time.sleep(0.001)
            budget.meter.spend(1e-12)

    replaced(monkeypatch, "interrupted", interrupted, 1e-9)
    # Where tests run in the background of a shell, interrupts are ignored unless they are asked for.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            gb.solve(process(cube_torus(9)))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("chain", [drift_cube(14), rough_field(10, rng())], ids=["drift", "field"])
def test_incomplete_elimination(chain: ExactChain) -> None:
    solution = gb.solve(process(chain), method="incomplete-gth")
    assert bias_error(solution, chain) <= 1e-12
    np.testing.assert_allclose(solution.stationary, chain.stationary, rtol=1e-11)
    assert not solution.notes


def test_one_answer_takes_the_digits_of_a_law_and_of_its_solves() -> None:
    """More than those of one answer make a chance worth less, so both must mean the same."""
    assert DIGITS_OF_ONE == choice.LAW_DIGITS + choice.ANSWER_DIGITS


def test_incomplete_elimination_obeys_the_memory_limit() -> None:
    with pytest.raises(gb.ConvergenceError, match=r"incomplete factors need 0\.000\d+ GB of memory and"):
        gb.solve(process(cube_torus(9)), method="incomplete-gth", max_memory=1e4)


@pytest.mark.slow
@pytest.mark.parametrize("side", [50, 75])
def test_large_drift_cube(side: int) -> None:
    chain = drift_cube(side)
    solution = gb.solve(process(chain))
    assert solution.method == "incomplete-gth"
    assert bias_error(solution, chain) <= 1e-10


@pytest.mark.slow
def test_large_torus() -> None:
    chain = cube_torus(30)
    solution = gb.solve(process(chain))
    assert bias_error(solution, chain) <= 1e-10
    assert solution.iterations < 3000


THREADS_PROGRAM = """
import numpy as np, scipy.sparse as sparse
import gainbias as gb
n, rng = 20_000, np.random.default_rng(0)
columns = np.concatenate([rng.permutation(n) for _ in range(4)])
chain = sparse.csr_array((np.full(4 * n, 0.25), (np.tile(np.arange(n), 4), columns)), (n, n))
mrp = gb.MarkovRewardProcess(chain, rng.standard_normal(n))
for method in ("krylov", "power"):
    found = gb.solve(mrp, method=method)
    print(found.gain.hex(), found.bias.sum().hex(), found.asymptotic_variance.hex(), found.error_bound.hex())
"""


def test_bits_do_not_depend_on_the_threads_of_linear_algebra() -> None:
    """Libraries share long sums among threads: the last bits then depend on the machine."""
    outputs = set()
    for threads in "12":
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        program = [sys.executable, "-c", THREADS_PROGRAM]
        done = subprocess.run(program, capture_output=True, text=True, env=environment, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert done.stdout.count("\n") == 2


def sliding_down(n: int) -> gb.MarkovRewardProcess:
    """A chain that walks down to an absorbing state: BiCGSTAB breaks down on it at once."""
    states = np.arange(n)
    chain = sparse.csr_array((np.ones(n), (states, np.maximum(states - 1, 0))), (n, n))
    return gb.MarkovRewardProcess(chain, np.sqrt(states))


def test_a_breakdown_of_a_search_is_no_error() -> None:
    mrp = sliding_down(600)
    found = gb.solve(mrp)
    np.testing.assert_allclose(found.bias, np.cumsum(mrp.rewards), rtol=1e-14)
    with pytest.raises(gb.ConvergenceError, match="krylov: "):
        gb.solve(mrp, method="krylov")


@pytest.mark.parametrize("size", [1e-200, 1e290])
def test_a_search_may_have_huge_and_tiny_rewards(size: float) -> None:
    rng = np.random.default_rng(1)
    chain, rewards = rng.dirichlet(np.ones(20), 20), rng.standard_normal(20)
    usual = gb.solve(gb.MarkovRewardProcess(chain, rewards))
    found = gb.solve(gb.MarkovRewardProcess(chain, rewards * size), method="krylov")
    np.testing.assert_allclose(found.bias / size, usual.bias, atol=1e-12)


def test_a_refusal_says_what_there_was_no_time_for() -> None:
    mrp = sliding_down(2_000)
    with pytest.raises(gb.ConvergenceError) as refused:
        gb.solve(mrp, time_limit=1e-9)
    text = str(refused.value)
    assert "no time was left to try it" in text
    assert "not needed" not in text


def test_a_law_that_fades_below_the_smallest_number_is_refused() -> None:
    """It was a warning of NumPy."""
    mrp = gb.MarkovRewardProcess([[1.0, 1e-320], [1e-300, 1.0]], [1.0, 2.0])
    with pytest.raises(gb.ConvergenceError, match="power: "):
        gb.solve(mrp, method="power")


def test_a_caller_may_ask_numpy_to_raise_errors() -> None:
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.full(600, 0.011), 600)
    mrp = gb.MarkovRewardProcess(chain, rng.standard_normal(600))
    with np.errstate(all="raise"):
        found = gb.solve(mrp)
    np.testing.assert_array_equal(found.bias, gb.solve(mrp).bias)


def test_incomplete_elimination_of_one_state_is_refused() -> None:
    with pytest.raises(gb.ConvergenceError, match="one state only"):
        gb.solve(gb.MarkovRewardProcess([[1.0]], [2.0]), method="incomplete-gth")
