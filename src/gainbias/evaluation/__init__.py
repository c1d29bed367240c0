"""What a policy earns in the long run, from an environment or a log, with error bars.

Users import the public names from `gainbias`: `evaluate`, `evaluate_log`, `evaluate_series` and `compare`,
their records `Learning` and `Columns`, their answers `Estimate`, `Diagnostics`, `SeriesEstimate`,
`QuantileEstimate`, `RunLength`, `GroupedSeries` and `Comparison`, `load_estimate` and `load_series`, and
`RunningMean` for numbers as they come. Other rooms of the package import the answers from `estimate`,
`series_estimate`, `compare` and `storage`, with the functions that put them into words.

Start reading in `evaluate`; `reading` leads from a stream of transitions to an estimate. The data come from
`sources` in batches of transitions (`stream`) and are gathered in one pass (`collection`); `gain` computes
the gain with its interval, `values` the relative values with theirs. `observations` turns
what is seen into features, `diagnostics` judges an estimate, `storage` writes it to a file, and `compare`
pairs two policies. `series` is for a column of numbers without a policy.
"""
