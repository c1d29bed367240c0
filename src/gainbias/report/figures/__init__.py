"""Figures for print and for notebooks, in one style.

Start reading in `style`, which holds sizes, colours and how files are written. `curves` draws the figures of
the paper's study; `plot` draws what a user holds in hand, with `estimates` and `series` for one estimate and
for a column of numbers. Those of sweeps and claims are in `report.sweep` and `report.claims`.
"""
