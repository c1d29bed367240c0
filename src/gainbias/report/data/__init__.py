"""Stored results as numbers that tables, figures and pages share.

Start reading in `results`, which reads a study, says how errors are scored and puts all tasks together.
`study_claims` and `verdicts` judge what the paper claims; `sweeps` has means and best step sizes of a sweep.
Nothing here draws or lays out.
"""
