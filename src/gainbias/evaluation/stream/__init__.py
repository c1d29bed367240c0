"""Transitions in batches: the form in which every estimator reads data.

`transitions` has the batches and how pieces of paths become batches; `collection` reads a stream once, for
everything that an estimate needs.
"""
