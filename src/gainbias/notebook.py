"""How results look in a notebook: a small table of facts, readable on light and dark pages.

`InNotebooks` gives a record its table, made from the printed form of the record or from the `Card` that
it returns. All text is escaped, and the colours are those of the notebook.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from gainbias.types import is_real

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SHOWN_ROWS = 10
"""Rows of a table that are shown."""

MOST_ENTRIES = 6
"""Entries of an array or a mapping that are shown."""

LETTERS_OF_A_FACT = 24
"""Letters of what a line of text may be called."""

MOST_TEXT = 300
"""A longer text is cut off."""

HAIRLINE = "1px solid rgba(128,128,128,0.35)"
GOOD, BAD = "#2e9e63", "#d97a2b"
"""Colours of the mark beside an answer that can be trusted, and one that cannot, on light and dark pages."""


class Card(NamedTuple):
    """What is shown of a record.

    Attributes
    ----------
    title : str
    facts : mapping of str to values
        Names, and what they are.
    rows : sequence of mappings
        A table below the facts; all rows have the same keys.
    is_good : bool or None
        Whether the answer can be trusted, where a record knows that.
    left_out : int
        Rows that are not among `rows`.
    """

    title: str
    facts: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()
    is_good: bool | None = None
    left_out: int = 0

    def html(self) -> str:
        """Return the card as HTML."""
        mark = HAIRLINE if self.is_good is None else f"4px solid {GOOD if self.is_good else BAD}"
        facts = "".join(_pair(name, value) for name, value in self.facts.items())
        return (
            f'<div style="border-left:{mark};padding:0.1em 0.8em;line-height:1.45;max-width:60em;'
            f'overflow-x:auto">'
            f"<strong>{escape(self.title)}</strong>"
            f'<table style="{_TABLE}">{facts}</table>{_table(self.rows, self.left_out)}</div>'
        )


_TABLE = "border-collapse:collapse;background:transparent;color:inherit;margin:0.3em 0"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;background:transparent;color:inherit"

_CELL_OF_A_NUMBER = _CELL.replace("left", "right", 1)


class InNotebooks:
    """A record that notebooks show as a small table."""

    def _card(self) -> Card:
        """Return what is shown: by default the facts in the printed form of the record."""
        return card_of(self)

    def _repr_html_(self) -> str:
        return self._card().html()


def card_of(record: object) -> Card:
    """Return a card with the facts that the text of a record names.

    Examples
    --------
    >>> import gainbias as gb
    >>> dict(card_of(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0])).facts)
    {'': '2 states, 2 transitions, dense, rewards from 0 to 1'}
    """
    title, text = type(record).__name__, repr(record)
    names = [each.name for each in dataclasses.fields(record) if each.repr] if _is_record(record) else []
    if names and text.startswith(f"{type(record).__qualname__}({names[0]}="):  # as dataclasses say it
        return Card(title, {name: getattr(record, name) for name in names if name[0] != "_"})
    first, *others = text.splitlines() or [""]
    inner = re.fullmatch(rf"{title}\((.*)\)", first)
    names = re.findall(r"(?:^|, )(\w+)=", inner[1]) if inner else []
    if names:
        return Card(title, {name: getattr(record, name) for name in names if hasattr(record, name)})
    lines = others if inner else [first, *others]
    facts: dict[str, Any] = {"": inner[1].strip("'")} if inner else {}
    for line in lines:
        name, _, said = line.strip().partition("  " if re.match(r"\s*\S+  ", line) else ": ")
        if not said or len(name) > LETTERS_OF_A_FACT:
            name, said = "", line.strip()
        facts[name] = f"{facts[name]}; {said.strip()}" if name in facts else said.strip()
    return Card(title, facts)


def _is_record(record: object) -> TypeGuard[DataclassInstance]:
    return dataclasses.is_dataclass(record)


def states_of(labels: Sequence[Any] | None, **columns: Any) -> list[dict[str, Any]]:
    """Return a row for each of the first states, with numbers of each state by name.

    Examples
    --------
    >>> states_of(["idle", "busy"], bias=[-1.0, 0.5])
    [{'state': 'idle', 'bias': -1.0}, {'state': 'busy', 'bias': 0.5}]
    """
    count = min(len(next(iter(columns.values()))), SHOWN_ROWS)
    return [
        {"state": labels[place] if labels is not None else place}
        | {name: column[place] for name, column in columns.items()}
        for place in range(count)
    ]


def _pair(name: str, value: Any) -> str:
    span = "" if name else ' colspan="2"'
    head = f'<th scope="row" style="{_CELL};font-weight:normal;opacity:0.7">{escape(name)}</th>' * bool(name)
    said = escape(_text(value))
    return f'<tr style="background:transparent">{head}<td{span} style="{_CELL}">{said}</td></tr>'


def _table(rows: Sequence[Mapping[str, Any]], left_out: int) -> str:
    if not rows:
        return ""
    styles = {name: _CELL_OF_A_NUMBER if is_real(value) else _CELL for name, value in rows[0].items()}
    head = "".join(f'<th scope="col" style="{styles[name]}">{escape(str(name))}</th>' for name in rows[0])
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(f'<td style="{styles[name]}">{escape(_text(value))}</td>' for name, value in row.items())
        + "</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    left = max(0, len(rows) - SHOWN_ROWS) + max(0, left_out)
    more = f'<div style="opacity:0.7">and {left:,} more</div>' if left > 0 else ""
    return (
        f'<table style="{_TABLE}"><thead style="border-bottom:{HAIRLINE}"><tr style="background:transparent">'
        f"{head}</tr></thead><tbody>{body}</tbody></table>{more}"
    )


def _text(value: Any) -> str:
    """Return a value in a form for readers."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if value is None:
        return "-"
    if isinstance(value, np.ndarray):
        return _text_of_array(value)
    if isinstance(value, tuple | list) and not value:
        return "none"
    if isinstance(value, tuple | list):
        few = [_text(one) for one in value[:MOST_ENTRIES]]
        return ", ".join(few) + (f" and {len(value) - len(few):,} more" if len(value) > len(few) else "")
    if isinstance(value, Mapping):
        few = [f"{name} {_text(one)}" for name, one in list(value.items())[:MOST_ENTRIES]]
        return ", ".join(few) + (f" and {len(value) - len(few):,} more" if len(value) > len(few) else "")
    text = str(value)
    if isinstance(value, InNotebooks) and (inner := re.fullmatch(r"\w+\((.*)\)", text)):
        text = inner[1]  # what it is follows from its name in the table
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} ..."


def _text_of_array(array: np.ndarray[Any, Any]) -> str:
    if array.size <= MOST_ENTRIES:
        return ", ".join(map(_text, array.ravel().tolist())) or "none"
    shape = " x ".join(f"{size:,}" for size in array.shape)
    known = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if not known.size or array.dtype.kind not in "biuf":
        return f"{shape} entries"
    return f"{shape} numbers from {_text(known.min())} to {_text(known.max())}"
