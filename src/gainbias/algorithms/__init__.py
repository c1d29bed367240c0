"""The algorithms: how each learns weights from transitions, and what is claimed about it.

Start with `algorithm`, which says what an algorithm is, and with `double_chain`, the shortest of them. Each
algorithm is one file (`single_chain` is a folder), and all files have the same order: the update and its
limit in mathematics, parameters, state, step, declared facts, and the record `ALGORITHM`. `registry` lists
them by their ids; `fields` has the mean updates that several of them share.

Import `Algorithm` and its parts from `algorithm`, algorithms from `registry` (`ALGORITHMS`, `as_algorithm`).
"""
