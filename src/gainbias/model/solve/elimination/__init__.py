"""Elimination of states without subtraction: order and plan (`symbolic`), factorise (`numeric`), solve."""
