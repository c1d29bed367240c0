"""The contract suite: checks that every algorithm must pass, yours and those of this package.

`check_algorithm` makes all checks. Start with `suite`, the table of them and the report; each check is a
function in `dependence` (what runs depend on, and what not) or in `declared` (steps are as declared, and runs
go to the declared limit at the declared rate). They share the small problems and single steps of `drive`.

Examples
--------
>>> import gainbias as gb
>>> gb.testing.check_algorithm("double-chain").failures
[]
"""

from gainbias.testing.suite import (
    CHECKS,
    Check,
    NotChecked,
    NotCheckedWarning,
    Report,
    Result,
    check_algorithm,
)

__all__ = ["CHECKS", "Check", "NotChecked", "NotCheckedWarning", "Report", "Result", "check_algorithm"]
