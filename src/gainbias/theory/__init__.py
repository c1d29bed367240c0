"""What is proved, and what is exact without sampling: bounds, learning curves, limiting covariances.

Start reading in `recommend`, which uses both rooms: `bounds` turns theorems into numbers, and `curve` follows
the moments of an algorithm step by step. `asymptotics` has the covariance of the weights after many steps.
Other rooms import from these modules directly; users get the public names from the package.
"""
