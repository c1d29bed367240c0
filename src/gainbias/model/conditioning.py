"""Condition numbers of a chain seen through features: how hard its values are to learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gainbias.features import Features
from gainbias.model.chain.contraction import contraction_factor
from gainbias.model.chain.reversible import FlowNetwork
from gainbias.model.checks import CsrArray, FloatArray
from gainbias.model.quadratic import QuadraticForm


@dataclass(frozen=True)
class ConditionNumbers:
    """Constants of the convergence theory, from a chain P with stationary law mu and features Phi.

    With D = diag(mu), |f|_Dir^2 = f^T D (I - P) f, |f|_D^2 = f^T D f and e the vector of ones. Where no
    vector meets the conditions of a minimum (one state, or one feature), it is infinite. All are accurate to
    about 1e-9 relative to themselves.

    Attributes
    ----------
    eta1 : float
        Minimum of |Phi x|_Dir^2 + (mu^T Phi x)^2 over |x| = 1.
    eta2 : float
        Minimum of |Phi x|_Dir^2 over |x| = 1, x orthogonal to the weights whose values are e if there are
        such weights.
    eta2_literal : float
        Minimum of |Phi x|_Dir^2 over |x| = 1, with entries of sum 0.
    eta3 : float
        `gram_min` times the minimum of |y|_Dir^2 over |y|_D = 1, mu^T y = 0, which does not depend on the
        features.
    gram_min : float
        Smallest eigenvalue of Phi^T D Phi.
    omega : float
        Largest |P z|_D over |z|_D = 1, mu^T z = 0. It may be 1, also for an ergodic chain.

    Examples
    --------
    >>> import gainbias as gb
    >>> process = gb.MarkovRewardProcess([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [1.0, 0.0, 0.0])
    >>> numbers = gb.Problem(process, gb.Tabular()).condition_numbers
    >>> round(numbers.eta1, 12), numbers.omega
    (0.25, 1.0)
    """

    eta1: float
    eta2: float
    eta2_literal: float
    eta3: float
    gram_min: float
    omega: float


def condition_numbers(
    flows: FlowNetwork, transitions: CsrArray, features: Features, ones_weights: FloatArray | None
) -> ConditionNumbers:
    """Compute all condition numbers.

    Parameters
    ----------
    flows : FlowNetwork
        The additive flows of an irreducible chain.
    transitions : csr_array, shape (n, n)
        The chain.
    features : Features
        With full column rank.
    ones_weights : ndarray, shape (d,), or None
        The weights whose values are 1 in every state, if they exist.
    """
    eta1, eta2, eta2_literal, gram_min = (
        _tabular(flows) if features.kind == "tabular" else _linear(flows, features, ones_weights)
    )
    return ConditionNumbers(
        eta1=eta1,
        eta2=eta2,
        eta2_literal=eta2_literal,
        eta3=gram_min * flows.spectral_gap(),
        gram_min=gram_min,
        omega=contraction_factor(transitions, flows.stationary),
    )


def _tabular(flows: FlowNetwork) -> tuple[float, float, float, float]:
    eta2 = flows.smallest_ratio(np.ones(flows.num_states))
    return flows.smallest_grounded(), eta2, eta2, float(flows.stationary.min())


def _linear(
    flows: FlowNetwork, features: Features, ones_weights: FloatArray | None
) -> tuple[float, float, float, float]:
    dirichlet = QuadraticForm(flow_differences(flows), features)
    root_stationary = sparse.diags_array(np.sqrt(flows.stationary), format="csr")
    return (
        dirichlet.minimum(extra_row=flows.stationary),
        dirichlet.minimum(normal=ones_weights),
        dirichlet.minimum(normal=np.ones(features.num_features)),
        QuadraticForm(root_stationary, features).minimum(),
    )


def flow_differences(flows: FlowNetwork) -> CsrArray:
    """Sparse matrix, a row per pair of states, whose product with values has their energy as squared norm."""
    start, end, flow = flows.edges
    root = np.sqrt(flow)
    pair = np.arange(flow.size)
    return sparse.csr_array(
        (np.concatenate([root, -root]), (np.concatenate([pair, pair]), np.concatenate([start, end]))),
        shape=(flow.size, flows.num_states),
    )
