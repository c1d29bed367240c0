"""Levels, cuts and orders of graphs against plain twins in sets and lists, compiled and as Python.

The Python form, in which NumPy looks at every index, also shows that a kernel stays inside its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

from gainbias.model.solve.elimination import orders, solver
from gainbias.model.solve.elimination.orders import MANY_TO_ORDER, SMALLEST_PART, minimum_degree
from gainbias.model.solve.elimination.symbolic import symmetric_pattern
from gainbias.model.solve.vectors import rows_of

Graph = list[list[int]]


def random_graph(seed: int, n: int = 60, degree: float = 2.5, symmetric: bool = True) -> sparse.csr_array:
    """States in a random order that touch others nearby, so that the graph has many levels."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(n)
    count = int(degree * n / 2)
    source = rng.integers(0, n, count)
    target = np.clip(source + rng.integers(-6, 7, count), 0, n - 1)
    graph = sparse.csr_array((np.ones(count), (place[source], place[target])), (n, n))
    graph.sum_duplicates()
    return symmetric_pattern(graph) if symmetric else graph


def grid(side: int) -> sparse.csr_array:
    step = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    return symmetric_pattern((sparse.kron(step, eye) + sparse.kron(eye, step)).tocsr())


def lists_of(graph: sparse.csr_array) -> Graph:
    return [row.tolist() for row in np.split(graph.indices, graph.indptr[1:-1])]


def levels_by_the_plain_rule(graph: Graph, start: int, among: list[int]) -> list[list[int]]:
    """Breadth-first levels of some states; what is not reached is searched next, in the order given."""
    inside, levels, seen = set(among), [], set[int]()
    for first in [start, *among]:
        level = [first] if first not in seen else []
        while level:
            seen.update(level)
            levels.append(level)
            new = dict.fromkeys(j for i in level for j in graph[i] if j in inside and j not in seen)
            level = list(new)
    return levels


def both_forms(kernel: Any) -> list[Callable[..., Any]]:
    return [kernel.py_func, kernel]


@pytest.mark.parametrize("seed", range(6))
def test_a_search_visits_level_by_level_and_then_what_it_has_not_reached(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(seed, degree=1.5 + seed / 2, symmetric=seed % 2 == 0)
    rows = lists_of(graph)
    for start in (0, 7, 59):
        levels = levels_by_the_plain_rule(rows, start, list(range(60)))
        for search in both_forms(orders.search):
            monkeypatch.setattr(orders, "search", search)
            states, begins = orders.breadth_first(graph.indptr, graph.indices, start)
            assert [part.tolist() for part in np.split(states, begins[1:-1])] == levels
            assert (begins[0], begins[-1]) == (0, 60)


@pytest.mark.parametrize("seed", range(6))
def test_states_near_one_are_those_of_its_first_levels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(seed, degree=4.0, symmetric=False)
    rows, hub = lists_of(graph), 3.0
    for start, enough in ((0, 5), (7, 30), (59, 61)):
        near, level, steps = {start}, {start}, 0
        while level and len(near) < enough:
            level = {j for i in level if len(rows[i]) <= hub for j in rows[i]} - near
            near |= level
            steps += 1
        for level_after in both_forms(orders.next_level):
            monkeypatch.setattr(solver, "next_level", level_after)
            assert solver.states_near(rows_of(graph), start, enough, hub) == (len(near), steps)


def test_a_search_for_states_near_one_ends_after_a_few_steps() -> None:
    path = sparse.diags_array([1.0], offsets=[1], shape=(100, 100)).tocsr()
    assert solver.states_near(rows_of(path), 0, 100, 5.0) == (solver.FEW_STEPS + 1, solver.FEW_STEPS)
    assert solver.states_near(rows_of(path), 90, 100, 5.0) == (10, 10)


Cut = tuple[list[int], list[int], list[int]]


def cut_by_the_plain_rule(graph: Graph, states: list[int]) -> Cut | None:
    """One part, the other part, and what separates them: of the best level, what touches the next one.

    The best level is the narrowest that leaves at least 0.4 of the states on each side. If none of those up
    to the middle does, the level over the middle may serve too.
    """
    rim = levels_by_the_plain_rule(graph, states[0], states)[-1][-1]
    levels = levels_by_the_plain_rule(graph, rim, states)
    count, choice, before = len(states), dict[int, int](), len(levels[0])
    for k, level in enumerate(levels[1:-1], 1):
        is_near = 0.4 * count <= before and before + len(level) <= 0.6 * count
        is_over = before <= 0.5 * count < before + len(level)
        if is_near or (is_over and not choice):
            choice[k] = len(level)
        before += len(level)
    if not choice:
        return None
    best = min(choice, key=lambda k: choice[k])
    beyond = [state for level in levels[best + 1 :] for state in level]
    separating = [state for state in levels[best] if set(graph[state]) & set(beyond)]
    before_it = [state for level in levels[: best + 1] for state in level if state not in separating]
    return before_it, beyond, separating


def graphs_to_cut() -> dict[str, sparse.csr_array]:
    path = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(50, 50)).tocsr()
    # After the first four states there is a level of 30, over the middle, and none near it.
    wide = np.zeros((44, 44))
    wide[4, 5] = wide[5, 6:36] = wide[6:36, 36] = 1.0
    wide[np.arange(36, 43), np.arange(37, 44)] = 1.0
    graphs = {f"random {seed}": random_graph(seed, degree=2.0 + 0.5 * seed) for seed in range(8)}
    named = {"path": path, "wide": sparse.csr_array(wide), "full": sparse.csr_array(np.ones((20, 20)))}
    graphs |= {name: symmetric_pattern(graph) for name, graph in named.items()}
    return graphs | {"grid": grid(9), "two grids": sparse.block_diag([grid(6), grid(5)], format="csr")}


@pytest.mark.parametrize(("name", "graph"), graphs_to_cut().items())
def test_a_part_is_cut_along_the_level_of_the_plain_rule(
    name: str, graph: sparse.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, n, own = lists_of(graph), graph.shape[0], 5
    part_before = np.full(n, own, np.int32)
    part_before[:4] = [3, 4, 6, -1]  # these states belong to other parts, and are at both ends of the order
    order_before = np.concatenate([[0, 1], np.arange(4, n), [2, 3]]).astype(np.int32)
    inside = set(range(4, n))
    expected = cut_by_the_plain_rule(
        [[j for j in row if j in inside] for row in rows], order_before[2:-2].tolist()
    )
    assert (expected is None) == (name == "full")
    for cut, between in zip(both_forms(orders.cut_part), both_forms(orders.cut_between), strict=True):
        monkeypatch.setattr(orders, "cut_between", between)
        part, order, mark = part_before.copy(), order_before.copy(), np.full(n, -1, np.int32)
        sizes = cut(graph.indptr, graph.indices, part, mark, order, own, 2, n - 2)
        if expected is None:
            assert sizes == (0, 0)
            np.testing.assert_array_equal(order, order_before)
            np.testing.assert_array_equal(part, part_before)
            continue
        low, high, separating = expected
        assert not any(set(rows[state]) & set(high) for state in low)  # the twin itself is right
        assert sizes == (len(low), len(high))
        assert order.tolist() == [0, 1, *low, *high, *reversed(separating), 2, 3]
        assert part[:4].tolist() == [3, 4, 6, -1]
        assert set(part[low]) == {2 * own + 1}
        assert set(part[high]) == {2 * own + 2}
        assert set(part[separating]) <= {-1}


def test_levels_near_the_middle_leave_parts_of_like_size() -> None:
    for side in (9, 16):
        graph, n = grid(side), side**2
        room = [np.zeros(n, np.int32), np.full(n, -1, np.int32), np.arange(n, dtype=np.int32)]
        low, high = orders.cut_part(graph.indptr, graph.indices, *room, 0, 0, n)
        assert min(low, high) >= 0.4 * n - side
        assert n - low - high <= side


Part = tuple[int, int, int]


def cut_up_by_the_plain_rule(
    graph: Graph, order: list[int], part: list[int], own: Part, least: int, most_cuts: int
) -> list[Part]:
    """Cut a part and its parts, in `order` and `part`; return large ones that stay whole."""
    number, begin, end = own
    if end - begin <= least:
        return []
    inside = [[j for j in row if part[j] == number] for row in graph]
    found = cut_by_the_plain_rule(inside, order[begin:end]) if number < 2**most_cuts else None
    if found is None:
        return [own] if end - begin > MANY_TO_ORDER else []
    low, high, separating = found
    order[begin:end] = [*low, *high, *reversed(separating)]
    for states, mark in ((low, 2 * number + 1), (high, 2 * number + 2), (separating, -1)):
        for state in states:
            part[state] = mark
    middle = begin + len(low)
    ends = (2 * number + 1, begin, middle), (2 * number + 2, middle, middle + len(high))
    return [
        one for half in ends for one in cut_up_by_the_plain_rule(graph, order, part, half, least, most_cuts)
    ]


def with_full_block(graph: sparse.csr_array, size: int) -> sparse.csr_array:
    """The graph, and a full one that is tied to its first state."""
    both = sparse.block_diag([graph, np.ones((size, size))]).tolil()
    both[0, graph.shape[0]] = both[graph.shape[0], 0] = 1.0
    return symmetric_pattern(both.tocsr())


@pytest.mark.parametrize("most_cuts", [2, 28])
@pytest.mark.parametrize("seed", range(4))
def test_a_part_is_cut_up_by_the_plain_rule(
    seed: int, most_cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few cuts allowed, large parts are left, and all places for parts that wait are used."""
    graph = random_graph(seed, n=900, degree=3.0 + seed) if most_cuts == 2 else random_graph(seed, n=150)
    if seed == 3 and most_cuts == 28:
        graph = with_full_block(grid(9), 110)  # cannot be cut, and has enough states to be put in order
    n = graph.shape[0]
    order, part = list(range(n)), [0] * n
    rows = lists_of(graph)
    left = cut_up_by_the_plain_rule(rows, order, part, (0, 0, n), SMALLEST_PART, most_cuts)
    assert bool(left) == (most_cuts == 2 or seed == 3)
    as_python, compiled = both_forms(orders.cut_up)
    for form in [as_python] + [compiled] * (most_cuts == orders.MOST_CUTS):
        room = [np.zeros(n, np.int32), np.full(n, -1, np.int32), np.arange(n, dtype=np.int32)]
        with monkeypatch.context() as patch:
            if form is as_python:
                patch.setattr(orders, "MOST_CUTS", most_cuts)
                patch.setattr(orders, "cut_part", both_forms(orders.cut_part)[0])
                patch.setattr(orders, "cut_between", both_forms(orders.cut_between)[0])
            found = form(graph.indptr, graph.indices, *room, 0, 0, n, SMALLEST_PART)
        assert room[2].tolist() == order
        assert room[0].tolist() == part
        assert sorted(map(tuple, found.tolist())) == sorted(left)


@pytest.mark.parametrize("small", [150, 10_000])
@pytest.mark.parametrize("kind", ["random", "grid", "full block", "two grids"])
def test_a_dissected_order_is_that_of_the_plain_rule(
    kind: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the parts are that are left to one thread."""
    graph = {
        "random": random_graph(1, n=300),
        "grid": grid(18),
        "full block": with_full_block(grid(9), 110),
        "two grids": sparse.block_diag([grid(13), grid(14)], format="csr"),
    }[kind]
    n = graph.shape[0]
    order, part = list(range(n)), [0] * n
    for own, begin, end in cut_up_by_the_plain_rule(
        lists_of(graph), order, part, (0, 0, n), SMALLEST_PART, most_cuts=28
    ):
        states = np.array(order[begin:end])
        assert {part[state] for state in states} == {own}
        order[begin:end] = states[minimum_degree(graph[states][:, states].tocsr())].tolist()
    monkeypatch.setattr(orders, "SMALL_PART", small)
    assert orders.dissected_order(graph)[0].tolist() == order
    levels = orders.widest_level(graph)[1]
    assert orders.dissected_order(graph, levels)[0].tolist() == order


def test_parts_of_the_usual_sizes_are_cut_as_far_as_the_smallest() -> None:
    graph = grid(18)
    order, part = list(range(324)), [0] * 324
    assert cut_up_by_the_plain_rule(lists_of(graph), order, part, (0, 0, 324), SMALLEST_PART, 28) == []
    assert orders.dissected_order(graph)[0].tolist() == order


@pytest.mark.parametrize("seed", range(4))
def test_the_graph_of_a_part_has_its_states_only(seed: int) -> None:
    graph = random_graph(seed, degree=6.0)
    part = np.random.default_rng(seed).integers(0, 3, 60).astype(np.int32)
    for own in range(3):
        states = np.random.default_rng(own).permutation(np.flatnonzero(part == own)).astype(np.int32)
        for form in both_forms(orders.part_graph):
            start, targets = form(graph.indptr, graph.indices, part, own, states, np.empty(60, np.int32))
            assert [sorted(row.tolist()) for row in np.split(targets, start[1:-1])] == [
                sorted(row) for row in lists_of(graph[states][:, states].tocsr())
            ]
