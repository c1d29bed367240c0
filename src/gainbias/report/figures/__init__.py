"""Figures for print and for notebooks, in one style.

Start reading in `style`, which holds sizes, colours and how files are written. `study` and `sweeps`
draw the figures of results folders; `estimates` has `plot`, for what a user holds in hand.
"""
