"""Benchmarks are not run by the tests, but what they measure must be there."""

import pytest

from benchmarks import task_settings
from benchmarks.threads import PARTS
from gainbias.experiments.reproduce import PAPER_METHODS, Instance


def test_parts_that_are_timed_exist() -> None:
    missing = [name for name, (module, function) in PARTS.items() if not hasattr(module, function)]
    assert missing == []


@pytest.mark.parametrize(("protocol", "target"), [("literal", "bias"), ("inferred", "paper")])
def test_distances_by_settings_are_those_of_the_study(protocol: str, target: str) -> None:
    settings = {"epsilon": 0.2, "discount": 0.9}
    found = task_settings.last_errors("frozen-lake", protocol, settings, shorten=1000)
    assert found.shape == (4, 3)
    rows = Instance(protocol, "frozen-lake", 1, 1000, settings).compute()["runs"]
    for method, error in zip(PAPER_METHODS, found[:, 1], strict=True):
        kind = "full" if method.name in ("double-chain", "single-chain") else "quotient"
        chosen = (rows["algorithm"] == method.name) & (rows["kind"] == kind) & (rows["target"] == target)
        last = rows["error"][chosen & (rows["step"] == rows["step"].max())]
        assert error == pytest.approx(last, rel=1e-12)


def test_rows_differ_from_what_the_paper_prints_in_one_setting() -> None:
    for name in task_settings.EPSILONS:
        rows = list(task_settings.settings_of(name))
        printed = {"epsilon": task_settings.gb.TASKS[name].settings["epsilon"], "discount": 0.99}
        assert printed in rows
        assert all(sum(row[key] != printed[key] for key in printed) <= 1 for row in rows)
        assert len({tuple(row.values()) for row in rows}) == len(rows) == 6
