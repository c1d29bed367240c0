"""Independent streams of random numbers, each with a name.

A stream depends on its seed and its name alone: never on the order in which streams are made, on how many
there are or on the machine. So one seed gives one sample path, whoever asks for it.
"""

from __future__ import annotations

import zlib
from numbers import Real

import numpy as np


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return the generator with these names under this seed.

    Parameters
    ----------
    seed : int
        Not negative.
    *names : str
        A path of names, such as ``"first chain"``.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> stream(7, "first chain").random() == stream(7, "first chain").random()
    True
    >>> stream(7, "first chain").random() == stream(7, "second chain").random()
    False
    """
    if not isinstance(seed, Real) or seed < 0 or seed != int(seed):
        raise ValueError(f"a seed must be an integer that is not negative, found {seed!r}")
    key = tuple(zlib.crc32(name.encode()) for name in names)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=key)))
