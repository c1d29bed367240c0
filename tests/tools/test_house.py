"""The house stays as it was built: one name means one thing."""

import re
from typing import Any

import pytest

from tools.house import measure_sources


@pytest.fixture(scope="module")
def house() -> dict[str, Any]:
    return measure_sources()


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ("repeated class names", {"State", "Params"}),  # every algorithm has its own, by design
        ("repeated constants", {"ALGORITHM", "CLAIM"}),  # every file of a registry has one
    ],
)
def test_no_two_things_share_a_name(house: dict[str, Any], names: str, allowed: set[str]) -> None:
    assert set(re.findall(r"([A-Za-z_]+) \d+[,)]", house[names])) <= allowed


def test_modules_are_few_and_none_is_huge(house: dict[str, Any]) -> None:
    assert house["modules"] <= 229
    assert int(re.findall(r"(\d+) lines", house["largest module"])[0]) <= 700
