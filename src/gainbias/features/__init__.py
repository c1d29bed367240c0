"""How states are seen: feature matrices, one row per state.

Start reading in `matrix`, which checks a matrix and freezes it; the names below are what other rooms import
from this one for that. `maps` makes rows out of observations (tile coding, Fourier basis and others), for the
public names of the package. `rows` and `vectors` are for kernels: what a step of an algorithm does with the
row of a state, and with whole weight vectors.
"""

from gainbias.features.matrix import FeatureLike, Features, Tabular, as_features, normalise_features

__all__ = ["FeatureLike", "Features", "Tabular", "as_features", "normalise_features"]
