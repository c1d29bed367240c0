"""Where transitions come from: environments with policies, and logs.

Start reading in `environments` (`environment_stream`) or in `logs` (`log_stream`): both return a `Stream` of
`gainbias.evaluation.stream`. The rest of `gainbias.evaluation` imports these two, the types of their
arguments, and `Limits` from `spaces`.

`policies` turns every policy into a function, `vector` steps vector environments, and `spaces` checks
observations and actions. `columns` reads columns of arrays, tables and files, `records` those of lists of
records and of the files of load generators, and `clocks` looks at columns that look like times. `numbers`
reads plain columns of numbers, for `evaluate_series`.
"""
