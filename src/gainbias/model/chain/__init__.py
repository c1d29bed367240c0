"""Facts about a chain beside its gain and bias: deviation matrix, eigenvalues, mixing time."""
