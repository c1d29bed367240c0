"""Figures for print and for notebooks, in one style."""
