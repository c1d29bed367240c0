"""Many runs, kept safe: studies, how they are computed, stored and resumed, and what few runs can say.

Start reading in `sweep`, the way from a description (`study`) to a results folder (`results`): its units
(`cell`) are sent by `runner` to one of the `engines`, and computed by `workers`, which are processes.
`units` says what any unit is, `provenance` which code it can reach and what results were made with, `own`
reads the user's own tasks, problems and algorithms, `inspection` looks at a sweep from outside, and
`statistics` turns runs into intervals. Two studies of our own use the same machinery:
`reproduce` rebuilds the paper's study, and `claims` tests its headline claims.

Users import `Study`, `sweep`, `reproduce` and `Results` from `gainbias`. The rooms above this one, the
report and the command line, import from the modules; nothing is exported here.
"""
