"""What another policy would have earned, from the log of one that did.

Start with `evaluate_targets` in `answer`: it reads the log twice. `tables` and `counted` are for states and
actions that can be counted, `linear` and `fitted` for features: the model first, and then what makes an
estimate of it. `passes` reads the log, `chances` makes probabilities of actions of every form of policy, and
`record` is what such an answer has besides an estimate.
"""
