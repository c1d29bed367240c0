"""Facts about a chain besides its gain and bias: deviation matrix, eigenvalues, mixing time.

Start reading in `deviation`, which needs the exact solver only. `reversible` finds eigenvalues of symmetric
flows, and `mixing` builds on both: contraction, spectral gap and mixing times.
"""
