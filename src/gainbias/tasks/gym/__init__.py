"""Tasks from environments with episodes, and how environments become processes.

Read `table` first: a `TransitionTable` is a finite environment. `continuing` joins its episodes to a process
that never ends, `installed` reads tables from Gymnasium, and `q_learning` learns a policy for a table. The
tasks are in `grid_worlds` and `multi_objective`. Gymnasium is optional: it is imported when it is needed.
"""
