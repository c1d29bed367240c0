"""Bounds as tables on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table


def show_bound(bound: dict[str, Any]) -> None:
    """Show the bound, whether it is certified, its conditions and its constants."""
    facts = Table(show_header=False, title=escape(bound["theorem"]))
    facts.add_row("bounded", escape(bound["quantity"]))
    facts.add_row("formula", escape(bound["formula"]))
    facts.add_row("value", f"{bound['value']:.6g}" if bound["certified"] else "not certified")
    console = Console()
    console.print(facts, _conditions(bound["conditions"]), _constants(bound["constants"]))


def _conditions(conditions: list[dict[str, Any]]) -> Table:
    columns = ("condition", "found", "limit", "holds", "what would satisfy it")
    table = Table(Column(columns[0], overflow="fold"), *columns[1:], title="Conditions")
    for condition in conditions:
        table.add_row(
            escape(condition["formula"]),
            f"{condition['value']:.6g}",
            f"{condition['limit']:.6g}",
            "yes" if condition["holds"] else "NO",
            "" if condition["holds"] else escape(condition["remedy"]),
        )
    return table


def _constants(constants: dict[str, float]) -> Table:
    table = Table("constant", "value", title="Constants")
    for name, value in constants.items():
        table.add_row(escape(name), f"{value:.6g}")
    return table
