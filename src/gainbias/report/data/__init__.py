"""Stored results as numbers that tables, figures and pages share: scores, verdicts, summaries."""
