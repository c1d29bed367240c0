"""Bounds as tables on a terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

GROWTH = {
    "Gamma_1": ", which has (tau_mix + c0)^(2 rho_0 a) in it: try a smaller a, as in --step-size 1,1000"
}
"""Why constants of formulas can be larger than any float, and what can be done."""


def show_bound(bound: dict[str, Any]) -> None:
    """Show the bound, whether it is certified, its conditions and its constants."""
    facts = Table(show_header=False, title=escape(bound["theorem"]))
    facts.add_row("bounded", escape(bound["quantity"]))
    facts.add_row("formula", escape(bound["formula"]))
    facts.add_row("value", escape(_value(bound)))
    if bound["certified"] and bound["theorem_value"] > bound["value"]:
        facts.add_row("by the theorem", escape(_by_the_theorem(bound)))
    if math.isfinite(start := bound["trivial"]["without_steps"]):
        facts.add_row("at the start", f"{start:.6g}, with theta_0 = 0")
    if bound["certified"]:
        facts.add_row("informative", escape("yes" if bound["informative"] else f"NO: it {bound['note']}"))
    console = Console()
    console.print(facts, _conditions(bound["conditions"]), _constants(bound["constants"]))


def _value(bound: dict[str, Any]) -> str:
    """Return the value, and where it is from if it is not the theorem's."""
    if not bound["certified"]:
        return "not certified"
    if bound["theorem_value"] > bound["value"]:
        return f"{bound['value']:.6g}: {bound['trivial']['anyway_because']}"
    return f"{bound['value']:.6g}"


def _by_the_theorem(bound: dict[str, Any]) -> str:
    """Return what the formula gives; if it is infinite, with the constants that make it so."""
    if bound["theorem_value"] != math.inf:
        return f"{bound['theorem_value']:.6g}"
    infinite = [name for name, constant in bound["constants"].items() if math.isinf(constant)]
    reasons = [name + GROWTH.get(name, "") for name in infinite if name in bound["formula"]]
    return f"inf, because of {' and '.join(reasons)}" if reasons else "inf: larger than any float"


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
