"""Chains whose answer is known without any solver of the package, and independent ways to find it."""
