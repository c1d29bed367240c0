"""The table of what is known: derived numbers against exact fractions, and what it says otherwise."""

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import gainbias as gb
from gainbias.model.chain import accuracy
from tests.oracles.exact import exact_answer, fraction


def exact_deviation(chain: np.ndarray) -> fmpq_mat:
    """The inverse of I - P + e mu^T, less e mu^T."""
    n = len(chain)
    law = exact_answer(gb.MarkovRewardProcess(chain, np.zeros(n))).law
    rows = [[-fraction(x) for x in row] for row in chain]
    for i, row in enumerate(rows):
        row[i] = -sum((x for j, x in enumerate(row) if j != i), fmpq(0))
    flat = fmpq_mat(n, n, law * n)
    return (fmpq_mat(n, n, [x for row in rows for x in row]) + flat).inv() - flat


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("coupling", [1.0, 1e-6, 1e-12])
def test_derived_numbers_are_within_their_bounds(seed: int, coupling: float) -> None:
    rng = np.random.default_rng(seed)
    weights = np.kron(np.eye(2), rng.random((4, 4))) + coupling * rng.random((8, 8))
    chain = weights / weights.sum(axis=1, keepdims=True)
    mrp = gb.MarkovRewardProcess(chain, rng.standard_normal(8))
    table = gb.solve(mrp).accuracy(derived=True)
    exact = exact_deviation(chain)
    trace = sum((exact[i, i] for i in range(8)), fmpq(0))
    constant = table["kemeny_constant"]
    assert constant.value == gb.kemeny_constant(mrp)
    assert abs(fraction(constant.value) - trace) <= fraction(constant.error)
    assert constant.error <= 1e-14 * constant.value
    found = gb.deviation_matrix(mrp)
    worst = max(abs(fraction(found[i, j]) - exact[i, j]) for i in range(8) for j in range(8))
    assert worst <= fraction(table["deviation_matrix"].error) <= fraction(1e-14 * np.abs(found).max())
    assert table["spectral_gap"].value == gb.spectral_gap(mrp)
    assert table["spectral_gap"].error <= 1e-6 * table["spectral_gap"].value


def test_what_it_says() -> None:
    mrp = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0], labels=["rest", "work"])
    solution = gb.solve(mrp)
    table = solution.accuracy()
    assert [row.quantity for row in table.rows] == ["gain", "bias", "stationary", "asymptotic_variance"]
    assert table["gain"][1:4] == (solution.gain, solution.gain_error, "bound")
    assert table["bias"].error == solution.bias_error.max()
    assert table["bias"].where in ("worst state: rest", "worst state: work")
    assert str(table).splitlines()[0].split() == ["quantity", "value", "error", "kind", "where"]
    assert str(table).splitlines()[1].startswith("gain                 1.5")
    assert table.to_frame().loc["gain", "error"] == solution.gain_error


@pytest.mark.parametrize("method", ["power", "krylov", "incomplete-gth"])
def test_methods_that_iterate_have_estimates(method: str) -> None:
    mrp = gb.MarkovRewardProcess(np.random.default_rng(0).dirichlet(np.ones(9), 9), np.arange(9.0))
    solution = gb.solve(mrp, method=method)
    table = solution.accuracy()
    assert [row.kind for row in table.rows] == ["bound", "estimate", "estimate", "estimate"]
    assert table["stationary"].error == solution.stationary_error_total
    assert table["stationary"].where == "sum over all states"


def test_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle = gb.solve(gb.MarkovRewardProcess(np.roll(np.eye(3), 1, axis=1), [0.0, 1.0, 2.0]))
    monkeypatch.setattr(accuracy, "MOST_DERIVED_STATES", 2)
    table = cycle.accuracy(derived=True)
    assert table["mixing_time"].kind == table["kemeny_constant"].kind == "unknown"
    assert table["kemeny_constant"].where == "not measured above 2 states"
    assert table["mixing_time"].where.startswith("the process is periodic with period 3")
    assert table["spectral_gap"][1:3] == (0.0, 0.0)
    assert table["deviation_matrix"].error == np.inf


@pytest.mark.parametrize(("method", "kind"), [("auto", "bound"), ("krylov", "estimate")])
def test_several_classes_have_a_table_of_their_worst_numbers(method: str, kind: str) -> None:
    chain = np.zeros((6, 6))
    chain[:2, :2] = [[0.9, 0.1], [1e-9, 1 - 1e-9]]
    chain[2:5, 2:5] = [[0.2, 0.8, 0.0], [0.0, 0.3, 0.7], [0.6, 0.0, 0.4]]
    chain[5] = [0.25, 0.0, 0.5, 0.0, 0.0, 0.25]
    mrp = gb.MarkovRewardProcess(chain, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], labels=list("abcdef"))
    solution = gb.solve(mrp, multichain=True, method=method)
    table = solution.accuracy()
    assert [row.quantity for row in table.rows] == ["gain", "bias", "stationary", "asymptotic_variance"]
    assert [row.kind for row in table.rows] == ["bound", kind, kind, kind]
    state = "abcdef".index(table["bias"].where.removeprefix("worst state: "))
    assert (table["bias"].value, table["bias"].error) == (solution.bias[state], solution.bias_error.max())
    state = "abcdef".index(table["stationary"].where.removeprefix("worst state: "))
    law = solution.stationary.sum(axis=0)
    parts = solution.stationary_error[:5] / law[:5]  # the last one is transient
    assert table["stationary"].error / table["stationary"].value == parts.max() == parts[state]
    worst = int(table["asymptotic_variance"].where.removeprefix("worst class: "))
    assert table["asymptotic_variance"].error == solution.class_asymptotic_variance_errors.max()
    assert table["asymptotic_variance"].value == solution.class_asymptotic_variances[worst]
