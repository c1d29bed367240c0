"""Guarantees of the theorems, in numbers: every bound with its constants and conditions.

Start reading in `bound`, the function that users call; it finds the theorem for an algorithm. `double_chain`,
`single_chain` and `comparisons` are the theorems. `record` is what they return and the arithmetic they share;
`facts` are the numbers that they need about a problem. `certify` searches for steps that meet a theorem, and
`table` compares all of them, like the paper's comparison table.
"""
