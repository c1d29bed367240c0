"""The tasks: named problems with a source and known answers, and the conversions that make them.

Start with `task`, which says what a task and its recipe are, and with `registry`, where all recipes are
listed and `task` makes a task from one. Recipes are in two folders: `chains` holds tasks that are chains from
the start, `gym` those that come from environments with episodes. `paper` has what the paper prints for its
tasks and its features, `settings` checks what a user changes, and `places` says where states are on a map.

Other rooms import `Task`, `task` and `TASKS`, and the conversions of `gym` (`continuing`, `TransitionTable`).
"""
