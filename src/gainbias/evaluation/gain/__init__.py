"""The mean of a series with an interval that holds under dependence: one procedure for all error bars.

Start reading in `interval`: `estimate_gain` makes a `GainEstimate` of rewards or of any numbers, or of the
ratio of two series, such as rewards and durations. `batches` keeps sums over consecutive batches of a stream
of any length; `warm_up` finds a beginning to leave out; `spectrum` computes the variance of the mean from
the slowest waves; `verdict` says whether the series is steady, or why not. `quantiles` does for a
quantile what `interval` does for a mean. `anytime` makes intervals that hold for all looks together, for
numbers as they come (`RunningMean`) or until one is narrow enough. The rest of `gainbias.evaluation` imports
from these.
"""
