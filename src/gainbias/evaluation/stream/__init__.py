"""Transitions in batches: the form in which every estimator reads data.

Start reading in `transitions`: pieces of paths from a source become batches of transitions in a `Stream`.
`collection` reads a stream once, and gathers everything that an estimate needs. Sources import `Path` and
`Stream`, estimators import `Transitions`, and `gainbias.evaluation.reading` imports `Collection`.
"""
