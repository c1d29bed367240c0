"""How states are seen: feature matrices, one row per state."""

from gainbias.features.matrix import FeatureLike, Features, Tabular, as_features, normalise_features

__all__ = ["FeatureLike", "Features", "Tabular", "as_features", "normalise_features"]
