"""How words after `gainbias` are read: numbers of steps, and what is said of options that do not exist."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn


class Verb(argparse.ArgumentParser):
    """The parser of one verb, which answers for its unknown options itself, with its own usage."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Return what was typed, as the base class does, and nothing unknown."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return found, unknown

    def _refuse(self, unknown: list[str]) -> NoReturn:
        options = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        if not options:
            self.error(f"too many words: {' '.join(unknown)}")
        known = [flag for action in self._actions for flag in action.option_strings]
        near = difflib.get_close_matches(options[0], known, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        self.error(f"there is no option {options[0]}{hint}")


def count(words: str) -> int:
    """Return a positive whole number, which may be written like 1e4 or 10_000.

    Examples
    --------
    >>> count("1e4"), count("10_000")
    (10000, 10000)
    """
    try:
        number = int(words) if words.strip("+-_0123456789") == "" else float(words)
        if number >= 1 and number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"must be a positive whole number, as in 10000 or 1e4, found {words!r}")
