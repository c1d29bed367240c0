"""How what is typed is understood, and how help is shown: the parser of the whole and of each verb."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NoReturn

from gainbias.suggest import did_you_mean_or_known, nearest


class Paragraphs(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width of the terminal; lines that begin with a space stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        kept = []
        for is_example, lines in groupby(text.splitlines(), lambda line: line[:1].isspace() or not line):
            words = [indent + line for line in lines]
            kept += words if is_example else textwrap.wrap(" ".join(words), width)
        return "\n".join(kept)


class Words(argparse.ArgumentParser):
    """The parser of the whole or of one verb, which answers for unknown words itself, with its own usage.

    Attributes
    ----------
    first : tuple of str
        Destinations of the options that the help shows, if it is not to show all.
    first_examples : str
        Its last lines, in place of the epilog.
    """

    first: tuple[str, ...] = ()
    first_examples = ""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.register("type", int, whole_number)
        self.register("type", float, number)

    def format_help(self) -> str:
        """Return the help, with the options that matter most."""
        return self._help(self.first)

    def format_whole_help(self) -> str:
        """Return the help with all options."""
        return self._help(())

    def _help(self, first: tuple[str, ...]) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        left_out = 0
        for group in self._action_groups:
            known = [one for one in group._group_actions if one.help != argparse.SUPPRESS]
            shown = [one for one in known if not (first and one.option_strings) or one.dest in first]
            left_out += len(known) - len(shown)
            if shown:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(shown)
                formatter.end_section()
        formatter.add_text(self.first_examples if first else self.epilog)
        if first:
            verb = self.prog.split()[-1]
            formatter.add_text(f"There are {left_out} more options: gainbias help {verb} --all shows them.")
        return formatter.format_help()

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse what was typed, as the base class does, but refuse everything unknown."""
        verbs = verbs_of(self)
        first = next((word for word in args or () if not word.startswith("-")), None)
        if verbs and first is not None and first not in verbs:
            self.error(f"there is no verb {first}: {did_you_mean_or_known(first, verbs)}")
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown, args or ())
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in (known := list(map(str, action.choices))):
            raise argparse.ArgumentError(action, f"found {value!r}: {did_you_mean_or_known(value, known)}")

    def _refuse(self, unknown: list[str], typed: Sequence[str]) -> NoReturn:
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if not options:
            actions = self._option_string_actions
            several = [word for word in typed if isinstance(actions.get(word), argparse._AppendAction)]
            takes = ", ".join(str(one.metavar or one.dest) for one in self._actions if not one.option_strings)
            taken = f": besides options there is only {takes}" if takes and not verbs_of(self) else ""
            hint = f": name {several[0]} before each" if several else taken
            self.error(f"unexpected words: {' '.join(unknown)}{hint}")
        if any(options[0] in verb._option_string_actions for verb in verbs_of(self).values()):
            self.error(f"{options[0]} comes after the verb: gainbias VERB {options[0]}")
        known = {name.lstrip("-"): name for name in self._option_string_actions}
        near = nearest(options[0].lstrip("-"), known)
        hint = f": did you mean {known[near]}?" if near else ""
        self.error(f"there is no option {options[0]}{hint}")


def verbs_of(whole: argparse.ArgumentParser) -> dict[str, Words]:
    """Return the parsers of the verbs of a command line; none if it has no verbs.

    Examples
    --------
    >>> whole = Words(prog="gainbias")
    >>> _ = whole.add_subparsers().add_parser("run")
    >>> list(verbs_of(whole))
    ['run']
    """
    kinds = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    return {name: verb for verbs in kinds for name, verb in verbs.choices.items()}


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


def whole_number(words: str) -> int:
    """Return a whole number, or say what is needed.

    Examples
    --------
    >>> whole_number("12")
    12
    """
    try:
        return int(words)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, found {words!r}") from None


def number(words: str) -> float:
    """Return a number, or say what is needed.

    Examples
    --------
    >>> number("1e-8")
    1e-08
    """
    try:
        return float(words)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, as in 0.01, found {words!r}") from None


class OfColumns(argparse.Action):
    """Refuse an option of columns where policies are compared, and say which verb has it."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, value: Any, name: Any = None) -> None:
        """Refuse the option."""
        parser.error(
            f"there is no option {name}: compare is for two policies, in an environment or on a log. For "
            "means of several series put them into one file: gainbias evaluate FILE --column NAME --group "
            "WHICH"
        )


class OnePolicy(argparse.Action):
    """Take one policy, and say which verb takes two."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, value: Any, name: Any = None) -> None:
        """Store the policy, unless there is one."""
        if getattr(namespace, self.dest) is not None:
            parser.error("--policy is given twice: gainbias evaluate takes one, gainbias compare two")
        setattr(namespace, self.dest, value)
