"""Facts about a chain besides its gain and bias: other values, hitting times, eigenvalues, mixing time.

Start reading in `deviation`, which needs only the exact solver. `discounting` and `horizon` have discounted
values and values over a number of steps, which both build on `long_run`; `passage` has hitting times and
probabilities. Their bounds come from `gainbias.model.solve.leaking`: equations over states that a chain
leaves. `reversible` finds eigenvalues of symmetric flows, and `mixing` has contraction, spectral gap and
mixing times.
"""
