"""Settings for all tests."""

from hypothesis import settings

# The same examples on every machine, and no failure because a machine is busy.
settings.register_profile("gainbias", derandomize=True, deadline=None)
settings.load_profile("gainbias")
