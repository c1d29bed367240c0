"""Suggestions for names that do not exist: "did you mean ...?"."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable


def alike(name: object, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are most like a given one, the nearest first; case does not matter.

    Names that contain the given one as a word come before names with a similar spelling.

    Examples
    --------
    >>> alike("TAXY", ["taxi", "deep-sea"])
    ['taxi']
    >>> alike("td", ["vrtd", "td-lambda"])
    ['td-lambda', 'vrtd']
    """
    by_lower, wanted = {each.lower(): each for each in known}, str(name).lower()
    with_the_word = [each for each in by_lower if wanted in re.findall("[a-z]{2,}", each)]
    spelt_alike = difflib.get_close_matches(wanted, by_lower, n=most)
    return [by_lower[each] for each in dict.fromkeys([*with_the_word, *spelt_alike])][:most]


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a given one, or None if no known name resembles it.

    Examples
    --------
    >>> nearest("taxy", ["taxi", "deep-sea"])
    'taxi'
    """
    return next(iter(alike(name, known, 1)), None)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return "did you mean ...?" for the end of a message; an empty string if no known name is similar.

    Examples
    --------
    >>> did_you_mean("taxy", ["taxi", "deep-sea"]), did_you_mean("x", ["taxi"])
    ("did you mean 'taxi'?", '')
    """
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else ""


def did_you_mean_or_known(name: object, known: Iterable[str]) -> str:
    """Return "did you mean ...?" for the end of a message, or the list of known names if none is similar.

    Examples
    --------
    >>> did_you_mean_or_known("x", ["taxi", "deep-sea"])
    'known are taxi, deep-sea'
    """
    names = list(known)
    return did_you_mean(name, names) or f"known are {', '.join(names)}"


def known_names(names: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return names, each once; raise ValueError for the first unknown one, with the most similar known name.

    Examples
    --------
    >>> known_names(["taxi", "taxi"], ["taxi", "deep-sea"], "task")
    ['taxi']
    >>> known_names(["taxy"], ["taxi", "deep-sea"], "task")
    Traceback (most recent call last):
    ValueError: unknown task 'taxy': did you mean 'taxi'?
    """
    found, choices = list(names), list(known)
    for name in found:
        if name not in choices:
            raise ValueError(f"unknown {what} {name!r}: {did_you_mean_or_known(name, choices)}")
    return list(dict.fromkeys(found))


def no_file(path: str) -> str:
    """Return that there is no such file, and the one in its folder with the most similar name.

    Examples
    --------
    >>> no_file("no/such/folder.csv")
    'there is no file no/such/folder.csv'
    """
    folder, name = os.path.split(path)
    found = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    stem = os.path.splitext(name)[0]
    near = nearest(name, [each for each in found if alike(stem, [os.path.splitext(each)[0]])])
    return f"there is no file {path}" + (f": did you mean {os.path.join(folder, near)}?" if near else "")
