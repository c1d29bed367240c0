"""The exact solver: gain, bias and stationary law with a measured bound on their error.

Start reading in `solve`, the function that users call, then `choice`, which orders the methods.
`elimination`, `iterative` and `aggregation` are the methods; `certificate` measures how far an answer may be
off; `solution` is what is returned.
"""
