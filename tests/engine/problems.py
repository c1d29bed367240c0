"""Small problems for the engine's tests."""

import numpy as np
import scipy.sparse as sparse

import gainbias as gb


def process(n: int = 8, seed: int = 0) -> gb.MarkovRewardProcess:
    rng = np.random.default_rng(seed)
    return gb.MarkovRewardProcess(rng.dirichlet(np.ones(n), size=n), rng.standard_normal(n))


def dense(n: int = 8, d: int = 3) -> gb.Problem:
    """Features that span the constants."""
    columns = np.random.default_rng(1).random((n, d))
    columns[:, -1] = 1.0
    return gb.Problem(process(n), gb.normalise_features(columns))


def without_ones(n: int = 8, d: int = 3) -> gb.Problem:
    return gb.Problem(process(n), gb.normalise_features(np.random.default_rng(2).random((n, d))))


def sparse_features(n: int = 8, d: int = 4) -> gb.Problem:
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((n, d)) < 0.4, rng.random((n, d)), 0.0)
    matrix[:d, :d] += np.eye(d)
    return gb.Problem(process(n), gb.normalise_features(sparse.csr_array(matrix)))


def tabular(n: int = 8) -> gb.Problem:
    return gb.Problem(process(n), gb.Tabular())


ALL = {"dense": dense, "without ones": without_ones, "sparse": sparse_features, "tabular": tabular}
