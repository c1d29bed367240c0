"""Relative values of states from transitions, with intervals.

Start reading in `methods`: `Learning` is what a user asks for, and `value_method` makes the method that does
it. That is `least_squares`, from the batch `sums` of transitions, or any algorithm as a `learner`, whose runs
over the data are in `learning`. The rest of `gainbias.evaluation` imports `methods`, and the records of
learned values `ValueEstimate` and `LearnedValues`.
"""
