"""Every kernel of the elimination against its plain twin, compiled and as Python."""

import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st

from gainbias.kernels import using_threads
from gainbias.model.solve.elimination import numeric, solver, symbolic, tree
from gainbias.model.solve.elimination.numeric import (
    Sparse,
    eliminate_front,
    eliminate_front_by_outer_products,
    factorise,
)
from gainbias.model.solve.elimination.orders import (
    level_by_level,
    minimum_degree,
    nested_dissection,
    widest_level,
)
from gainbias.model.solve.elimination.solver import (
    MOST_READS_PER_STATE,
    busiest_states,
    factorise_chain,
    next_state,
)
from gainbias.model.solve.elimination.symbolic import (
    plan_dense,
    plan_elimination,
    plan_sparse,
    predicted_entries,
    predicted_flops,
    symmetric_pattern,
)
from gainbias.model.solve.solution import Budget
from gainbias.progress import Watch
from tests.oracles.elimination import exact_leaking_solution, leaking_matrix, naive_elimination, naive_fill
from tests.oracles.expanders import random_sparse
from tests.oracles.lattices import drift_grid
from tests.oracles.networks import drift_cube, three_queues, wide_band
from tests.oracles.record import ExactChain

pytestmark = pytest.mark.kernels
RNG = np.random.default_rng(6)
PLENTY = Budget(max_memory=1e9, watch=Watch())


def leaking_chain(n: int, density: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random substochastic chain with entries of very different sizes."""
    rng = np.random.default_rng(seed)
    chain = np.where(rng.random((n, n)) < density, 10.0 ** rng.uniform(-8, 0, (n, n)), 0.0)
    leak = np.where(rng.random(n) < 0.5, 10.0 ** rng.uniform(-8, 0, n), 0.0) + 1e-9
    total = chain.sum(axis=1) + leak
    return chain / total[:, None], leak / total


@pytest.mark.parametrize("eliminate_front", [eliminate_front, eliminate_front_by_outer_products])
@pytest.mark.parametrize(("size", "count"), [(1, 1), (5, 3), (40, 40), (41, 33), (90, 70), (120, 4)])
def test_eliminating_a_front_has_the_bits_of_the_plain_rule(eliminate_front, size: int, count: int) -> None:  # type: ignore[no-untyped-def]
    chain, leak = leaking_chain(size, 0.7, size)
    expected, expected_leak = naive_elimination(chain, leak, count)
    front = chain.copy().reshape(-1)
    eliminate_front(front, size, leak, count, np.zeros(2))
    kept = np.ones((size, size), bool)
    # The diagonal of what is not eliminated is never read, so it may hold anything.
    kept[np.arange(count, size), np.arange(count, size)] = False
    np.testing.assert_array_equal(front.reshape(size, size)[kept], expected[kept])
    np.testing.assert_array_equal(leak, expected_leak)


@given(st.integers(1, 40), st.floats(0.02, 0.5), st.integers(0, 10**6))
def test_plan_has_the_fill_of_the_plain_rule(n: int, density: float, seed: int) -> None:
    chain, _ = leaking_chain(n, density, seed)
    graph = symmetric_pattern(sparse.csr_array(chain))
    plan = plan_elimination(graph, np.random.default_rng(seed).permutation(n).astype(np.int32), 1e9)
    assert plan is not None
    fronts = plan.fronts
    fill = naive_fill(graph.toarray(), fronts.order.tolist())
    assert sorted(fronts.order) == list(range(n))
    for f in range(len(fronts.first) - 1):
        boundary = fronts.boundary[fronts.start[f] : fronts.start[f + 1]].tolist()
        last = fronts.first[f + 1] - 1
        assert boundary == sorted(fill[last])
        for position in range(fronts.first[f], last):
            assert fill[position] <= set(range(position + 1, last + 1)) | set(boundary)


def limits_by_the_plain_rule(fill: list[set[int]]) -> list[int]:
    """Where fronts begin, and the end: a front takes in the child right before it while few entries are zero.

    How many may be zero depends on how many positions are then eliminated together.
    """
    fronts: list[list[int]] = []
    for position, later in enumerate(fill):
        front = [position]
        while fronts and min(fill[fronts[-1][-1]], default=-1) == front[0]:
            joined = fronts[-1] + front
            zeros = [i not in fill[j] for j in joined for i in {*joined, *later} if i > j]
            share = sum(zeros) / (len(zeros) + len(joined))
            if share > next(most for width, most in ALLOWED_ZEROS.items() if len(joined) <= width):
                break
            fronts.pop()
            front = joined
        fronts.append(front)
    return [front[0] for front in fronts] + [len(fill)]


ALLOWED_ZEROS = {4: 1.0, 16: 0.5, 48: 0.15, np.inf: 0.05}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["sparse", "nearly full"])
def test_fronts_are_joined_by_the_plain_rule(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, density = (150, 0.02) if kind == "sparse" else (90, 0.6)
    graph = symmetric_pattern(sparse.csr_array(rng.random((n, n)) < density * rng.random(n)))
    plan = plan_elimination(graph, rng.permutation(n).astype(np.int32), 1e9)
    assert plan is not None
    fill = naive_fill(graph.toarray(), plan.fronts.order.tolist())
    assert plan.fronts.first.tolist() == limits_by_the_plain_rule(fill)


def lines_run(function: Callable[..., object], *arguments: object) -> int:
    """How many lines of a Python function are run."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return count


def test_counts_do_not_walk_the_same_long_path_again_and_again() -> None:
    """A path whose first state touches 100 states that are eliminated last, as does one more state."""

    def lines(length: int) -> int:
        n, late = length + 101, np.arange(length + 1, length + 101)
        source = np.concatenate([np.arange(length - 1), np.zeros(100, int), np.full(100, length)])
        target = np.concatenate([np.arange(1, length), late, late])
        graph = symmetric_pattern(sparse.csr_array((np.ones(len(source)), (source, target)), (n, n)))
        order = np.arange(n, dtype=np.int32)
        count, ancestor = tree.count_range, order.copy()
        count = getattr(count, "py_func", count)
        parent = tree.elimination_tree(graph, order, [])
        size = tree.subtree_sizes(parent)
        first, counts = order - size + 1, (size == 1).astype(np.int64)
        facts = graph.indptr, graph.indices, order, order, parent, first
        room = np.full((2, n), -1, np.int32)
        run = lines_run(count, *facts, 0, n, order[:0], ancestor, counts, *room, np.empty((0, 4), int))
        fill = naive_fill(graph.toarray(), order.tolist())
        assert counts.tolist() == [1 + len(later) for later in fill]
        return run

    assert lines(60) - lines(30) < 50 * 30  # lines for each state more, and not 100 times some lines


@given(st.integers(2, 60), st.floats(0.01, 0.3), st.integers(0, 10**6), st.sampled_from([2, 4, 8, 64]))
def test_counts_of_parts_of_a_tree_are_those_of_the_plain_rule(
    n: int, density: float, seed: int, parts: int
) -> None:
    rng = np.random.default_rng(seed)
    graph = symmetric_pattern(sparse.csr_array((rng.random((n, n)) < density).astype(float)))
    with pytest.MonkeyPatch.context() as patch, using_threads(3):
        patch.setattr(tree, "SUBTREES", parts)
        patch.setattr(tree, "is_large", lambda size: True)
        order = rng.permutation(n).astype(np.int32)
        order, parent = tree.in_postorder(order, tree.elimination_tree(graph, order, []))
        counts = tree.column_counts(graph, order, tree.inverse_of(order), parent)
    fill = naive_fill(graph.toarray(), order.tolist())
    assert counts.tolist() == [1 + len(later) for later in fill]


def test_memory_is_what_the_elimination_writes() -> None:
    chain, leak = leaking_chain(120, 0.03, 5)
    rows = sparse.csr_array(chain)
    columns = rows.T.tocsr()
    plan, _ = plan_sparse(symmetric_pattern(rows), PLENTY)
    sizes = (plan.factor_entries, plan.stack_entries, plan.front_entries)
    room = [np.full(size + 50, np.nan) for size in sizes]
    both = (Sparse(matrix.indptr, matrix.indices, matrix.data) for matrix in (rows, columns))
    factorise(*both, leak, plan.fronts, 0, len(plan.fronts.first) - 1, *room, np.zeros(2))
    assert [np.flatnonzero(~np.isnan(array))[-1] + 1 for array in room] == list(sizes)
    written = sum(array[:size].nbytes for array, size in zip(room, sizes, strict=True))
    assert plan.bytes_needed == written + plan.fronts.boundary.nbytes


@given(st.integers(1, 30), st.floats(0.02, 0.5), st.integers(0, 10**6), st.sampled_from(["sparse", "dense"]))
def test_factors_solve_from_both_sides_with_relative_accuracy(
    n: int, density: float, seed: int, kind: str
) -> None:
    chain, leak = leaking_chain(n, density, seed)
    csr = sparse.csr_array(chain)
    plan = (
        plan_dense(np.zeros(n, np.intp))
        if kind == "dense"
        else plan_sparse(symmetric_pattern(csr), PLENTY)[0]
    )
    factors = factorise_chain(csr, leak, plan, PLENTY)
    right = np.random.default_rng(seed).random(n)
    from_right, from_left = exact_leaking_solution(chain, leak, right)
    np.testing.assert_allclose(factors.solve(right), from_right, rtol=1e-13)
    np.testing.assert_allclose(factors.solve_transposed(right), from_left, rtol=1e-13)


def test_blocks_are_eliminated_apart() -> None:
    chain, leak = leaking_chain(6, 1.0, 0)
    block_of = np.array([0, 1, 0, 1, 2, 2])
    chain[block_of[:, None] != block_of] = 0.0
    factors = factorise_chain(sparse.csr_array(chain), leak, plan_dense(block_of), PLENTY)
    expected = np.linalg.solve(leaking_matrix(chain, leak), np.arange(6.0))
    np.testing.assert_allclose(factors.solve(np.arange(6.0)), expected, rtol=1e-9)


def test_fill_beyond_the_limit_is_seen_before_it_happens() -> None:
    graph = symmetric_pattern(sparse.csr_array(np.ones((50, 50))))
    order = np.arange(50, dtype=np.int32)
    assert plan_elimination(graph, order, most_entries=100.0) is None
    # Both triangles of a full matrix have 50 * 49 entries, and no more are allowed than are named.
    assert plan_elimination(graph, order, most_entries=50 * 49.0) is not None
    assert plan_elimination(graph, order, most_entries=50 * 49.0 - 2) is None


def grid(side: int) -> sparse.csr_array:
    step = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    return (sparse.kron(step, eye) + sparse.kron(eye, step)).tocsr()


def shuffled_band(n: int) -> sparse.csr_array:
    """States with twenty neighbours, which are many but too few for a hub."""
    band = sparse.diags_array(np.ones(21), offsets=np.arange(-10, 11), shape=(n, n)).tocsr()
    shuffled = np.random.default_rng(0).permutation(n)
    return band[shuffled][:, shuffled].tocsr()


@pytest.mark.parametrize("order", [minimum_degree, nested_dissection])
@pytest.mark.parametrize("chain", [grid(20), shuffled_band(400)])
def test_orders_are_permutations_that_fill_less_than_none(order, chain) -> None:  # type: ignore[no-untyped-def]
    graph = symmetric_pattern(chain)
    chosen = order(graph)
    assert sorted(chosen) == list(range(400))
    plan = plan_elimination(graph, chosen, 1e9)
    plain = plan_elimination(graph, np.arange(400, dtype=np.int32), 1e9)
    assert plan is not None
    assert plain is not None
    assert plan.flops < 0.5 * plain.flops


@pytest.mark.parametrize("order", [minimum_degree, level_by_level])
def test_hubs_are_ordered_last(order) -> None:  # type: ignore[no-untyped-def]
    star = np.zeros((4000, 4000), np.int8)
    star[1234, :] = 1
    assert order(symmetric_pattern(sparse.csr_array(star)))[-1] == 1234


def test_narrow_graphs_are_ordered_by_levels_and_fill_no_more() -> None:
    places = np.random.default_rng(1).permutation(500)
    path = sparse.csr_array((np.ones(499), (places[:-1], places[1:])), (500, 500))
    graph = symmetric_pattern(path)
    plan, name = plan_sparse(graph, PLENTY)
    other = plan_elimination(graph, minimum_degree(graph), np.inf)
    assert name == "breadth first"
    assert other is not None
    assert plan.factor_entries < 1.1 * other.factor_entries
    assert plan_sparse(symmetric_pattern(grid(20)), PLENTY)[1] == "minimum degree"


@pytest.mark.parametrize("side", [1, 3, 8, 30])
def test_the_widest_level_of_a_grid_is_its_diagonal(side: int) -> None:
    graph = symmetric_pattern(grid(side))
    assert widest_level(graph)[0] == side
    middle = np.roll(np.arange(side**2), side**2 // 2)  # the search begins there, and then again at the rim
    assert widest_level(graph[middle][:, middle].tocsr())[0] == side


def test_a_hub_makes_no_level_and_parts_are_all_searched() -> None:
    """Two paths of 600 and a comb whose teeth are a level of 40, all of them at a hub."""
    path = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(600, 600))
    star = sparse.csr_array((np.ones(40), (np.zeros(40, int), np.arange(1, 41))), (41, 41))
    parts = sparse.block_diag([path, star + star.T, path]).tocsr()
    hub = sparse.csr_array(np.ones((1, parts.shape[0])))
    graph = sparse.block_array([[None, hub], [hub.T, parts]]).tocsr()
    assert widest_level(sparse.csr_array(graph)) == (40, None)
    assert widest_level(sparse.csr_array(np.ones((300, 300)) - np.eye(300))) == (300, None)


@pytest.mark.parametrize(
    "chain",
    [drift_grid(40, 40), drift_cube(12), three_queues(18), wide_band(1500, 30), random_sparse(800, RNG)],
    ids=["grid", "cube", "queues", "band", "random"],
)
def test_flops_and_entries_are_predicted_within_a_factor_of_three(chain: ExactChain) -> None:
    graph = symmetric_pattern(chain.transitions)
    n, width = graph.shape[0], widest_level(graph)[0]
    plan = plan_elimination(graph, minimum_degree(graph), np.inf)
    assert plan is not None
    flops = predicted_flops(n, graph.nnz, width)
    assert 1 / 3 < flops / plan.flops < 3
    assert 1 / 3 < predicted_entries(n, flops, width) / plan.factor_entries < 3


@pytest.mark.parametrize(("side", "entries"), [(500, 1.90e7), (1000, 8.63e7), (774, 4.95e7)])
def test_factors_of_large_grids_grow_little_faster_than_the_grids(side: int, entries: float) -> None:
    """Counted once: a grid has about the logarithm of its size in numbers per state, not a power of it."""
    n = side**2
    predicted = predicted_entries(n, predicted_flops(n, 4 * n, side), side)
    assert 0.9 < predicted / entries < 1.1


def test_root_is_where_the_chain_drifts_to() -> None:
    n = 400
    chain = sparse.diags_array([np.full(n - 1, 0.6), np.full(n - 1, 0.3)], offsets=[1, -1]).tocsr()
    roots = busiest_states(Sparse(chain.indptr, chain.indices, chain.data), np.array([0, n]), np.arange(n))
    assert roots[0] > n - 10


def busiest_by_the_plain_rule(chain: sparse.csr_array, classes: list[np.ndarray]) -> list[int]:
    """Walk in laps, each twice as long as the one before, until a lap spends 0.3 of its steps on states of
    the lap before, or too much was read."""
    rows, seed, roots = Sparse(chain.indptr, chain.indices, chain.data), 1, []
    degree = np.diff(chain.indptr)
    for members in classes:
        state, reads, steps, before, known = members[0], 0, 64, set(), 0
        while known < 0.3 * steps and reads < MOST_READS_PER_STATE * len(members):
            steps, known, most, time = 2 * steps, 0, -1.0, dict[int, float]()
            for _ in range(steps):
                state, held, seed = next_state(rows, state, seed)
                reads += degree[state]
                if reads >= MOST_READS_PER_STATE * len(members):
                    break
                known += state in before
                time[state] = time.get(state, 0.0) + held
                if time[state] > most:  # of states with the same time, the first that had it
                    most, root = time[state], state
            before = set(time)
        roots.append(root)
    return roots


@pytest.mark.parametrize("seed", range(8))
def test_roots_are_those_of_the_plain_rule(seed: int) -> None:
    # Where all states are alike, the busiest depends on each step of the walk. Full rows use up the reads
    # within the first lap, to the last one; sparse ones do not.
    rng = np.random.default_rng(seed)
    full = sparse.csr_array(np.full((50, 50), 0.02))
    ring = sum(sparse.csr_array(np.roll(np.eye(90), shift, axis=1)) for shift in rng.choice(90, 3, False))
    chain = sparse.block_diag([full, ring / 3.0, full, ring / 3.0], format="csr")
    ends = np.array([0, 50, 140, 190, 280])
    classes = [np.arange(*pair) for pair in itertools.pairwise(ends)]
    found = busiest_states(Sparse(chain.indptr, chain.indices, chain.data), ends, np.arange(280))
    assert found.tolist() == busiest_by_the_plain_rule(chain, classes)


def everything() -> list[np.ndarray]:
    """A factorisation, its solutions, its roots and a large front, for the comparison below."""
    chain, leak = leaking_chain(60, 0.1, 7)
    csr = sparse.csr_array(chain)
    graph = symmetric_pattern(csr)
    factors = solver.factorise_chain(csr, leak, plan_sparse(graph, PLENTY)[0], PLENTY)
    ring = (csr + sparse.csr_array(np.roll(np.eye(60), 1, axis=1))).tocsr()
    rows = Sparse(ring.indptr, ring.indices, ring.data)
    roots = solver.busiest_states(rows, np.array([0, 60]), np.arange(60))
    front, rest = leaking_chain(24, 1.0, 8)
    numeric.eliminate_front(front.reshape(-1), 24, rest, 12, np.zeros(2))
    solutions = [factors.solve(leak), factors.solve_transposed(leak)]
    levels = widest_level(graph)[1]
    assert levels is not None
    return [factors.values, *solutions, roots, *levels, front, rest]


def test_compiled_and_python_forms_agree_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the Python form, in which NumPy looks at every index, stays inside its arrays."""
    compiled = everything()
    for module in (numeric, solver, symbolic, tree):
        for name, value in vars(module).copy().items():
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
    for one, other in zip(compiled, everything(), strict=True):
        np.testing.assert_array_equal(one, other)
