"""All algorithms by their ids."""

from __future__ import annotations

import difflib

from gainbias.algorithms import (
    adaptive_td,
    almost_sure_td,
    differential_td,
    discounted_td,
    double_chain,
    double_chain_centred,
    double_chain_symmetric,
    implicit_td,
    lspe,
    lstd,
    projected_td,
    relative_td,
    single_chain,
    td_lambda,
    vrtd,
)
from gainbias.algorithms.algorithm import Algorithm

_FILES = (
    double_chain,
    single_chain,
    double_chain_symmetric,
    double_chain_centred,
    td_lambda,
    projected_td,
    implicit_td,
    differential_td,
    relative_td,
    discounted_td,
    lstd,
    lspe,
    vrtd,
    almost_sure_td,
    adaptive_td,
)

ALGORITHMS: dict[str, Algorithm] = {file.ALGORITHM.name: file.ALGORITHM for file in _FILES}
"""The algorithms of this package, by id."""


def as_algorithm(algorithm: Algorithm | str) -> Algorithm:
    """Return an algorithm, looked up if its id was given.

    Examples
    --------
    >>> as_algorithm("double-chain")
    Algorithm('double-chain')
    >>> as_algorithm("duble-chain")
    Traceback (most recent call last):
    ValueError: unknown algorithm 'duble-chain': did you mean 'double-chain'? ...
    """
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise ValueError(f"algorithm must be an id or a gb.Algorithm, found {type(algorithm).__name__}")
    if algorithm not in ALGORITHMS:
        near = difflib.get_close_matches(algorithm, ALGORITHMS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(ALGORITHMS)
        raise ValueError(f"unknown algorithm {algorithm!r}: {hint}The ids are {known}")
    return ALGORITHMS[algorithm]
