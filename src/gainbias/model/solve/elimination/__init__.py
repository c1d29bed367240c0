"""Elimination of states without subtraction, the direct method of the exact solver.

Start reading in `solver`: its function `eliminate` makes a solver of a chain. `symbolic` orders the states
and plans the work, `numeric` does it, `branches` lets several threads do it, and `law` measures the
stationary law. The other methods use `factorise_chain` and the plans too.
"""
