"""The exact solver: gain, bias and stationary law with a measured bound on their error.

Start reading in `solve`, the function that users call, then `choice`, which lets the methods take `turns`.
`elimination`, `incomplete`, `iterative` and `aggregation` are the methods; `certificate` refines an answer
and measures its error; `variance` adds the asymptotic variance; `solution` is what is returned. Other rooms
import `solve` and `poisson_solver` from `solve`, and the records and errors from `solution`.
"""
