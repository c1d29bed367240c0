"""How it runs: random numbers, sample paths and step sizes."""
