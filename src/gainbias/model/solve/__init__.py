"""The exact solver: gain, bias and stationary law with a measured bound on their error.

Start reading in `solve`, the function that users call, then `choice`, which lets the methods take `turns`.
`elimination`, `incomplete`, `iterative` and `aggregation` are the methods; `multichain` splits a process
with several recurrent classes, and `leaking` solves for its transient states. `semi_markov` answers per unit
of time if steps have durations; if not, it calls `certificate`, which refines an answer and measures its
error. For elimination, `bounds` does that with residuals from `residual`. `variance` adds the asymptotic
variance; `solution` has the answers, and `sensitivity` their derivatives. Other rooms
import `solve`, `solve_to_tolerance` and `poisson_solver` from `solve`, and the records and errors from
`solution`.
"""
