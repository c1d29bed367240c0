"""Where transitions come from: environments with policies, and logs.

Start reading in `environments` or `logs`; both end in the batches of `gainbias.evaluation.stream`. `vector`
walks through vector environments, `columns` and `rows` read logs, `spaces` checks observations and actions.
"""
