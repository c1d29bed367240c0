"""The papers: one small file for each algorithm, and their registry."""
