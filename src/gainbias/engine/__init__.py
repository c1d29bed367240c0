"""The engine: how an algorithm runs, from step sizes and seeds to a trace.

Start with `run`, the one function that users call. It turns what was asked for into `lanes`, one for each
seed, step size and parameter, and hands them in pieces (`work`) to threads. A piece draws its transitions
from `paths`, its step sizes from `schedules`, and makes its steps in the compiled loops of `loop`. What comes
out is a `trace`.

Other rooms import `run`, the schedules and `Trace`; theory and evaluation also draw from `paths` and `loop`.
"""
