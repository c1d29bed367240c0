"""Many runs, kept safe: studies, how they are computed, stored and resumed, and what few runs can say.

Start reading in `sweep`, the way from a description (`study`) to a results folder (`results`): its units
(`cell`) are sent by `runner` to one of the `engines`, and computed by `workers`, which are processes.
`units` says what any unit is, `provenance` which code it can reach and what results were made with, `own`
what a study has of the user's own, `inspection` looks at a sweep from outside, and `statistics` turns runs
into intervals. Two studies of our own use the same machinery:
`reproduce` rebuilds the paper's, and `claims` puts its headline claims to the test.

Users import `Study`, `sweep`, `reproduce` and `Results` from `gainbias`. Rooms above, the report and the
command line, import from the modules; nothing is exported here.
"""
