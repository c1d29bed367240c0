"""Single-chain TD, the paper's second algorithm, in two forms that give the same values.

Start reading in `dense`: the algorithm, its update as the paper states it, and the record `ALGORITHM`. `lazy`
is the form for sparse and tabular features, whose steps cost as much as the rows they touch; `epochs` holds
what it keeps for all features alike: epochs, lengths and projections.
"""

from gainbias.algorithms.single_chain.dense import ALGORITHM

__all__ = ["ALGORITHM"]
