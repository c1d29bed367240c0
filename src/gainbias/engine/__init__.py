"""The engine: how an algorithm runs, from step sizes and seeds to a trace.

Start with `run`, the one function that users call. It turns its arguments into `lanes`, one for each seed,
step size and parameter, and passes them in pieces (`work`) to threads. A piece draws its transitions from
`paths`, its step sizes from `schedules`, and takes its steps in the compiled loops of `loop`. The result is a
`trace`.

Other rooms import `run`, the schedules and `Trace`; theory and evaluation also draw from `paths` and `loop`.
"""
