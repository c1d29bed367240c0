"""Many runs: studies, how they are stored, and what can be said from few runs."""
