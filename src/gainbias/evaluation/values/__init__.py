"""Relative values of states from transitions, with intervals.

Start reading in `methods`: `Learning` is the user's choice, and `value_method` makes the method for it. That
is `least_squares`, from the batch `sums` of transitions, or a `learner` for any algorithm, whose runs over
the data are in `learning`. The rest of `gainbias.evaluation` imports `methods`, and the records of
learned values `ValueEstimate` and `LearnedValues`.
"""
