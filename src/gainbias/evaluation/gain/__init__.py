"""The gain from rewards, with an interval that holds under dependence.

Start reading in `interval`: `estimate_gain` makes a `GainEstimate`. `looks_until` in `anytime` reads on until
its interval is narrow enough. `batches` keeps sums over consecutive batches of a stream of any length, and
measures how long the stream remembers. The rest of `gainbias.evaluation` imports from these.
"""
