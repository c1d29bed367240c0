"""Choices of an elimination: how its memory is used, and what it keeps when it begins again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb
from gainbias.kernels import threads
from gainbias.model.solve.elimination import branches, solver, symbolic
from gainbias.model.solve.solution import Budget, MethodError
from gainbias.progress import Watch
from tests.oracles.lattices import grid_transitions

PLENTY = Budget(max_memory=1e9, watch=Watch())


def grid(side: int) -> sparse.csr_array:
    return sparse.csr_array(grid_transitions(side, side, 15 / 64, 16 / 64, 16 / 64, 14 / 64))


def test_branches_are_used_as_soon_as_memory_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_TO_SHARE", 0.0), ("BRANCHES", 8)):
        monkeypatch.setattr(branches, name, value)
    chain, used = grid(10)[1:, 1:].tocsr(), list[bool]()
    leak = np.full(chain.shape[0], 0.25)
    plan, _ = symbolic.plan_sparse(symbolic.symmetric_pattern(chain), PLENTY)
    parts = branches.find_branches(plan.fronts)
    assert parts is not None
    alone = plan.bytes_needed + solver.BYTES_PER_STATE * len(leak) + solver.BYTES_PER_ENTRY * chain.nnz
    together = alone + parts.bytes_needed
    expected = solver.factorise_chain(chain, leak, plan, PLENTY).values
    eliminate_branches = solver.eliminate_branches

    def noted(*arguments: object) -> None:
        used.append(True)
        eliminate_branches(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(solver, "eliminate_branches", noted)
    for memory, is_used in ((alone, False), (together - 1, False), (together, True)):
        used.clear()
        found = solver.factorise_chain(chain, leak, plan, Budget(max_memory=memory, watch=Watch()))
        assert bool(used) is is_used
        np.testing.assert_array_equal(found.values, expected)
    with pytest.raises(MethodError, match="elimination needs"):
        solver.factorise_chain(chain, leak, plan, Budget(max_memory=alone - 1, watch=Watch()))


def test_an_order_is_kept_for_other_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """All states but the new root in the order that they had, with the old root where it was put."""
    monkeypatch.setattr(threads, "STATES_TOGETHER", 20)
    chain = grid(7)
    class_of = np.zeros(49, np.int64)
    before = np.random.default_rng(0).permutation(49)
    planned = list[np.ndarray]()
    plan_elimination = solver.plan_elimination

    def noted(graph: sparse.csr_array, order: np.ndarray, most: float) -> symbolic.EliminationPlan | None:
        planned.append(order)
        return plan_elimination(graph, order, most)

    monkeypatch.setattr(solver, "plan_elimination", noted)
    for root in (0, 17, 48):
        planned.clear()
        found = solver._eliminate_all_but(chain, class_of, np.array([root]), False, PLENTY, before)
        others = np.delete(np.arange(49), root)
        [order] = planned
        assert others[order].tolist() == [state for state in before if state != root]
        assert found.notes[0].startswith("order: found for another root")
        truth = gb.solve(gb.MarkovRewardProcess(chain, np.zeros(49)), method="dense-gth").stationary
        np.testing.assert_allclose(found.stationary, truth, rtol=1e-12)
