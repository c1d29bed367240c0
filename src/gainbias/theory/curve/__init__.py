"""Exact learning curves: moments of an algorithm after any number of steps, without sampling.

Start reading in `curve`, which has the function that users call. `system` combines an algorithm and a
problem: `terms` reads a step as a sum of products, `moments` has the recursion of second moments that
follows from it, and `enumeration` is the recursion for steps that are not such a sum. `advance` takes many
steps at once.
"""
