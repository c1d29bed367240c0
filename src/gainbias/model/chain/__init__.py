"""Facts about a chain besides its gain and bias: deviation matrix, hitting times, eigenvalues, mixing time.

Start reading in `deviation`, which needs the exact solver only. `passage` has hitting times and
probabilities, and `leaking` the equations behind them, with proved bounds. `reversible` finds eigenvalues of
symmetric flows, and `mixing` builds on both: contraction, spectral gap and mixing times.
"""
