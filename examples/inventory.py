"""An inventory rule: when at most three units are left, order up to twenty.

What does the rule earn in a period, and what is a unit in stock worth? Run it with --plot for a picture.
"""

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

import gainbias as gb

DEMAND, PRICE, UNIT_COST, ORDER_COST, HOLDING, SHORTAGE = 4.0, 3.0, 1.0, 8.0, 0.2, 1.0


class Shop(gymnasium.Env):
    """The observation is the stock, the action how much is ordered; demand is Poisson."""

    observation_space, action_space = spaces.Discrete(21), spaces.Discrete(21)

    def reset(self, *, seed=None, options=None):
        """Begin with full shelves."""
        super().reset(seed=seed)
        self.stock = 20
        return self.stock, {}

    def step(self, ordered):
        """Fill up, sell, and count what is left."""
        there, demand = self.stock + ordered, self.np_random.poisson(DEMAND)
        sold = min(there, demand)
        self.stock = there - sold
        reward = PRICE * sold - UNIT_COST * ordered - ORDER_COST * (ordered > 0)
        reward -= HOLDING * self.stock + SHORTAGE * (demand - sold)
        return self.stock, reward, False, False, {}


def rule(stock):
    """Order up to 20 when at most 3 are left."""
    return 20 - stock if stock <= 3 else 0


estimate = gb.evaluate(Shop, rule, target_half_width=0.05)
print(estimate, "\n")

# The same shop is a task of the package, with a known model.
exact = gb.solve(gb.task("inventory").problem.mrp)
low, high = estimate.gain_interval
print(f"gain {estimate.gain:.3f}, interval {low:.3f} to {high:.3f}; exact {exact.gain:.3f}")
for stock in (4, 12, 20):
    low, high = estimate.value_interval(stock)
    found = f"value of {stock} in stock {estimate.value(stock):.2f}, interval {low:.2f} to {high:.2f}"
    print(f"{found}; exact {exact.bias[stock]:.2f}")
inside = estimate.value_interval(np.arange(4, 21))
covered = np.mean((inside[:, 0] <= exact.bias[4:]) & (exact.bias[4:] <= inside[:, 1]))
print(f"{covered:.0%} of the intervals of values hold the exact one")
if "--plot" in sys.argv:
    gb.plot(estimate).figure.savefig("inventory.png")
