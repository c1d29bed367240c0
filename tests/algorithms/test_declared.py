"""What algorithms declare, by those checks of the contract that take little time.

The whole contract is in `tests/testing/test_suite.py`, and takes long.
"""

import pytest

import gainbias as gb
from gainbias.testing import CHECKS, Check
from gainbias.testing.declared import rate_holds
from gainbias.testing.drive import FEW

EXACT = (
    "mean_field_is_true",
    "sample_field_is_true",
    "sample_field_has_the_mean_field",
    "limit_solves_the_mean_field",
    "limit_stays_without_noise",
)
"""Checks that enumerate all transitions, without chance."""


@pytest.mark.parametrize("check", [check for check in CHECKS if check.name in EXACT], ids=lambda c: c.name)
@pytest.mark.parametrize("name", gb.ALGORITHMS)
def test_steps_have_the_declared_means_and_limits(name: str, check: Check) -> None:
    results = [check.result(case) for case in check.cases(gb.ALGORITHMS[name])]
    assert not [str(result) for result in results if result.outcome == "failed"]


@pytest.mark.parametrize("name", gb.ALGORITHMS)
def test_errors_fall_at_the_declared_rate(name: str) -> None:
    check = Check(rate_holds, ("dense",), FEW)
    [result] = [check.result(case) for case in check.cases(gb.ALGORITHMS[name])]
    assert result.outcome == ("skipped" if gb.ALGORITHMS[name].declared.rate is None else "passed"), result


def test_a_parameter_has_the_same_default_in_all_algorithms() -> None:
    """So that algorithms can be compared without naming it."""
    found: dict[str, set[float]] = {}
    for algorithm in gb.ALGORITHMS.values():
        for name, default in algorithm.params._field_defaults.items():
            found.setdefault(name, set()).add(default)
    assert {name: values for name, values in found.items() if len(values) > 1} == {}
