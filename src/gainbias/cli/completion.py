"""Scripts that let a shell complete what is typed after `gainbias`, made from its parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, get_args

Words = Mapping[str, Iterable[str]]

BASH = """\
_gainbias() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={verbs}
    else
        case "$verb $before" in
{values}
        *)
            case "$verb" in
{rest}
            esac ;;
        esac
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _gainbias gainbias
"""
ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit }
autoload -U +X bashcompinit && bashcompinit
"""
"""zsh reads the script of bash after this."""


def known_words() -> Words:
    """Return the ids that may be typed, by the names of arguments."""
    import gainbias
    from gainbias.experiments.claims.registry import CLAIMS
    from gainbias.experiments.engines import EngineName
    from gainbias.experiments.reproduce import PROTOCOLS

    return {
        "algorithm": gainbias.ALGORITHMS,
        "claims": CLAIMS,
        "engine": get_args(EngineName),
        "protocol": PROTOCOLS,
        "sampling": ("markov", "iid"),
        "source": gainbias.TASKS,
        "task": gainbias.TASKS,
    }


def completion(parser: argparse.ArgumentParser, shell: str, known: Words) -> str:
    """Return a script for a shell.

    Parameters
    ----------
    parser : ArgumentParser
        Of the command line, with a verb first.
    shell : {"bash", "zsh", "fish"}
    known : mapping of str to words
        Possible values of arguments that have no choices themselves, by their names in the parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser(prog="gainbias")
    >>> verb = parser.add_subparsers().add_parser("run", help="run one algorithm")
    >>> _ = verb.add_argument("--algorithm", help="id of an algorithm")
    >>> print(completion(parser, "fish", {"algorithm": ["lstd"]}), end="")
    complete -c gainbias -n __fish_use_subcommand -f -a run -d 'run one algorithm'
    complete -c gainbias -n '__fish_seen_subcommand_from run' -l help -d 'show this help message and exit'
    complete -c gainbias -n '__fish_seen_subcommand_from run' -l algorithm -d 'id of an algorithm' -x -a lstd
    """
    if shell == "fish":
        return "".join(line + "\n" for line in _fish(parser, known))
    return ZSH * (shell == "zsh") + _bash(parser, known)


def _bash(parser: argparse.ArgumentParser, known: Words) -> str:
    verbs = _verbs(parser)
    values, rest = [], []
    for name, (verb, _) in verbs.items():
        for action in _options(verb):
            if action.nargs != 0:
                cases = "|".join(f'"{name} {flag}"' for flag in action.option_strings)
                values.append(f"        {cases}) words={_quoted(_values(action, known))} ;;")
        flags = [flag for action in _options(verb) for flag in action.option_strings]
        places = [word for action in _positionals(verb) for word in _values(action, known)]
        rest.append(f"            {name}) words={_quoted([*places, *flags])} ;;")
    words = _quoted([*verbs, "--help", "--version"])
    return BASH.format(verbs=words, values="\n".join(values), rest="\n".join(rest))


def _fish(parser: argparse.ArgumentParser, known: Words) -> Iterable[str]:
    for name, (verb, about) in _verbs(parser).items():
        yield f"complete -c gainbias -n __fish_use_subcommand -f -a {name} -d {shlex.quote(about)}"
        seen = f"complete -c gainbias -n {shlex.quote(f'__fish_seen_subcommand_from {name}')}"
        for action in _positionals(verb):
            words = _quoted(_values(action, known))
            if words != "''":
                yield f"{seen} -a {words}"
        for action in _options(verb):
            words = _quoted(_values(action, known))
            value = "" if action.nargs == 0 else " -r" if words == "''" else f" -x -a {words}"
            about = shlex.quote((action.help or "") % vars(action))
            yield f"{seen} -l {action.option_strings[-1].lstrip('-')} -d {about}{value}"


def _verbs(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return the parser of each verb, and what it does."""
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    about = {choice.dest: choice.help or "" for choice in verbs._choices_actions}
    return {name: (verb, about[name]) for name, verb in verbs.choices.items()}


def _options(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in verb._actions if action.option_strings and action.help != argparse.SUPPRESS]


def _positionals(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in verb._actions if not action.option_strings]


def _values(action: argparse.Action, known: Words) -> list[Any]:
    return list(action.choices or known.get(action.dest, ()))


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))
