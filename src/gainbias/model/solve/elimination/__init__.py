"""Elimination of states without subtraction, the direct method of the exact solver.

Start reading in `solver`: its function `eliminate` makes a solver of a chain. `symbolic` orders the states
and plans the work, `numeric` does it, `branches` divides it among threads, and `law` measures the
stationary law. The other methods also use `factorise_chain` and the plans.
"""
