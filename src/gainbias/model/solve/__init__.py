"""The exact solver: gain, bias and stationary law with a measured bound on their error.

Start reading in `solve`, the function that users call, then `choice`, which lets the methods take `turns`.
`elimination`, `incomplete`, `iterative` and `aggregation` are the methods; `multichain` takes a process with
several recurrent classes apart, and `leaking` solves for its transient states; `semi_markov` answers per unit
of time where steps have durations, and hands over to `certificate` where they have none, which refines an
answer and measures its error, which `bounds` does for elimination with residuals from `residual`; `variance`
adds the asymptotic variance; `solution` is what is returned, and `sensitivity` its derivatives. Other rooms
import `solve`, `solve_to_tolerance` and `poisson_solver` from `solve`, and the records and errors from
`solution`.
"""
