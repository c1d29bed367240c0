"""Stored results as numbers for tables, figures and pages.

Start reading in `results`, which reads a reproduction of the paper's study, says how errors are scored and
puts all tasks together. `study_claims` and `verdicts` judge what the paper claims on the basis of its
experiments; `sweep_means` has means and best step sizes of a sweep. Nothing here draws or lays out.
"""
