"""The contract suite: what every algorithm must keep, your own and those of this package.

`check_algorithm` makes all checks. Start with `suite`, the table of them; each check is a function in
`reproducible` (runs depend on seed, step sizes and parameters alone), `fields` (steps are what is declared),
`limits` (runs go where it is declared, and as fast), or `invariance` (what must matter, and what must not).
They share the small problems and single steps of `drive`, and the words of `report`.

Examples
--------
>>> import gainbias as gb
>>> gb.testing.check_algorithm("double-chain").failures
[]
"""

from gainbias.testing.report import NotChecked, NotCheckedWarning, Report, Result
from gainbias.testing.suite import CHECKS, Check, check_algorithm

__all__ = ["CHECKS", "Check", "NotChecked", "NotCheckedWarning", "Report", "Result", "check_algorithm"]
