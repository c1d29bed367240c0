"""How states are described: feature matrices, one row per state.

Start reading in `matrix`, which checks a matrix and freezes it; other rooms import the names below for
that. `maps` turns observations into rows (tile coding, Fourier basis and others), for the public names of the
package. `rows` and `vectors` are for kernels: operations of a step with the row of a state, and with whole
weight vectors.
"""

from gainbias.features.matrix import FeatureLike, Features, Tabular, as_features, normalise_features

__all__ = ["FeatureLike", "Features", "Tabular", "as_features", "normalise_features"]
