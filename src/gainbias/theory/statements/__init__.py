"""The paper statement by statement: what each says, whether it holds, and by how much.

Start reading in `statement`, the record of one, its measurement and its verdict; `registry` has all of them.
The checks are in `equations`, `minima`, `step_sums`, `updates`, `two_chains` and `one_chain`; `cases`
has the chains that they are tried on.
"""
