"""Elimination of states without subtraction: order, plan, factorise, solve."""
