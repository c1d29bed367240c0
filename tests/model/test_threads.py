"""Large chains are worked on by several threads, and no bit of an answer depends on how many there are.

Blocks and branches are made small here, so that small chains have many of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.kernels import (
    by_blocks,
    constant,
    empty_vector,
    share_blocks,
    share_out,
    threads,
    using_threads,
    work_ahead,
    working_beside,
)
from gainbias.model import structure
from gainbias.model.solve import leaking, residual, vectors
from gainbias.model.solve.elimination import branches, law, numeric, orders, solver, symbolic
from gainbias.model.solve.elimination import tree as tree_of
from gainbias.model.solve.solution import Budget
from gainbias.model.solve.vectors import rows_of
from gainbias.progress import Watch
from tests.oracles.expanders import random_dyadic_transitions
from tests.oracles.lattices import grid_transitions

PLENTY = Budget(max_memory=1e9, watch=Watch())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make everything large, and list the threads that have worked on a part of shared work."""
    monkeypatch.setattr(threads, "STATES_TOGETHER", 128)
    monkeypatch.setattr(threads, "GRAIN", 16)
    for name, value in (("LEAST_TO_SHARE", 0.0), ("BRANCHES", 8), ("WIDE_FRONT", 2e4), ("ROWS_TOGETHER", 4)):
        monkeypatch.setattr(branches, name, value)
    for name, value in (("STRIP", 5), ("STRIP_ROWS", 3)):
        monkeypatch.setattr(branches, name, value)
    for name, value in (("LARGE", 300), ("SMALL", 0)):
        monkeypatch.setattr(symbolic, name, value)
    for module in (symbolic, tree_of):
        monkeypatch.setattr(module, "SUBTREES", 8)
    monkeypatch.setattr(orders, "SMALL_PART", 60)
    monkeypatch.setattr(law, "FRONTS_TOGETHER", 8)
    helped: list[int] = []
    share = threads._Crew.share

    def counted(crew, work, count):
        helped.append(threading.get_ident())
        return share(crew, work, count)

    monkeypatch.setattr(threads._Crew, "share", counted)
    return helped


def grid(side: int) -> gb.MarkovRewardProcess:
    transitions = grid_transitions(side, side, 15 / 64, 16 / 64, 16 / 64, 14 / 64)
    return gb.MarkovRewardProcess(transitions, np.sin(np.arange(side**2)))


def random_graph(n: int) -> gb.MarkovRewardProcess:
    rng = np.random.default_rng(1)
    return gb.MarkovRewardProcess(random_dyadic_transitions(n, rng, 5), rng.random(n))


def two_classes(n: int) -> gb.MarkovRewardProcess:
    """Two random graphs, and states that reach both."""
    one, other = (random_graph(n).csr for _ in range(2))
    rng = np.random.default_rng(2)
    into = sparse.csr_array(
        (np.full(2 * n, 0.5), (np.repeat(np.arange(n), 2), rng.integers(0, 3 * n, 2 * n))), (n, 3 * n)
    )
    both = sparse.block_diag([one, other], format="csr")
    closed = sparse.hstack([both, sparse.csr_array((2 * n, n))])
    return gb.MarkovRewardProcess(sparse.vstack([closed, into]).tocsr(), rng.random(3 * n))


def numbers_of(solution: gb.Solution | gb.MultichainSolution) -> dict[str, bytes]:
    law_of = solution.stationary
    fields = {
        "gain": solution.gain,
        "bias": solution.bias,
        "bias_error": solution.bias_error,
        "law": law_of.toarray() if sparse.issparse(law_of) else law_of,
        "law_error": solution.stationary_error,
        "error_bound": solution.error_bound,
        "variance": getattr(solution, "asymptotic_variance", 0.0),
    }
    return {name: np.asarray(values, dtype=np.float64).tobytes() for name, values in fields.items()}


@pytest.mark.parametrize(
    ("make", "method", "multichain"),
    [
        (lambda: grid(24), "sparse-gth", False),
        (lambda: grid(24), "incomplete-gth", False),
        (lambda: grid(24), "auto", False),
        (lambda: random_graph(700), "krylov", False),
        (lambda: random_graph(700), "power", False),
        (lambda: two_classes(200), "auto", True),
    ],
    ids=["grid", "incomplete", "auto", "krylov", "power", "multichain"],
)
def test_bits_do_not_depend_on_the_number_of_threads(make, method, multichain, small_blocks) -> None:
    answers = []
    for count in (1, 2, 7):
        before = len(small_blocks)
        answers.append(numbers_of(gb.solve(make(), method=method, multichain=multichain, threads=count)))
        assert (len(small_blocks) > before) == (count > 1)
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]


def test_blocks_change_last_digits_only(monkeypatch: pytest.MonkeyPatch, small_blocks) -> None:
    for chain, method in ((grid(24), "sparse-gth"), (random_graph(700), "krylov")):
        shared = gb.solve(chain, method=method, threads=2)
        with monkeypatch.context() as patch:
            patch.setattr(threads, "STATES_TOGETHER", 2**16)
            patch.setattr(branches, "LEAST_TO_SHARE", 1e99)
            alone = gb.solve(chain, method=method, threads=1)
        np.testing.assert_allclose(shared.stationary, alone.stationary, rtol=1e-11)
        off = np.abs(shared.bias - alone.bias)
        assert np.all(off <= shared.bias_error + alone.bias_error)


@pytest.mark.parametrize("many", [2, 8, 99])
def test_branches_give_the_factors_of_one_thread_bit_for_bit(
    many: int, monkeypatch: pytest.MonkeyPatch, small_blocks
) -> None:
    """However many fronts of a level it takes until each is left to one thread."""
    monkeypatch.setattr(branches, "MANY_FRONTS", many)
    chain = grid(24).csr[1:, 1:].tocsr()
    leak = np.maximum(1.0 - np.asarray(chain.sum(axis=1)), 0.0)
    plan, name = symbolic.plan_sparse(symbolic.symmetric_pattern(chain), PLENTY)
    assert name == "dissection by levels"
    with using_threads(3):
        shared = solver.factorise_chain(chain, leak, plan, PLENTY)
    assert shared.branches is not None
    assert len(shared.branches.parts) > 8
    wide = [sum(shared.branches.parts[k].is_wide for k in level) for level in shared.branches.levels]
    assert wide[-1] == 1
    assert max(wide) < many
    monkeypatch.setattr(branches, "LEAST_TO_SHARE", 1e99)
    alone = solver.factorise_chain(chain, leak, plan, PLENTY)
    assert alone.branches is None
    np.testing.assert_array_equal(shared.values, alone.values)
    side = np.arange(1.0, len(leak) + 1.0)
    np.testing.assert_allclose(shared.solve(side), alone.solve(side), rtol=1e-13)
    np.testing.assert_allclose(shared.solve_transposed(side), alone.solve_transposed(side), rtol=1e-13)


def test_progress_of_branches_counts_all_operations(small_blocks) -> None:
    chain = grid(24).csr[1:, 1:].tocsr()
    plan, _ = symbolic.plan_sparse(symbolic.symmetric_pattern(chain), PLENTY)
    parts = branches.find_branches(plan.fronts)
    assert parts is not None
    assert {branch.is_wide for branch in parts.parts} == {True, False}
    rows = residual.Sparse(chain.indptr, chain.indices, chain.data)
    factors, progress = np.empty(plan.factor_entries), np.zeros(2)
    leak = np.full(chain.shape[0], 0.1)
    branches.eliminate_branches(parts, rows, vectors.columns_of(rows), leak, plan.fronts, factors, progress)
    assert progress.tolist() == [pytest.approx(plan.flops, rel=1e-12), 0.0]


def test_without_memory_for_branches_one_thread_eliminates(
    monkeypatch: pytest.MonkeyPatch, small_blocks
) -> None:
    chain = grid(12).csr[1:, 1:].tocsr()
    leak = np.full(chain.shape[0], 0.25)
    plan, _ = symbolic.plan_sparse(symbolic.symmetric_pattern(chain), PLENTY)
    expected = solver.factorise_chain(chain, leak, plan, PLENTY)
    monkeypatch.setattr(solver, "eliminate_branches", lambda *_: pytest.fail("memory does not suffice"))
    needed = plan.bytes_needed + 120 * len(leak) + 60 * chain.nnz
    found = solver.factorise_chain(chain, leak, plan, Budget(max_memory=needed, watch=Watch()))
    np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.parametrize("kind", ["grid", "two grids", "star", "path", "full"])
def test_dissected_order_puts_what_separates_parts_behind_them(kind: str, small_blocks) -> None:
    one = symbolic.symmetric_pattern(grid(20).csr)
    graph = {
        "grid": one,
        "two grids": sparse.block_diag([one, one], format="csr"),
        "star": sparse.csr_array(np.arange(200)[:, None] * np.arange(200) == 0),
        "path": sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(200, 200)).tocsr(),
        "full": sparse.csr_array(np.ones((80, 80))),
    }[kind]
    graph = symbolic.symmetric_pattern(sparse.csr_array(graph, dtype=np.float64))
    with using_threads(2):
        order, parts = orders.dissected_order(graph)
    assert sorted(order.tolist()) == list(range(graph.shape[0]))
    part_of = np.full(graph.shape[0], -1)
    for number, (begin, end) in enumerate(parts):
        assert (part_of[order[begin:end]] == -1).all()
        part_of[order[begin:end]] = number
    source, target = graph.nonzero()
    of_two = (part_of[source] >= 0) & (part_of[target] >= 0)
    np.testing.assert_array_equal(part_of[source][of_two], part_of[target][of_two])
    tree = tree_of.elimination_tree(graph, order, [])
    with using_threads(3):
        np.testing.assert_array_equal(tree_of.elimination_tree(graph, order, parts), tree)
    plan = symbolic.plan_elimination(graph, order, 1e9)
    other = symbolic.plan_elimination(graph, orders.minimum_degree(graph), 1e9)
    assert plan is not None
    assert other is not None
    assert plan.flops <= 1.5 * other.flops + 1e4


def test_products_have_the_bits_of_scipy(small_blocks) -> None:
    chain = random_graph(500).csr
    x = np.random.default_rng(3).standard_normal(500)
    with using_threads(3):
        found = vectors.multiply(chain, x)
    np.testing.assert_array_equal(found, chain @ x)
    again, rows = np.empty(500), residual.Sparse(chain.indptr, chain.indices, chain.data)
    vectors.multiply_rows.py_func(rows, x, 0, 500, again)
    np.testing.assert_array_equal(again, found)


def test_gmres_uses_no_linear_algebra_library(small_blocks) -> None:
    moves = 0.999 * random_graph(500).csr
    right = np.random.default_rng(4).standard_normal(500)
    found = []
    for count in (1, 2, 7):
        with using_threads(count):
            found.append(leaking._gmres(moves, right, Watch()))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_allclose(found[0] - moves @ found[0], right, atol=1e-6)


def test_a_transpose_is_that_of_scipy(small_blocks) -> None:
    for chain in (random_graph(700).csr, grid(24).csr, two_classes(150).csr):
        expected = chain.T.tocsr()
        for count in (1, 3):
            with using_threads(count):
                found = vectors.transposed(chain)
            assert_same_matrix(found, expected)


def assert_same_matrix(found: sparse.csr_array, expected: sparse.csr_array) -> None:
    assert found.shape == expected.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def test_states_are_taken_out_as_scipy_does(small_blocks) -> None:
    for chain in (random_graph(700).csr, grid(24).csr, two_classes(150).csr):
        n = chain.shape[0]
        for apart in (np.array([0]), np.array([n - 1, 3, 77])):
            kept = np.setdiff1d(np.arange(n), apart)
            rows = chain[kept]
            for count in (1, 3):
                with using_threads(count):
                    inside, outside = vectors.separated(chain, kept, apart)
                assert_same_matrix(inside, rows[:, kept].tocsr())
                assert_same_matrix(outside, rows[:, apart].tocsr())


def test_a_large_graph_has_the_pattern_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    directed = sparse.random_array((300, 300), density=0.01, rng=np.random.default_rng(2), format="csr")
    nothing = sparse.csr_array((80, 80))
    for chain in (random_graph(300).csr, grid(17).csr, sparse.csr_array(directed), nothing):
        expected = symbolic.symmetric_pattern(chain)
        with monkeypatch.context() as patch:
            patch.setattr(threads, "STATES_TOGETHER", 32)
            patch.setattr(threads, "GRAIN", 8)
            for count in (1, 3):
                with using_threads(count):
                    assert_same_matrix(symbolic.symmetric_pattern(chain), expected)


def test_totals_of_classes_do_not_depend_on_threads(small_blocks) -> None:
    rng = np.random.default_rng(7)
    values = rng.standard_normal(1001)
    for num_classes in (1, 3):
        class_of = rng.integers(-1, num_classes, 1001)
        found = []
        for count in (1, 2, 7):
            with using_threads(count):
                found.append(vectors.class_totals(class_of, num_classes, values))
        expected = [values[class_of == k].sum() for k in range(num_classes)]
        np.testing.assert_allclose(found[0], expected, rtol=1e-12)
        np.testing.assert_array_equal(found[1:], [found[0]] * 2)


def test_steps_of_methods_that_iterate_have_the_bits_of_numpy(small_blocks) -> None:
    x, y, z = np.random.default_rng(5).standard_normal((3, 1001))
    expected = [x + 0.3 * y, x - 0.3, z + 0.3 * (x - 0.7 * y), x + (0.3 * y + 0.7 * z), np.full(1001, 0.3)]
    for count in (1, 3):
        with using_threads(count):
            found = [
                vectors.combined(x, 0.3, y),
                vectors.shifted(x, 0.3),
                vectors.renewed(x.copy(), 0.3, 0.7, y, z),
                vectors.advanced(x.copy(), 0.3, y, 0.7, z),
                constant(0.3, 1001),
            ]
            sums = vectors.inner(x, y)
            places = np.random.default_rng(6).permutation(1001)
            np.testing.assert_array_equal(vectors.gathered(x, places), x[places])
            back = np.zeros(1001)
            vectors.scatter(x[places], places, back)
            np.testing.assert_array_equal(back, x)
        np.testing.assert_array_equal(found, expected)
        assert sums == pytest.approx(float(x @ y), rel=1e-12)


def test_memory_of_a_vector_is_used_again_when_no_view_of_it_is_left(small_blocks) -> None:
    with using_threads(2):
        one = empty_vector(1000)
        place, view = one.ctypes.data, one[3:]
        del one
        assert empty_vector(1000).ctypes.data != place
        del view
        again = empty_vector(1000)
        assert again.ctypes.data == place
    again[:] = 1.0
    assert empty_vector(1000).ctypes.data != place
    assert again.sum() == 1000.0


class TestExpandingGraphs:
    """Whether many states are near one is seen before the whole chain is looked at."""

    def near(self, chain: sparse.csr_array, start: int = 0) -> tuple[int, int]:
        n = chain.shape[0]
        return solver.states_near(rows_of(chain), start, n // 10, orders.most_neighbours(n))

    def test_a_tenth_of_a_random_graph_is_a_few_steps_away(self) -> None:
        found, steps = self.near(random_graph(5000).csr)
        assert found >= 500
        assert steps <= 8

    def test_a_path_is_long_and_a_hub_leads_nowhere(self) -> None:
        path = sparse.diags_array([0.5, 0.5], offsets=[-1, 1], shape=(3000, 3000)).tocsr()
        assert self.near(path) == (65, 64)
        star = path.tolil()
        star[5, :] = 1.0
        found, _ = self.near(star.tocsr(), start=5)
        assert found == 1

    def test_others_are_tried_before_the_chain_is_looked_at(self, monkeypatch, small_blocks) -> None:
        monkeypatch.setattr(solver, "busiest_states", lambda *_: pytest.fail("the whole chain is looked at"))
        monkeypatch.setattr(solver, "predicted_flops", lambda *_: 1e18)
        found = gb.solve(random_graph(2000), threads=2)
        assert found.method in ("power", "krylov")
        assert any(note.startswith("sparse-gth: not needed: planned only") for note in found.notes)


class TestSharing:
    def test_parts_are_in_order_and_inner_work_is_done_by_who_does_the_part(self) -> None:
        def inner(i: int) -> set[int]:
            return set(share_out(lambda _: threading.get_ident(), 3)) | {threading.get_ident()}

        with using_threads(4):
            assert share_out(lambda i: i, 50) == list(range(50))
            assert all(len(idents) == 1 for idents in share_out(inner, 20))

    def test_an_error_in_a_thread_is_raised_and_ends_the_work(self) -> None:
        done = []

        def work(i: int) -> None:
            if i == 3:
                raise KeyError("broken")
            done.append(i)

        with using_threads(2), pytest.raises(KeyError, match="broken"):
            share_out(work, 10_000)
        assert len(done) < 10_000

    def test_items_are_worked_on_before_they_are_needed(self) -> None:
        together = threading.Barrier(2, timeout=20)
        with using_threads(2):
            worked = work_ahead(lambda k: (k, together.wait())[0], iter(range(6)))
            assert list(worked) == list(range(6))

    def test_only_a_few_items_are_taken_ahead(self) -> None:
        taken = []
        with using_threads(2):
            worked = work_ahead(lambda k: k, (taken.append(k) or k for k in range(1000)))
            assert [next(worked) for _ in range(3)] == [0, 1, 2]
            assert len(taken) <= 3 + 2 * 2
            worked.close()

    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_an_error_comes_after_everything_before_it(self, threads: int) -> None:
        def work(k: int) -> int:
            if k == 7:
                raise KeyError("in the work")
            return k

        def items() -> Iterator[int]:
            yield from range(5)
            raise OSError("in the items")

        for source, error, message in ((iter(range(50)), KeyError, "work"), (items(), OSError, "items")):
            done: list[int] = []
            with using_threads(threads), pytest.raises(error, match=message):
                done.extend(work_ahead(work, source))
            assert done == list(range(7 if error is KeyError else 5))

    def test_work_beside_others_is_done_at_the_same_time_and_its_error_is_raised(self) -> None:
        together = threading.Barrier(2, timeout=20)

        def work() -> None:
            together.wait()
            raise KeyError("beside")

        with using_threads(2):
            list(work_ahead(lambda k: k, iter(range(9))))  # starts the other thread
            with pytest.raises(KeyError, match="beside"), working_beside(work):
                together.wait()

    def test_two_streams_and_shared_work_do_not_disturb_each_other(self) -> None:
        with using_threads(3):
            squares = work_ahead(lambda k: k * k, iter(range(200)))
            for k, number in enumerate(work_ahead(lambda x: x + 1, squares)):
                assert number == k * k + 1
                assert share_out(lambda i: i, 5) == list(range(5))

    def test_blocks_have_fixed_ends(self) -> None:
        with using_threads(3):
            assert share_blocks(lambda begin, end: (begin, end), 10, 4) == [(0, 4), (4, 8), (8, 10)]

    def test_a_result_may_replace_an_argument(self, small_blocks) -> None:
        x, y = np.arange(1000.0), np.ones(1000)
        with using_threads(2):
            assert by_blocks(np.add, x, y, out=x) is x
        np.testing.assert_array_equal(x, np.arange(1.0, 1001.0))

    def test_what_numpy_is_told_about_overflow_holds_in_all_threads(self, small_blocks) -> None:
        with using_threads(3), np.errstate(over="ignore"):
            assert np.isinf(by_blocks(lambda x: x * 1e308, np.full(1000, 10.0))).all()

    @pytest.mark.parametrize("number", [0, -1, 1.5, True, "two"])
    def test_a_number_of_threads_is_positive(self, number) -> None:
        with pytest.raises(ValueError, match="threads must be a positive integer"):
            gb.solve(grid(2), threads=number)


@pytest.mark.parametrize("period", [1, 2, 6])
def test_periods_of_large_chains(period: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings of blocks in a random order: all of a block lead into the next, so that the period is known."""
    rng = np.random.default_rng(period)
    n, place = 60, rng.permutation(60)
    block = np.arange(n) % period
    ring = (block[None, :] == (block[:, None] + 1) % period) & (rng.random((n, n)) < 0.5)
    both = np.kron(np.eye(2), ring[place][:, place])
    process = gb.MarkovRewardProcess(sparse.csr_array(both), np.zeros(2 * n), renormalise=True)
    expected = process.class_periods.tolist()
    monkeypatch.setattr(threads, "STATES_TOGETHER", 10)
    again = gb.MarkovRewardProcess(process.csr, process.rewards)
    assert again.class_periods.tolist() == expected == [period] * 2


def test_a_time_limit_ends_an_elimination_in_branches(small_blocks) -> None:
    chain = grid(24).csr[1:, 1:].tocsr()
    plan, _ = symbolic.plan_sparse(symbolic.symmetric_pattern(chain), PLENTY)
    parts = branches.find_branches(plan.fronts)
    assert parts is not None
    rows = residual.Sparse(chain.indptr, chain.indices, chain.data)
    factors, progress = np.full(plan.factor_entries, np.nan), np.array([0.0, 1.0])
    branches.eliminate_branches(parts, rows, rows, np.ones(chain.shape[0]), plan.fronts, factors, progress)
    assert np.isnan(factors).all()
    assert progress[0] == 0.0


def test_compiled_and_python_forms_of_shared_work_agree_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, small_blocks
) -> None:
    """And the Python form, in which NumPy looks at every index, stays inside its arrays."""
    chain = grid(9).csr[1:, 1:].tocsr()
    leak = np.maximum(1.0 - np.asarray(chain.sum(axis=1)), 0.0)
    monkeypatch.setattr(symbolic, "LARGE", 50)
    monkeypatch.setattr(orders, "SMALL_PART", 20)

    def everything() -> list[np.ndarray]:
        graph = symbolic.symmetric_pattern(chain)
        factors = solver.factorise_chain(chain, leak, symbolic.plan_sparse(graph, PLENTY)[0], PLENTY)
        assert factors.branches is not None
        periods = structure.search_periods(chain.indptr, chain.indices, np.array([0]))
        lost = np.array(factors.go_up(law.loses_products, leak.copy()))
        rounding = np.array(law.elimination_rounding(factors.fronts, factors.values))
        sums = residual.class_sums(np.zeros(len(leak), np.int64), 1, leak, residual.Doubled(leak))
        steps = [
            vectors.combined(leak, 0.3, leak),
            vectors.shifted(leak, 0.3),
            np.array(vectors.inner(leak, leak)),
            vectors.renewed(leak.copy(), 0.3, 0.7, leak, leak),
            vectors.advanced(leak.copy(), 0.3, leak, 0.7, leak),
        ]
        columns = vectors.transposed(chain)
        rows = residual.Sparse(chain.indptr, chain.indices, chain.data)
        steps += [columns.indptr, columns.indices, columns.data, residual.throughput(chain, leak)]
        for part in vectors.separated(chain, np.arange(1, len(leak)), np.array([0])):
            steps += [part.indptr, part.indices, part.data]
        steps += residual.balance_residual(
            rows, vectors.columns_of(rows), residual.Doubled(leak, 1e-17 * leak)
        )
        return [
            graph.indptr, graph.indices, orders.dissected_order(graph)[0], factors.values,
            factors.solve(leak), factors.solve_transposed(leak), periods, lost, rounding, *sums, *steps,
        ]  # fmt: skip

    compiled = everything()
    for module in (numeric, branches, orders, solver, symbolic, tree_of, law, residual, structure, vectors):
        for name, value in vars(module).copy().items():
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
    for one, other in zip(compiled, everything(), strict=True):
        np.testing.assert_array_equal(one, other)
