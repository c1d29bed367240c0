"""The reference: docstrings contain nothing that its tools would render wrongly."""

import inspect
from functools import cached_property

import pytest

import gainbias as gb

CLASSES = [name for name in gb.__all__ if inspect.isclass(getattr(gb, name))]


def properties_of(cls):
    """Return the docstrings of the properties that are written in the package, by name."""
    found = {}
    for base in cls.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("gainbias") else ():
            if isinstance(member, property | cached_property) and not name.startswith("_"):
                found[name] = inspect.cleandoc(member.__doc__ or "")
    return found


def test_properties_are_found():
    assert {"max_abs_reward", "fingerprint"} <= properties_of(gb.MarkovRewardProcess).keys()


@pytest.mark.parametrize("name", CLASSES)
def test_no_colon_in_the_first_line_of_a_property(name):
    """The tool that makes the reference takes the words before a colon for a type."""
    firsts = {key: text.partition("\n")[0] for key, text in properties_of(getattr(gb, name)).items()}
    assert [key for key, first in firsts.items() if ":" in first] == []
