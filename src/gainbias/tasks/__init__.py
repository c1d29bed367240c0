"""The tasks: named problems with a source and known answers, and the conversions that make them.

Start with `task`, which says what a task is, how its recipe and settings are written, and where its states
are on a map; and with `registry`, where all recipes are listed and `task` makes a task from one. Recipes are
in two folders: `chains` holds tasks that are chains from the start, `gym` those that come from environments
with episodes. `paper` has what the paper prints for its tasks and its features.

Other rooms import `Task`, `task` and `TASKS`, and the conversions of `gym` (`continuing`, `TransitionTable`).
"""
