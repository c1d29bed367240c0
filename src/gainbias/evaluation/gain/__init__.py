"""The gain from rewards, with an interval that holds under dependence.

Start reading in `interval`. `batches` keeps sums over consecutive batches of a stream of any length, and
measures how long the stream remembers.
"""
