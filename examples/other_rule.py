"""An admission rule that is changed on paper first, and really run afterwards.

A queue lets in customers a little at random. From a log of that, what would a stricter rule earn, which
hardly lets in anybody while four or more are waiting? The reference is the exact gain of the new rule. The
difference of both rules from the same log comes with an interval, too.
"""

import numpy as np

import gainbias as gb

ARRIVAL, SERVICE, ROOM, FEE, WAITING = 0.45, 0.45, 10, 1.0, 0.06

length = np.arange(ROOM + 1)
lets_in = np.where(length < 7, 0.8, 0.4)
old_rule = np.stack([1.0 - lets_in, lets_in], axis=1)
lets_in = np.where(length < 4, 0.95, 0.05)
new_rule = np.stack([1.0 - lets_in, lets_in], axis=1)


def log_of(rule, steps, rng):
    """A log of a rule: the length of the queue, whether a customer would be let in, and what was earned."""
    chances, draws, here = rng.random(steps), rng.random(steps), 0
    log = {
        "length": np.zeros(steps, dtype=int),
        "lets_in": np.zeros(steps, dtype=int),
        "earned": np.zeros(steps),
    }
    for step in range(steps):
        action = int(chances[step] < rule[here, 1])
        enters = draws[step] < ARRIVAL and action == 1 and here < ROOM
        log["length"][step], log["lets_in"][step] = here, action
        log["earned"][step] = FEE * enters - WAITING * here
        here += int(enters) - int(ARRIVAL <= draws[step] < ARRIVAL + SERVICE and here > 0)
    return log


def exact(rule):
    """The gain of a rule, from its model."""
    moves = np.zeros((ROOM + 1, ROOM + 1))
    enters = ARRIVAL * rule[:, 1] * (length < ROOM)
    leaves = SERVICE * (length > 0)
    moves[length[:-1], length[1:]] = enters[:-1]
    moves[length[1:], length[:-1]] = leaves[1:]
    moves[length, length] = 1.0 - enters - leaves
    return gb.solve(gb.MarkovRewardProcess(moves, FEE * enters - WAITING * length)).gain


truth = exact(new_rule)
log = log_of(old_rule, 30_000, np.random.default_rng(0))
columns = {"state": "length", "action": "lets_in", "reward": "earned"}
estimate = gb.evaluate_log(log, policy=new_rule, **columns)
print(estimate, "\n")
low, high = estimate.gain_interval
print(f"the new rule, on paper: {estimate.gain:.4f}, interval {low:.4f} to {high:.4f}; exact {truth:.4f}")

really = gb.evaluate_log(log_of(new_rule, 30_000, np.random.default_rng(1)), state="length", reward="earned")
low, high = really.gain_interval
print(f"the new rule, really run: {really.gain:.4f}, interval {low:.4f} to {high:.4f}; exact {truth:.4f}")

paired = gb.compare_policies_on_log(log, new_rule, old_rule, **columns)
low, high = paired.interval
better = exact(new_rule) - exact(old_rule)
print(
    f"new less old, on paper: {paired.difference:.4f}, interval {low:.4f} to {high:.4f}; exact {better:.4f}"
)
