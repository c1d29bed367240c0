"""Chains made ergodic by a small chance of every transition."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.settings import as_number

MOST_STATES = 5_000
"""The result has every transition: for a sparse process of more states than this it is refused."""


def ergodic(mrp: MarkovRewardProcess, epsilon: float) -> MarkovRewardProcess:
    """Give every transition a positive probability, as the paper does.

    In each row the entries that are 0 share `epsilon` equally and the others are multiplied by
    ``1 - epsilon``: for ``epsilon = 0.1``, [0, 0, 1, 0, 0] becomes [0.025, 0.025, 0.9, 0.025, 0.025]. A row
    without zeros stays as it is. The expected rewards R(s) stay too: they are those of the process before.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        A process with at most 5,000 states if it is sparse, because the result is dense.
    epsilon : float
        At least 0 and below 1; 0 changes nothing.

    Returns
    -------
    MarkovRewardProcess
        Dense, ergodic unless `epsilon` is 0.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.ergodic(gb.MarkovRewardProcess([[0.0, 1.0], [0.5, 0.5]], [1.0, 0.0]), 0.1).transitions
    array([[0.1, 0.9],
           [0.5, 0.5]])
    """
    epsilon = as_number(epsilon, "epsilon", at_least=0.0, below=1.0)
    if mrp.rate is not None:
        raise ValueError(
            "the process comes from rates, and a chance per step is no rate: add the rates of the missing "
            "transitions to the generator instead"
        )
    if epsilon == 0.0:
        return mrp
    if sparse.issparse(mrp.transitions) and mrp.num_states > MOST_STATES:
        raise ValueError(
            f"the result would have all {mrp.num_states} x {mrp.num_states} transitions, and the process is "
            f"sparse: at most {MOST_STATES} states are filled up. A few transitions may be enough to make "
            "the process ergodic: add them yourself, or pass dense transitions if you have the memory"
        )
    chain = mrp.csr.toarray()
    zeros = chain == 0.0
    missing = zeros.sum(axis=1, keepdims=True)
    share = epsilon / np.maximum(missing, 1)
    scale = np.where(missing > 0, 1.0 - epsilon, 1.0)
    return MarkovRewardProcess(np.where(zeros, share, scale * chain), mrp.rewards, mrp.labels)
