"""Relative values from transitions, with intervals.

Start reading in `methods`, which chooses: `least_squares`, from the `sums` of batches, or any algorithm as a
`learner`, whose runs over the data are in `learning`.
"""
