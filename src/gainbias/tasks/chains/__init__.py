"""Tasks that are chains from the start: `classic` ones, those of `operations` research, and `random_chains`.

Each module defines its processes as plain functions, and its tasks as records `Recipe` in capital letters,
which `gainbias.tasks.registry` lists.
"""
