"""Figures for print and for notebooks, in one style.

Start reading in `style`, which has sizes, colours and the writing of files. `curves` draws the figures of
the paper's study; `plot` draws a user's results, with `estimates` and `series` for one estimate and
for a column of numbers. Those of sweeps and claims are in `report.sweep` and `report.claims`.
"""
