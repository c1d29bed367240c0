"""Benchmarks are not run by the tests, but what they measure must be there."""

from benchmarks.threads import PARTS


def test_parts_that_are_timed_exist() -> None:
    missing = [name for name, (module, function) in PARTS.items() if not hasattr(module, function)]
    assert missing == []
