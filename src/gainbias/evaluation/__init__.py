"""From an environment or a log to the gain and the values of a policy, with error bars."""
