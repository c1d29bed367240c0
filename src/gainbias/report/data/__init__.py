"""Stored results as numbers that tables, figures and pages share.

Start reading in `results`, which reads a study and says how errors are scored. `claims` and `verdicts` judge
what the paper claims, `summary` puts all tasks together; `sweeps` has means and best step sizes of a sweep.
Nothing here draws or lays out.
"""
