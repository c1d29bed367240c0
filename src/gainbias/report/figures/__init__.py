"""Figures for print and for notebooks, in one style.

Start reading in `style`, which holds sizes, colours and how files are written. `curves` draws the figures of
the paper's study; `estimates` has `plot`, for what a user holds in hand, and `series` what it draws of a
column of numbers. Those of sweeps and claims are in `report.sweep` and `report.claims`.
"""
