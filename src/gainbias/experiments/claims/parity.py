"""Whether average-reward TD needs as many samples as discounted TD: what that can mean, and what is measured.

The title of the paper speaks of a gap between average and discounted TD, and its abstract of matching the
efficiency of the discounted setting. This can mean three things. They were written down before the first run.

1. *The same order* (claim ``parity``). Each method looks for its own fixed point and has its own condition
   number: eta1 for double-chain, (1 - discount) times the smallest eigenvalue of Phi^T D Phi for discounted
   TD. Parity means that each needs at most of the order of eta^-2 independent samples. That is what the
   theorems say. As they hide logarithms, numbers of samples are divided by log(first error / epsilon). Rule:
   the interval of the power must end below 2.1, for double-chain as eta1 falls (in the worse of two families),
   and for discounted TD as the discount tends to 1 and eta1 is fixed.
2. *The same answer* (claim ``parity-answer``). What both know in the end is the bias, up to a constant:
   discounted values minus their mean tend to it. Parity means that double-chain and single-chain need at most
   a constant times as many samples as discounted TD for values of the same accuracy. The error is the mean
   square of centred values under the stationary law. Rule: the number of samples divided by that of discounted
   TD must not grow, so the interval of its power must end below 0.1; with independent samples and along the
   chain; in two settings:

   - eta1 falls, on the slow chain, and discounted TD takes the discount that it needs: the one at which its
     own limit has a quarter of the wanted error. Errors are those against the bias.
   - The discount tends to 1 and eta1 is fixed. Errors of discounted TD are those against its own limit.

   (The short feature is no family here: the shorter it is, the less it matters for values.)
3. *The discount is fixed* while eta1 falls. Then the answers are different ones: discounted values do not see
   slow mixing beyond their horizon. Parity in this sense is not claimed by anybody; figures are shown.

For all methods T(epsilon) is the number of transitions after which the error stays below epsilon = 0.01,
with the constant step size that leaves half of it for ever: from exact curves, and for single-chain, which
has none, from means over runs. Beside it stand the numbers that the theorems certify; for td-lambda there is
no theorem with constants in this package.
"""
