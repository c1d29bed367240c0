"""What must hold: the contract suite for algorithms, your own and those of this package.

Examples
--------
>>> import gainbias as gb
>>> gb.testing.check_algorithm("double-chain").failures
[]
"""

from gainbias.testing.report import NotChecked, NotCheckedWarning, Report, Result
from gainbias.testing.suite import CHECKS, Check, check_algorithm

__all__ = ["CHECKS", "Check", "NotChecked", "NotCheckedWarning", "Report", "Result", "check_algorithm"]
