"""Exact learning curves: moments of an algorithm after any number of steps, without sampling.

Start reading in `curve`. `terms` reads a step as sums of products, `moments` says what one step does to
second moments, `advance` makes many steps, `system` puts an algorithm and a problem together, and
`enumeration` lists every move.
"""
